package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
)

// templatePart is one element of a template: a special token or the text.
type templatePart struct {
	SpecialToken *struct {
		ID string `json:"id"`
	} `json:"SpecialToken"`
	Sequence *struct {
		ID string `json:"id"`
	} `json:"Sequence"`
}

type templateIDs struct {
	IDs []int32 `json:"ids"`
}

// newTemplate reads what a post-processor puts around a single text. In a
// Sequence the later ones go around the earlier.
func newTemplate(n *node) (prefix, suffix []int32, err error) {
	for _, p := range n.flatten(func(n *node) []node { return n.PostProcessors }) {
		var before, after []int32
		switch p.Type {
		case "ByteLevel":
		case "TemplateProcessing":
			before, after, err = p.template()
		case "BertProcessing", "RobertaProcessing":
			before, after, err = p.clsSep()
		default:
			err = fmt.Errorf("post-processor %q is not supported", p.Type)
		}
		if err != nil {
			return nil, nil, err
		}
		prefix, suffix = append(before, prefix...), append(suffix, after...)
		if err := whole(prefix, suffix); err != nil {
			return nil, nil, err
		}
	}
	return prefix, suffix, nil
}

func (n *node) template() (before, after []int32, err error) {
	texts := 0
	for _, part := range n.Single {
		switch {
		case part.Sequence != nil:
			texts++
		case part.SpecialToken != nil:
			special, ok := n.SpecialTokens[part.SpecialToken.ID]
			if !ok {
				return nil, nil, fmt.Errorf("template uses %q, which is not among its special_tokens", part.SpecialToken.ID)
			}
			if texts == 0 {
				before = append(before, special.IDs...)
			} else {
				after = append(after, special.IDs...)
			}
			if err := whole(before, after); err != nil {
				return nil, nil, err
			}
		}
	}
	if texts != 1 {
		return nil, nil, fmt.Errorf("template has the text %d times, not once", texts)
	}
	return before, after, nil
}

// clsSep reads the two tokens of BERT: the first goes before, the second after.
func (n *node) clsSep() (before, after []int32, err error) {
	var ids [2]int32
	for i, raw := range []json.RawMessage{n.Cls, n.Sep} {
		var name string
		if err := json.Unmarshal(raw, &[2]any{&name, &ids[i]}); err != nil {
			return nil, nil, fmt.Errorf("post-processor %s: %w", n.Type, err)
		}
	}
	return ids[:1:1], ids[1:], nil
}

// classTemplate does what the Llama and Gemma classes of Hugging Face do when
// they load a tokenizer: whatever the file says, they put BOS before a text,
// and EOS after it, as the configuration asks. DeepSeek's files rely on it.
func (t *Tokenizer) classTemplate() {
	c := &t.config
	switch strings.TrimSuffix(c.Class, "Fast") {
	case "LlamaTokenizer", "GemmaTokenizer":
	default:
		return
	}
	var prefix, suffix []int32
	if orTrue(c.AddBOS) {
		id, ok := t.ID(c.BOS)
		if !ok {
			return
		}
		prefix = []int32{id}
	}
	if c.AddEOS != nil && *c.AddEOS {
		id, ok := t.ID(c.EOS)
		if !ok {
			return
		}
		suffix = []int32{id}
	}
	t.prefix, t.suffix = prefix, suffix
}

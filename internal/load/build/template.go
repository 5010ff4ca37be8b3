package build

import (
	"fmt"
	"time"

	"spate/internal/load/workload"
	"spate/internal/settings/config"
	"spate/internal/token/chat"
	"spate/internal/token/tokenizer"
)

// Template is a tokenizer's chat template with the arguments given for it; nil where it has none.
func Template(t *tokenizer.Tokenizer, kwargs []byte, now func() time.Time) (workload.Template, error) {
	cfg := t.Config()
	if cfg.ChatTemplate == "" {
		return nil, nil
	}
	parsed, err := chat.Parse(cfg.ChatTemplate)
	if err != nil {
		return nil, err
	}
	in := chat.Input{AddGenerationPrompt: true, BOS: cfg.BOS, EOS: cfg.EOS, Now: now, Extra: map[string]any{}}
	if len(kwargs) > 0 {
		v, err := chat.DecodeJSON(kwargs)
		if err != nil {
			return nil, fmt.Errorf("--chat-template-kwargs: %w", err)
		}
		if d, ok := v.(*chat.Dict); ok {
			for k, v := range d.All() {
				in.Extra[k] = v
			}
		}
	}
	return func(user string) (string, error) {
		one := in
		one.Messages = []chat.Message{{Role: "user", Content: user}}
		return parsed.Render(one)
	}, nil
}

// Tokenizer finds the tokenizer that was named, or that of the model if it lies on this machine; nil: there is none.
func Tokenizer(m *config.Model, getenv func(string) string, home string) (*tokenizer.Tokenizer, error) {
	name, find := m.Tokenizer, tokenizer.Find
	if name == "" {
		name, find = m.ID, tokenizer.FindModel
	}
	if name == "" || m.SkipTokenizerInit {
		return nil, nil
	}
	path, err := find(name, tokenizer.PlacesFrom(getenv, home))
	if err != nil {
		if m.Tokenizer == "" {
			return nil, nil
		}
		return nil, fmt.Errorf("--tokenizer: %w", err)
	}
	tok, err := tokenizer.Load(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", name, err)
	}
	return tok, nil
}

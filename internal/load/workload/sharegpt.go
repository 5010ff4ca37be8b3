package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"spate/internal/call"
	"spate/internal/load/rows"
)

// The sizes of conversations that are used, from the paper the filter comes from: shorter ones say
// little, longer ones did not fit the models of the time.
const (
	minTokens       = 4
	maxPromptTokens = 1024
	maxTotalTokens  = 2048
)

var shareGPTDataset = Dataset{
	Name: "sharegpt", Path: NeedsPath, About: "first turns of conversations in a JSON array",
	open: func(c Config, tok Tokenizer, _ Template) (dataset, int, error) {
		ds, err := newShareGPT(c, tok)
		return ds, c.N, err
	},
	fill: func(c *Config, r *Run) {
		if c.Output = FromData; r.ShareGPT.OutputLen != nil {
			c.Output = *r.ShareGPT.OutputLen
		}
	},
	check: func(r *Run, c Problems) {
		c.Want(r.ShareGPT.OutputLen == nil || *r.ShareGPT.OutputLen > 0, "sharegpt-output-len", "must be above 0")
	},
}

// ShareGPT configures prompts from a ShareGPT file.
type ShareGPT struct {
	OutputLen *int `json:"output_len"` // nil: as long as the recorded answer
}

func (s *ShareGPT) flags() []Flag {
	return []Flag{
		{Name: "sharegpt-output-len", VLLM: true, To: &s.OutputLen, Meta: "TOKENS", Help: "output length of sharegpt; without it, as long as the recorded answer", Like: outputLen},
	}
}

// shareGPT sends the first turn of conversations and asks for as much output as the second turn
// has. The file is read once, to find where each conversation's first two turns are; what is
// sampled is read again from there.
type shareGPT struct {
	remarks
	cfg    Config
	file   File
	turns  []extent
	pool   pool
	salt   string
	saltN  int          // tokens the salt adds to each prompt
	broken atomic.Int64 // conversations without two texts
}

// extent is a part of a file.
type extent struct {
	at   int64
	size int64
}

// turn is a message of a conversation.
type turn struct {
	Value *string `json:"value"`
}

func newShareGPT(cfg Config, tok Tokenizer) (*shareGPT, error) {
	file, err := cfg.Open(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("open dataset: %w", err)
	}
	g := &shareGPT{cfg: cfg, file: file, salt: cfg.Salt}
	turns, media, err := indexShareGPT(file)
	g.turns = turns
	if err == nil && len(g.turns) == 0 {
		err = errors.New("no conversation with two turns in it")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", cfg.Path, err), file.Close())
	}
	if media > 0 {
		g.add(fmt.Sprintf("%d conversations carry images or videos, which are left out", media))
	}
	s := &scratch{}
	if tok != nil {
		s.enc = tok.NewEncoder()
	} else {
		g.add(noTokenizer)
	}
	if cfg.Salt != "" {
		g.saltN = s.count(salted(cfg.Salt, "")).N - s.count("").N
	}
	g.pool = newPool(cfg, len(g.turns))
	return g, nil
}

// indexShareGPT finds the first two turns of every conversation that has them, and counts those
// with media.
func indexShareGPT(r io.Reader) (turns []extent, media int, err error) {
	s := rows.NewScanner(r)
	if c, err := s.Peek(); err == nil && c == 0xEF { // byte order mark
		s.Pass(3)
	}
	if c, err := s.Peek(); err != nil {
		return nil, 0, s.Fail(err, "the first value")
	} else if c == '{' {
		return nil, 0, s.Bad("a JSON array of conversations was expected, not an object; JSON lines are read by the custom dataset")
	}
	err = s.Array(func(int) error {
		if c, err := s.Peek(); err != nil || c != '{' {
			return s.Past(1)
		}
		found, pictures, err := conversation(s)
		if err == nil && found.size > 0 {
			turns = append(turns, found)
			if pictures {
				media++
			}
		}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	if _, err := s.Peek(); !errors.Is(err, io.EOF) {
		return nil, 0, s.Bad("there is more after the array")
	}
	return turns, media, nil
}

// conversation moves past one entry and says where its first two turns are; size 0 if it has none.
func conversation(s *rows.Scanner) (found extent, media bool, err error) {
	err = s.Object(false, func(key string) error {
		switch key {
		case "image", "video":
			media = true
		case "conversations":
			found = extent{}
			if c, err := s.Peek(); err == nil && c == '[' {
				found, err = firstTwo(s)
				return err
			}
		}
		return s.Past(1)
	})
	return found, media, err
}

func firstTwo(s *rows.Scanner) (found extent, err error) {
	var start int64
	err = s.Array(func(i int) error {
		if i == 0 {
			if _, err := s.Peek(); err != nil {
				return s.Fail(err, "an array")
			}
			start = s.Pos()
		}
		if err := s.Past(2); err != nil {
			return err
		}
		if i == 1 {
			found = extent{start, s.Pos() - start}
		}
		return nil
	})
	return found, err
}

func (g *shareGPT) next() (job, state, error) {
	j, st := g.pool.draw()
	if st == done && len(g.pool.taken) == 0 {
		return j, st, fmt.Errorf("none of the %d conversations has %d to %d prompt tokens and at most %d in all", len(g.turns), minTokens, maxPromptTokens, maxTotalTokens)
	}
	return j, st, nil
}

func (g *shareGPT) build(s *scratch, j job) (call.Request, bool, error) {
	prompt, completion, err := g.read(s, g.turns[j.index])
	if err != nil {
		return call.Request{}, false, err
	}
	if prompt == nil || completion == nil {
		g.broken.Add(1)
		return call.Request{}, false, nil
	}
	text := salted(g.salt, *prompt)
	if j.again && !g.cfg.IDs {
		return g.request(s, text, call.Count{N: j.in, From: g.from(s)}, j.out), true, nil
	}
	out := g.cfg.Output
	if out == FromData {
		out = s.count(*completion).N
	}
	in := s.count(text) // last, because the ids stay in the scratch
	if !g.fits(in.N-g.saltN, out) {
		return call.Request{}, false, nil
	}
	return g.request(s, text, in, out), true, nil
}

func (g *shareGPT) from(s *scratch) call.From {
	if s.enc == nil {
		return call.FromRequested
	}
	return call.FromTokenizer
}

func (g *shareGPT) request(s *scratch, text string, in call.Count, out int) call.Request {
	return call.Request{Prompt: s.prompt(text, g.cfg.IDs), In: in, MaxOut: out}
}

// read decodes the first two turns; nil stands for a turn without text.
func (g *shareGPT) read(s *scratch, at extent) (prompt, completion *string, err error) {
	s.text = append(s.text[:0], '[')
	s.text = append(s.text, make([]byte, at.size)...)
	if _, err := g.file.ReadAt(s.text[1:], at.at); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("%s: read %d bytes at %d: %w", g.cfg.Path, at.size, at.at, err)
	}
	s.text = append(s.text, ']')
	var turns []turn
	if json.Unmarshal(s.text, &turns) != nil || len(turns) != 2 {
		return nil, nil, nil //nolint:nilerr // a bad row is counted and left out, as any unfit row
	}
	return turns[0].Value, turns[1].Value, nil
}

// fits is the filter on lengths. A fixed output length is not held to the minimum.
func (g *shareGPT) fits(in, out int) bool {
	return in >= minTokens && (out >= minTokens || g.cfg.Output != FromData) &&
		in <= maxPromptTokens && in+out <= maxTotalTokens
}

func (g *shareGPT) settle(j job, req *call.Request, keep bool) error {
	g.pool.settle(j, req, keep)
	return nil
}

func (g *shareGPT) close() error { return g.file.Close() }

func (g *shareGPT) notes() []string {
	all := g.remarks.notes()
	if n := g.broken.Load(); n > 0 {
		all = append(all, fmt.Sprintf("%d conversations without text in their first two turns were left out", n))
	}
	return append(all, g.pool.note()...)
}

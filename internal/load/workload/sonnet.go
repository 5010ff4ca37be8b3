package workload

import (
	_ "embed" // for the verse
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"spate/internal/call"
	"spate/internal/rng"
)

// verse is the poem sonnet draws from when no file is given; every line was written for spate.
//
//go:embed verse.txt
var verse string

// versePrompt opens every sonnet prompt; its wording is part of what is measured.
const versePrompt = "Pick as many lines as you can from these poem lines:\n"

// maxRejected is how many drawn prompts in a row may be too long before sonnet gives up.
const maxRejected = 5000

var sonnetDataset = Dataset{
	Name: "sonnet", Path: OptionalPath, About: "lines of verse up to a length, with a shared beginning", Alike: true,
	open: newSonnet,
	fill: func(c *Config, r *Run) {
		c.Input, c.Output, c.Prefix = r.Sonnet.InputLen, r.Sonnet.OutputLen, r.Sonnet.PrefixLen
	},
	check: func(r *Run, c Problems) {
		s := &r.Sonnet
		c.Want(s.OutputLen > 0, "sonnet-output-len", "%d is not above 0", s.OutputLen)
		c.Want(s.PrefixLen >= 0, "sonnet-prefix-len", "%d is negative", s.PrefixLen)
		c.Clash(s.InputLen <= s.PrefixLen, "sonnet-input-len", "sonnet-prefix-len",
			fmt.Sprintf("the prefix of %d tokens has to be shorter than the prompt of %d", s.PrefixLen, s.InputLen))
	},
}

// Sonnet configures prompts that consist of lines of verse.
type Sonnet struct {
	InputLen  int `json:"input_len"`
	OutputLen int `json:"output_len"`
	PrefixLen int `json:"prefix_len"`
}

func (s *Sonnet) flags() []Flag {
	return []Flag{
		tokens("sonnet-input-len", &s.InputLen, "550", "prompt length of sonnet").as(inputLen),
		tokens("sonnet-output-len", &s.OutputLen, "150", "output length of sonnet").as(outputLen),
		tokens("sonnet-prefix-len", &s.PrefixLen, "200", "common beginning of sonnet prompts"),
	}
}

// sonnet sends lines of verse: the first few the same in every prompt, the rest drawn, as many as
// make about the asked length. Prompts that come out longer are drawn anew.
type sonnet struct {
	remarks
	cfg      Config
	tmpl     Template
	lines    []string
	opening  string // the salt, the instruction and the shared lines
	draws    *rng.Python
	extra    int // lines drawn for each prompt
	rejected int // in a row
}

func newSonnet(cfg Config, tok Tokenizer, tmpl Template) (dataset, int, error) {
	p := &sonnet{cfg: cfg, tmpl: tmpl, draws: rng.NewPython(cfg.Seed)}
	if cfg.Output == FromData {
		return nil, 0, errors.New("verse has no output length of its own: give one")
	}
	text, err := p.load()
	if err != nil {
		return nil, 0, err
	}
	p.lines = strings.SplitAfter(text, "\n")
	if last := len(p.lines) - 1; p.lines[last] == "" {
		p.lines = p.lines[:last]
	}
	if len(p.lines) == 0 {
		return nil, 0, fmt.Errorf("%s holds no lines", cfg.Path)
	}
	s := &scratch{}
	if tok != nil {
		s.enc = tok.NewEncoder()
	} else {
		p.add(noTokenizer)
	}
	if tmpl == nil {
		p.add("no chat template: the verse is sent as a plain prompt")
	}
	return p, cfg.N, p.measure(s)
}

// load reads the poem. Line ends are made one newline, as text files are read.
func (p *sonnet) load() (string, error) {
	if p.cfg.Path == "" {
		return verse, nil
	}
	file, err := p.cfg.Open(p.cfg.Path)
	if err != nil {
		return "", fmt.Errorf("open dataset: %w", err)
	}
	raw, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("read %s: %w", p.cfg.Path, err)
	}
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(raw)), nil
}

// measure finds how many lines make the asked lengths.
func (p *sonnet) measure(s *scratch) error {
	total := 0
	for _, l := range p.lines {
		total += s.count(l).N
	}
	average := float64(total) / float64(len(p.lines))
	opening := salted(p.cfg.Salt, versePrompt)
	_, dressed, err := p.dress(opening)
	if err != nil {
		return err
	}
	base := s.count(dressed).N
	if p.cfg.Input <= base {
		return fmt.Errorf("input length %d is too short: the instruction alone takes %d tokens", p.cfg.Input, base)
	}
	all := int(math.RoundToEven(float64(p.cfg.Input-base) / average))
	shared := int(math.RoundToEven(float64(p.cfg.Prefix-base) / average))
	if p.cfg.Era == V6 {
		if p.cfg.Prefix <= base || p.cfg.Input <= p.cfg.Prefix {
			return fmt.Errorf("prefix length %d must lie between the %d tokens of the instruction and the input length %d", p.cfg.Prefix, base, p.cfg.Input)
		}
	} else {
		all, shared = max(all, 1), max(shared, 0)
	}
	p.extra = max(0, all-shared)
	p.opening = opening + strings.Join(p.lines[:min(shared, len(p.lines))], "")
	return nil
}

// dress gives a prompt as it is sent and as it is counted.
func (p *sonnet) dress(text string) (sent, counted string, err error) {
	if p.tmpl == nil {
		return text, text, nil
	}
	if counted, err = p.tmpl(text); err != nil {
		return "", "", fmt.Errorf("apply the chat template: %w", err)
	}
	if p.cfg.Chat {
		return text, counted, nil
	}
	return counted, counted, nil
}

func (p *sonnet) next() (job, state, error) {
	return job{lines: p.draws.Choices(len(p.lines), p.extra)}, issue, nil
}

func (p *sonnet) build(s *scratch, j job) (call.Request, bool, error) {
	s.text = append(s.text[:0], p.opening...)
	for _, i := range j.lines {
		s.text = append(s.text, p.lines[i]...)
	}
	sent, counted, err := p.dress(string(s.text))
	if err != nil {
		return call.Request{}, false, err
	}
	in := s.count(counted)
	if in.N > p.cfg.Input && p.cfg.Era != V6 {
		return call.Request{}, false, nil
	}
	return call.Request{Prompt: s.prompt(sent, p.cfg.IDs), In: in, MaxOut: p.cfg.Output}, true, nil
}

func (p *sonnet) settle(_ job, _ *call.Request, keep bool) error {
	if keep {
		p.rejected = 0
		return nil
	}
	if p.rejected++; p.rejected == maxRejected {
		return fmt.Errorf("dataset sonnet: %d drawn prompts in a row were longer than %d tokens: raise the input length or lower the prefix length", maxRejected, p.cfg.Input)
	}
	return nil
}

func (p *sonnet) close() error { return nil }

package workload

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"spate/internal/call"
)

var customDataset = Dataset{
	Name: "custom", Path: NeedsPath, AllRows: true, About: "prompts in JSON lines",
	open: func(c Config, tok Tokenizer, tmpl Template) (dataset, int, error) {
		return newLines(c, tok, tmpl, parseLine)
	},
	fill: fillCustom, check: checkCustom,
}

// Custom configures prompts from a JSONL file.
type Custom struct {
	OutputLen            int  `json:"output_len"` // -1: the row's output_tokens
	EnsureClientSideData bool `json:"ensure_client_side_data"`
}

func (s *Custom) flags() []Flag {
	return []Flag{
		tokens("custom-output-len", &s.OutputLen, "256", "output length of custom; -1 takes output_tokens from the row").as(outputLen),
		{Name: "custom-ensure-client-side-data", VLLM: true, To: &s.EnsureClientSideData, Help: "send the images of custom_image as data, not as URLs"},
		{Name: "allowed-local-media-path", Meta: "DIR", Help: "folders, separated by commas, from which rows may use pictures, videos and sounds; the dataset's own folder is always allowed"},
	}
}

func fillCustom(c *Config, r *Run) {
	c.Output, c.Media.Inline = r.Custom.OutputLen, r.Custom.EnsureClientSideData
}

func checkCustom(r *Run, c Problems) {
	c.Want(r.Path == "" || strings.HasSuffix(r.Path, ".jsonl"), "dataset-path", "%q does not end in .jsonl", r.Path)
	c.Want(r.Custom.OutputLen > 0 || r.Custom.OutputLen == -1, "custom-output-len",
		"%d is neither above 0 nor -1 (take output_tokens from the row)", r.Custom.OutputLen)
}

// custom sends the prompts of a file of JSON lines: vLLM's custom, and the datasets that are the same but
// for where a row has its prompt (spec_bench, speed_bench). Every line is checked when the file is opened,
// so that a bad one is named before the run; the prompts are read again when they are made.
type custom struct {
	remarks
	cfg   Config
	file  File
	rows  []extent
	outs  []int32 // output_tokens of each row; empty when the length is given
	tmpl  Template
	pool  pool
	plain bool // prompts go as they are
	parse rowRule
}

// rowRule reads a row's prompt and, where it is asked for, its output length. A row that is none of ours
// gives keep false.
type rowRule func(raw []byte, wantOutput bool) (prompt string, output int, keep bool, err error)

// line is a row of the file.
type line struct {
	Prompt *string         `json:"prompt"`
	Output json.RawMessage `json:"output_tokens"`
}

// newLines opens a file whose rows parse reads.
func newLines(cfg Config, tok Tokenizer, tmpl Template, parse rowRule) (*custom, int, error) {
	file, err := cfg.Open(cfg.Path)
	if err != nil {
		return nil, 0, fmt.Errorf("open dataset: %w", err)
	}
	c := &custom{cfg: cfg, file: file, tmpl: tmpl, plain: cfg.SkipTemplate || tmpl == nil, parse: parse}
	err = c.index(file)
	if err == nil && len(c.rows) == 0 {
		err = errors.New("no rows")
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("%s: %w", cfg.Path, err), file.Close())
	}
	c.remark(tok)
	c.pool = newPool(cfg, len(c.rows))
	n := cfg.N
	if n <= 0 {
		n = len(c.rows)
	}
	return c, n, nil
}

func (c *custom) remark(tok Tokenizer) {
	if tok == nil && !c.cfg.SkipTokenizer {
		c.add(noTokenizer)
	}
	if c.tmpl == nil && !c.cfg.SkipTemplate {
		c.add("no chat template: prompts are sent as they are in the file")
	}
	if c.cfg.Chat && !c.plain {
		c.add("prompts carry the chat template already, as vLLM sends them, and the chat endpoint applies it again: --skip-chat-template avoids that")
	}
}

// index notes where each row is, and its output length where that comes from the row.
func (c *custom) index(r io.Reader) error {
	in := bufio.NewReaderSize(r, 256<<10)
	var at int64
	for number := 1; ; number++ {
		raw, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read line %d: %w", number, err)
		}
		if row := bytes.TrimSpace(raw); len(row) > 0 {
			_, out, keep, bad := c.parse(row, c.cfg.Output == FromData)
			if bad != nil {
				return fmt.Errorf("line %d: %w", number, bad)
			}
			if keep {
				c.rows = append(c.rows, extent{at, int64(len(raw))})
			}
			if keep && c.cfg.Output == FromData {
				c.outs = append(c.outs, int32(out))
			}
		}
		at += int64(len(raw))
		if err != nil {
			return nil
		}
	}
}

// parseLine reads a row's prompt and, when wanted, its output length.
func parseLine(raw []byte, wantOutput bool) (prompt string, output int, keep bool, err error) {
	var l line
	if err := json.Unmarshal(raw, &l); err != nil {
		return "", 0, false, fmt.Errorf("not a JSON object with a text \"prompt\": %w", err)
	}
	if l.Prompt == nil {
		return "", 0, false, errors.New(`no "prompt"`)
	}
	if !wantOutput {
		return *l.Prompt, 0, true, nil
	}
	output, err = outputTokens(l.Output)
	return *l.Prompt, output, true, err
}

// outputTokens takes what Python's int() takes: a number, cut to a whole one, or digits in quotes.
func outputTokens(raw json.RawMessage) (int, error) {
	text := string(raw)
	if text == "" || text == "null" {
		return 0, errors.New(`no "output_tokens", which output length -1 takes from each row`)
	}
	quoted := false
	if err := json.Unmarshal(raw, &text); err == nil {
		quoted = true
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || quoted && v != math.Trunc(v) || v < 0 || v > math.MaxInt32 {
		return 0, fmt.Errorf(`"output_tokens" is %.40s, not a number of tokens`, raw)
	}
	return int(v), nil
}

func (c *custom) next() (job, state, error) {
	j, st := c.pool.draw()
	return j, st, nil
}

func (c *custom) build(s *scratch, j job) (call.Request, bool, error) {
	text, err := c.prompt(s, c.rows[j.index])
	if err != nil {
		return call.Request{}, false, err
	}
	if c.cfg.SkipTokenizer && s.enc == nil {
		return call.Request{Prompt: call.Prompt{Text: text}, In: call.Count{N: 1, From: call.FromRequested}, MaxOut: 1}, true, nil
	}
	req := call.Request{In: s.count(text), MaxOut: c.cfg.Output}
	if c.cfg.Output == FromData {
		req.MaxOut = int(c.outs[j.index])
	}
	req.Prompt = s.prompt(text, c.cfg.IDs)
	return req, true, nil
}

// prompt reads a row again and dresses its prompt.
func (c *custom) prompt(s *scratch, at extent) (string, error) {
	raw, err := c.read(s, at)
	if err != nil {
		return "", err
	}
	text, _, _, err := c.parse(raw, false)
	if err != nil {
		return "", fmt.Errorf("%s: row at byte %d changed since it was checked: %w", c.cfg.Path, at.at, err)
	}
	text = salted(c.cfg.Salt, text)
	if c.plain {
		return text, nil
	}
	if text, err = c.tmpl(text); err != nil {
		return "", fmt.Errorf("apply the chat template: %w", err)
	}
	return text, nil
}

// read is a row as it stands in the file; it is valid until the worker's next one.
func (c *custom) read(s *scratch, at extent) ([]byte, error) {
	s.text = append(s.text[:0], make([]byte, at.size)...)
	if _, err := c.file.ReadAt(s.text, at.at); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: read %d bytes at %d: %w", c.cfg.Path, at.size, at.at, err)
	}
	return bytes.TrimSpace(s.text), nil
}

func (c *custom) settle(j job, req *call.Request, keep bool) error {
	c.pool.settle(j, req, keep)
	return nil
}

func (c *custom) close() error { return c.file.Close() }

func (c *custom) notes() []string { return append(c.remarks.notes(), c.pool.note()...) }

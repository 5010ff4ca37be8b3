// Package workload decides what is sent: it turns a dataset and a few lengths into a stream of
// requests, in order, made ahead of time by several workers. The stage before is the command line
// (config fills a Config), the stage after is driver, which calls Next when a request is due.
//
// Sampling follows vLLM's benchmark to the draw: the same seed gives the same lengths, offsets,
// shuffles and choices. Read random.go for a dataset, then stream.go for how requests are made in
// parallel, out of order, and handed out in order.
package workload

import (
	"context"
	"errors"
	"fmt"

	"spate/internal/call"
	"spate/internal/load/lengths"
	"spate/internal/load/rows"
)

// Source returns requests in order; io.EOF ends them.
type Source interface {
	Next(ctx context.Context) (call.Request, error)
}

// File is a dataset file: read once from the front, then at the places that were sampled.
type File = rows.File

// Template renders one user message the way the model's chat template would, with the generation
// prompt added. It is called from several goroutines at once.
type Template func(user string) (string, error)

// Era selects whose sampling rules apply where vLLM changed them over time.
type Era = lengths.Era

// Eras.
const (
	Head = lengths.Head
	V10  = lengths.V10
	V6   = lengths.V6
)

// FromData as an output length takes it from each row of the dataset.
const FromData = -1

// Config says what to send. Default fills it with vLLM's values for a dataset.
type Config struct {
	Dataset string
	N       int    // requests; 0 or less means every row where the dataset has AllRows
	Endless bool   // go on after N, for runs that end by time
	Seed    uint64 // of every draw

	Path string                          // dataset file; sonnet has one built in
	Open func(path string) (File, error) // opens Path

	Input  int           // prompt tokens
	Output int           // output tokens, or FromData
	Prefix int           // tokens shared by all prompts, on top of Input (random) or within it (sonnet)
	Ratio  lengths.Ratio // spread of lengths (random)
	// LessSpecials: prompts cut from a file are shorter by the tokens the server will add, as SGLang's.
	LessSpecials bool

	Least int // no length drawn is below it (random with the rules of V6)
	Era   Era // empty means Head

	InDist, OutDist lengths.Dist     // random: lengths that are spread by a law; none: Input, Output and Ratio
	Joint           []lengths.Bucket // random: pairs of lengths, instead

	Batch      int   // random: prompts in a request; random-rerank: documents
	NoReranker bool  // random-rerank: query and documents are embedded apart
	Media      Media // random-mm, custom_image, custom_audio
	Speech     bool  // the endpoint takes sound files

	Talk Talk // multi-turn, agentic: N are conversations

	Groups     int     // shared beginnings (prefix_repetition, generated-shared-prefix)
	PerGroup   int     // prompts of each (generated-shared-prefix)
	Suffix     int     // tokens after the shared beginning
	GroupRatio float64 // generated-shared-prefix: lengths between this share of what was asked and all of it
	Zipf       float64 // generated-shared-prefix: the group of rank r gets a share of r^-Zipf; 0: all alike

	Category string // spec_bench, speed_bench: only rows of this one
	Subset   string // speed_bench: which of its files

	HF        HF    // hf; an Output of 0 is the dataset's own
	Trace     Trace // timed_trace, mooncake
	SelfTimed bool  // requests go when the dataset says, so their order must stay

	IDs           bool // send token ids instead of text
	TakesIDs      bool // the endpoint takes token ids: datasets that are exact only as ids send them
	Chat          bool // a chat endpoint, which applies the template itself
	SkipTemplate  bool // custom: send prompts as they are
	SkipTokenizer bool // custom: lengths of 1 and 1, as vLLM without a tokenizer
	Lengths       bool // random prompts without a tokenizer have lengths and no text: what sends nothing needs none
	NoOversample  bool // end early instead of repeating rows
	NoShuffle     bool // keep the order of the file

	// Salt opens every prompt, so that a server which kept the prompts of an earlier run in its
	// prefix cache cannot use them. Empty leaves the prompts as vLLM makes them.
	Salt string

	// Words are each one token by the server's own count, alone and one after the other, for prompts made
	// without a tokenizer; none: prompts are prose of about the asked length. SaltLen are Salt's tokens.
	Words   []string
	SaltLen int

	NamePrefix string // request names are this and the number

	// Has says which requests, by their place in the order, are handed out; nil means all. The first always is.
	// The others are drawn as if they were, so that each request is the same whoever sends it.
	Has func(number int) bool

	Workers int   // makers of requests; 0 means GOMAXPROCS-1
	Window  int   // requests made ahead; 0 means 1024
	Held    int64 // bytes of prompts made ahead; 0 means 64 MiB
}

// Default is vLLM's configuration of a dataset.
func Default(name string) (Config, error) {
	if err := Check(name); err != nil {
		return Config{}, err
	}
	cfg := Config{Dataset: name, N: 1000, Era: Head}
	var s Settings
	for _, f := range s.Flags() {
		if err := f.reset(); err != nil {
			return Config{}, fmt.Errorf("default of --%s: %w", f.Name, err)
		}
	}
	run := Run{Settings: &s, Has: func(string) bool { return false }}
	run.Resolve(name)
	run.Fill(&cfg)
	return cfg, nil
}

// New prepares the stream of requests cfg describes. It reads the dataset's index but makes no
// prompt yet: Start or the first Next does. tok and tmpl may be nil; what is then done instead is
// said by Notes. The stream must be closed.
func New(cfg Config, tok Tokenizer, tmpl Template) (*Stream, error) {
	if now, ok := renamed[cfg.Dataset]; ok {
		cfg.Dataset = now
	}
	if err := cfg.check(tok); err != nil {
		return nil, err
	}
	if cfg.Era == "" {
		cfg.Era = Head
	}
	ds, n, err := lookup(cfg.Dataset).open(cfg, tok, tmpl)
	if err != nil {
		return nil, fmt.Errorf("dataset %s: %w", cfg.Dataset, err)
	}
	return newStream(cfg, ds, n, tok), nil
}

// check finds what is wrong with the configuration as such.
func (c *Config) check(tok Tokenizer) error {
	if err := Check(c.Dataset); err != nil {
		return err
	}
	d := lookup(c.Dataset)
	switch {
	case c.Path != "" && d.Path == NoPath:
		return fmt.Errorf("dataset %s makes its own prompts: remove the dataset path %q", c.Dataset, c.Path)
	case c.Path == "" && d.Path == NeedsPath:
		return fmt.Errorf("dataset %s needs a file: give its path with --dataset-path", c.Dataset)
	case c.Path != "" && c.Open == nil:
		return errors.New("no way to open dataset files was given")
	case c.N <= 0 && !d.AllRows:
		return fmt.Errorf("%d requests asked for: at least 1 is needed", c.N)
	case c.IDs && tok == nil:
		return errors.New("token ids need a tokenizer, and there is none")
	case c.IDs && c.Chat:
		return errors.New("token ids cannot be sent to a chat endpoint: send text, or use a completions endpoint")
	case c.Output < 0 && c.Output != FromData:
		return fmt.Errorf("output length %d is negative", c.Output)
	case c.Input < 0 || c.Prefix < 0 || c.Suffix < 0:
		return fmt.Errorf("input length %d, prefix length %d and suffix length %d must not be negative", c.Input, c.Prefix, c.Suffix)
	}
	switch c.Era {
	case "", Head, V10, V6:
		return nil
	}
	return fmt.Errorf("sampling rules %q are unknown: use %s, %s or %s", c.Era, Head, V10, V6)
}

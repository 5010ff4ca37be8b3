package bench

import (
	"context"
	"fmt"
	"sync"

	"spate/internal/call"
	"spate/internal/config"
)

// How many prompts are aligned with the server's tokenizer before a run: every one if the user asked
// for that tokenizer, else only as many as take a moment. They are held in memory, because aligning
// during the run would load the server that is being measured.
const (
	alignUnasked = 1000
	alignAsked   = 20000
)

// alignParallel is how many prompts are asked about at a time, as in vLLM's client.
const alignParallel = 64

// align makes the lengths of synthetic prompts exact by the server's own count. With a local
// tokenizer one prompt is checked and the rest only if it differs, as vLLM does; without one, every
// prompt is measured and cut or lengthened.
func (s *session) align(ctx context.Context, l *load) error {
	c := s.Config
	synthetic := c.Dataset.Name == config.DatasetRandom || c.Dataset.Name == config.DatasetRepetition
	if !synthetic || c.Body.PromptTokenIDs || s.tokens.skipped || c.Load.NumPrompts == 0 {
		return nil
	}
	first, err := l.first(ctx)
	if err != nil {
		return err
	}
	ids, err := s.control.Tokenize(ctx, s.target.served, first.Prompt.Text, false)
	if err != nil {
		return nil //nolint:nilerr // the server has no /tokenize: lengths are checked against its usage afterwards
	}
	if len(ids) == first.In.N && !s.tokens.remote {
		return nil
	}
	limit := alignUnasked
	if c.Model.Tokenizer == serverTokenizer {
		limit = alignAsked
	}
	if n := c.Load.NumPrompts; n > limit {
		s.note("%d prompts are too many to bring to their exact length with the server's /tokenize (%d are not): lengths are "+
			"approximate, and true ones are taken from the server's usage", n, limit)
		return nil
	}
	if c.Load.NumPrompts >= 200 {
		s.say("bringing %d prompts to their exact length with the server's tokenizer", c.Load.NumPrompts)
	}
	if !s.tokens.remote {
		s.note("the server's tokenizer counts differently (%d tokens for %d): prompts are cut to length with its /tokenize", len(ids), first.In.N)
	}
	all, err := l.source.peek(ctx, c.Load.NumPrompts)
	if err != nil {
		return fmt.Errorf("make requests: %w", err)
	}
	ctx, cancel := s.untilStopped(ctx)
	defer cancel()
	l.aligned = true
	return s.alignAll(ctx, all)
}

func (s *session) alignAll(ctx context.Context, all []call.Request) error {
	gate := make(chan struct{}, alignParallel)
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range all {
		gate <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-gate }()
			if err := s.alignOne(ctx, &all[i]); err != nil {
				once.Do(func() { first = err; cancel() })
			}
		})
	}
	wg.Wait()
	if s.stopping() {
		return call.ErrInterrupted
	}
	if first != nil {
		return fmt.Errorf("align prompts with the server's tokenizer: %w", first)
	}
	return ctx.Err()
}

// alignRounds bounds the attempts at one prompt: cutting text can join tokens anew.
const alignRounds = 5

// alignOne brings one prompt to its length by the server's count.
func (s *session) alignOne(ctx context.Context, r *call.Request) error {
	want := r.In.N
	for range alignRounds {
		ids, err := s.control.Tokenize(ctx, s.target.served, r.Prompt.Text, false)
		if err != nil {
			return err
		}
		r.In = call.Count{N: len(ids), From: call.FromServer}
		switch {
		case len(ids) == want:
			return nil
		case len(ids) > want:
			if r.Prompt.Text, err = s.control.Detokenize(ctx, s.target.served, ids[:want]); err != nil {
				return err
			}
		case !s.tokens.remote:
			return nil // shorter ones are left, as vLLM does
		default:
			r.Prompt.Text += " " + head(r.Prompt.Text, want-len(ids))
		}
	}
	return nil
}

// head is the first n words of a text, or all of it.
func head(text string, n int) string {
	for i, r := range text {
		if r == ' ' {
			if n--; n <= 0 {
				return text[:i]
			}
		}
	}
	return text
}

package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"spate/internal/call"
	"spate/internal/load/workload"
	"spate/internal/settings/config"
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

// enoughWords of one token each make prompts that differ.
const enoughWords = 64

// serverWords finds words that are one token each by the server's /tokenize, where prompts are made
// without a tokenizer of our own. Prompts of such words have the asked length whatever their number, so
// runs that are bounded by time need not ask during the measurement. It reports false where the server's
// tokenizer has no such words, or counts several in a row otherwise than one by one.
func (t *tenant) serverWords(ctx context.Context, w *workload.Config) (bool, error) {
	if !t.tokens.remote || !w.MakesText() || w.IDs {
		return false, nil
	}
	ctx, cancel := t.untilStopped(ctx)
	defer cancel()
	all := workload.Candidates()
	single := make([]bool, len(all))
	err := t.parallel(ctx, len(all), func(ctx context.Context, i int) error {
		n, err := t.serverCount(ctx, all[i]+" "+all[i])
		single[i] = n == 2
		return err
	})
	if err != nil {
		return false, err
	}
	var words []string
	for i, ok := range single {
		if ok {
			words = append(words, all[i])
		}
	}
	if len(words) < enoughWords {
		return false, nil
	}
	together, err := t.serverCount(ctx, strings.Join(words, " "))
	if err != nil || together != len(words) {
		return false, err
	}
	if w.Salt != "" {
		n, err := t.serverCount(ctx, w.Salt+" "+words[0])
		if err != nil {
			return false, err
		}
		w.SaltLen = n - 1
	}
	w.Words = words
	t.note("prompts consist of %d words that the server's /tokenize counts as one token each: there is no tokenizer for %s on this machine", len(words), t.target.model)
	return true, nil
}

// serverCount is the length of a text by the server's tokenizer.
func (t *tenant) serverCount(ctx context.Context, text string) (int, error) {
	ids, err := t.control.Tokenize(ctx, t.target.served, text, false)
	return len(ids), err
}

// align makes the lengths of synthetic prompts exact by the server's own count. With a local
// tokenizer one prompt is checked and the rest only if it differs, as vLLM does; without one, every
// prompt is measured and cut or lengthened.
func (t *tenant) align(ctx context.Context, l *load) error {
	c := t.Config
	synthetic := c.Dataset.Name == config.DatasetRandom || c.Dataset.Name == config.DatasetRepetition
	if !synthetic || c.Body.PromptTokenIDs || t.tokens.skipped || c.Load.NumPrompts == 0 {
		return nil
	}
	first, err := l.first(ctx)
	if err != nil {
		return err
	}
	ids, err := t.control.Tokenize(ctx, t.target.served, first.Prompt.Text, false)
	if err != nil {
		return nil //nolint:nilerr // the server has no /tokenize: lengths are checked against its usage afterwards
	}
	if len(ids) == first.In.N && !t.tokens.remote {
		return nil
	}
	limit := alignUnasked
	if c.Model.Tokenizer == serverTokenizer {
		limit = alignAsked
	}
	if n := c.Load.NumPrompts; n > limit {
		t.note("%d prompts are too many to give them their exact length with the server's /tokenize (at most %d): lengths are "+
			"approximate, and true ones are taken from the server's usage", n, limit)
		return nil
	}
	if c.Load.NumPrompts >= 200 {
		t.say("giving %d prompts their exact length with the server's tokenizer", c.Load.NumPrompts)
	}
	if !t.tokens.remote {
		t.note("the server's tokenizer counts differently (%d tokens for %d): prompts are cut to length with its /tokenize", len(ids), first.In.N)
	}
	all, err := l.source.peek(ctx, c.Load.NumPrompts)
	if err != nil {
		return fmt.Errorf("make requests: %w", err)
	}
	ctx, cancel := t.untilStopped(ctx)
	defer cancel()
	l.aligned = true
	if t.tokens.remote {
		t.note("prompts get their length with the server's /tokenize")
	}
	return t.parallel(ctx, len(all), func(ctx context.Context, i int) error { return t.alignOne(ctx, &all[i]) })
}

// parallel asks the server n questions, several at a time, until one fails.
func (t *tenant) parallel(ctx context.Context, n int, ask func(ctx context.Context, i int) error) error {
	gate := make(chan struct{}, alignParallel)
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range n {
		gate <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-gate }()
			if err := ask(ctx, i); err != nil {
				once.Do(func() { first = err; cancel() })
			}
		})
	}
	wg.Wait()
	if t.stopping() {
		return call.ErrInterrupted
	}
	if first != nil {
		return fmt.Errorf("make prompts with the server's tokenizer: %w", first)
	}
	return ctx.Err()
}

// alignRounds bounds the attempts at one prompt: cutting text can join tokens anew.
const alignRounds = 5

// alignOne brings one prompt to its length by the server's count.
func (t *tenant) alignOne(ctx context.Context, r *call.Request) error {
	want := r.In.N
	for range alignRounds {
		ids, err := t.control.Tokenize(ctx, t.target.served, r.Prompt.Text, false)
		if err != nil {
			return err
		}
		r.In = call.Count{N: len(ids), From: call.FromServer}
		switch {
		case len(ids) == want:
			return nil
		case len(ids) > want:
			if r.Prompt.Text, err = t.control.Detokenize(ctx, t.target.served, ids[:want]); err != nil {
				return err
			}
		case !t.tokens.remote:
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

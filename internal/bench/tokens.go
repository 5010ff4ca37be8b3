package bench

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"spate/internal/call"
	"spate/internal/load/build"
	"spate/internal/load/workload"
	"spate/internal/token/tokenizer"
)

// serverTokenizer as --tokenizer asks for the server's own /tokenize.
const serverTokenizer = "server"

// tokens is how this run counts and makes tokens.
type tokens struct {
	id      string               // what vLLM calls tokenizer_id; empty for none
	local   *tokenizer.Tokenizer // nil when no file was found
	remote  bool                 // the server's /tokenize is used to make prompts exact
	skipped bool                 // --skip-tokenizer-init: behave as vLLM without one
	tmpl    workload.Template    // nil when there is no chat template
	pool    sync.Pool            // of encoders, for counting answers
	texts   bool                 // answers are kept, for --save-detailed
}

// loadTokens finds a tokenizer: a file, the local Hugging Face cache, the server, or none.
func (s *session) loadTokens(ctx context.Context) (*tokens, error) {
	m := &s.Config.Model
	t := &tokens{texts: s.Config.Output.SaveDetailed}
	if m.SkipTokenizerInit {
		t.skipped = true
		return t, nil
	}
	name := cmp.Or(m.Tokenizer, s.target.root, s.target.model)
	t.id = name
	if name == serverTokenizer {
		t.id, t.remote = s.target.model, true
		return t, s.tryServerTokenizer(ctx)
	}
	path, err := s.findTokenizer()
	if err != nil {
		return t, s.withoutFile(ctx, t, err)
	}
	if t.local, err = tokenizer.Load(path); err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", name, err)
	}
	t.tmpl, err = build.Template(t.local, s.Config.Body.ChatTemplate, time.Now)
	if err != nil {
		s.note("the chat template of %s cannot be used: %v", name, err)
	}
	return t, nil
}

// findTokenizer is the path of a tokenizer. What the user named may be one; what only the server said is looked up
// in the hub's cache and nowhere else.
func (s *session) findTokenizer() (string, error) {
	m, places := &s.Config.Model, tokenizer.PlacesFrom(s.Getenv, s.Home)
	if m.Tokenizer != "" {
		return tokenizer.Find(m.Tokenizer, places)
	}
	if s.target.root != "" {
		if path, err := tokenizer.FindServed(s.target.root, places); err == nil {
			return path, nil
		}
	}
	if m.ID != "" {
		return tokenizer.FindModel(m.ID, places)
	}
	return tokenizer.FindServed(s.target.model, places)
}

// withoutFile decides how to go on when no tokenizer file was found. One that was named must be there.
func (s *session) withoutFile(ctx context.Context, t *tokens, missing error) error {
	if s.Config.Model.Tokenizer != "" {
		return fmt.Errorf("--tokenizer: %w", missing)
	}
	if s.tryServerTokenizer(ctx) == nil {
		t.remote = true
		return nil
	}
	s.note("no tokenizer for %s is on this machine and the server has no /tokenize (--tokenizer PATH names one)", s.target.model)
	return nil
}

func (s *session) tryServerTokenizer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := s.control.Tokenize(ctx, s.target.served, "hello", false); err != nil {
		return fmt.Errorf("--tokenizer server: %w", err)
	}
	return nil
}

// workload is the tokenizer as datasets take it.
func (t *tokens) workload() workload.Tokenizer { return workload.Wrap(t.local) }

// settle completes a record's counts where the server gave none, and lets go of text nobody asked to
// keep: it would be most of a long run's memory.
func (t *tokens) settle(r *call.Record) {
	if r.Outcome == call.OK && r.Out.N == 0 && r.Inputs == 0 && !t.skipped {
		r.Out = t.count(r)
	}
	splitKinds(r)
	if !t.texts {
		r.Text, r.Thoughts, r.ToolText = "", "", ""
	}
}

func (t *tokens) count(r *call.Record) call.Count {
	if t.local == nil {
		return chunkCount(r)
	}
	e, ok := t.pool.Get().(*tokenizer.Encoder)
	if !ok {
		e = t.local.NewEncoder()
	}
	defer t.pool.Put(e)
	n := 0
	for _, text := range []string{r.Thoughts, r.Text, r.ToolText} {
		n += len(e.Encode(nil, text, false))
	}
	if t.local.Err() != nil {
		return chunkCount(r)
	}
	return call.Count{N: n, From: call.FromTokenizer}
}

// chunkCount takes every chunk with content for a token.
func chunkCount(r *call.Record) call.Count {
	n := 0
	for _, c := range r.Chunks {
		if c.Kind != 0 {
			n++
		}
	}
	return call.Count{N: n, From: call.FromChunks}
}

// splitKinds counts reasoning and tool-call tokens from the chunks where the server did not.
func splitKinds(r *call.Record) {
	var reason, tool int
	for _, c := range r.Chunks {
		n := max(1, int(c.Tokens))
		switch {
		case c.Kind&call.Reasoning != 0:
			reason += n
		case c.Kind&call.Tool != 0:
			tool += n
		}
	}
	if r.Reason.N == 0 && reason > 0 {
		r.Reason = call.Count{N: reason, From: call.FromChunks}
	}
	if tool > 0 {
		r.ToolOut = call.Count{N: tool, From: call.FromChunks}
	}
}

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
func (t *tenant) loadTokens(ctx context.Context) (*tokens, error) {
	m := &t.Config.Model
	out := &tokens{texts: t.Config.Output.SaveDetailed}
	if m.SkipTokenizerInit {
		out.skipped = true
		return out, nil
	}
	name := cmp.Or(m.Tokenizer, t.target.root, t.target.model)
	out.id = name
	if name == serverTokenizer {
		out.id, out.remote = t.target.model, true
		return out, t.tryServerTokenizer(ctx)
	}
	path, err := t.findTokenizer()
	if err != nil {
		return out, t.withoutFile(ctx, out, err)
	}
	if out.local, err = tokenizer.Load(path); err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", name, err)
	}
	out.tmpl, err = build.Template(out.local, t.Config.Body.ChatTemplate, time.Now)
	if err != nil {
		t.note("the chat template of %s cannot be used: %v", name, err)
	}
	return out, nil
}

// findTokenizer is the path of a tokenizer. What the user named may be one; what only the server said is looked up
// in the hub's cache and nowhere else.
func (t *tenant) findTokenizer() (string, error) {
	m, places := &t.Config.Model, tokenizer.PlacesFrom(t.Getenv, t.Home)
	if m.Tokenizer != "" {
		return tokenizer.Find(m.Tokenizer, places)
	}
	if t.target.root != "" {
		if path, err := tokenizer.FindServed(t.target.root, places); err == nil {
			return path, nil
		}
	}
	if m.ID != "" {
		return tokenizer.FindModel(m.ID, places)
	}
	return tokenizer.FindServed(t.target.model, places)
}

// withoutFile decides how to go on when no tokenizer file was found. One that was named must be there.
func (t *tenant) withoutFile(ctx context.Context, out *tokens, missing error) error {
	if t.Config.Model.Tokenizer != "" {
		return fmt.Errorf("--tokenizer: %w", missing)
	}
	if t.tryServerTokenizer(ctx) == nil {
		out.remote = true
		return nil
	}
	t.note("no tokenizer for %s is on this machine and the server has no /tokenize (--tokenizer PATH names one)", t.target.model)
	return nil
}

func (t *tenant) tryServerTokenizer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := t.control.Tokenize(ctx, t.target.served, "hello", false); err != nil {
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

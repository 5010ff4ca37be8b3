package predict

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"time"

	"spate/internal/call"
	"spate/internal/load/build"
	"spate/internal/load/workload"
	"spate/internal/rng"
	"spate/internal/safe/infile"
	"spate/internal/settings/config"
	"spate/internal/sim/cluster"
	"spate/internal/sim/kv"
	"spate/internal/token/tokenizer"
)

// Prompts is what prompts are made with. The zero value makes them as bench does without a tokenizer.
type Prompts struct {
	Tokenizer *tokenizer.Tokenizer // nil: words stand for tokens
	Template  workload.Template    // nil: none
	Look      func(*workload.HF)   // says where files of the Hugging Face hub lie; nil: nowhere
}

// source makes the requests of a dataset from the beginning, the same each time.
type source interface {
	// count is how many requests the dataset gives, 0 where only time bounds them, and times are its own due times.
	count() (n int, times []time.Duration, err error)
	// first makes the first n requests, fewer where there are no more. They have no due times.
	first(n int) ([]Request, error)
}

// newSource is what bench would take its requests from. Conversations without a file are the exception: bench has
// none to send, and their well-known lengths stand for them.
func newSource(c *config.Bench, p Prompts) source {
	if c.Dataset.Name == config.DatasetShareGPT && c.Dataset.Path == "" {
		return &typicalChats{c}
	}
	w := build.Workload(c, func(path string) (workload.File, error) { return infile.Dataset(path) }, c.Model.SkipTokenizerInit)
	if p.Look != nil {
		p.Look(&w.HF)
	}
	return &prompts{w, p}
}

// prompts makes the very requests that bench sends, and keeps what a server's time depends on.
type prompts struct {
	cfg workload.Config
	Prompts
}

func (p *prompts) open() (*workload.Stream, error) {
	return workload.New(p.cfg, workload.Wrap(p.Tokenizer), p.Template)
}

func (p *prompts) count() (n int, times []time.Duration, err error) {
	stream, err := p.open()
	if err != nil {
		return 0, nil, err
	}
	if p.cfg.SelfTimed {
		times, err = stream.Times()
	}
	return stream.Count(), times, errors.Join(err, stream.Close())
}

func (p *prompts) first(n int) ([]Request, error) {
	stream, err := p.open()
	if err != nil {
		return nil, err
	}
	list, err := p.drain(stream, n)
	return list, errors.Join(err, stream.Close())
}

func (p *prompts) drain(stream *workload.Stream, n int) ([]Request, error) {
	var enc *tokenizer.Encoder
	if p.Tokenizer != nil {
		enc = p.Tokenizer.NewEncoder()
	}
	var out []Request
	for len(out) < n {
		r, err := stream.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("make requests: %w", err)
		}
		one := Request{Call: cluster.Call{Prompt: segments(&r, enc), Out: max(1, r.MaxOut)}}
		one.MaxOut = one.Out
		out = append(out, one)
	}
	return out, nil
}

// promptBlock is the number of tokens that get a name together.
const promptBlock = 16

// segments name a prompt for the prefix cache: prompts that begin alike have names that begin alike. Together they are
// as long as bench says the prompt is.
func segments(r *call.Request, enc *tokenizer.Encoder) []kv.Segment {
	length := max(1, r.In.N)
	ids := tokensOf(r, enc)
	if len(ids) == 0 {
		return []kv.Segment{{Stream: 1<<50 + uint64(r.ID), Len: length}}
	}
	var out []kv.Segment
	named := 0 // tokens that have a name
	for at := 0; at < len(ids); at += promptBlock {
		end := min(at+promptBlock, len(ids))
		h := fnv.New64a()
		for _, id := range ids[at:end] {
			_, _ = h.Write([]byte{byte(id), byte(id >> 8), byte(id >> 16), byte(id >> 24)}) // a hash takes all
		}
		if n := length*end/len(ids) - named; n > 0 {
			out = append(out, kv.Segment{Stream: h.Sum64() | 1, Len: n})
			named += n
		}
	}
	return out
}

// tokensOf are a prompt's tokens: its ids, those of its text, or its words where nothing can count tokens.
func tokensOf(r *call.Request, enc *tokenizer.Encoder) []int32 {
	text := r.Prompt.Text + string(r.Prompt.Messages)
	switch {
	case len(r.Prompt.IDs) > 0:
		return r.Prompt.IDs
	case enc != nil && text != "":
		return enc.Encode(nil, text, true)
	}
	var out []int32
	for word := range strings.FieldsSeq(text) {
		h := fnv.New32a()
		_, _ = io.WriteString(h, word) // a hash takes all
		out = append(out, int32(h.Sum32()))
	}
	return out
}

// typicalChats are conversations with the lengths that ShareGPT's have.
type typicalChats struct{ c *config.Bench }

// Mean lengths of ShareGPT conversations as benchmark clients pick them.
const (
	chatMeanIn  = 226
	chatMeanOut = 199
)

func (t *typicalChats) count() (int, []time.Duration, error) { return t.c.Load.NumPrompts, nil, nil }

func (t *typicalChats) first(n int) ([]Request, error) {
	mean := chatMeanOut
	if t.c.Dataset.OutputLen != nil {
		mean = *t.c.Dataset.OutputLen
	}
	w := Workload{Completed: n, In: chatMeanIn * n, Out: mean * n}
	in, out := w.chat(rng.New(uint64(t.c.Load.Seed), "predict.own"))
	list := make([]Request, n)
	for i := range list {
		list[i].Call = cluster.Call{Prompt: []kv.Segment{{Stream: uint64(i) + 1, Len: in[i]}}, Out: out[i]}
		list[i].MaxOut = out[i]
	}
	return list, nil
}

package predict

import (
	"context"
	"errors"
	"fmt"
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
	place     uint64               // of the tenant they are of: prompts without text are its own
}

// apart keeps the names of one tenant's prompts from those of another.
const apart = 40

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
		return &typicalChats{c, p.place}
	}
	w := build.Workload(c, func(path string) (workload.File, error) { return infile.Dataset(path) }, c.Model.SkipTokenizerInit)
	if p.Look != nil {
		p.Look(&w.HF)
	}
	w.Lengths = w.Prefix == 0 // nothing is shared, so no text tells more
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
		one := Request{Call: cluster.Call{Prompt: segments(&r, enc, p.place), Out: max(1, r.MaxOut)}}
		one.MaxOut = one.Out
		out = append(out, one)
	}
	return out, nil
}

// promptBlock is the number of tokens that get a name together.
const promptBlock = 16

// segments name a prompt for the prefix cache: prompts that begin alike have names that begin alike. Together they are
// as long as bench says the prompt is. Words stand for tokens where nothing can count them.
func segments(r *call.Request, enc *tokenizer.Encoder, place uint64) []kv.Segment {
	n := naming{length: max(1, r.In.N)}
	text := r.Prompt.Text + string(r.Prompt.Messages)
	ids := r.Prompt.IDs
	if len(ids) == 0 && enc != nil && text != "" {
		ids = enc.Encode(nil, text, true)
	}
	if len(ids) > 0 {
		n.of = len(ids)
		for _, id := range ids {
			for shift := 0; shift < 32; shift += 8 {
				n.mix(byte(id >> shift))
			}
			n.token()
		}
		return n.list
	}
	n.of = strings.Count(text, " ") + 1
	for i := range len(text) {
		if n.mix(text[i]); text[i] == ' ' {
			n.token()
		}
	}
	if n.token(); n.of == 1 { // hardly a text: nothing to share
		return []kv.Segment{{Stream: 1<<50 + place<<apart + uint64(r.ID), Len: n.length}}
	}
	return n.list
}

// naming gives names to the blocks of a prompt.
type naming struct {
	length, of int // tokens the prompt has, and those it is made of here
	seen       int // of the latter
	named      int // of the former
	hash       uint64
	list       []kv.Segment
}

// mix is a step of FNV-1a, which a prompt of thousands of bytes goes through.
func (n *naming) mix(b byte) { n.hash = (n.hash ^ uint64(b)) * 1099511628211 }

// token ends a token, and its block with every sixteenth and the last.
func (n *naming) token() {
	if n.seen++; n.seen%promptBlock != 0 && n.seen < n.of {
		return
	}
	// Blocks have one size, rounded, and the last what is left: prompts that begin alike then have blocks that do,
	// though one is made of a few words more than the other.
	size := max(1, (promptBlock*n.length+n.of/2)/n.of)
	if left := n.length - n.named; n.seen >= n.of || size > left {
		size = left
	}
	if size > 0 {
		n.list = append(n.list, kv.Segment{Stream: n.hash | 1, Len: size})
		n.named += size
	}
	n.hash = 0
}

// typicalChats are conversations with the lengths that ShareGPT's have.
type typicalChats struct {
	c     *config.Bench
	place uint64
}

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
		list[i].Call = cluster.Call{Prompt: []kv.Segment{{Stream: t.place<<apart + uint64(i) + 1, Len: in[i]}}, Out: out[i]}
		list[i].MaxOut = out[i]
	}
	return list, nil
}

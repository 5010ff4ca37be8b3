package accuracy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"spate/internal/load/workload"
	"spate/internal/token/tokenizer"
)

// Text is how fast prompts are made or tokenized.
type Text struct {
	What   string  `json:"what"`
	MB     float64 `json:"mb"`
	Speed  float64 `json:"mb_per_s"`
	Tokens float64 `json:"tokens_per_s,omitempty"`
}

// Of the prompts made to measure speed.
const (
	textPrompts = 2000
	textTokens  = 2000
)

// measureText makes prompts without a tokenizer and, where a file is given, with one, and encodes
// them again on one thread.
func measureText(ctx context.Context, file string) ([]Text, error) {
	made, _, err := makePrompts(ctx, nil, textPrompts)
	if err != nil {
		return nil, err
	}
	made.What = "random prompts made without a tokenizer, all cores"
	out := []Text{made}
	if file == "" {
		return out, nil
	}
	tok, err := tokenizer.Load(file)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", file, err)
	}
	name := filepath.Base(filepath.Dir(file))
	made, texts, err := makePrompts(ctx, tok, textPrompts/10)
	if err != nil {
		return nil, err
	}
	made.What = "random prompts made with the tokenizer of " + name + ", all cores"
	random := encodeAll(tok, texts)
	random.What = "those prompts encoded, one core"
	_, words, err := makePrompts(ctx, nil, textPrompts/10)
	if err != nil {
		return nil, err
	}
	plain := encodeAll(tok, words)
	plain.What = "English words encoded, one core"
	return append(out, made, random, plain), nil
}

// makePrompts streams the random dataset as a run would.
func makePrompts(ctx context.Context, tok *tokenizer.Tokenizer, n int) (Text, []string, error) {
	cfg, err := workload.Default("random")
	if err != nil {
		return Text{}, nil, err
	}
	cfg.N, cfg.Input = n, textTokens
	src, err := workload.New(cfg, workload.Wrap(tok), nil)
	if err != nil {
		return Text{}, nil, err
	}
	defer func() { _ = src.Close() }()
	var texts []string
	bytes, tokens := 0, 0
	begun := time.Now()
	for {
		req, err := src.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Text{}, nil, fmt.Errorf("make prompts: %w", err)
		}
		bytes += len(req.Prompt.Text)
		tokens += req.In.N
		texts = append(texts, req.Prompt.Text)
	}
	return speed(bytes, tokens, time.Since(begun)), texts, nil
}

// encodeAll tokenizes texts on one thread.
func encodeAll(tok *tokenizer.Tokenizer, texts []string) Text {
	enc := tok.NewEncoder()
	var ids []int32
	bytes, tokens := 0, 0
	begun := time.Now()
	for _, t := range texts {
		ids = enc.Encode(ids[:0], t, false)
		bytes += len(t)
		tokens += len(ids)
	}
	return speed(bytes, tokens, time.Since(begun))
}

func speed(bytes, tokens int, took time.Duration) Text {
	mb, s := float64(bytes)/1e6, took.Seconds()
	return Text{MB: mb, Speed: mb / s, Tokens: float64(tokens) / s}
}

package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// newSpecBench sends the first turns of Spec-Bench's questions. As vLLM does, it shuffles with seed 0
// whatever the run's seed is.
func newSpecBench(cfg Config, tok Tokenizer, tmpl Template) (*custom, int, error) {
	cfg.Seed = 0
	return newLines(cfg, tok, tmpl, func(raw []byte, _ bool) (string, int, bool, error) {
		var row struct {
			Turns    []string `json:"turns"`
			Category string   `json:"category"`
		}
		if err := json.Unmarshal(raw, &row); err != nil {
			return "", 0, false, fmt.Errorf("not a JSON object with texts as \"turns\": %w", err)
		}
		if len(row.Turns) == 0 {
			return "", 0, false, errors.New(`no "turns"`)
		}
		return row.Turns[0], 0, cfg.Category == "" || row.Category == cfg.Category, nil
	})
}

// newSpeedBench sends the first messages (or turns) of a file of SPEED-Bench. A folder is taken for the one
// that holds its subsets.
func newSpeedBench(cfg Config, tok Tokenizer, tmpl Template) (*custom, int, error) {
	cfg.Seed = 0
	if isFolder(cfg) {
		cfg.Path = path.Join(cfg.Path, cfg.Subset+".jsonl")
	}
	return newLines(cfg, tok, tmpl, func(raw []byte, _ bool) (string, int, bool, error) {
		var row struct {
			Messages []struct {
				Content string `json:"content"`
			} `json:"messages"`
			Turns    []string `json:"turns"`
			Category string   `json:"category"`
		}
		if err := json.Unmarshal(raw, &row); err != nil {
			return "", 0, false, fmt.Errorf("not a JSON object with \"messages\": %w", err)
		}
		keep := cfg.Category == "" || row.Category == cfg.Category
		switch {
		case len(row.Messages) > 0:
			return row.Messages[0].Content, 0, keep, nil
		case len(row.Turns) > 0: // as SGLang's copy has them
			return row.Turns[0], 0, keep, nil
		}
		return "", 0, false, errors.New(`neither "messages" nor "turns"`)
	})
}

// isFolder reports whether the dataset's path is a folder.
func isFolder(cfg Config) bool {
	if strings.HasSuffix(cfg.Path, ".jsonl") {
		return false
	}
	file, err := cfg.Open(cfg.Path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // nothing was written
	s, ok := file.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := s.Stat()
	return err == nil && info.IsDir()
}

package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

var specBenchDataset = Dataset{
	Name: "spec_bench", Path: NeedsPath, AllRows: true, About: "Spec-Bench questions",
	open: newSpecBench,
	fill: func(c *Config, r *Run) { c.Output, c.Category = r.SpecBench.OutputLen, r.SpecBench.Category },
	check: func(r *Run, c Problems) {
		c.Want(r.SpecBench.OutputLen > 0, "spec-bench-output-len", "%d is not above 0", r.SpecBench.OutputLen)
	},
}

// SpecBench configures spec_bench.
type SpecBench struct {
	OutputLen int    `json:"output_len"`
	Category  string `json:"category,omitempty"`
}

func (s *SpecBench) flags() []Flag {
	return []Flag{
		tokens("spec-bench-output-len", &s.OutputLen, "256", "output length of spec_bench").as(outputLen),
		{Name: "spec-bench-category", VLLM: true, To: &s.Category, Help: "send only spec_bench's questions of this category"},
	}
}

// newSpecBench sends the first turns of Spec-Bench's questions. As vLLM does, it shuffles with seed 0
// whatever the run's seed is.
func newSpecBench(cfg Config, tok Tokenizer, tmpl Template) (dataset, int, error) {
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

var speedBenchDataset = Dataset{
	Name: "speed_bench", Path: NeedsPath, AllRows: true, About: "SPEED-Bench messages",
	open: newSpeedBench,
	fill: func(c *Config, r *Run) {
		c.Output, c.Category, c.Subset = r.SpeedBench.OutputLen, r.SpeedBench.Category, r.SpeedBench.Subset
	},
	check: func(r *Run, c Problems) {
		c.Want(r.SpeedBench.OutputLen > 0, "speed-bench-output-len", "%d is not above 0", r.SpeedBench.OutputLen)
	},
}

// SpeedBench configures speed_bench.
type SpeedBench struct {
	Subset    string `json:"dataset_subset"`
	OutputLen int    `json:"output_len"`
	Category  string `json:"category,omitempty"`
}

func (s *SpeedBench) flags() []Flag {
	return []Flag{
		{
			Name: "speed-bench-dataset-subset", Default: "qualitative", VLLM: true, To: &s.Subset, Help: "which of speed_bench's files",
			Choices: []string{"qualitative", "throughput_1k", "throughput_2k", "throughput_8k", "throughput_16k", "throughput_32k"},
		},
		tokens("speed-bench-output-len", &s.OutputLen, "4096", "output length of speed_bench"),
		{Name: "speed-bench-category", VLLM: true, To: &s.Category, Help: "send only speed_bench's messages of this category"},
	}
}

// newSpeedBench sends the first messages (or turns) of a file of SPEED-Bench. A folder is taken for the one
// that holds its subsets.
func newSpeedBench(cfg Config, tok Tokenizer, tmpl Template) (dataset, int, error) {
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

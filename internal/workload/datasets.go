package workload

import (
	"errors"
	"fmt"
	"strings"

	"spate/internal/nearest"
)

// ErrNotYet marks a dataset vLLM has and this version does not.
var ErrNotYet = errors.New("not supported yet")

// PathRule says whether a dataset is read from a file.
type PathRule int

// What --dataset-path means to a dataset.
const (
	NoPath       PathRule = iota // it makes its own prompts
	OptionalPath                 // it brings a file of its own
	NeedsPath
)

// Dataset is a line of the table of datasets.
type Dataset struct {
	Name    string
	Ready   bool // can be used in this version
	Path    PathRule
	AllRows bool // 0 requests mean every row it has
	About   string
}

// datasets lists every name vLLM's --dataset-name takes, in its order, then those of others and our own.
var datasets = []Dataset{
	{"sharegpt", true, NeedsPath, false, "first turns of conversations in a JSON array"},
	{"burstgpt", true, NeedsPath, true, "token counts of a CSV trace"},
	{"sonnet", true, OptionalPath, false, "lines of verse up to a length, with a shared beginning"},
	{"random", true, NoPath, false, "random tokens of given lengths"},
	{"random-mm", true, NoPath, false, "random tokens with images"},
	{"random-rerank", true, NoPath, false, "a query and documents to score"},
	{"hf", true, NeedsPath, true, "a dataset of the Hugging Face hub, as a local folder or file"},
	{"custom", true, NeedsPath, true, "prompts in JSON lines"},
	{"custom_audio", true, NeedsPath, true, "audio in JSON lines"},
	{"custom_image", true, NeedsPath, true, "images in JSON lines"},
	{"prefix_repetition", true, NoPath, false, "several shared prefixes with random ends"},
	{"spec_bench", true, NeedsPath, true, "Spec-Bench questions"},
	{"speed_bench", true, NeedsPath, true, "SPEED-Bench messages"},
	{"timed_trace", true, NeedsPath, true, "a trace with times and block hashes"},
	{"generated-shared-prefix", true, NoPath, true, "SGLang's groups of questions with a system prompt each"},
	{"multi-turn", true, OptionalPath, true, "conversations with the server's own answers, from a file or made up"},
	{"agentic", true, NeedsPath, true, "agents' sessions with sub-agents"},
	{"mooncake", true, NeedsPath, true, "a trace as published with Mooncake: timed_trace in milliseconds and blocks of 512"},
}

// renamed maps names of earlier releases to today's.
var renamed = map[string]string{"custom_mm": "custom_image"}

// Datasets is the table of datasets, usable or not.
func Datasets() []Dataset { return append([]Dataset(nil), datasets...) }

func lookup(name string) *Dataset {
	for i := range datasets {
		if datasets[i].Name == name {
			return &datasets[i]
		}
	}
	return nil
}

// Check says why a dataset cannot be used: because this version does not have it (ErrNotYet), or
// because nobody has, and then which name is nearest.
func Check(name string) error {
	if now, ok := renamed[name]; ok {
		name = now
	}
	d := lookup(name)
	switch {
	case d == nil:
		return fmt.Errorf("dataset %q is unknown%s (there are %s)", name, nearest.Hint(name, names()), strings.Join(names(), ", "))
	case !d.Ready:
		return fmt.Errorf("dataset %q is known but %w in this version (usable: %s)", name, ErrNotYet, strings.Join(usable(), ", "))
	}
	return nil
}

func names() []string {
	var all []string
	for _, d := range datasets {
		all = append(all, d.Name)
	}
	return all
}

func usable() []string {
	var all []string
	for _, d := range datasets {
		if d.Ready {
			all = append(all, d.Name)
		}
	}
	return all
}

package workload

import (
	"fmt"
	"strings"

	"spate/internal/nearest"
)

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
	Path    PathRule
	AllRows bool // 0 requests mean every row it has
	About   string
}

// datasets lists every name vLLM's --dataset-name takes, in its order, then those of others and our own.
var datasets = []Dataset{
	{"sharegpt", NeedsPath, false, "first turns of conversations in a JSON array"},
	{"burstgpt", NeedsPath, true, "token counts of a CSV trace"},
	{"sonnet", OptionalPath, false, "lines of verse up to a length, with a shared beginning"},
	{"random", OptionalPath, false, "random tokens of given lengths, or a file's conversations cut to them"},
	{"random-mm", NoPath, false, "random tokens with images"},
	{"random-rerank", NoPath, false, "a query and documents to score"},
	{"hf", NeedsPath, true, "a dataset of the Hugging Face hub, as a local folder or file"},
	{"custom", NeedsPath, true, "prompts in JSON lines"},
	{"custom_audio", NeedsPath, true, "audio in JSON lines"},
	{"custom_image", NeedsPath, true, "images in JSON lines"},
	{"prefix_repetition", NoPath, false, "several shared prefixes with random ends"},
	{"spec_bench", NeedsPath, true, "Spec-Bench questions"},
	{"speed_bench", NeedsPath, true, "SPEED-Bench messages"},
	{"timed_trace", NeedsPath, true, "a trace with times and block hashes"},
	{"generated-shared-prefix", NoPath, true, "SGLang's groups of questions with a system prompt each"},
	{"multi-turn", OptionalPath, true, "conversations with the server's own answers, from a file or made up"},
	{"agentic", NeedsPath, true, "agents' sessions with sub-agents"},
	{"mooncake", NeedsPath, true, "a trace as published with Mooncake: timed_trace in milliseconds and blocks of 512"},
}

// renamed maps names of earlier releases to today's.
var renamed = map[string]string{"custom_mm": "custom_image"}

// Datasets is the table of datasets.
func Datasets() []Dataset { return append([]Dataset(nil), datasets...) }

func lookup(name string) *Dataset {
	for i := range datasets {
		if datasets[i].Name == name {
			return &datasets[i]
		}
	}
	return nil
}

// Check says that nobody has a dataset of that name, and which name is nearest.
func Check(name string) error {
	if now, ok := renamed[name]; ok {
		name = now
	}
	if lookup(name) == nil {
		return fmt.Errorf("dataset %q is unknown%s (there are %s)", name, nearest.Hint(name, names()), strings.Join(names(), ", "))
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

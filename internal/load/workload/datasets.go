package workload

import (
	"fmt"
	"slices"
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

// Dataset is all that is known of a dataset. Each has its own in the file that makes its prompts, with its settings
// and their flags.
type Dataset struct {
	Name    string
	Path    PathRule
	AllRows bool // 0 requests mean every row it has
	About   string

	Timed  bool // it knows when its requests are due
	Trace  bool // and they go at these times unless the user says otherwise
	Talks  bool // it holds conversations
	Exact  bool // answers have the length that is asked for, whatever the model would say: vLLM's and SGLang's rule for prompts that mean nothing
	Alike  bool // prompts begin alike on purpose
	Random bool // random tokens, whose lengths may follow a law

	resolve func(*Run)           // sets what the user did not; nil: nothing depends on the dataset
	check   func(*Run, Problems) // nil: there is nothing to check
	fill    func(*Config, *Run)  // what the settings come to
	open    func(Config, Tokenizer, Template) (dataset, int, error)
}

// datasets lists every name vLLM's --dataset-name takes, in its order, then those of others and our own.
var datasets = []Dataset{
	shareGPTDataset, burstDataset, sonnetDataset, randomDataset, randomMMDataset, rerankDataset, hubDataset, customDataset, audioDataset, imageDataset,
	repetitionDataset, specBenchDataset, speedBenchDataset, timedTraceDataset, sharedDataset, multiTurnDataset, agenticDataset, mooncakeDataset,
}

// Settings are the settings of all datasets, one field for each.
type Settings struct {
	Random           Random           `json:"random"`
	Sonnet           Sonnet           `json:"sonnet"`
	ShareGPT         ShareGPT         `json:"sharegpt"`
	Custom           Custom           `json:"custom"`
	RandomMM         RandomMM         `json:"random_mm"`
	SpecBench        SpecBench        `json:"spec_bench"`
	SpeedBench       SpeedBench       `json:"speed_bench"`
	PrefixRepetition PrefixRepetition `json:"prefix_repetition"`
	HF               Hub              `json:"hf"`
	TimedTrace       TimedTrace       `json:"timed_trace"`
	Shared           Shared           `json:"generated_shared_prefix"`
	Replay           Replay           `json:"replay"`
	Talk             Conversations    `json:"talk"`
}

// Flags are the flags of all datasets, in the order help shows them.
func (s *Settings) Flags() []Flag {
	return slices.Concat(s.Random.flags(), s.Sonnet.flags(), s.ShareGPT.flags(), s.Custom.flags(), s.SpecBench.flags(), s.SpeedBench.flags(),
		s.PrefixRepetition.flags(), s.Shared.flags(), s.TimedTrace.flags(), s.Replay.flags(), s.HF.flags(), s.RandomMM.flags(), s.Talk.flags())
}

// Run is what a dataset's settings are read with.
type Run struct {
	*Settings
	Path                string
	N                   int  // requests asked for
	OutputLen           *int // asked for, whichever the dataset
	Backend             string
	Chat, Pools, Speech bool // what the backend speaks
	Has                 func(flag string) bool
}

// Resolve sets what the dataset wants otherwise than others do and the user did not say.
func (r *Run) Resolve(name string) {
	if d := lookup(name); d != nil && d.resolve != nil {
		d.resolve(r)
	}
}

// Fill sets the values that follow from the settings of the configuration's dataset.
func (r *Run) Fill(c *Config) {
	if d := lookup(c.Dataset); d != nil {
		d.fill(c, r)
	}
}

// Problems collects what is wrong with settings.
type Problems interface {
	Want(ok bool, flag, format string, args ...any)
	Clash(both bool, a, b, why string)
}

// maxPrompt is the longest prompt, in tokens: twice the longest context any model has. Memory is bounded by it.
const maxPrompt = 20_000_000

// Check names what is wrong with the dataset's settings, and lengths of any dataset that are too long to be made.
func (r *Run) Check(name string, c Problems) {
	told := map[string]bool{}
	for _, f := range r.Flags() {
		n, ok := f.To.(*int)
		if !ok || !f.Prompt {
			continue
		}
		if f.Like == inputLen && r.Has(inputLen) && !r.Has(f.Name) {
			f.Name = inputLen // one flag for the lengths of all
		}
		c.Want(*n <= maxPrompt || told[f.Name], f.Name, "%d tokens are more than spate makes a prompt of: want %d or fewer", *n, maxPrompt)
		told[f.Name] = true
	}
	if d := lookup(name); d != nil && d.check != nil {
		d.check(r, c)
	}
}

// renamed maps names of earlier releases to today's.
var renamed = map[string]string{"custom_mm": "custom_image"}

// Datasets is the table of datasets.
func Datasets() []Dataset { return slices.Clone(datasets) }

// Find is the dataset of that name; the zero Dataset where there is none.
func Find(name string) Dataset {
	if d := lookup(name); d != nil {
		return *d
	}
	return Dataset{}
}

func lookup(name string) *Dataset {
	for i := range datasets {
		if datasets[i].Name == name {
			return &datasets[i]
		}
	}
	return nil
}

// Check says that there is no dataset of that name, and which name is nearest.
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

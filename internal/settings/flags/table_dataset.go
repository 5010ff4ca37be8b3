package flags

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"spate/internal/load/lengths"
	"spate/internal/load/workload"
	"spate/internal/pytext"
	"spate/internal/settings/config"
)

// datasetFlags says what prompts are made of.
func datasetFlags(b *config.Bench) []Def {
	d := &b.Dataset
	defs := []Def{
		{
			Name: "seed", Group: GroupLoad, VLLM: true, Main: true, Default: "0", value: integer(&b.Load.Seed),
			Help: "seed of prompts, lengths and arrivals: the same seed gives the same run on every machine", Also: also("random-seed"),
		},
		{
			Name: "num-prompts", Group: GroupLoad, VLLM: true, Main: true, Default: "1000", value: integer(&b.Load.NumPrompts),
			Help: "requests to send; without it, --duration or --stages alone end the run; 0 sends every row of the dataset's file",
			Also: also("request-count", "num-requests", "number", "max-requests", "num-samples"),
		},
		{
			Name: "dataset-name", Group: GroupDataset, VLLM: true, Main: true, Default: "random", value: str(&d.Name),
			Choices: datasetNames(), Words: map[string]string{"custom_mm": config.DatasetImages},
			Help: "kind of prompts", Meta: "NAME", Also: also("public-dataset"),
		},
		{
			Name: "dataset-path", Group: GroupDataset, VLLM: true, Main: true, value: str(&d.Path), Meta: "FILE",
			Help: "file the prompts come from: ShareGPT JSON, verse lines for sonnet, JSONL for custom and traces, CSV for burstgpt",
			Also: append(also("input-file", "data"), Alias{Name: "dataset", To: shareGPTPath}),
		},
		{Name: "no-stream", Group: GroupDataset, VLLM: true, value: toggle(&d.NoStream), Help: "shuffle a Hugging Face dataset as a whole, not within a buffer of 1000 rows"},
		{
			Name: "no-oversample", Group: GroupDataset, VLLM: true, value: toggle(&d.NoOversample),
			Help: "send fewer requests rather than repeat rows when the file is short",
		},
		{Name: "disable-shuffle", Group: GroupDataset, VLLM: true, value: toggle(&d.DisableShuffle), Help: "keep the file's order"},
		{
			Name: "skip-chat-template", Group: GroupDataset, VLLM: true, value: toggle(&d.SkipChatTemplate),
			Help: "send custom prompts as they are, without the chat template", Also: also("custom-skip-chat-template"),
		},
		{
			Name: "enable-multimodal-chat", Group: GroupDataset, VLLM: true, value: toggle(&d.MultimodalChat),
			Help: "build chat messages in the dataset; spate always does so for images, and for audio with chat backends",
		},
		{
			Name: "input-len", Group: GroupDataset, VLLM: true, Main: true, value: spread(&d.InputLen, &d.InputDist), Meta: "TOKENS",
			Help: "prompt length, for every dataset that generates prompts; for random prompts also a distribution: normal(480,240), lognormal(480,240), uniform(100,500), exponential(480), empirical(FILE)",
			Also: also("isl"),
		},
		{
			Name: "output-len", Group: GroupDataset, VLLM: true, Main: true, value: spread(&d.OutputLen, &d.OutputDist), Meta: "TOKENS",
			Help: "output length, for every dataset; or a distribution, as for --input-len", Also: also("osl"),
		},
		{Name: "isl-stddev", Group: GroupDataset, value: finite(&d.InputStd), Default: "0.0", Meta: "TOKENS", Help: "standard deviation of random prompt lengths around --input-len"},
		{Name: "osl-stddev", Group: GroupDataset, value: finite(&d.OutputStd), Default: "0.0", Meta: "TOKENS", Help: "standard deviation of random output lengths around --output-len"},
		{
			Name: "seq-dist", Group: GroupDataset, value: str(&d.Joint), Meta: "IN,OUT:WEIGHT;...", Also: also("sequence-distribution"),
			Help: "pairs of random lengths and their weights: 128,64:25;512,128:75; 128|20,64|10:25 spreads them",
		},
	}
	return append(defs, ownFlags(b)...)
}

// ownFlags are those of each dataset. A few set what belongs to no dataset, or have a word that translates.
func ownFlags(b *config.Bench) []Def {
	elsewhere := map[string]*value{
		"salt": str(&b.Dataset.Salt), "allowed-local-media-path": str(&b.Dataset.MediaPath), "gsp-send-routing-key": routingKey(&b.Target.Headers),
	}
	var defs []Def
	for _, f := range b.Dataset.Flags() {
		d := Def{
			Name: f.Name, Group: GroupDataset, Default: f.Default, Meta: f.Meta, Help: f.Help, Choices: f.Choices, VLLM: f.VLLM, Main: f.Main,
			Also: also(f.Also...), value: elsewhere[f.Name],
		}
		if f.To != nil {
			d.value = valueOf(f.To)
		}
		if f.Name == "trace-speed" {
			d.Also = []Alias{{Name: "mooncake-slowdown-factor", To: slowdown}}
		}
		defs = append(defs, d)
	}
	return defs
}

// valueOf reads and writes a dataset's setting by its type.
func valueOf(to any) *value {
	switch p := to.(type) {
	case *int:
		return integer(p)
	case **int:
		return maybeInt(p)
	case *bool:
		return toggle(p)
	case *string:
		return str(p)
	case *float64:
		return finite(p)
	case *pytext.Number:
		return float(p)
	case *lengths.Ratio:
		return ratio(p)
	case *workload.RatioMeaning:
		return enum(p)
	case *workload.Law:
		return law((*string)(p))
	case *workload.ThinkTime:
		return thinkTime((*string)(p))
	case *workload.Literal:
		return literal((*string)(p))
	case *json.RawMessage:
		return object(p)
	case *time.Duration:
		return duration(p)
	}
	panic(fmt.Sprintf("no flag reads a %T", to)) // the table is wrong, not the user
}

// datasetNames are all there are, the everyday ones first.
func datasetNames() []string {
	out := []string{config.DatasetRandom, config.DatasetShareGPT, config.DatasetSonnet, config.DatasetCustom}
	for _, d := range workload.Datasets() {
		if !slices.Contains(out, d.Name) {
			out = append(out, d.Name)
		}
	}
	return out
}

// shareGPTPath reads the oldest scripts' --dataset: a ShareGPT file. A dataset's name given there is
// a slip of its own.
func shareGPTPath(word string) ([]target, error) {
	if !strings.ContainsAny(word, "./") {
		return nil, errors.New("is the path of a ShareGPT file in older scripts; use --dataset-name to choose a dataset")
	}
	return []target{{flag: "dataset-path", word: word}, {flag: "dataset-name", word: config.DatasetShareGPT}}, nil
}

// routingKey is a switch that adds SGLang's header.
func routingKey(headers *[]config.Header) *value {
	const name = "x-smg-routing-key"
	on := false
	v := toggle(&on)
	set := v.set
	v.set = func(s string) error {
		if err := set(s); err != nil {
			return err
		}
		*headers = slices.DeleteFunc(*headers, func(h config.Header) bool { return h.Name == name })
		if on {
			*headers = append(*headers, config.Header{Name: name, Value: "{group}"})
		}
		return nil
	}
	return v
}

// slowdown reads SGLang's factor, the inverse of a speed.
func slowdown(word string) ([]target, error) {
	f, err := readFloat(word)
	if err != nil || !(f > 0) {
		return nil, errors.New("is not a factor above 0")
	}
	return []target{{flag: "trace-speed", word: strconv.FormatFloat(1/f, 'g', -1, 64)}}, nil
}

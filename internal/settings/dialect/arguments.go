package dialect

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"spate/internal/nearest"
)

// Translated is a tool's command line in spate's words.
type Translated struct {
	Args    []string
	Rates   []float64 // --multi: a run at each
	Prompts []byte    // a file of prompts the tool brings itself; its path takes the place of PromptsPath
	Asked   Asked     // what only the tool's output repeats
	Notes   []string

	// WantsShareGPT: the tool would have downloaded ShareGPT's conversations. Whoever runs the arguments looks
	// for them and calls ShareGPT.
	WantsShareGPT bool
}

// PromptsPath stands for the file of Prompts.
const PromptsPath = "{prompts}.jsonl"

// Arguments reads a tool's arguments. Those it does not know are handed on, for spate's own reader to take
// or to refuse.
func (n Name) Arguments(args []string) (*Translated, error) {
	t := &Translated{Asked: Asked{Rate: math.Inf(1)}}
	var err error
	switch n {
	case VLLM10, VLLM6:
		t.olderVLLM(n, args)
	case LMDeploy, SGLang:
		err = t.serving(n, args)
	case Backprop:
		err = t.backprop(args)
	default:
		t.Args = args
	}
	return t, err
}

// argument is one flag with its values.
type argument struct {
	name   string
	values []string
}

// split groups words by flag; _ and - are the same in names, as argparse users write both.
func split(args []string) []argument {
	var out []argument
	for _, word := range args {
		name, isFlag := strings.CutPrefix(word, "--")
		if !isFlag {
			if len(out) == 0 {
				out = append(out, argument{})
			}
			out[len(out)-1].values = append(out[len(out)-1].values, word)
			continue
		}
		name, value, joined := strings.Cut(name, "=")
		a := argument{name: strings.ReplaceAll(name, "_", "-")}
		if joined {
			a.values = []string{value}
		}
		out = append(out, a)
	}
	return out
}

func (a argument) text() string { return strings.Join(a.values, " ") }

func (a argument) number() (float64, error) {
	v, err := strconv.ParseFloat(a.text(), 64)
	if err != nil {
		return 0, fmt.Errorf("--%s: %q is not a number", a.name, a.text())
	}
	return v, nil
}

// slept counts gaps from the request before, as tools did before they had a schedule. They have neither ramps nor
// stages, and no trace whose times they keep; who asks for those, or for another pacing, gets what was asked for.
func (t *Translated) slept(given func(name string) bool, dataset string) {
	for _, flag := range []string{"pacing", "ramp-up-strategy", "stages", "self-timed"} {
		if given(flag) {
			return
		}
	}
	if dataset != "mooncake" && dataset != "timed_trace" {
		t.add("--pacing", "slept")
	}
}

func (t *Translated) add(words ...string) { t.Args = append(t.Args, words...) }

// pass hands an argument on.
func (t *Translated) pass(a argument) {
	if a.name != "" {
		t.add("--" + a.name)
	}
	t.add(a.values...)
}

// rateRange reads LMDeploy's --request-rate-range: three numbers are start, stop and step, the stop left
// out; any other count is a list.
func rateRange(text string) ([]float64, error) {
	if text == "" {
		text = "2,34,2"
	}
	var list []int
	for _, word := range strings.Split(text, ",") {
		v, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("--request-rate-range %s: %q is not a whole number", text, word)
		}
		list = append(list, v)
	}
	if len(list) == 3 {
		from, to, step := list[0], list[1], list[2]
		if step <= 0 {
			return nil, fmt.Errorf("--request-rate-range %s: the step must be above 0", text)
		}
		list = nil
		for v := from; v < to; v += step {
			list = append(list, v)
		}
	}
	out := make([]float64, 0, len(list))
	for _, v := range list {
		if v <= 0 {
			return nil, fmt.Errorf("--request-rate-range %s: a rate must be above 0", text)
		}
		out = append(out, float64(v))
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("--request-rate-range %s: there is no rate in it", text)
	}
	return out, nil
}

//go:embed data/short.jsonl
var shortPrompts []byte

//go:embed data/long.jsonl
var longPrompts []byte

// backprop reads the arguments of vllm_benchmark.py.
func (t *Translated) backprop(args []string) error {
	known := []string{"num-requests", "concurrency", "request-timeout", "output-tokens", "vllm-url", "api-key", "use-long-context"}
	t.Prompts = shortPrompts
	t.Asked.Timeout = 30
	output := "50"
	needed := []string{"num_requests", "concurrency", "vllm_url", "api_key"}
	for _, a := range split(args) {
		needed = slices.DeleteFunc(needed, func(n string) bool { return strings.ReplaceAll(n, "_", "-") == a.name })
		switch a.name {
		case "num-requests":
			t.add("--num-prompts", a.text())
		case "concurrency":
			t.add("--max-concurrency", a.text())
		case "request-timeout":
			v, err := a.number()
			if err != nil {
				return err
			}
			t.Asked.Timeout = v
		case "output-tokens":
			output = a.text()
		case "vllm-url":
			if !slices.Contains(args, "--sim") { // an embedded server has its own address
				t.add("--base-url", a.text())
			}
		case "api-key":
			t.add("--api-key", a.text())
		case "use-long-context":
			t.Prompts, t.Asked.Long = longPrompts, true
		default:
			if slices.Contains(spateOwn, a.name) {
				t.pass(a)
				continue
			}
			return fmt.Errorf("--%s is not an argument of vllm_benchmark.py%s", a.name, nearest.Hint(a.name, known))
		}
	}
	if len(needed) > 0 {
		return fmt.Errorf("vllm_benchmark.py needs --%s", strings.Join(needed, ", --"))
	}
	t.add("--backend", "openai-chat", "--dataset-name", "custom", "--dataset-path", PromptsPath, "--custom-output-len", output,
		"--skip-chat-template", "--request-timeout", fmt.Sprintf("%gs", t.Asked.Timeout))
	return nil
}

// spateOwn are flags of spate that may stand among another tool's.
var spateOwn = []string{"sim", "output-dir", "no-output", "no-store", "store", "seed", "model", "tokenizer", "dry-run", "ui", "launch", "strict", "quiet", "details"}

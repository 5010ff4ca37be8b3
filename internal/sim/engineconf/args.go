package engineconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// vLLM's parser takes what pflag does not: several values after one flag, short names of several
// letters, and keys of JSON flags by dots. Args says the same in a form pflag takes.

// shortNames are vLLM's abbreviations, with one dash or two.
var shortNames = map[string]string{
	"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size", "ep": "enable-expert-parallel",
	"dcp": "decode-context-parallel-size", "pcp": "prefill-context-parallel-size", "q": "quantization", "n": "nnodes", "r": "node-rank",
	"cc": "compilation-config", "sc": "speculative-config", "ac": "attention-config", "asc": "api-server-count", "hl": "headless",
	"dpn": "data-parallel-rank", "dpr": "data-parallel-start-rank", "dpl": "data-parallel-size-local", "dpa": "data-parallel-address",
	"dpp": "data-parallel-rpc-port", "dpb": "data-parallel-backend", "dph": "data-parallel-hybrid-lb", "dpe": "data-parallel-external-lb",
	"O": "optimization-level", "uds": "unix-socket",
}

// lists are flags that take every value up to the next flag.
var lists = []string{
	"served-model-name", "lora-modules", "prompt-adapters", "cuda-graph-sizes", "cudagraph-capture-sizes", "logits-processors",
	"ignore-patterns", "lora-target-modules", "collect-detailed-traces",
}

// Args rewrites the arguments of `vllm serve` for a flag set that Bind and BindIgnored filled. Only keys by
// dots can be wrong in themselves.
func Args(args []string) ([]string, error) {
	var out []string
	objects := map[string]map[string]any{}
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(out, args[i:]...), nil
		}
		name, value, joined, ok := flagOf(args[i])
		if !ok {
			out = append(out, args[i])
			continue
		}
		base, key, dotted := strings.Cut(name, ".")
		switch {
		case dotted:
			if !joined {
				if i++; i == len(args) {
					return nil, fmt.Errorf("--%s needs a value", name)
				}
				value = args[i]
			}
			if objects[base] == nil {
				objects[base] = map[string]any{}
			}
			if err := putKey(objects[base], key, value); err != nil {
				return nil, fmt.Errorf("--%s: %w", name, err)
			}
		case slices.Contains(lists, name):
			values := []string{value}
			if !joined {
				values = valuesAfter(args[i+1:])
				i += len(values)
			}
			if len(values) == 0 {
				values = []string{""} // refused below, by name
			}
			for _, v := range values {
				out = append(out, "--"+name+"="+v)
			}
		case joined:
			out = append(out, "--"+name+"="+value)
		default:
			out = append(out, "--"+name)
		}
	}
	return withObjects(out, objects)
}

// flagOf takes a flag apart: its long name in dashes, and the value joined to it, if any. ok is false for what is
// no flag, or one of a single letter that vLLM does not have.
func flagOf(arg string) (name, value string, joined, ok bool) {
	name, long := strings.CutPrefix(arg, "--")
	if !long {
		if name, ok = strings.CutPrefix(arg, "-"); !ok {
			return "", "", false, false
		}
	}
	name, value, joined = strings.Cut(name, "=")
	base, keys, dotted := strings.Cut(name, ".")
	if level, found := strings.CutPrefix(base, "O"); !long && found && level != "" && !dotted { // -O3
		if _, err := strconv.Atoi(level); err == nil {
			base, value, joined = "O", level, true
		}
	}
	base = strings.ReplaceAll(base, "_", "-")
	full, short := shortNames[base]
	switch {
	case short && base == "O" && (dotted || strings.HasPrefix(value, "{")):
		base = "compilation-config" // what -O meant before it was a level
	case short:
		base = full
	case !long:
		return "", "", false, false
	}
	if dotted {
		base += "." + keys
	}
	return base, value, joined, base != ""
}

// valuesAfter are the values of a list: all up to the next flag.
func valuesAfter(args []string) []string {
	for i, a := range args {
		if strings.HasPrefix(a, "-") && len(a) > 1 && (a[1] < '0' || a[1] > '9') {
			return args[:i]
		}
	}
	return args
}

// putKey sets a value below an object by its dotted key; a plus at the end makes it one of a list.
func putKey(into map[string]any, key, text string) error {
	var value any = text
	if json.Unmarshal([]byte(text), &value) != nil {
		value = text
	}
	for {
		head, rest, more := strings.Cut(key, ".")
		if !more {
			break
		}
		below, ok := into[head].(map[string]any)
		if !ok {
			if into[head] != nil {
				return fmt.Errorf("%q is a value already, not an object", head)
			}
			below = map[string]any{}
			into[head] = below
		}
		into, key = below, rest
	}
	if name, adds := strings.CutSuffix(key, "+"); adds {
		have, _ := into[name].([]any)
		more, ok := value.([]any)
		if !ok {
			more = []any{value}
		}
		into[name] = append(have, more...)
		return nil
	}
	if key == "" {
		return errors.New("the key after the dot is empty")
	}
	into[key] = value
	return nil
}

// withObjects adds the objects that were given by their keys. One that was given as JSON too is
// completed, not replaced.
func withObjects(args []string, objects map[string]map[string]any) ([]string, error) {
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(strings.TrimPrefix(args[i], "--"), "=")
		keys := objects[name]
		if keys == nil || args[i] == name {
			continue
		}
		rest := args[i+1:]
		if !joined && len(rest) > 0 {
			value, rest = rest[0], rest[1:]
		}
		var whole map[string]any
		if err := json.Unmarshal([]byte(value), &whole); err != nil {
			return nil, fmt.Errorf("--%s: %w", name, err)
		}
		for k, v := range whole {
			if _, given := keys[k]; !given {
				keys[k] = v
			}
		}
		args = append(args[:i:i], rest...)
		i--
	}
	names := make([]string, 0, len(objects))
	for name := range objects {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		data, err := json.Marshal(objects[name])
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", name, err)
		}
		args = append(args, "--"+name+"="+string(data))
	}
	return args, nil
}

// names is a flag with several values: each time it is given, or with commas between them. JSON stays whole.
type names []string

func (n *names) Set(s string) error {
	if s == "" {
		return errors.New("at least one value is needed")
	}
	if t := strings.TrimSpace(s); strings.HasPrefix(t, "{") {
		*n = append(*n, t)
		return nil
	}
	*n = append(*n, strings.Split(s, ",")...)
	return nil
}
func (n *names) String() string { return strings.Join(*n, ",") }
func (n *names) Type() string   { return "strings" }

// adapterName is what requests call a LoRA adapter that was given as name=path or as JSON.
func adapterName(module string) (string, error) {
	if !strings.HasPrefix(module, "{") {
		name, _, _ := strings.Cut(module, "=")
		return name, nil
	}
	var m struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal([]byte(module), &m); err != nil {
		return "", fmt.Errorf("lora-modules %s: %w", module, err)
	}
	if m.Name == "" {
		return "", fmt.Errorf(`lora-modules %s has no name: want {"name": ..., "path": ...} or name=path`, module)
	}
	return m.Name, nil
}

// Unsimulated says of the flags given which change how a real engine runs, and change nothing here.
func Unsimulated(f *pflag.FlagSet) []string {
	var out []string
	for _, g := range ignored {
		flag := f.Lookup(g.name)
		if flag == nil || !flag.Changed || g.idle == "" || flag.Value.String() == g.idle {
			continue
		}
		text := fmt.Sprintf("--%s changes how a real engine runs, and is not simulated", g.name)
		if hint := instead[g.name]; hint != "" {
			text += ": " + hint
		}
		out = append(out, text)
	}
	return out
}

// instead are the ways to simulate what a flag that is not followed is for.
var instead = map[string]string{
	"kv-transfer-config": "--prefill-engines and --decode-engines with --kv-link move KV between engines",
	"speculative-model":  "--speculative-config drafts tokens",
}

package curve

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"spate/internal/judge/verdict"
	"spate/internal/result"
)

// Group is the runs of one curve: the same set-up under different load.
type Group struct {
	Name    string
	Members []int // positions in the set, by rising load
}

// loads are the settings that make the points of a curve, weakest first; all others make different curves.
var loads = []string{"num_prompts", "max_concurrency", "request_rate"}

// setups are the facts of a result, beside its labels, by which set-ups differ.
var setups = []string{result.TheSetting, "model", "backend", "dataset", "input_len", "output_len", "tensor_parallel_size", "server_command"}

// Groups splits a set by the named settings or, without any, by what differs between its runs besides their load.
func Groups(set []result.Entry, by []string) []Group {
	if len(by) == 0 {
		by = differing(set)
	}
	var out []Group
	at := map[string]int{}
	for i := range set {
		key := groupName(&set[i], by)
		k, ok := at[key]
		if !ok {
			k = len(out)
			at[key] = k
			out = append(out, Group{Name: key})
		}
		out[k].Members = append(out[k].Members, i)
	}
	for k := range out {
		slices.SortStableFunc(out[k].Members, func(a, b int) int { return byLoad(&set[a], &set[b]) })
		if out[k].Name == "" {
			out[k].Name = "runs"
		}
	}
	return out
}

func groupName(e *result.Entry, by []string) string {
	var parts []string
	for _, key := range by {
		v := shorten(e.Setting(key), 40)
		switch {
		case v == "":
		case len(by) > 1 && isNumber(v):
			parts = append(parts, strings.ReplaceAll(key, "_", " ")+" "+v)
		default:
			parts = append(parts, v)
		}
	}
	if e.Predicted() { // which is never on one curve with what was measured
		parts = append(parts, result.PredictedLabel)
	}
	return strings.Join(parts, " · ")
}

// differing are the settings to split by. One that is different in every run names runs, not set-ups; and when
// what is left splits the set into single runs, the finest of them goes, until curves have points.
func differing(set []result.Entry) []string {
	values := map[string]map[string]bool{}
	for i := range set {
		for _, key := range candidates(&set[i]) {
			if values[key] == nil {
				values[key] = map[string]bool{}
			}
		}
	}
	var keys []string
	for key := range values {
		for i := range set {
			values[key][set[i].Setting(key)] = true
		}
		if n := len(values[key]); n > 1 && (n < len(set) || len(set) == 2) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(values[a]), len(values[b])), cmp.Compare(a, b))
	})
	for len(keys) > 1 && len(distinct(set, keys)) == len(set) {
		keys = keys[:len(keys)-1]
	}
	return withoutEchoes(set, keys)
}

// withoutEchoes drops settings that split no further than those before them: a label that repeats the model.
func withoutEchoes(set []result.Entry, keys []string) []string {
	var out []string
	for _, key := range slices.Backward(keys) { // the finest first: it may make all others needless
		rest := append(slices.Clone(out), key)
		if len(out) == 0 || len(distinct(set, rest)) > len(distinct(set, out)) {
			out = rest
		}
	}
	slices.Reverse(out)
	return out
}

func distinct(set []result.Entry, keys []string) map[string]bool {
	out := map[string]bool{}
	for i := range set {
		var parts []string
		for _, key := range keys {
			parts = append(parts, set[i].Setting(key))
		}
		out[strings.Join(parts, "\x00")] = true
	}
	return out
}

func candidates(e *result.Entry) []string {
	out := slices.Sorted(maps.Keys(e.Labels))
	for _, key := range setups {
		if e.Setting(key) != "" {
			out = append(out, key)
		}
	}
	return slices.DeleteFunc(out, func(key string) bool { return slices.Contains(loads, key) || key == result.PredictedLabel })
}

// byLoad orders two runs by the load asked for. No rate is the highest rate.
func byLoad(a, b *result.Entry) int {
	for _, key := range slices.Backward(loads) {
		va, okA := Value(a, key)
		vb, okB := Value(b, key)
		switch {
		case okA && okB && va != vb:
			return cmp.Compare(va, vb)
		case okA && !okB && b.Setting(key) != "":
			return -1
		case !okA && okB && a.Setting(key) != "":
			return 1
		}
	}
	return 0
}

// Names are short names of the entries that differ from each other.
func Names(set []result.Entry) []string {
	out := make([]string, len(set))
	count := map[string]int{}
	for i := range set {
		out[i] = cmp.Or(set[i].Name, set[i].ID, "run")
		count[out[i]]++
	}
	seen := map[string]int{}
	for i, name := range out {
		if count[name] > 1 {
			seen[name]++
			out[i] = fmt.Sprintf("%s #%d", name, seen[name])
		}
	}
	return out
}

// Legend are the names with the verdict, for charts: whoever sees a curve sees its grade.
func Legend(set []result.Entry) []string {
	out := Names(set)
	for i := range set {
		if v := set[i].Verdict(); v != "" && v != string(verdict.Valid) {
			out[i] += " (" + v + ")"
		}
	}
	return out
}

func isNumber(s string) bool { return strings.Trim(s, "0123456789.") == "" }

func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

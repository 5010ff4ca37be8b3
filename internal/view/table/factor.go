package table

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"spate/internal/result"
)

// Factor is a setting that tells results apart.
type Factor struct {
	Key   string
	Title string
	Load  bool // more of it is more load
}

// Setting is a factor with its value.
type Setting struct {
	Factor
	Value string
}

// runKey is the factor that names the result itself; it is used when nothing else tells results apart.
const runKey = "run"

// known are the factors a result's context may have, in the order of columns. Labels come after setting.
var known = []Factor{
	{Key: result.TheSetting, Title: "Setting"},
	{Key: "model", Title: "Model"},
	{Key: "backend", Title: "Backend"},
	{Key: "dataset", Title: "Dataset"},
	{Key: "input_len", Title: "Input Len"},
	{Key: "output_len", Title: "Output Len"},
	{Key: "num_prompts", Title: "Prompts", Load: true},
	{Key: "max_concurrency", Title: "Concurrency", Load: true},
	{Key: "request_rate", Title: "QPS", Load: true},
}

// loads are the factors rows are ordered by unless asked otherwise, the first that varies.
var loads = []string{"request_rate", "max_concurrency", "num_prompts"}

// lay finds the factors of the entries and their values.
func (g *Grid) lay(entries []*result.Entry) {
	for _, e := range entries {
		g.Rows = append(g.Rows, Row{Entry: e})
	}
	for _, f := range factorsOf(entries) {
		values := make([]string, len(entries))
		for i, e := range entries {
			values[i] = valueOf(e, f.Key)
		}
		g.add(f, values)
	}
	if len(entries) > 1 && !g.distinct() {
		names := make([]string, len(entries))
		for i, e := range entries {
			names[i] = e.ID
		}
		g.add(Factor{Key: runKey, Title: "Run"}, shortIDs(names))
	}
}

// shortIDs drops the folders all names share.
func shortIDs(names []string) []string {
	cut := strings.LastIndexByte(names[0], '/') + 1
	for _, n := range names[1:] {
		for cut > 0 && (len(n) < cut || n[:cut] != names[0][:cut]) {
			cut = strings.LastIndexByte(names[0][:cut-1], '/') + 1
		}
	}
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = n[cut:]
	}
	return out
}

// add takes a factor as common when it has one value, as a column when it has several.
func (g *Grid) add(f Factor, values []string) {
	if slices.IndexFunc(values, func(v string) bool { return v != values[0] }) < 0 {
		if values[0] != "" {
			g.Common = append(g.Common, Setting{f, values[0]})
		}
		return
	}
	g.Factors = append(g.Factors, f)
	for i, v := range values {
		g.Rows[i].Settings = append(g.Rows[i].Settings, v)
	}
}

// distinct reports whether the settings tell all rows apart.
func (g *Grid) distinct() bool {
	seen := map[string]bool{}
	for _, r := range g.Rows {
		key := strings.Join(r.Settings, "\x00")
		if seen[key] {
			return false
		}
		seen[key] = true
	}
	return true
}

// factorsOf are the known factors and every label, in the order of columns. --label is the setting; that a
// result is predicted is its verdict.
func factorsOf(entries []*result.Entry) []Factor {
	labels := map[string]bool{}
	for _, e := range entries {
		for k := range e.Labels {
			labels[k] = true
		}
	}
	out := known[:1:1]
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if k != "label" && k != result.PredictedLabel && !slices.ContainsFunc(known, func(f Factor) bool { return f.Key == k }) {
			out = append(out, Factor{Key: k, Title: k})
		}
	}
	return append(out, known[1:]...)
}

// valueOf is what a result says of a factor, numbers in their shortest form so that 2 and 2.0 are one.
func valueOf(e *result.Entry, key string) string {
	n, ok := e.Number(key)
	switch {
	case !ok:
		return e.Setting(key)
	case math.IsInf(n, 1):
		return "inf"
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// group orders the rows by a factor's value, keeping the given order within one.
func (g *Grid) group(key string) error {
	if key == "none" {
		return nil
	}
	at := func(k string) int { return slices.IndexFunc(g.Factors, func(f Factor) bool { return f.Key == k }) }
	if key == "" {
		for _, k := range loads {
			if g.Group = at(k); g.Group >= 0 {
				break
			}
		}
	} else if g.Group = at(key); g.Group < 0 {
		if slices.ContainsFunc(g.Common, func(s Setting) bool { return s.Key == key }) {
			return nil // one group
		}
		return fmt.Errorf("--group-by %s: the results have no such setting%s", key, hint(key, g.settings()))
	}
	if g.Group >= 0 {
		slices.SortStableFunc(g.Rows, func(a, b Row) int { return compareValues(a.Settings[g.Group], b.Settings[g.Group]) })
	}
	return nil
}

func (g *Grid) settings() []string {
	out := []string{"none"}
	for _, f := range g.Factors {
		out = append(out, f.Key)
	}
	for _, s := range g.Common {
		out = append(out, s.Key)
	}
	return out
}

// isNumber reports whether a setting in words is a number.
func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

// compareValues orders numbers by size, before words.
func compareValues(a, b string) int {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	switch {
	case errX == nil && errY == nil:
		return cmp.Compare(x, y)
	case errX == nil:
		return -1
	case errY == nil:
		return 1
	}
	return strings.Compare(a, b)
}

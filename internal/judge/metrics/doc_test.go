package metrics

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// leaves are types the page describes once, in its section on distributions.
var leaves = []reflect.Type{reflect.TypeFor[Dist](), reflect.TypeFor[Percentiles](), reflect.TypeFor[Range]()}

// paths lists the dotted JSON names of a type's fields; skip says where to stop.
func paths(t reflect.Type, prefix string, stop []reflect.Type) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if slices.Contains(stop, t) {
			break
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || slices.Contains(stop, t) {
		return []string{prefix}
	}
	var out []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name // a field without a name in JSON shows up as one the page lacks
		}
		out = append(out, paths(f.Type, strings.TrimPrefix(prefix+"."+name, "."), stop)...)
	}
	return out
}

// documented lists the names in the first column of the tables of the given stretch of the page.
func documented(page, from, to string) []string {
	_, page, _ = strings.Cut(page, from)
	page, _, _ = strings.Cut(page, to)
	var out []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9_.]+)` \\|").FindAllStringSubmatch(page, -1) {
		out = append(out, m[1])
	}
	return out
}

func samePaths(t *testing.T, what string, want, got []string) {
	t.Helper()
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("docs/metrics.md does not describe %s %q", what, name)
		}
	}
	for _, name := range got {
		if !slices.Contains(want, name) {
			t.Errorf("docs/metrics.md describes %s %q, which does not exist", what, name)
		}
	}
}

func TestDocumentedMetrics(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	want := append(paths(reflect.TypeFor[Summary](), "", leaves), "goodput")
	samePaths(t, "metric", want, documented(page, "## vLLM's metrics", "## Validity checks"))

	members := []string{"percentiles", "ci95"}
	members = append(members, paths(reflect.TypeFor[Dist](), "", []reflect.Type{reflect.TypeFor[Percentiles](), reflect.TypeFor[Range]()})...)
	members = append(members, paths(reflect.TypeFor[quantileJSON](), "percentiles", nil)...)
	samePaths(t, "member", members, documented(page, "## Distributions", "## vLLM's metrics"))

	for _, name := range ObjectiveMetrics() {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/metrics.md does not name the objective %q", name)
		}
	}
}

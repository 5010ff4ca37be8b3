package harvest

import (
	"fmt"
	"slices"
	"strings"
)

// Label is one line that tells a result from its neighbours: the heading above it and its main settings.
func Label(r *Result) string {
	if r.Error != "" {
		return shorten(r.Error, 80)
	}
	var parts []string
	if f, ok := r.Context.Get("headings"); ok {
		if texts, ok := f.Value.([]string); ok && len(texts) > 0 {
			parts = append(parts, shorten(texts[len(texts)-1], 40))
		}
	}
	for _, name := range []string{"label", "run", "model", "dataset"} {
		if v := r.Context.Text(name); v != "" {
			if name == "model" {
				v = v[strings.LastIndexByte(v, '/')+1:]
			}
			if v = shorten(v, 30); !slices.Contains(parts, v) {
				parts = append(parts, v)
			}
		}
	}
	in, out := r.Context.Text("input_len"), r.Context.Text("output_len")
	switch {
	case in != "" && out != "":
		parts = append(parts, in+"/"+out)
	case in != "":
		parts = append(parts, "in "+in)
	case out != "":
		parts = append(parts, "out "+out)
	}
	for _, s := range []struct{ fact, mark string }{{"num_prompts", "n="}, {"request_rate", "rate="}, {"max_concurrency", "conc="}} {
		if v := r.Context.Text(s.fact); v != "" && v != "inf" && v != "Infinity" && v != "-1" {
			parts = append(parts, s.mark+v)
		}
	}
	if len(r.EngineLog) > 0 {
		parts = append(parts, fmt.Sprintf("%d engine lines", len(r.EngineLog)))
	}
	return strings.Join(parts, " · ")
}

package result

import (
	"fmt"
	"slices"
	"strings"
)

// Label is one line that tells a result from its neighbours: the heading above it and its main settings.
func (e *Entry) Label() string {
	if e.Error != "" {
		return Shorten(e.Error, 80)
	}
	var parts []string
	if f, ok := e.Context.Get("headings"); ok {
		if texts, ok := f.Value.([]string); ok && len(texts) > 0 {
			parts = append(parts, Shorten(texts[len(texts)-1], 40))
		}
	}
	for _, name := range []string{"label", "run", "model", "dataset"} {
		if v := e.Context.Text(name); v != "" {
			if name == "model" {
				v = v[strings.LastIndexByte(v, '/')+1:]
			}
			if v = Shorten(v, 30); !slices.Contains(parts, v) {
				parts = append(parts, v)
			}
		}
	}
	in, out := e.Context.Text("input_len"), e.Context.Text("output_len")
	switch {
	case in != "" && out != "":
		parts = append(parts, in+"/"+out)
	case in != "":
		parts = append(parts, "in "+in)
	case out != "":
		parts = append(parts, "out "+out)
	}
	for _, s := range []struct{ fact, mark string }{{"num_prompts", "n="}, {"request_rate", "rate="}, {"max_concurrency", "conc="}} {
		if v := e.Context.Text(s.fact); v != "" && v != "inf" && v != "Infinity" && v != "-1" {
			parts = append(parts, s.mark+v)
		}
	}
	if len(e.EngineLog) > 0 {
		parts = append(parts, fmt.Sprintf("%d engine lines", len(e.EngineLog)))
	}
	return strings.Join(parts, " · ")
}

// Shorten cuts a text for a table or a message.
func Shorten(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n]) + "..."
	}
	return s
}

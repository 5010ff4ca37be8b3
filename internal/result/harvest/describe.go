package harvest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"spate/internal/result"
)

// describe gives a result the context above it, and makes ready for the next.
func (c *collector) describe(r *result.Entry) {
	own := r.Context // what the result's own file says goes first
	r.Context = nil
	c.addHeadings(r)
	r.Context = append(r.Context, own...)
	c.addRun(r)
	c.addHints(r)
	c.addServer(r)
	if !c.repeats() {
		c.run = running{}
	}
}

func (c *collector) addHeadings(r *result.Entry) {
	if len(c.headings) == 0 {
		return
	}
	var texts []string
	for _, h := range c.headings {
		texts = append(texts, h.text)
	}
	last := c.headings[len(c.headings)-1]
	r.Context.Set(result.Fact{Name: "headings", Value: texts, From: "headings above", Line: last.line})
	for _, h := range c.headings {
		if m := keyValue.FindStringSubmatch(h.text); m != nil {
			r.Context.Propose(result.Fact{Name: "kv_cache_memory_gib", Value: json.Number(m[1]), From: "heading", Line: h.line})
		}
	}
}

// addRun tells of the run the result ended.
func (c *collector) addRun(r *result.Entry) {
	run := &c.run
	if run.cmd != nil {
		r.Context.Propose(result.Fact{Name: "command", Value: run.cmd.text, From: "command line", Line: run.cmd.line})
		args := flagsOf(run.cmd.text)
		if len(run.names) == 0 && len(args) > 0 {
			r.Context.Propose(result.Fact{Name: "arguments", Value: argumentMap(args), From: "command line", Line: run.cmd.line})
			settle(&r.Context, args, "command line", run.cmd.line)
		}
	}
	if len(run.names) > 0 {
		r.Context.Propose(result.Fact{Name: "arguments", Value: argumentMap(run.names), From: "Namespace", Line: run.nsLine})
		settle(&r.Context, run.names, "Namespace", run.nsLine)
	}
	if f, ok := run.facts.Get("driver_line"); ok && run.cmd == nil && len(run.names) == 0 {
		settle(&r.Context, flagsOf(fmt.Sprint(f.Value)), "driver", f.Line)
	}
	for _, f := range run.facts {
		r.Context.Propose(f)
	}
	if len(run.errors) > 0 {
		r.Context.Propose(result.Fact{Name: "client_error", Value: run.errors[0].Value, From: "error message", Line: run.errors[0].Line})
	}
}

// repeats reports whether one start of the client gives several results.
func (c *collector) repeats() bool {
	multi := func(a argument) bool { return a.name == "multi" && a.value == true }
	return slices.ContainsFunc(c.run.names, multi) || c.run.cmd != nil && slices.ContainsFunc(flagsOf(c.run.cmd.text), multi)
}

// addHints tells of settings by position: the n-th result below a list has its n-th value.
func (c *collector) addHints(r *result.Entry) {
	for i := range c.hints {
		h := &c.hints[i]
		switch {
		case len(h.values) == 1:
			r.Context.Propose(result.Fact{Name: h.name, Value: json.Number(h.values[0]), From: "line above", Line: h.line})
		case h.next < len(h.values):
			from := fmt.Sprintf(result.ByPosition+"%d of %d in the list above", h.next+1, len(h.values))
			r.Context.Propose(result.Fact{Name: h.name, Value: json.Number(h.values[h.next]), From: from, Line: h.line})
		}
		h.next++
	}
}

// addServer tells of the server. Its launch command belongs to the first result; later ones name it in
// their context, as long as they stand under the same heading.
func (c *collector) addServer(r *result.Entry) {
	s := &c.server
	if s.launch == nil {
		for _, f := range s.facts {
			r.Context.Propose(f)
		}
		return
	}
	from := "launch command"
	if !s.used {
		r.Launch = &s.launch.text
		s.used = true
	} else {
		if !under(c.headings, s.path) {
			return
		}
		from = "launch command, also of results above"
	}
	r.Context.Propose(result.Fact{Name: "server_command", Value: s.launch.text, From: from, Line: s.launch.line})
	if args := flagsOf(s.launch.text); len(args) > 0 {
		r.Context.Propose(result.Fact{Name: "server_arguments", Value: argumentMap(args), From: from, Line: s.launch.line})
		for _, a := range args {
			switch a.name {
			case "tensor_parallel_size", "tp", "tp_size":
				r.Context.Propose(result.Fact{Name: "tensor_parallel_size", Value: a.value, From: from, Line: s.launch.line})
			case "model", "model_path":
				r.Context.Propose(result.Fact{Name: "model", Value: a.value, From: from, Line: s.launch.line})
			}
		}
	}
	for _, f := range s.facts {
		r.Context.Propose(f)
	}
}

// under reports whether the headings are below or at path.
func under(headings, path []heading) bool {
	return len(headings) >= len(path) && slices.Equal(headings[:len(path)], path)
}

func argumentMap(args []argument) map[string]any {
	out := make(map[string]any, len(args))
	for _, a := range args {
		out[a.name] = a.value
	}
	return out
}

// settings are the facts results are most often compared by, and the arguments that give them.
var settings = []struct {
	name string
	args []string
}{
	{"model", []string{"model", "model_id"}},
	{"backend", []string{"backend", "endpoint_type"}},
	{"dataset", []string{"dataset_name", "dataset"}},
	{"num_prompts", []string{"num_prompts", "num_requests", "max_requests"}},
	{"request_rate", []string{"request_rate"}},
	{"max_concurrency", []string{"max_concurrency", "concurrency"}},
	{"seed", []string{"seed"}},
}

// settle names the settings among a run's arguments.
func settle(c *result.Context, args []argument, from string, line int) {
	get := func(name string) (any, bool) {
		i := slices.IndexFunc(args, func(a argument) bool { return a.name == name })
		if i < 0 || args[i].value == nil {
			return nil, false
		}
		return args[i].value, true
	}
	for _, s := range settings {
		for _, name := range s.args {
			if v, ok := get(name); ok {
				c.Propose(result.Fact{Name: s.name, Value: v, From: from, Line: line})
				break
			}
		}
	}
	dataset, _ := get("dataset_name")
	kind, _ := dataset.(string)
	for _, side := range []string{"input_len", "output_len"} {
		for _, name := range []string{strings.ReplaceAll(kind, "-", "_") + "_" + side, side} {
			if v, ok := get(name); ok {
				c.Propose(result.Fact{Name: side, Value: v, From: from, Line: line})
				break
			}
		}
	}
}

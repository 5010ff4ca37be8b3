package harvest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// describe gives a result the context above it, and makes ready for the next.
func (c *collector) describe(r *Result) {
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

func (c *collector) addHeadings(r *Result) {
	if len(c.headings) == 0 {
		return
	}
	var texts []string
	for _, h := range c.headings {
		texts = append(texts, h.text)
	}
	last := c.headings[len(c.headings)-1]
	r.Context.set(Fact{"headings", texts, "headings above", last.line})
	for _, h := range c.headings {
		if m := keyValue.FindStringSubmatch(h.text); m != nil {
			r.Context.propose(Fact{"kv_cache_memory_gib", json.Number(m[1]), "heading", h.line})
		}
	}
}

// addRun tells of the run the result ended.
func (c *collector) addRun(r *Result) {
	run := &c.run
	if run.cmd != nil {
		r.Context.propose(Fact{"command", run.cmd.text, "command line", run.cmd.line})
		args := flagsOf(run.cmd.text)
		if len(run.names) == 0 && len(args) > 0 {
			r.Context.propose(Fact{"arguments", argumentMap(args), "command line", run.cmd.line})
			settle(&r.Context, args, "command line", run.cmd.line)
		}
	}
	if len(run.names) > 0 {
		r.Context.propose(Fact{"arguments", argumentMap(run.names), "Namespace", run.nsLine})
		settle(&r.Context, run.names, "Namespace", run.nsLine)
	}
	if f, ok := run.facts.Get("driver_line"); ok && run.cmd == nil && len(run.names) == 0 {
		settle(&r.Context, flagsOf(fmt.Sprint(f.Value)), "driver", f.Line)
	}
	for _, f := range run.facts {
		r.Context.propose(f)
	}
	if len(run.errors) > 0 {
		r.Context.propose(Fact{"client_error", run.errors[0].Value, "error message", run.errors[0].Line})
	}
}

// repeats reports whether one start of the client gives several results.
func (c *collector) repeats() bool {
	multi := func(a argument) bool { return a.name == "multi" && a.value == true }
	return slices.ContainsFunc(c.run.names, multi) || c.run.cmd != nil && slices.ContainsFunc(flagsOf(c.run.cmd.text), multi)
}

// byPosition begins the provenance of a setting that is known only by its place in a list.
const byPosition = "position "

// addHints tells of settings by position: the n-th result below a list has its n-th value.
func (c *collector) addHints(r *Result) {
	for i := range c.hints {
		h := &c.hints[i]
		switch {
		case len(h.values) == 1:
			r.Context.propose(Fact{h.name, json.Number(h.values[0]), "line above", h.line})
		case h.next < len(h.values):
			from := fmt.Sprintf(byPosition+"%d of %d in the list above", h.next+1, len(h.values))
			r.Context.propose(Fact{h.name, json.Number(h.values[h.next]), from, h.line})
		}
		h.next++
	}
}

// addServer tells of the server. Its launch command belongs to the first result; later ones name it in
// their context, as long as they stand under the same heading.
func (c *collector) addServer(r *Result) {
	s := &c.server
	if s.launch == nil {
		for _, f := range s.facts {
			r.Context.propose(f)
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
	r.Context.propose(Fact{"server_command", s.launch.text, from, s.launch.line})
	if args := flagsOf(s.launch.text); len(args) > 0 {
		r.Context.propose(Fact{"server_arguments", argumentMap(args), from, s.launch.line})
		for _, a := range args {
			switch a.name {
			case "tensor_parallel_size", "tp", "tp_size":
				r.Context.propose(Fact{"tensor_parallel_size", a.value, from, s.launch.line})
			case "model", "model_path":
				r.Context.propose(Fact{"model", a.value, from, s.launch.line})
			}
		}
	}
	for _, f := range s.facts {
		r.Context.propose(f)
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
func settle(c *Context, args []argument, from string, line int) {
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
				c.propose(Fact{s.name, v, from, line})
				break
			}
		}
	}
	dataset, _ := get("dataset_name")
	kind, _ := dataset.(string)
	for _, side := range []string{"input_len", "output_len"} {
		for _, name := range []string{strings.ReplaceAll(kind, "-", "_") + "_" + side, side} {
			if v, ok := get(name); ok {
				c.propose(Fact{side, v, from, line})
				break
			}
		}
	}
}

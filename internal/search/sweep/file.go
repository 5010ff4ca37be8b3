package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"spate/internal/host/launch"
	"spate/internal/nearest"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
	"spate/internal/trial"
)

// maxPoints bounds a suite: more is a slip of the pen.
const maxPoints = 10_000

// New is a suite with every default in place.
func New() *Suite { return &Suite{Repeat: 1, Order: Given, Cache: trial.Salt} }

// Parse reads a suite from YAML; name is the file's, for messages.
func Parse(name string, data []byte) (*Suite, error) {
	var doc yaml.Node
	err := yaml.NewDecoder(strings.NewReader(string(data))).Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return nil, wrong("%s: the file is empty", name)
	case err != nil:
		return nil, wrong("%s: %v", name, err)
	}
	s := New()
	s.file = name
	r := &reader{file: name}
	r.suite(s, doc.Content[0])
	if r.err != nil {
		return nil, r.err
	}
	return s, nil
}

// reader walks over a suite file; the first mistake stays.
type reader struct {
	file string
	err  error
}

func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	if r.err == nil {
		r.err = wrong("%s line %d: %s", r.file, n.Line, fmt.Sprintf(format, args...))
	}
}

// field is a key a mapping may have.
type field struct {
	name string
	read func(*yaml.Node)
}

func (r *reader) suite(s *Suite, n *yaml.Node) {
	r.mapping(n, "a suite", []field{
		{"name", func(v *yaml.Node) { s.Name = r.text(v) }},
		{"about", func(v *yaml.Node) { r.text(v) }},
		{"bench", func(v *yaml.Node) { s.Bench = r.settings(v) }},
		{"grid", func(v *yaml.Node) { s.Grid = r.axes(v) }},
		{"points", func(v *yaml.Node) { s.Points = r.points(v) }},
		{"servers", func(v *yaml.Node) { s.Servers = r.servers(v) }},
		{"repeat", func(v *yaml.Node) { s.Repeat = r.count(v) }},
		{"order", func(v *yaml.Node) { s.Order = Order(r.word(v, string(Given), string(Random))) }},
		{"seed", func(v *yaml.Node) { s.Seed = uint64(r.count(v)) }},
		{"cooldown", func(v *yaml.Node) { s.Cooldown = r.duration(v) }},
		{"cache", func(v *yaml.Node) {
			s.Cache = trial.Cache(r.word(v, string(trial.Salt), string(trial.Reset), string(trial.Keep)))
		}},
		{"predict", func(v *yaml.Node) { s.Predict = r.text(v) }},
		{"sim", func(v *yaml.Node) { s.Sim = r.text(v) }},
	})
}

// mapping reads the keys of a mapping, each at most once.
func (r *reader) mapping(n *yaml.Node, what string, fields []field) {
	n = deref(n)
	if n.Kind != yaml.MappingNode {
		r.fail(n, "%s: write key: value, one on each line", what)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content) && r.err == nil; i += 2 {
		key, val := n.Content[i], deref(n.Content[i+1])
		name := fold(key.Value)
		if seen[name] {
			r.fail(key, "%s is given twice", key.Value)
		}
		seen[name] = true
		if !r.field(fields, name, val) {
			r.fail(key, "%s has no key %q%s", what, key.Value, fieldHint(key.Value, fields))
		}
	}
}

func (r *reader) field(fields []field, name string, val *yaml.Node) bool {
	for _, f := range fields {
		if f.name == name {
			f.read(val)
			return true
		}
	}
	return false
}

// fieldHint names the key that was meant, or says where flags of bench stand.
func fieldHint(word string, fields []field) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	if best := nearest.Word(word, names); best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	if known(word) != nil {
		return ": it is a flag of bench, which stand under bench:, grid: or points:"
	}
	return ": it has " + strings.Join(names, ", ")
}

func (r *reader) text(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		r.fail(n, "give a single value here")
	}
	return n.Value
}

func (r *reader) word(n *yaml.Node, choices ...string) string {
	w := r.text(n)
	for _, c := range choices {
		if w == c {
			return w
		}
	}
	r.fail(n, "%q is not one of %s%s", w, strings.Join(choices, ", "), nearest.Hint(w, choices))
	return ""
}

func (r *reader) count(n *yaml.Node) int {
	v, err := strconv.Atoi(r.text(n))
	if err != nil || v < 0 {
		r.fail(n, "%q is not a whole number of 0 or more", n.Value)
	}
	return v
}

func (r *reader) duration(n *yaml.Node) time.Duration {
	d, err := config.ParseDuration(r.text(n))
	if err != nil {
		r.fail(n, "%v", err)
	} else if d < 0 {
		r.fail(n, "%q is before now", n.Value)
	}
	return d
}

func (r *reader) texts(n *yaml.Node) map[string]string {
	out := map[string]string{}
	if n.Kind != yaml.MappingNode {
		r.fail(n, "write key: value pairs here")
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		out[n.Content[i].Value] = r.text(deref(n.Content[i+1]))
	}
	return out
}

// settings reads flags of bench, as a config file of bench has them.
func (r *reader) settings(n *yaml.Node) []Setting {
	var out []Setting
	r.flags(n, func(key, val *yaml.Node, d *flags.Def) {
		if val.Kind == yaml.ScalarNode && val.Tag == "!!null" {
			return
		}
		out = append(out, Setting{Flag: fold(key.Value), Words: r.words(val, d), line: key.Line})
	})
	return out
}

// axes reads flags with the values they take; one value is a list of one.
func (r *reader) axes(n *yaml.Node) []Axis {
	var out []Axis
	r.flags(n, func(key, val *yaml.Node, d *flags.Def) {
		a := Axis{Flag: fold(key.Value), line: key.Line}
		if val.Kind != yaml.SequenceNode {
			a.Values = [][]string{r.words(val, d)}
		} else {
			for _, item := range val.Content {
				a.Values = append(a.Values, r.words(deref(item), d))
			}
		}
		if len(a.Values) == 0 {
			r.fail(key, "%s has no value", key.Value)
		}
		out = append(out, a)
	})
	return out
}

// flags goes through a mapping whose keys are flags of bench.
func (r *reader) flags(n *yaml.Node, take func(key, val *yaml.Node, d *flags.Def)) {
	n = deref(n)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.fail(n, "write flags of bench here, one on each line, such as request-rate: 4")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content) && r.err == nil; i += 2 {
		key := n.Content[i]
		base, _, _ := strings.Cut(fold(key.Value), ".")
		d := known(base)
		switch {
		case d == nil:
			r.fail(key, "bench has no flag %q%s", key.Value, spelling(base))
		case slices.Contains(ours, d.Name):
			r.fail(key, "%s is not for single points: a sweep says it once for all of them", key.Value)
		case seen[canonical(key.Value)]:
			r.fail(key, "%s is given twice", key.Value)
		default:
			seen[canonical(key.Value)] = true
			take(key, deref(n.Content[i+1]), d)
		}
	}
}

// words turns a value into what a user would type.
func (r *reader) words(n *yaml.Node, d *flags.Def) []string {
	switch n.Kind {
	case yaml.ScalarNode:
		return []string{scalar(n)}
	case yaml.SequenceNode:
		var words []string
		for _, item := range n.Content {
			words = append(words, r.text(deref(item)))
		}
		if !takesMany(d.Name) {
			return []string{strings.Join(words, ",")}
		}
		return words
	case yaml.MappingNode:
		return r.object(n, d)
	}
	r.fail(n, "a value is wanted here")
	return nil
}

// object turns nested keys into JSON, or into KEY=VALUE words.
func (r *reader) object(n *yaml.Node, d *flags.Def) []string {
	if d.Type() == "JSON" || d.Type() == "RATIO" {
		var tree any
		if err := n.Decode(&tree); err != nil {
			r.fail(n, "%v", err)
			return nil
		}
		raw, err := json.Marshal(tree)
		if err != nil {
			r.fail(n, "%v", err)
		}
		return []string{string(raw)}
	}
	between := "="
	if strings.Contains(d.Type(), ":") {
		between = ":"
	}
	var words []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		words = append(words, n.Content[i].Value+between+r.text(deref(n.Content[i+1])))
	}
	return words
}

// scalar is the word for a YAML scalar.
func scalar(n *yaml.Node) string {
	if f, err := strconv.ParseFloat(strings.TrimPrefix(strings.ToLower(n.Value), "."), 64); n.Tag == "!!float" && err == nil && math.IsInf(f, 1) {
		return "inf"
	}
	return n.Value
}

func (r *reader) points(n *yaml.Node) [][]Axis {
	var out [][]Axis
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		r.fail(n, "points is a list, such as - {num-prompts: 10, random-input-len: 1024}")
		return nil
	}
	for _, item := range n.Content {
		axes := r.axes(item)
		if len(axes) == 0 {
			r.fail(item, "the point is empty")
		}
		out = append(out, axes)
	}
	return out
}

func (r *reader) servers(n *yaml.Node) []Server {
	var out []Server
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		r.fail(n, "servers is a list, such as - {name: plain, bench: {base-url: http://gpu1:8000}}")
		return nil
	}
	for _, item := range n.Content {
		s := Server{line: item.Line}
		shape := &Shape{}
		r.mapping(item, "a server", []field{
			{"name", func(v *yaml.Node) { s.Name = r.text(v) }},
			{"labels", func(v *yaml.Node) { s.Labels = r.texts(v) }},
			{"bench", func(v *yaml.Node) { s.Bench = r.settings(v) }},
			{"grid", func(v *yaml.Node) { shape.Grid, s.Shape = r.axes(v), shape }},
			{"points", func(v *yaml.Node) { shape.Points, s.Shape = r.points(v), shape }},
			{"launch", func(v *yaml.Node) { s.Launch = r.launch(v) }},
			{"sim", func(v *yaml.Node) { s.Sim = r.text(v) }},
		})
		if s.Name == "" {
			r.fail(item, "a server has no name")
		}
		for i := range out {
			if out[i].Name == s.Name {
				r.fail(item, "two servers are called %q", s.Name)
			}
		}
		out = append(out, s)
	}
	return out
}

func (r *reader) launch(n *yaml.Node) *Launch {
	l := &Launch{Ready: defaultReady, Grace: defaultGrace}
	n = deref(n)
	if n.Kind != yaml.MappingNode {
		l.Command = r.command(n)
	} else {
		r.mapping(n, "launch", []field{
			{"command", func(v *yaml.Node) { l.Command = r.command(v) }},
			{"stop", func(v *yaml.Node) { l.Stop = r.command(v) }},
			{"env", func(v *yaml.Node) { l.Env = r.texts(v) }},
			{"gpus", func(v *yaml.Node) { l.GPUs = r.gpus(v) }},
			{"url", func(v *yaml.Node) { l.URL = r.text(v) }},
			{"ready", func(v *yaml.Node) { l.Ready = r.duration(v) }},
			{"grace", func(v *yaml.Node) { l.Grace = r.duration(v) }},
		})
	}
	if len(l.Command) == 0 {
		r.fail(n, "launch has no command")
	}
	return l
}

// gpus are the numbers or UUIDs of some, with commas.
func (r *reader) gpus(n *yaml.Node) string {
	text := r.text(n)
	if _, err := launch.GPUList(text); err != nil {
		r.fail(n, "gpus: %v", err)
	}
	return text
}

// command is a line for the shell, or a list of a program and its arguments.
func (r *reader) command(n *yaml.Node) []string {
	if n.Kind == yaml.SequenceNode {
		var out []string
		for _, item := range n.Content {
			out = append(out, r.text(deref(item)))
		}
		return out
	}
	if text := strings.TrimSpace(r.text(n)); text != "" {
		return []string{text}
	}
	return nil
}

// deref follows YAML's references.
func deref(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

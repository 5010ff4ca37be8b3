package suggest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Kind is what values a parameter takes.
type Kind string

// The kinds of parameters.
const (
	Int    Kind = "int"
	Float  Kind = "float"
	Choice Kind = "choice"
	Switch Kind = "switch" // a flag that is given or not
)

// Param is one thing that may be set.
type Param struct {
	Name    string
	Kind    Kind
	Low     float64 // of numbers, both ends included
	High    float64
	Log     bool    // equal ratios are equally far apart
	Step    float64 // numbers are multiples of it from Low on; 0: any
	Values  []string
	Default string
	If      *If
	Memory  int  // more of it needs more memory: 1; less: -1; not known: 0
	Neutral bool // it is known to need no more memory whatever it is
}

// If makes a parameter depend on another: it exists only while that one has one of the values.
type If struct {
	Name string
	Is   []string
}

// Settings are values by name; parameters that do not exist in them are absent. Switches are "true" or
// "false".
type Settings map[string]string

// Space is what may be set, and which combinations are allowed.
type Space struct {
	Params []Param
	Allow  func(Settings) error // nil: all are; the error says why not
}

// Validate names what is wrong with a space.
func (s *Space) Validate() error {
	var all []error
	seen := map[string]bool{}
	for i := range s.Params {
		p := &s.Params[i]
		if seen[p.Name] {
			all = append(all, fmt.Errorf("%s is there twice", p.Name))
		}
		if p.If != nil && !seen[p.If.Name] {
			all = append(all, fmt.Errorf("%s depends on %q, which must stand above it", p.Name, p.If.Name))
		}
		seen[p.Name] = true
		if err := p.validate(); err != nil {
			all = append(all, fmt.Errorf("%s: %w", p.Name, err))
		}
	}
	if len(s.Params) == 0 {
		all = append(all, errors.New("the space has no parameter"))
	}
	return errors.Join(all...)
}

func (p *Param) validate() error {
	switch p.Kind {
	case Switch:
		return nil
	case Choice:
		if len(p.Values) == 0 {
			return errors.New("a choice needs values")
		}
		return nil
	case Int, Float:
	default:
		return fmt.Errorf("kind %q is not one of int, float, choice, switch", p.Kind)
	}
	switch {
	case math.IsNaN(p.Low) || math.IsNaN(p.High) || p.High < p.Low:
		return fmt.Errorf("the range %v to %v is empty", p.Low, p.High)
	case p.Log && p.Low <= 0:
		return fmt.Errorf("a log scale begins above 0, not at %v", p.Low)
	case p.Step < 0:
		return fmt.Errorf("the step %v is negative", p.Step)
	}
	return nil
}

// Allowed says whether settings may be tried, and if not why.
func (s *Space) Allowed(set Settings) error {
	if s.Allow == nil {
		return nil
	}
	return s.Allow(set)
}

// Defaults are the default settings. Parameters without a default are left out.
func (s *Space) Defaults() Settings {
	out := Settings{}
	for i := range s.Params {
		p := &s.Params[i]
		switch {
		case !p.exists(out):
		case p.Default != "":
			out[p.Name] = p.Default
		case p.Kind == Switch:
			out[p.Name] = "false"
		}
	}
	return out
}

// Key tells settings apart.
func (s *Space) Key(set Settings) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(set)) {
		fmt.Fprintf(&b, "%s=%s\n", name, set[name])
	}
	return b.String()
}

// exists reports whether the parameter is there under the settings before it.
func (p *Param) exists(set Settings) bool {
	return p.If == nil || slices.Contains(p.If.Is, set[p.If.Name])
}

// absent is the place of a parameter that does not exist.
const absent = -1

// Settings are the values at a place: a number from 0 to 1 for each number, an index for each choice.
func (s *Space) Settings(at []float64) Settings {
	out := Settings{}
	for i := range s.Params {
		if p := &s.Params[i]; at[i] != absent && p.exists(out) {
			out[p.Name] = p.text(at[i])
		}
	}
	return out
}

// place is the inverse of Settings. Parameters that settings leave out are absent.
func (s *Space) place(set Settings) []float64 {
	out := make([]float64, len(s.Params))
	for i := range s.Params {
		text, ok := set[s.Params[i].Name]
		if out[i] = absent; ok {
			out[i] = s.Params[i].unit(text)
		}
	}
	return out
}

// values is how many a choice has; 0 for numbers.
func (p *Param) values() int {
	switch p.Kind {
	case Choice:
		return len(p.Values)
	case Switch:
		return 2
	}
	return 0
}

// text is the value at a place of the parameter.
func (p *Param) text(at float64) string {
	switch p.Kind {
	case Switch:
		return strconv.FormatBool(at >= 0.5)
	case Choice:
		return p.Values[min(max(int(at), 0), len(p.Values)-1)]
	}
	v := p.Low + at*(p.High-p.Low)
	if p.Log {
		v = p.Low * math.Pow(p.High/p.Low, at)
	}
	if p.Step > 0 {
		v = p.Low + math.Round((v-p.Low)/p.Step)*p.Step
		if v > p.High+p.Step*1e-9 {
			v -= p.Step
		}
	}
	if p.Kind == Int {
		return strconv.FormatInt(int64(math.Round(min(max(v, p.Low), p.High))), 10)
	}
	return strconv.FormatFloat(roundTo(min(max(v, p.Low), p.High), 6), 'f', -1, 64)
}

// roundTo keeps so many digits that count: nobody types more.
func roundTo(v float64, digits int) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, float64(digits-1)-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// unit is the place of a value.
func (p *Param) unit(text string) float64 {
	switch p.Kind {
	case Switch:
		if text == "true" {
			return 1
		}
		return 0
	case Choice:
		return float64(max(slices.Index(p.Values, text), 0))
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || p.High == p.Low {
		return 0
	}
	if p.Log {
		return clamp(math.Log(v/p.Low) / math.Log(p.High/p.Low))
	}
	return clamp((v - p.Low) / (p.High - p.Low))
}

func clamp(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return min(max(v, 0), 1)
}

// draw is a place at random, with what does not exist absent.
func (s *Space) draw(r *rand.Rand) []float64 {
	at := make([]float64, len(s.Params))
	for i := range s.Params {
		if n := s.Params[i].values(); n > 0 {
			at[i] = float64(r.IntN(n))
		} else {
			at[i] = r.Float64()
		}
	}
	s.drop(at)
	return at
}

// drop marks what does not exist at a place.
func (s *Space) drop(at []float64) {
	set := Settings{}
	for i := range s.Params {
		p := &s.Params[i]
		if at[i] == absent || !p.exists(set) {
			at[i] = absent
			continue
		}
		set[p.Name] = p.text(at[i])
	}
}

// grid are all combinations, numbers at so many places.
func (s *Space) grid(places int) []Settings {
	at := make([]float64, len(s.Params))
	seen := map[string]bool{}
	var out []Settings
	var fill func(i int)
	fill = func(i int) {
		if i == len(s.Params) {
			full := slices.Clone(at)
			s.drop(full)
			set := s.Settings(full)
			if key := s.Key(set); !seen[key] {
				seen[key] = true
				out = append(out, set)
			}
			return
		}
		for _, v := range s.Params[i].places(places) {
			at[i] = v
			fill(i + 1)
		}
	}
	fill(0)
	return out
}

// places are where a grid looks at a parameter.
func (p *Param) places(n int) []float64 {
	if k := p.values(); k > 0 {
		out := make([]float64, k)
		for i := range out {
			out[i] = float64(i)
		}
		return out
	}
	if n < 2 || p.High == p.Low {
		return []float64{0.5}
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(i) / float64(n-1)
	}
	return out
}

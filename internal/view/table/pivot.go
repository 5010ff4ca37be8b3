package table

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"spate/internal/judge/stats"
	"spate/internal/result"
)

// Pivot sets the levels of one factor, such as engines or GPUs, side by side: a row for each condition they were
// measured under, a column for each level.
type Pivot struct {
	Factor     Factor
	Levels     []string // in the order they were found; the baseline is one of them
	Baseline   int
	Conditions []string // the settings of each row, in words
	Measures   []Measured
	Note       string // what is left out
}

// Measured is one figure of all cells.
type Measured struct {
	Column
	High  bool
	Cells [][]Spot // by condition, by level
}

// Spot is one cell.
type Spot struct {
	Value float64 // median of the repeats; NaN: none
	Text  string  // as tables show it; a verdict where the figure may not be used
	Best  bool    // of its row
	Ratio float64 // to the baseline; NaN: none
	Runs  int
}

// asked are the settings that say what was asked of a server: conditions under which others are compared.
var asked = []string{"model", "dataset", "input_len", "output_len", "num_prompts", "max_concurrency", "request_rate"}

// answered are the settings that say who answered, the most telling first. Labels and the rest come between
// the last of them and the setting's name; the model is compared where nothing else differs.
var answered = []string{"engine", "backend", "gpu", "version"}

// repeated are labels that number repeats or name a whole series: they tell nothing apart on purpose.
var repeated = []string{"repeat", "round", "probe", "series", "sweep", "capacity", "tune", "phase", result.PredictedLabel}

// beside are server flags that change no figure: they say where a server is, or repeat what was asked.
var beside = []string{"model", "model-path", "model_path", "port", "host", "served-model-name", "served_model_name", "api-key", "api_key", "download-dir", "download_dir", "tokenizer"}

// seen are the settings of the results that vary, with their values.
type seen struct {
	entries []*result.Entry
	keys    []string // in the order of preference as factor
	all     []string // also those with one value
	value   map[string][]string
}

func look(entries []*result.Entry) *seen {
	s := &seen{entries: entries, value: map[string][]string{}}
	names := slices.Clone(answered)
	for _, f := range append(factorsOf(entries), known[0]) {
		if !slices.Contains(asked, f.Key) && !slices.Contains(repeated, f.Key) && f.Key != result.TheSetting {
			names = append(names, f.Key)
		}
	}
	for _, e := range entries {
		for _, k := range e.Flags() {
			if !slices.Contains(beside, k) {
				names = append(names, k)
			}
		}
	}
	names = append(append(names, result.TheSetting), asked...)
	for _, k := range names {
		if s.value[k] != nil {
			continue
		}
		values := make([]string, len(entries))
		for i, e := range entries {
			values[i] = valueOf(e, k)
		}
		s.value[k] = values
		if slices.ContainsFunc(values, func(v string) bool { return v != "" }) {
			s.all = append(s.all, k)
		}
		if len(distinct(values)) > 1 {
			s.keys = append(s.keys, k)
		}
	}
	return s
}

func distinct(values []string) []string {
	var out []string
	for _, v := range values {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// under is what a row is equal in: its values of some settings.
func (s *seen) under(i int, keys []string) string {
	parts := make([]string, len(keys))
	for k, key := range keys {
		parts[k] = s.value[key][i]
	}
	return strings.Join(parts, "\x00")
}

// meets counts the conditions under which a setting has more than one value.
func (s *seen) meets(key string, conditions []string) int {
	levels := map[string]map[string]bool{}
	for i := range s.entries {
		if v := s.value[key][i]; v != "" {
			at := s.under(i, conditions)
			if levels[at] == nil {
				levels[at] = map[string]bool{}
			}
			levels[at][v] = true
		}
	}
	n := 0
	for _, l := range levels {
		if len(l) > 1 {
			n++
		}
	}
	return n
}

// varying are the conditions that vary, without one setting.
func (s *seen) varying(but string) []string {
	return slices.DeleteFunc(slices.Clone(asked), func(k string) bool { return k == but || !slices.Contains(s.keys, k) })
}

func underscored(name string) string { return strings.ReplaceAll(name, "-", "_") }

// factor is the setting compared: the one asked for, or the one whose values meet under the most conditions.
func (s *seen) factor(by string) (string, error) {
	if by != "" {
		if i := slices.IndexFunc(s.all, func(k string) bool { return underscored(k) == underscored(by) }); i >= 0 && !slices.Contains(s.all, by) {
			by = s.all[i] // as a command line spells it, or as a log does
		}
		if !slices.Contains(s.all, by) {
			return "", fmt.Errorf("--by %s: the results have no such setting%s", by, hint(by, s.all))
		}
		if !slices.Contains(s.keys, by) {
			return "", fmt.Errorf("--by %s: it is %s in all results%s", by, s.value[by][0], s.varies())
		}
		return by, nil
	}
	best, most := "", 0
	for _, k := range s.keys {
		if k != "model" && slices.Contains(asked, k) {
			continue
		}
		if n := s.meets(k, s.varying(k)); n > most {
			best, most = k, n
		}
	}
	return best, nil
}

func (s *seen) varies() string {
	if len(s.keys) == 0 {
		return "; nothing else varies either"
	}
	return "; what varies is " + strings.Join(s.keys, ", ")
}

// conditions are the settings a row of the pivot stands for: what was asked, and whatever else varies that
// neither what was asked nor the factor decides.
func (s *seen) conditions(factor string) []string {
	out := s.varying(factor)
	for _, k := range s.keys {
		if k == factor || slices.Contains(out, k) {
			continue
		}
		by := append(slices.Clone(out), factor)
		if s.decided(k, by) {
			continue
		}
		out = append(out, k)
	}
	return out
}

// decided reports whether the values of some settings decide that of another.
func (s *seen) decided(key string, by []string) bool {
	of := map[string]string{}
	for i := range s.entries {
		at, v := s.under(i, by), s.value[key][i]
		if was, ok := of[at]; ok && was != v {
			return false
		}
		of[at] = v
	}
	return true
}

// NewPivot sets the results of a factor's levels side by side. by names the factor, or is empty: then it is found,
// and without any there is no pivot. baseline names a level; empty: the one measured under the most conditions.
func NewPivot(set []result.Entry, by, baseline string, columns []string) (*Pivot, error) {
	entries := measured(set)
	s := look(entries)
	key, err := s.factor(by)
	if err != nil || key == "" {
		return nil, err
	}
	p := &Pivot{Factor: Factor{Key: key, Title: factorTitle(key)}, Note: result.BasisOf(entries).Note}
	for _, v := range distinct(s.value[key]) {
		if v != "" {
			p.Levels = append(p.Levels, v)
		}
	}
	cells := p.lay(s, s.conditions(key))
	if by == "" && len(p.Conditions) == 0 {
		return nil, nil //nolint:nilnil // nothing differs on purpose
	}
	if err := p.base(baseline, cells); err != nil {
		return nil, err
	}
	return p, p.measure(entries, cells, columns)
}

// order is that of the conditions: as they were found, but numbers by size.
func (s *seen) order(conditions []string) []int {
	out := make([]int, len(s.entries))
	for i := range out {
		out[i] = i
	}
	for _, key := range slices.Backward(conditions) {
		found := distinct(s.value[key])
		slices.SortStableFunc(out, func(a, b int) int {
			x, y := s.value[key][a], s.value[key][b]
			if isNumber(x) && isNumber(y) {
				return compareValues(x, y)
			}
			return slices.Index(found, x) - slices.Index(found, y)
		})
	}
	return out
}

// lay finds the rows: for each condition and level the results.
func (p *Pivot) lay(s *seen, conditions []string) [][][]*result.Entry {
	at := map[string]int{}
	var cells [][][]*result.Entry
	for _, i := range s.order(conditions) {
		e := s.entries[i]
		level := slices.Index(p.Levels, s.value[p.Factor.Key][i])
		if level < 0 {
			continue
		}
		key := s.under(i, conditions)
		k, ok := at[key]
		if !ok {
			k = len(cells)
			at[key] = k
			cells = append(cells, make([][]*result.Entry, len(p.Levels)))
			p.Conditions = append(p.Conditions, s.words(i, conditions))
		}
		cells[k][level] = append(cells[k][level], e)
	}
	return cells
}

// words are a row's conditions as people read them.
func (s *seen) words(i int, conditions []string) string {
	var parts []string
	for _, key := range conditions {
		v := s.value[key][i]
		switch {
		case v == "":
		case key == "model" || key == "dataset" || key == result.TheSetting:
			parts = append(parts, v)
		default:
			parts = append(parts, factorTitle(key)+" "+v)
		}
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, ", ")
}

func factorTitle(key string) string {
	if i := slices.IndexFunc(known, func(f Factor) bool { return f.Key == key }); i >= 0 {
		return known[i].Title
	}
	return key
}

func (p *Pivot) base(asked string, cells [][][]*result.Entry) error {
	if asked != "" {
		if p.Baseline = slices.Index(p.Levels, asked); p.Baseline < 0 {
			p.Baseline = 0
			return fmt.Errorf("--baseline %s: no result has this %s%s", asked, p.Factor.Title, hint(asked, p.Levels))
		}
		return nil
	}
	most := -1
	for l := range p.Levels {
		n := 0
		for _, row := range cells {
			if len(row[l]) > 0 {
				n++
			}
		}
		if n > most {
			most, p.Baseline = n, l
		}
	}
	return nil
}

// measure fills in the figures: those asked for, or the usual ones that are there.
func (p *Pivot) measure(entries []*result.Entry, cells [][][]*result.Entry, asked []string) error {
	if _, err := columns(entries, asked); err != nil {
		return err
	}
	keys := asked
	if len(keys) == 0 {
		for _, m := range measures {
			keys = append(keys, m.Key())
		}
	}
	basis := result.BasisOf(entries)
	for _, key := range keys {
		m := Measured{Column: Column{key, title(key)}, High: strings.Contains(key, "throughput") || strings.Contains(key, "goodput") || key == "completed"}
		found := false
		for _, row := range cells {
			spots := make([]Spot, len(row))
			for l := range row {
				spots[l] = spot(row[l], key, basis)
				found = found || spots[l].Runs > 0
			}
			p.rank(spots, m.High)
			m.Cells = append(m.Cells, spots)
		}
		if found {
			p.Measures = append(p.Measures, m)
		}
	}
	return nil
}

// spot is the median of results that may be used; what may not is named.
func spot(list []*result.Entry, key string, basis result.Basis) Spot {
	out := Spot{Value: math.NaN(), Ratio: math.NaN(), Text: "-"}
	var values []float64
	grades := map[string]bool{}
	for _, e := range list {
		if v, ok := e.Float(key); ok && basis.Holds(e) && !math.IsNaN(v) {
			values, out.Text = append(values, v), Cell(e, key)
		} else if !basis.Holds(e) {
			grades[e.Grade()] = true
		}
	}
	switch out.Runs = len(values); {
	case out.Runs > 1:
		out.Text = fmt.Sprintf("%.2f", stats.Median(values))
		fallthrough
	case out.Runs == 1:
		out.Value = stats.Median(values)
	case len(grades) > 0:
		out.Text = strings.Join(slices.Sorted(maps.Keys(grades)), ", ")
	}
	return out
}

// rank marks the best of a row and sets all in relation to the baseline.
func (p *Pivot) rank(row []Spot, high bool) {
	best, n := -1, 0
	for l := range row {
		if math.IsNaN(row[l].Value) {
			continue
		}
		n++
		if best < 0 || (row[l].Value > row[best].Value) == high && row[l].Value != row[best].Value {
			best = l
		}
		if base := row[p.Baseline].Value; base > 0 {
			row[l].Ratio = row[l].Value / base
		}
	}
	worse := slices.ContainsFunc(row, func(s Spot) bool { return !math.IsNaN(s.Value) && s.Value != row[best].Value })
	for l := range row {
		row[l].Best = n > 1 && worse && row[l].Value == row[best].Value // equal ones share it; where all are equal none has it
	}
}

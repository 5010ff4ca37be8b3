package store

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"spate/internal/call"
	"spate/internal/figure"
	"spate/internal/nearest"
)

// Op compares a figure with a bound.
type Op string

// The comparisons, as SQL has them too.
const (
	Less    Op = "<"
	AtMost  Op = "<="
	More    Op = ">"
	AtLeast Op = ">="
	Equal   Op = "="
	Unequal Op = "<>"
)

// Bound is a condition on a figure.
type Bound struct {
	Figure string
	Op     Op
	Value  float64
}

// String is the bound as ParseBound reads it.
func (b Bound) String() string {
	return b.Figure + string(b.Op) + strconv.FormatFloat(b.Value, 'g', -1, 64)
}

var (
	boundForm  = regexp.MustCompile(`^\s*([A-Za-z0-9_.%/ -]+?)\s*(<=|>=|<>|!=|==|<|>|=)\s*(\S+)\s*$`)
	boundHint  = `a bound is a figure, a comparison and a number, as in "mean_ttft_ms<200" or "output_throughput>=1000"`
	boundWords = map[string]Op{"!=": Unequal, "==": Equal}
)

// ParseBound reads a condition such as mean_ttft_ms<200. The unit of latencies may be left out of the
// name, and stand on the number: p99_ttft<1.5s.
func ParseBound(text string) (Bound, error) {
	m := boundForm.FindStringSubmatch(text)
	if m == nil {
		return Bound{}, fmt.Errorf("%q is no bound: %s", text, boundHint)
	}
	b := Bound{Figure: m[1], Op: Op(m[2])}
	if op, ok := boundWords[m[2]]; ok {
		b.Op = op
	}
	if r, err := figure.Find(b.Figure); err == nil && r.Stat != "" {
		b.Figure = r.Key()
	}
	var err error
	if b.Value, err = strconv.ParseFloat(m[3], 64); err == nil {
		if math.IsNaN(b.Value) {
			return Bound{}, fmt.Errorf("%q: nothing compares with NaN", text)
		}
		return b, nil
	}
	if d, bad := time.ParseDuration(m[3]); bad == nil && strings.HasSuffix(b.Figure, "_ms") {
		b.Value = call.Millis(d)
		return b, nil
	}
	return Bound{}, fmt.Errorf("%q: %q is no number: %s", text, m[3], boundHint)
}

// ParseLabel reads name=value, name (with any value) or name=pattern.
func ParseLabel(text string) (Label, error) {
	name, value, has := strings.Cut(text, "=")
	name = strings.TrimSpace(name)
	if name == "" {
		return Label{}, fmt.Errorf("%q is not a label: write name=value, or a name alone", text)
	}
	return Label{Name: name, Value: strings.TrimSpace(value), Any: !has}, nil
}

// queryWords are what a query may ask for.
var queryWords = []string{"label", "model", "engine", "backend", "gpu", "format", "verdict", "where"}

// IsQuery reports whether a reference asks for a set of results rather than naming one.
func IsQuery(ref string) bool {
	word, _, has := strings.Cut(ref, ":")
	for _, w := range queryWords {
		if has && w == word {
			return true
		}
	}
	return false
}

// ParseQuery reads a set of results in one word: conditions such as label:engine=x, model:Qwen* or
// where:mean_ttft_ms<200, with commas between them when all must hold.
func ParseQuery(text string) (Filter, error) {
	var f Filter
	if err := f.Narrow(text); err != nil {
		return Filter{}, err
	}
	return f, nil
}

// Narrow adds the conditions of a query.
func (f *Filter) Narrow(query string) error {
	for part := range strings.SplitSeq(query, ",") {
		word, value, has := strings.Cut(strings.TrimSpace(part), ":")
		if !has || value == "" {
			return fmt.Errorf("%q in %q is not a condition: write label:name=value, model:Qwen* or where:mean_ttft_ms<200", part, query)
		}
		if err := f.add(word, value); err != nil {
			return err
		}
	}
	return nil
}

func (f *Filter) add(word, value string) error {
	switch word {
	case "label":
		l, err := ParseLabel(value)
		f.Labels = append(f.Labels, l)
		return err
	case "where":
		b, err := ParseBound(value)
		f.Where = append(f.Where, b)
		return err
	case "model":
		f.Model = value
	case "engine":
		f.Engine = value
	case "backend":
		f.Backend = value
	case "gpu":
		f.GPU = value
	case "format":
		f.Format = value
	case "verdict":
		f.Verdict = value
	default:
		return fmt.Errorf("results cannot be selected by %q%s", word, nearest.Hint(word, queryWords))
	}
	return nil
}

// timeForms are how people write moments, the local time zone meant where none is named.
var timeForms = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04", time.DateOnly, "20060102"}

// ParseUntil is ParseWhen for the end of a time: a date means the whole day.
func ParseUntil(text string, now time.Time) (time.Time, error) {
	at, err := ParseWhen(text, now)
	for _, form := range []string{time.DateOnly, "20060102"} {
		if day, isDate := time.ParseInLocation(form, strings.TrimSpace(text), now.Location()); isDate == nil {
			return day.AddDate(0, 0, 1), nil
		}
	}
	return at, err
}

// ParseWhen reads a moment: a date, with or without a time, or how long ago, as in 90m, 36h, 7d or 2w.
func ParseWhen(text string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	for _, form := range timeForms {
		if at, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return at, nil
		}
	}
	days := map[byte]float64{'d': 1, 'w': 7}
	if n := len(text); n > 1 && days[text[n-1]] > 0 {
		if v, err := strconv.ParseFloat(text[:n-1], 64); err == nil && v >= 0 && v*days[text[n-1]] < 36500 {
			return now.Add(-time.Duration(v * days[text[n-1]] * 24 * float64(time.Hour))), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time: write a date (2026-11-15, 2026-11-15T12:00) or how long ago (90m, 36h, 7d, 2w)", text)
}

package flags

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"spate/internal/figure"
	"spate/internal/load/lengths"
	"spate/internal/load/schedule"
	"spate/internal/pytext"
	"spate/internal/safe/secret"
	"spate/internal/settings/config"
)

// arity says how many words a flag takes.
type arity int

const (
	one  arity = iota
	none       // a switch
	tri        // a switch with a --no- form and a third state: not said
	many       // one or more words, and it may be given again
)

// value is the place in the settings a flag writes to. It reads text as typed, and writes itself
// back as text and as Python would show it.
type value struct {
	kind   string // placeholder in help
	arity  arity
	set    func(text string) error
	reset  func()
	text   func() string // empty when not set
	python func() string
	path   func(keys []string, text string, list bool) error // JSON values only
	empty  bool                                              // a list flag may stand without any word
	pair   string                                            // how a map in a config file becomes words: "=", ":" or "json"
}

// Set reads one word.
func (v *value) Set(text string) error { return v.set(text) }

// String is the value as typed.
func (v *value) String() string { return v.text() }

// Type is the placeholder shown in help.
func (v *value) Type() string { return v.kind }

func str(p *string) *value { return enum(p) }

// enum holds any string type; the flag's choices are checked before it is set.
func enum[T ~string](p *T) *value {
	return &value{
		kind:   "TEXT",
		set:    func(s string) error { *p = T(s); return nil },
		reset:  func() { *p = "" },
		text:   func() string { return string(*p) },
		python: func() string { return pyText(string(*p)) },
	}
}

// literal is text that Python prints without quotes.
func literal(p *string) *value {
	v := str(p)
	v.python = func() string { return *p }
	return v
}

func hiddenText(p *secret.Value) *value {
	v := enum(p)
	v.text = p.String
	return v
}

func readInt(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(strings.TrimSpace(text), "_", ""), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errors.New("is out of range")
	case err != nil && strings.Contains(text, ","):
		return 0, errors.New("is not one whole number; spate sweep takes several, with commas")
	case err != nil:
		return 0, errors.New("is not a whole number")
	}
	return n, nil
}

func integer[T int | int64](p *T) *value {
	return &value{
		kind: "INT",
		set: func(s string) error {
			n, err := readInt(s)
			*p = T(n)
			return err
		},
		reset:  func() { *p = 0 },
		text:   func() string { return fmt.Sprint(*p) },
		python: func() string { return fmt.Sprint(*p) },
	}
}

func maybeInt(p **int) *value {
	return &value{
		kind: "INT",
		set: func(s string) error {
			n, err := readInt(s)
			i := int(n)
			*p = &i
			return err
		},
		reset: func() { *p = nil },
		text: func() string {
			if *p == nil {
				return ""
			}
			return strconv.Itoa(**p)
		},
		python: func() string {
			if *p == nil {
				return "None"
			}
			return strconv.Itoa(**p)
		},
	}
}

// spread is a length, or a law by which lengths are drawn.
func spread(p **int, law *string) *value {
	v := maybeInt(p)
	number, text := v.set, v.text
	v.set = func(s string) error {
		if !strings.Contains(s, "(") {
			*law = ""
			return number(s)
		}
		d, err := lengths.ParseDist(s)
		if err != nil {
			return err
		}
		*p, *law = nil, d.String()
		return nil
	}
	v.reset = func() { *p, *law = nil, "" }
	v.text = func() string {
		if *law != "" {
			return *law
		}
		return text()
	}
	v.python = func() string { return cmp.Or(v.text(), "None") }
	return v
}

// law is a distribution, or a number.
func law(p *string) *value {
	v := str(p)
	v.set = func(s string) error {
		d, err := lengths.ParseDist(s)
		if err == nil {
			*p = d.String()
		}
		return err
	}
	return v
}

// thinkTime is a duration or a law in seconds.
func thinkTime(p *string) *value {
	v := law(p)
	read := v.set
	v.set = func(s string) error {
		d, err := config.ParseDuration(s)
		switch {
		case err != nil:
			return read(s)
		case d == 0:
			*p = ""
			return nil
		}
		return read(strconv.FormatFloat(d.Seconds(), 'g', -1, 64))
	}
	return v
}

func readFloat(text string) (float64, error) {
	f, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(text), "_", ""), 64)
	switch {
	case err != nil && strings.Contains(text, ","):
		return 0, errors.New("is not one number; spate sweep takes several, with commas")
	case err != nil || math.IsNaN(f):
		return 0, errors.New("is not a number")
	}
	return f, nil
}

func float[T ~float64](p *T) *value {
	return &value{
		kind: "NUM",
		set: func(s string) error {
			f, err := readFloat(s)
			*p = T(f)
			return err
		},
		reset:  func() { *p = 0 },
		text:   func() string { return pytext.Float(float64(*p)) },
		python: func() string { return pytext.Float(float64(*p)) },
	}
}

// finite refuses inf, which JSON could not carry.
func finite(p *float64) *value {
	v := float(p)
	v.set = func(s string) error {
		f, err := readFloat(s)
		if err == nil && math.IsInf(f, 0) {
			err = errors.New("is not a finite number")
		}
		*p = f
		return err
	}
	return v
}

func maybeFloat(p **float64) *value {
	v := &value{kind: "NUM", reset: func() { *p = nil }}
	v.set = func(s string) error {
		var f float64
		err := finite(&f).set(s)
		*p = &f
		return err
	}
	v.text = func() string {
		if *p == nil {
			return ""
		}
		return pytext.Float(**p)
	}
	v.python = func() string { return cmp.Or(v.text(), "None") }
	return v
}

func readBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, errors.New("is neither true nor false")
}

func toggle(p *bool) *value {
	return &value{
		arity: none,
		set: func(s string) (err error) {
			*p, err = readBool(s)
			return err
		},
		reset:  func() { *p = false },
		text:   func() string { return strconv.FormatBool(*p) },
		python: func() string { return pytext.Bool(*p) },
	}
}

// optional is a switch that may be followed by a word.
func optional(on *bool, p *string, kind string) *value {
	return &value{
		kind: kind, arity: many, empty: true,
		set: func(s string) error {
			if b, err := readBool(s); err == nil {
				*on = b
				return nil
			}
			if *p != "" {
				return errors.New("is a second word: it takes one")
			}
			*on, *p = true, s
			return nil
		},
		reset: func() { *on, *p = true, "" }, // runs when the flag is met, before its words
		text: func() string {
			if !*on {
				return ""
			}
			return strings.TrimSpace("true " + *p)
		},
		python: func() string { return pytext.Bool(*on) },
	}
}

func triState(p **bool) *value {
	return &value{
		arity: tri,
		set: func(s string) error {
			b, err := readBool(s)
			*p = &b
			return err
		},
		reset: func() { *p = nil },
		text: func() string {
			if *p == nil {
				return ""
			}
			return strconv.FormatBool(**p)
		},
		python: func() string {
			if *p == nil {
				return "None"
			}
			return pytext.Bool(**p)
		},
	}
}

// parsed holds anything that package config reads from one word.
func parsed[T any](p *T, kind string, read func(string) (T, error), write func(T) string) *value {
	return &value{
		kind: kind,
		set: func(s string) error {
			v, err := read(s)
			if err == nil {
				*p = v
			}
			return err
		},
		reset: func() {
			var zero T
			*p = zero
		},
		text:   func() string { return write(*p) },
		python: func() string { return pyText(write(*p)) },
	}
}

// listed holds a list that grows by one element with each word.
func listed[T any](p *[]T, kind string, read func(string) (T, error), write func(T) string) *value {
	words := func() []string {
		out := make([]string, len(*p))
		for i, v := range *p {
			out[i] = write(v)
		}
		return out
	}
	return &value{
		kind: kind, arity: many, pair: "=",
		set: func(s string) error {
			v, err := read(s)
			if err == nil {
				*p = append(*p, v)
			}
			return err
		},
		reset:  func() { *p = nil },
		text:   func() string { return strings.Join(words(), " ") },
		python: func() string { return pyList(words()) },
	}
}

func same(s string) string { return s }

func words(p *[]string) *value {
	return listed(p, "TEXT", func(s string) (string, error) { return s, nil }, same)
}

// urls takes one or several base URLs, apart from each other or with commas; one alone shows as
// vLLM's plain string.
func urls(p *[]string) *value {
	v := words(p)
	v.kind = "URL"
	v.set = func(s string) error {
		for part := range strings.SplitSeq(s, ",") {
			if part = strings.TrimSpace(part); part != "" {
				*p = append(*p, part)
			}
		}
		if len(*p) == 0 {
			return errors.New("is not a URL")
		}
		return nil
	}
	v.python = func() string {
		if len(*p) <= 1 {
			return pyText(strings.Join(*p, ""))
		}
		return pyList(*p)
	}
	return v
}

func headers(p *[]config.Header) *value {
	v := listed(p, "KEY=VALUE", config.ParseHeader, config.Header.String)
	v.empty = true
	return v
}

func metadata(p *[]config.KeyValue) *value {
	v := listed(p, "KEY=VALUE", config.ParseMetadata, func(kv config.KeyValue) string { return kv.Key + "=" + kv.Value })
	v.empty = true
	return v
}

func limits(p *[]config.Limit) *value {
	v := listed(p, "NAME:MS", config.ParseLimit, func(l config.Limit) string {
		return string(l.Metric) + ":" + strconv.FormatFloat(l.MS, 'g', -1, 64)
	})
	v.pair = ":"
	return v
}

func objectives(p *[]figure.Objective) *value {
	v := listed(p, "COND", figure.ParseObjective, func(o figure.Objective) string { return o.Text })
	v.set = func(s string) error {
		more, err := figure.ParseObjectives(s)
		*p = append(*p, more...)
		return err
	}
	return v
}

func stages(p *schedule.Stages) *value {
	return parsed(p, "TIME@RATE,...", schedule.ParseStages, schedule.Stages.String)
}

func abort(p *config.Abort) *value {
	return parsed(p, "BOUND", config.ParseAbort, config.Abort.String)
}

func metrics(p *[]config.Metric) *value {
	return parsed(p, "LIST", config.ParseMetrics, func(ms []config.Metric) string {
		out := make([]string, len(ms))
		for i, m := range ms {
			out[i] = string(m)
		}
		return strings.Join(out, ",")
	})
}

func percentiles(p *[]float64) *value {
	return parsed(p, "LIST", config.ParsePercentiles, joinFloats)
}

func weights(p *[]float64) *value {
	return parsed(p, "LIST", func(text string) ([]float64, error) {
		var out []float64
		for part := range strings.SplitSeq(text, ",") {
			f, err := readFloat(strings.TrimSpace(part))
			if err != nil {
				return nil, err
			}
			out = append(out, f)
		}
		return out, nil
	}, joinFloats)
}

func thresholds(p *[2]float64) *value {
	return parsed(p, "A,B", config.ParseThresholds, func(t [2]float64) string { return joinFloats(t[:]) })
}

func joinFloats(fs []float64) string {
	out := make([]string, len(fs))
	for i, f := range fs {
		out[i] = strconv.FormatFloat(f, 'g', -1, 64)
	}
	return strings.Join(out, ",")
}

func ratio(p *lengths.Ratio) *value {
	v := parsed(p, "RATIO", lengths.ParseRatio, lengths.Ratio.String)
	v.pair = "json"
	return v
}

func duration(p *time.Duration) *value {
	return parsed(p, "TIME", config.ParseDuration, time.Duration.String)
}

// grace is a duration that may be inf.
func grace(p *time.Duration) *value {
	v := duration(p)
	read := v.set
	v.set = func(s string) error {
		if s == "inf" {
			*p = config.Forever
			return nil
		}
		return read(s)
	}
	v.text = func() string {
		if *p == config.Forever {
			return "inf"
		}
		return p.String()
	}
	return v
}

// wholeSeconds is vLLM's integer of seconds, kept as a duration.
func wholeSeconds(p *time.Duration) *value {
	v := duration(p)
	v.kind = "SEC"
	v.text = func() string { return strconv.FormatInt(int64(*p/time.Second), 10) }
	v.python = v.text
	return v
}

// object is a JSON object, whole or built from dotted keys.
func object(p *json.RawMessage) *value {
	v := &value{kind: "JSON", pair: "json"}
	v.set = func(s string) error {
		var check map[string]json.RawMessage
		if err := json.Unmarshal([]byte(s), &check); err != nil || check == nil {
			return fmt.Errorf("is not a JSON object such as {\"top_k\": 5}%s", jsonDetail(err))
		}
		*p = json.RawMessage(strings.TrimSpace(s))
		return nil
	}
	v.reset = func() { *p = nil }
	v.text = func() string { return string(*p) }
	v.python = func() string {
		if len(*p) == 0 {
			return "None"
		}
		return pyJSON(*p)
	}
	v.path = func(keys []string, text string, list bool) error { return setPath(p, keys, text, list) }
	return v
}

func jsonDetail(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}

// setPath puts one dotted key into an object: --extra-body.a.b 1 is {"a":{"b":1}}. A value that is
// JSON is taken as such and is text otherwise; with a plus, it is a list of words to append.
func setPath(p *json.RawMessage, keys []string, text string, list bool) error {
	tree := map[string]any{}
	if len(*p) > 0 {
		dec := json.NewDecoder(bytes.NewReader(*p))
		dec.UseNumber()
		if err := dec.Decode(&tree); err != nil {
			return fmt.Errorf("read object: %w", err)
		}
	}
	at := tree
	for _, k := range keys[:len(keys)-1] {
		next, ok := at[k].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[k] = next
		}
		at = next
	}
	last := keys[len(keys)-1]
	if list {
		old, _ := at[last].([]any)
		for word := range strings.SplitSeq(text, ",") {
			old = append(old, word)
		}
		at[last] = old
	} else {
		at[last] = jsonOrText(text)
	}
	raw, err := marshal(tree)
	*p = raw
	return err
}

func jsonOrText(text string) any {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || dec.More() {
		return text
	}
	if _, err := dec.Token(); err == nil {
		return text
	}
	return v
}

// marshal writes JSON without HTML escapes; the body goes to a server, not to a page.
func marshal(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write object: %w", err)
	}
	return bytes.TrimSpace(buf.Bytes()), nil
}

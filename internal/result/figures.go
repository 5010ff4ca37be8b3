package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Figure is one number of a result, or a word instead of it.
type Figure struct {
	Name  string  // a key of the catalogue, see figure.Find; what a tool called it where the catalogue has none
	Value float64 // 0 for words; infinite where a tool printed more than a float can hold
	Text  string  // the digits or the word that a tool printed; empty: spate computed the value
	Word  bool    // Text is a word
	From  string  // where a tool's file has it or how it was computed; empty: it stood there under this name
}

// How is the way a figure was obtained.
type How string

// The ways.
const (
	Measured  How = "measured"  // by spate, from records
	Printed   How = "printed"   // by another tool
	Derived   How = "derived"   // by the formula that From has, from what a tool printed
	Predicted How = "predicted" // by the simulator
)

// How tells how a figure of this result was obtained.
func (e *Entry) How(f Figure) How {
	switch {
	case e.Predicted():
		return Predicted
	case e.Format == FormatSpate:
		return Measured
	case strings.Contains(f.From, " / ") || strings.Contains(f.From, " × "):
		return Derived
	}
	return Printed
}

// NewPrinted is what a tool printed: a number, or a word where it is none.
func NewPrinted(name, text, from string) Figure {
	if !isNumber(text) {
		return NewWord(name, text, from)
	}
	v, _ := strconv.ParseFloat(text, 64) // infinite where it is too large
	return Figure{Name: name, Value: v, Text: text, From: from}
}

// NewWord is a word that a tool printed where numbers stand: inf, NaN.
func NewWord(name, word, from string) Figure {
	return Figure{Name: name, Text: word, Word: true, From: from}
}

// Float is the figure's value; ok is false for words.
func (f Figure) Float() (value float64, ok bool) { return f.Value, !f.Word && !math.IsInf(f.Value, 0) }

// String is the figure with the digits it was printed with, or with as many as it takes to read the same value back.
func (f Figure) String() string {
	if f.Text != "" || f.Word {
		return f.Text
	}
	return formatFloat(f.Value)
}

// Scaled is the figure in another unit; how says what was done, and is added to where it came from.
func (f Figure) Scaled(factor float64, how string) Figure {
	if _, ok := f.Float(); factor == 1 || !ok {
		return f
	}
	return Figure{Name: f.Name, Value: f.Value * factor, From: f.From + ", " + how}
}

// formatFloat prints a float so that it reads back the same.
func formatFloat(v float64) string {
	if v != 0 && (v < 1e-5 && v > -1e-5 || v >= 1e17 || v <= -1e17) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// Figures are figures in the order they were found; a name occurs once.
type Figures []Figure

// Get finds a figure by name.
func (fs Figures) Get(name string) (Figure, bool) {
	for _, f := range fs {
		if f.Name == name {
			return f, true
		}
	}
	return Figure{}, false
}

// Float is the value of the named figure.
func (fs Figures) Float(name string) (value float64, ok bool) {
	f, ok := fs.Get(name)
	if !ok {
		return 0, false
	}
	return f.Float()
}

// Set adds a figure; a name that is there already changes its value, as in a Python dict.
func (fs *Figures) Set(f Figure) {
	if i := slices.IndexFunc(*fs, func(g Figure) bool { return g.Name == f.Name }); i >= 0 {
		(*fs)[i] = f
		return
	}
	*fs = append(*fs, f)
}

// Cell is a figure for a table; long ones, from files with every digit, get two decimals: figures of one column have one
// form, whoever printed them.
func (fs Figures) Cell(name string) string {
	f, ok := fs.Get(name)
	if !ok {
		return "-"
	}
	v, isNumber := f.Float()
	if !isNumber || slices.Contains(wholeFigures, name) {
		return f.String()
	}
	return fmt.Sprintf("%.2f", v)
}

// wholeFigures are counts, which have no decimals.
var wholeFigures = []string{"completed", "failed", "total_input_tokens", "total_output_tokens", "max_concurrent_requests", "num_prompts"}

// MarshalJSON writes an object in the figures' order, numbers as they were printed.
func (fs Figures) MarshalJSON() ([]byte, error) {
	return object(len(fs), func(i int) (string, any) {
		if fs[i].Word {
			return fs[i].Name, fs[i].Text
		}
		return fs[i].Name, json.Number(fs[i].String())
	})
}

// Fact is one thing known about a result, with its provenance.
type Fact struct {
	Name  string `json:"-"`
	Value any    `json:"value"`
	From  string `json:"from"`           // what said so
	Line  int    `json:"line,omitempty"` // and where
}

// Context is what is known about a result besides its figures. A name occurs once.
type Context []Fact

// Get finds a fact by name.
func (c Context) Get(name string) (Fact, bool) {
	for _, f := range c {
		if f.Name == name {
			return f, true
		}
	}
	return Fact{}, false
}

// Text is the value of a fact in words, empty when there is none.
func (c Context) Text(name string) string {
	f, _ := c.Get(name)
	return inWords(f.Value)
}

// Number is the value of a fact that is a finite number.
func (c Context) Number(name string) (float64, bool) {
	f, _ := c.Get(name)
	v, ok := number(f.Value)
	return v, ok && !math.IsInf(v, 0)
}

// inWords is a value as text, empty for none.
func inWords(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// number is a value that is a number or the text of one, as users and other tools write them.
func number(value any) (float64, bool) {
	switch v := value.(type) {
	case float64:
		return v, !math.IsNaN(v)
	case int:
		return float64(v), true
	case json.Number, string:
		n, err := strconv.ParseFloat(fmt.Sprint(v), 64)
		return n, err == nil && !math.IsNaN(n)
	}
	return 0, false
}

// Set adds a fact in place of one of its name.
func (c *Context) Set(f Fact) {
	if i := slices.IndexFunc(*c, func(g Fact) bool { return g.Name == f.Name }); i >= 0 {
		(*c)[i] = f
		return
	}
	*c = append(*c, f)
}

// Propose adds a fact unless something already says it.
func (c *Context) Propose(f Fact) {
	if _, ok := c.Get(f.Name); !ok {
		*c = append(*c, f)
	}
}

// MarshalJSON writes an object in the facts' order.
func (c Context) MarshalJSON() ([]byte, error) {
	return object(len(c), func(i int) (string, any) { return c[i].Name, c[i] })
}

// object writes a JSON object of n members in their order.
func object(n int, member func(i int) (string, any)) ([]byte, error) {
	var buf bytes.Buffer
	buf.WriteByte('{')
	for i := range n {
		if i > 0 {
			buf.WriteByte(',')
		}
		name, value := member(i)
		key, err := encode(name)
		if err != nil {
			return nil, fmt.Errorf("encode name %q: %w", name, err)
		}
		data, err := encode(value)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", name, err)
		}
		buf.Write(key)
		buf.WriteByte(':')
		buf.Write(data)
	}
	buf.WriteByte('}')
	return buf.Bytes(), nil
}

// encode is JSON with <, > and & as they are: nothing here goes into HTML.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// Kind sorts problems.
type Kind string

// The kinds of problems.
const (
	Truncated Kind = "truncated" // the text ends before the result does
	Damaged   Kind = "damaged"   // part of a result cannot be read
	Violated  Kind = "identity"  // figures of one result contradict each other
	Note      Kind = "note"      // worth knowing; nothing is wrong with the text
)

// Problem is something a reader of the results should know.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Kind Kind   `json:"kind"`
	Text string `json:"text"`
}

// Bad reports whether a result cannot be taken at face value because of it.
func (p Problem) Bad() bool { return p.Kind != Note }

// String is the problem as compilers print theirs.
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", p.File, p.Line, p.Kind, p.Text)
}

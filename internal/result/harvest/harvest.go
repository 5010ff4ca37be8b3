// Package harvest reads benchmark results out of whatever people kept: logs, Markdown pages, consoles,
// result files of other tools. It is a line scanner (scan.go) with one small recogniser per format, each
// a pure function of the text, and a collector of the context around a result (context.go). The command
// line hands it open files; stores, comparisons and reports take the Results. Read this file first, then
// scan.go and block.go.
package harvest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// The formats of results.
const (
	FormatVLLMBlock     = "vllm-block"
	FormatSGLangBlock   = "sglang-block"
	FormatLMDeployBlock = "lmdeploy-block"
	FormatTRTBlock      = "trtllm-block"
	FormatVLLMJSON      = "vllm-json"
	FormatPyTorchJSON   = "vllm-pytorch-json"
	FormatSGLangJSON    = "sglang-json"
	FormatTRTJSON       = "trtllm-json"
	FormatTRTBenchJSON  = "trtllm-bench-json"
	FormatTRTBench      = "trtllm-bench-report"
	FormatLMDeployCSV   = "lmdeploy-csv"
	FormatBackprop      = "backprop-json"
	FormatGenAIPerfJSON = "genai-perf-json"
	FormatGenAIPerfCSV  = "genai-perf-csv"
	FormatAIPerfJSON    = "aiperf-json"
	FormatAIPerfCSV     = "aiperf-csv"
	FormatGuideLLM      = "guidellm-json"
	FormatEvalScope     = "evalscope-json"
	FormatEvalScopeRank = "evalscope-percentiles"
	FormatLLMPerf       = "llmperf-json"
	FormatHFBench       = "inference-benchmarker-json"
	FormatSpate         = "spate-run"
	FormatFailedLaunch  = "failed-launch"
	FormatEngineLog     = "engine-log"
)

// Result is one result with what the text around it tells.
type Result struct {
	Source    Source         `json:"source"`
	Format    string         `json:"format"`
	Context   Context        `json:"context"`
	Metrics   Figures        `json:"metrics,omitempty"`
	Extra     Figures        `json:"extra,omitempty"` // figures without a counterpart in vLLM's file
	EngineLog []EngineSample `json:"engine_log"`
	Launch    *string        `json:"launch"` // the command that started the server, when this is its first result
	Error     string         `json:"error,omitempty"`
	Problems  []Problem      `json:"problems,omitempty"`
}

// MarshalJSON adds, under provenance, how each figure was come by that did not stand there under its name.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result // without this method
	var from origins
	for _, list := range []Figures{r.Metrics, r.Extra} {
		for _, f := range list {
			if f.From != "" {
				from = append(from, f)
			}
		}
	}
	data, err := encode(struct {
		plain
		Provenance origins `json:"provenance,omitempty"`
	}{plain(r), from})
	if err != nil {
		return nil, fmt.Errorf("encode result of %s:%d: %w", r.Source.File, r.Source.Line, err)
	}
	return data, nil
}

// origins are figures of which only the provenance is printed.
type origins []Figure

func (o origins) MarshalJSON() ([]byte, error) {
	return object(len(o), func(i int) (string, any) { return o[i].Name, o[i].From })
}

// Source is where a result was found. Lines count from 1.
type Source struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	EndLine int    `json:"end_line,omitempty"`
}

// Figure is one number, or a word in its place, with the text it was printed as.
type Figure struct {
	Name string
	Text string // a JSON number as printed or computed; or a word
	Word bool
	From string // how it was come by, empty when it stood there under this name
}

// Float is the figure's value; ok is false for words.
func (f Figure) Float() (value float64, ok bool) {
	if f.Word {
		return 0, false
	}
	v, err := strconv.ParseFloat(f.Text, 64)
	return v, err == nil
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

// set adds a figure; a name that is there already changes its value, as in a Python dict.
func (fs *Figures) set(f Figure) {
	if i := slices.IndexFunc(*fs, func(g Figure) bool { return g.Name == f.Name }); i >= 0 {
		(*fs)[i] = f
		return
	}
	*fs = append(*fs, f)
}

// MarshalJSON writes an object in the figures' order, numbers as they were printed.
func (fs Figures) MarshalJSON() ([]byte, error) {
	return object(len(fs), func(i int) (string, any) {
		f := fs[i]
		if f.Word {
			return f.Name, f.Text
		}
		return f.Name, json.Number(f.Text)
	})
}

// Fact is one thing known about a result, with its provenance.
type Fact struct {
	Name  string `json:"-"`
	Value any    `json:"value"`
	From  string `json:"from"`           // what said so
	Line  int    `json:"line,omitempty"` // and where
}

// Context is what the text says about a result besides its figures. A name occurs once.
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
	f, ok := c.Get(name)
	if !ok || f.Value == nil {
		return ""
	}
	return fmt.Sprint(f.Value)
}

func (c *Context) set(f Fact) {
	if i := slices.IndexFunc(*c, func(g Fact) bool { return g.Name == f.Name }); i >= 0 {
		(*c)[i] = f
		return
	}
	*c = append(*c, f)
}

// propose adds a fact unless something already says it.
func (c *Context) propose(f Fact) {
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

// Harvest is what one file yielded.
type Harvest struct {
	Results  []Result
	Problems []Problem // those that belong to no result
}

// Bad counts the problems that are more than notes.
func (h *Harvest) Bad() int {
	n := 0
	for p := range h.All() {
		if p.Bad() {
			n++
		}
	}
	return n
}

// All yields every problem, those of results with them.
func (h *Harvest) All() func(yield func(Problem) bool) {
	return func(yield func(Problem) bool) {
		for i := range h.Results {
			for _, p := range h.Results[i].Problems {
				if !yield(p) {
					return
				}
			}
		}
		for _, p := range h.Problems {
			if !yield(p) {
				return
			}
		}
	}
}

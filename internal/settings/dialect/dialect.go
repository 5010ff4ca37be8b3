// Package dialect speaks as other benchmark tools do: it reads their arguments (arguments.go), computes
// their figures by their own definitions from spate's records (figures.go), prints their result block and
// writes their result file (one file for each tool), and says where a definition of theirs bends a number
// (differs.go). The bench command asks it when --compat is given. It comes after result and metrics. Read
// this file first, then figures.go.
package dialect

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"spate/internal/call"
	"spate/internal/nearest"
	"spate/internal/result"
)

// Name is one tool, of one age.
type Name string

// The dialects.
const (
	VLLM     Name = "vllm"      // HEAD, spate's own form
	VLLM10   Name = "vllm-0.10" // benchmark_serving.py of 0.10
	VLLM6    Name = "vllm-0.6"  // benchmark_serving.py of 0.6
	SGLang   Name = "sglang"    // bench_serving
	LMDeploy Name = "lmdeploy"  // profile_restful_api.py
	Backprop Name = "backprop"  // vllm_benchmark.py
)

// Names are all of them.
func Names() []string {
	return []string{string(VLLM), string(VLLM10), string(VLLM6), string(SGLang), string(LMDeploy), string(Backprop)}
}

// Parse finds a dialect.
func Parse(text string) (Name, error) {
	for _, n := range Names() {
		if n == text {
			return Name(n), nil
		}
	}
	hint := ""
	if best := nearest.Word(text, Names()); best != "" {
		hint = fmt.Sprintf(": did you mean %q?", best)
	}
	return "", fmt.Errorf("--compat: %q is not one of %s%s", text, strings.Join(Names(), ", "), hint)
}

// Single reports whether the tool's arguments always name one dataset with its lengths, which leaves no room for
// several tenants.
func (n Name) Single() bool { return n == SGLang || n == LMDeploy || n == Backprop }

// Run is what a dialect tells of.
type Run struct {
	*result.Run
	Records []call.Record // of the measured part, one for each request
	Asked   Asked
	Now     time.Time // for file names
}

// Asked is what the tool's user asked for, as far as its output repeats it.
type Asked struct {
	Backend    string
	Dataset    string
	Rate       float64 // +Inf: none
	Slept      bool    // gaps were counted from the request before
	Slots      *int
	Prompts    int
	Input      *int // of random prompts
	Output     *int
	RangeRatio float64
	ShareGPT   *int // output length
	Timeout    float64
	Long       bool
	File       string // --output-file
	Tag        string
	Details    bool
	Pools      bool // a server that embeds: nothing is generated
	Pictures   bool // prompts carry images
}

// Print writes the tool's result block.
func (n Name) Print(w io.Writer, run *Run) error {
	f := n.figures(run)
	var text string
	switch n {
	case SGLang:
		text = sglangBlock(run, f)
	case LMDeploy:
		text = lmdeployBlock(run, f)
	case Backprop:
		text = backpropJSON(run, f)
	default:
		return fmt.Errorf("%s prints its block elsewhere", n)
	}
	_, err := io.WriteString(w, text)
	return err
}

// File is the result file the tool would write: its name, what to write, and whether a header comes first in
// a new file. It is empty for tools that write none unless asked.
func (n Name) File(run *Run) (name, header, line string) {
	f := n.figures(run)
	switch n {
	case SGLang:
		return sglangFile(run), "", sglangLine(run, f)
	case LMDeploy:
		return lmdeployFile(run), lmdeployHeader, lmdeployLine(run, f)
	}
	return "", "", ""
}

// rateText is a request rate as Python prints it.
func rateText(rate float64) string {
	if math.IsInf(rate, 1) || rate == 0 {
		return "inf"
	}
	text := strconv.FormatFloat(rate, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// block builds the form all these tools share: a label in forty columns, a value in ten.
type block struct{ strings.Builder }

func (b *block) title(text string, fill byte) {
	left := (50 - len(text)) / 2
	right := 50 - len(text) - left
	b.WriteString(strings.Repeat(string(fill), left) + text + strings.Repeat(string(fill), right) + "\n")
}

func (b *block) word(label, value string)      { _, _ = fmt.Fprintf(b, "%-40s %-10s\n", label, value) }
func (b *block) count(label string, value int) { b.word(label, strconv.Itoa(value)) }
func (b *block) figure(label string, value float64) {
	_, _ = fmt.Fprintf(b, "%-40s %-10.2f\n", label, value)
}

func (b *block) end() { b.WriteString(strings.Repeat("=", 50) + "\n") }

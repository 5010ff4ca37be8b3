package result

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"spate/internal/figure"
)

// quotients are the identities within a result: rate = amount / duration.
var quotients = []struct {
	rate    string
	amounts []string
}{
	{"request_throughput", []string{"completed"}},
	{"input_throughput", []string{"total_input_tokens"}},
	{"output_throughput", []string{"total_output_tokens"}},
	{"total_token_throughput", []string{"total_input_tokens", "total_output_tokens"}},
}

// loose are formats whose rates are means over time or over requests, not total over duration.
var loose = []string{
	FormatGuideLLM, FormatLLMPerf, FormatGenAIPerfJSON, FormatGenAIPerfCSV, FormatAIPerfJSON, FormatAIPerfCSV, FormatEvalScope, FormatHFBench,
}

// Complete computes the rates that follow from what was printed, where the tool's own are such quotients.
func (r *Entry) Complete() {
	duration, ok := r.Metrics.Float("duration")
	if !ok || !(duration > 0) || slices.Contains(loose, r.Format) {
		return
	}
	for _, q := range quotients {
		amount, _ := r.Metrics.Float(q.amounts[0])
		if _, printed := r.Metrics.Get(q.rate); printed || !(amount > 0) || len(q.amounts) > 1 || q.rate == "input_throughput" {
			continue // vLLM prints no input rate either
		}
		if rate := amount / duration; !math.IsInf(rate, 0) && !math.IsNaN(rate) {
			r.Metrics.Set(Figure{Name: q.rate, Value: rate, From: q.amounts[0] + " / duration"})
		}
	}
}

// Check looks for contradictions within a result and lists them.
func (r *Entry) Check() {
	report := func(kind Kind, format string, args ...any) {
		r.Problems = append(r.Problems, Problem{r.Source.File, r.Source.Line, kind, fmt.Sprintf(format, args...)})
	}
	if !slices.Contains(loose, r.Format) {
		checkRates(r, report)
	}
	checkOrder(r, report)
	checkCounts(r, report)
}

type reporter func(kind Kind, format string, args ...any)

func checkRates(r *Entry, report reporter) {
	duration, ok := r.span("duration")
	if !ok || duration.high <= 0 {
		return
	}
	for _, q := range quotients {
		rate, ok := r.span(q.rate)
		if !ok {
			continue
		}
		var sum interval
		for _, a := range q.amounts {
			var v interval
			if v, ok = r.span(a); !ok {
				break
			}
			sum = interval{sum.low + v.low, sum.high + v.high}
		}
		if !ok {
			continue
		}
		want := interval{sum.low / duration.high, math.Inf(1)}
		if duration.low > 0 {
			want.high = sum.high / duration.low
		}
		if rate.high < want.low*(1-1e-9) || rate.low > want.high*(1+1e-9) {
			f, _ := r.Metrics.Get(q.rate)
			report(Violated, "%s is %s, but %s / duration is %s", q.rate, f, strings.Join(q.amounts, " + "), quotient(sum, duration))
		}
	}
}

// interval is what a printed number may have been before it was rounded.
type interval struct{ low, high float64 }

// middle is the number as it was printed.
func (i interval) middle() float64 { return (i.low + i.high) / 2 }

// quotient is the rate that two printed numbers give; of a duration printed as 0 only the least is known.
func quotient(sum, duration interval) string {
	if duration.low <= 0 {
		return fmt.Sprintf("at least %.6g", sum.low/duration.high)
	}
	return fmt.Sprintf("%.6g", sum.middle()/duration.middle())
}

// span is the interval of a figure by its last printed digit. Integers are counts and exact.
func (r *Entry) span(name string) (interval, bool) {
	f, ok := r.Metrics.Get(name)
	if !ok {
		return interval{}, false
	}
	v, ok := f.Float()
	if !ok || math.IsInf(v, 0) {
		return interval{}, false
	}
	text := f.String()
	_, decimals, _ := strings.Cut(text, ".")
	exponent := strings.ContainsAny(text, "eE")
	if decimals == "" && !exponent {
		return interval{v, v}, true
	}
	half := 0.0
	if !exponent && r.How(f) == Printed {
		half = 0.5000001 * math.Pow(10, -float64(len(decimals)))
	}
	half = max(half, math.Abs(v)*1e-7) // full precision went through divisions of its own
	return interval{v - half, v + half}, true
}

// ranks are statistics of one sample in the order their values must have.
var ranks = []string{
	"min", "p0.1", "p1", "p5", "p10", "p25", "median", "p60", "p70", "p75", "p80", "p90", "p95", "p99", "p99.9", "max",
}

func checkOrder(r *Entry, report reporter) {
	for _, latency := range figure.Latencies() {
		var before Figure
		var low float64
		for _, rank := range ranks {
			f, ok := r.Metrics.Get(rank + "_" + latency + "_ms")
			if !ok {
				continue
			}
			v, ok := f.Float()
			if !ok {
				continue
			}
			if before.Name != "" && v < low-math.Abs(low)*1e-9 {
				report(Violated, "%s (%s) is below %s (%s)", f.Name, f, before.Name, before)
			}
			before, low = f, v
		}
	}
}

// ByPosition begins the provenance of a setting that is known only by its place in a list.
const ByPosition = "position "

// checkCounts compares the figures with what the text around says was meant.
func checkCounts(r *Entry, report reporter) {
	completed, ok := r.Metrics.Float("completed")
	if !ok {
		return
	}
	failed, saysFailed := r.Metrics.Float("failed")
	asked, known := r.Context.Number("num_prompts")
	if known && completed+failed < asked && r.Format != FormatSpate {
		text := "; the text does not say what happened to the rest"
		if saysFailed {
			text = " and " + formatFloat(failed) + " failed; the text does not say what happened to the rest"
		}
		report(Note, "%s of %s requests completed%s", formatFloat(completed), formatFloat(asked), text)
	}
	if known && completed > asked {
		fact, _ := r.Context.Get("num_prompts")
		if strings.HasPrefix(fact.From, ByPosition) { // the list was matched with the wrong results
			r.Context = slices.DeleteFunc(r.Context, func(f Fact) bool { return f.Name == fact.Name })
			report(Note, "%s requests completed, but %s on line %d has %s: the list does not fit the results below it", formatFloat(completed), fact.From, fact.Line, formatFloat(asked))
			return
		}
		report(Violated, "%s requests completed of %s that %s (line %d) says were asked for", formatFloat(completed), formatFloat(asked), fact.From, fact.Line)
	}
	if known && completed != asked {
		return
	}
	for _, pair := range [][2]string{{"announced_input_tokens", "total_input_tokens"}, {"announced_output_tokens", "total_output_tokens"}} {
		if pair[0] == "announced_output_tokens" && r.Format != FormatLMDeployBlock {
			continue // only LMDeploy's client takes what it asked for as what it got
		}
		said, ok1 := r.Context.Number(pair[0])
		got, ok2 := r.Metrics.Float(pair[1])
		if ok1 && ok2 && said != got {
			report(Violated, "%s is %s, but %s were announced before the run", pair[1], formatFloat(got), formatFloat(said))
		}
	}
}

// isNumber reports whether a text is a number as JSON has them.
func isNumber(text string) bool {
	return text != "" && strings.ContainsAny(text[:1], "-0123456789") && json.Valid([]byte(text))
}

// Plain is a text as a value: a number with its digits, or else the text.
func Plain(text string) any {
	if isNumber(text) {
		return json.Number(text)
	}
	return text
}

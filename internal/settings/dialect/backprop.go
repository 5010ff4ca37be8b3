package dialect

import (
	"bytes"
	"encoding/json"
	"slices"

	"spate/internal/judge/stats"
	"spate/internal/result/interop"
)

// backpropJSON is what vllm_benchmark.py prints: an object with two spaces of indent.
func backpropJSON(run *Run, f *figures) string {
	a := &run.Asked
	var o interop.Object
	o.Set("total_requests", a.Prompts)
	o.Set("successful_requests", f.done)
	slots := 0
	if a.Slots != nil {
		slots = *a.Slots
	}
	o.Set("concurrency", slots)
	o.Set("request_timeout", int(a.Timeout))
	out := 0
	if a.Output != nil {
		out = *a.Output
	}
	o.Set("max_output_tokens", out)
	o.Set("use_long_context", a.Long)
	o.Set("total_time", f.duration)
	o.Set("requests_per_second", f.per(f.done))
	o.Set("total_output_tokens", f.output)
	o.Set("latency", spread(f.e2e, false))
	o.Set("tokens_per_second", spread(f.speed, true))
	o.Set("time_to_first_token(ttft)", spread(f.ttft, false))
	average := 0.0
	if len(f.perToken) > 0 {
		average = stats.Mean(f.perToken)
	}
	// The tool takes percentiles of this one number.
	o.Set("time-per-output-token(tpot)", interop.Object{{Key: "average", Value: average}, {Key: "p50", Value: average}, {Key: "p95", Value: average}, {Key: "p99", Value: average}})
	line, err := interop.AppendPython(nil, o)
	if err != nil {
		return "" // every value above has a JSON form
	}
	var b bytes.Buffer
	if json.Indent(&b, line, "", "  ") != nil {
		return string(line) + "\n" // a NaN or an infinity, which Python writes and JSON has not
	}
	b.WriteByte('\n')
	return b.String()
}

// spread is average and percentiles; of speeds the tool takes the slow side.
func spread(xs []float64, slow bool) interop.Object {
	o := interop.Object{{Key: "average", Value: 0.0}, {Key: "p50", Value: 0.0}, {Key: "p95", Value: 0.0}, {Key: "p99", Value: 0.0}}
	if len(xs) == 0 {
		return o
	}
	xs = slices.Clone(xs)
	o[0].Value = stats.Mean(xs)
	for i, p := range []float64{50, 95, 99} {
		if slow {
			p = 100 - p
		}
		o[i+1].Value = stats.Percentile(xs, p)
	}
	return o
}

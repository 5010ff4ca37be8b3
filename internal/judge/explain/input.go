package explain

import (
	"encoding/json"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/host/enginelog"
	"spate/internal/host/observe"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
	"spate/internal/result"
)

// Input is what is known of a run. Zero, nil and empty mean "not known".
type Input struct {
	// What was asked for.
	Rate         float64 // requests per second; 0 in a closed loop, a burst, or when unknown
	Varies       bool    // Rate is the mean of one that changed on purpose: stages, a ramp, a trace
	Burst        bool    // all requests were sent at once
	Cap          int     // of requests in flight
	Prompts      int
	SharedPrefix bool // prompts begin alike on purpose
	MaxSeqs      int  // the server's --max-num-seqs

	// What the client saw.
	RequestRate float64 // finished per second
	MeanIn      float64 // tokens of a prompt
	MeanOut     float64 // tokens of an answer
	TTFT        Latency
	TPOT        Latency
	ITL         Latency
	E2EL        Latency
	InFlight    float64 // mean
	Growth      float64 // median TTFT of the last third of requests over that of the first
	Records     bool    // the figures were computed from single requests, by spate
	Source      string  // of the figures above, for evidence

	// What the server said.
	Server     *observe.ServerSide
	ServerFrom string
	Looks      []Look // running, waiting and cache at moments of the run
	LooksFrom  string
	CachedRate *float64 // share of prompt tokens from the prefix cache
	CachedFrom string
	Rest       *float64 // ms of TTFT that are neither server's queue nor prefill
	GPUBusy    *float64 // share of time
	Bandwidth  *float64 // share of what the GPUs' memory can move

	// What the client said of itself.
	Client []verdict.Finding // checks on it that did not pass
	RTT    float64           // ms to the server and back
}

// Latency is what is known of a latency, in milliseconds.
type Latency struct{ Mean, Median, P99 float64 }

// Look is a moment of the server.
type Look struct {
	Running, Waiting float64
	KV               float64 // used share of the cache; negative when unknown
}

// Of explains a result. It is what reports call.
func Of(e *result.Entry) []Cause { return Explain(From(e)) }

// From gathers what is known of a result, with its records and series where there are any that can be read; what
// cannot be is not known.
func From(e *result.Entry) Input {
	if e.Run == nil || e.Run.Dir == "" {
		return from(e, nil)
	}
	return from(e, recorder.Each(filepath.Join(e.Run.Dir, result.RecordsFile)))
}

// Brief explains a result without going through its records, which takes seconds when there are a hundred thousand.
func Brief(e *result.Entry) []Cause { return Explain(from(e, nil)) }

func from(e *result.Entry, recs iter.Seq[*call.Record]) Input {
	in := fromFigures(e)
	in.addLog(e.EngineLog)
	if e.Run == nil {
		return in
	}
	var samples []observe.Sample
	if e.Run.Dir != "" {
		samples, _ = observe.ReadSamples(e.Run.Dir)
	}
	in.AddRun(e.Run, recs, samples)
	return in
}

// setting is a label or, where there is none of that name, a fact from the result's context.
func setting(e *result.Entry, name string) string {
	if e.Run != nil && e.Run.Labels[name] != "" {
		return e.Run.Labels[name]
	}
	return e.Context.Text(name)
}

// fromFigures takes what a summary printed by any tool tells.
func fromFigures(e *result.Entry) Input {
	num := func(name string) float64 {
		v, _ := e.Metrics.Float(name)
		return v
	}
	latency := func(name string) Latency {
		return Latency{num("mean_" + name + "_ms"), num("median_" + name + "_ms"), num("p99_" + name + "_ms")}
	}
	in := Input{
		RequestRate: num("request_throughput"), Source: "the result",
		TTFT: latency("ttft"), TPOT: latency("tpot"), ITL: latency("itl"), E2EL: latency("e2el"),
	}
	if n := num("completed"); n > 0 {
		in.MeanIn, in.MeanOut = num("total_input_tokens")/n, num("total_output_tokens")/n
		if d := num("duration"); d > 0 {
			in.RequestRate = n / d // what is printed has two digits, which may both be zero
		}
	}
	in.Prompts = int(number(e, "num_prompts"))
	in.Cap = int(number(e, "max_concurrency"))
	switch rate := strings.ToLower(setting(e, "request_rate")); {
	case rate == "inf" || rate == "" && in.Prompts > 0:
		in.Burst = in.Cap == 0 // vLLM's client sends all at once when no rate is given
	default:
		in.Rate = number(e, "request_rate")
	}
	in.SharedPrefix = shares(e)
	if e.Launch != nil {
		in.MaxSeqs = flag(*e.Launch, "--max-num-seqs")
	}
	if in.MaxSeqs == 0 {
		in.MaxSeqs = int(number(e, "max_num_seqs"))
	}
	in.fill()
	return in
}

// number is a setting that is a number, 0 otherwise.
func number(e *result.Entry, name string) float64 {
	v, ok := e.Context.Number(name)
	if e.Run != nil && e.Run.Labels[name] != "" {
		n, err := strconv.ParseFloat(e.Run.Labels[name], 64)
		v, ok = n, err == nil && !math.IsInf(n, 0) && !math.IsNaN(n)
	}
	if !ok {
		return 0
	}
	return v
}

// shares reports whether the workload repeats beginnings on purpose.
func shares(e *result.Entry) bool {
	name := setting(e, "dataset")
	return name == "sonnet" || name == "prefix_repetition" || name == "generated-shared-prefix" || number(e, "random_prefix_len") > 0
}

// flag finds a number behind a flag of a command line, with a space or an equals sign.
func flag(command, name string) int {
	words := strings.FieldsFunc(command, func(r rune) bool { return r == ' ' || r == '=' || r == '\n' || r == '\t' })
	for i, w := range words {
		if strings.ReplaceAll(w, "_", "-") == name && i+1 < len(words) {
			n, err := strconv.Atoi(words[i+1])
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// fill computes what a tool left out: an end-to-end latency is a first token and the rest.
func (in *Input) fill() {
	if in.E2EL.Mean == 0 && in.TTFT.Mean > 0 && in.TPOT.Mean > 0 && in.MeanOut > 1 {
		in.E2EL.Mean = in.TTFT.Mean + in.TPOT.Mean*(in.MeanOut-1)
	}
	if in.TPOT.Mean == 0 && in.E2EL.Mean > in.TTFT.Mean && in.MeanOut > 1 {
		in.TPOT.Mean = (in.E2EL.Mean - in.TTFT.Mean) / (in.MeanOut - 1)
	}
	if in.InFlight == 0 {
		in.InFlight = in.RequestRate * in.E2EL.Mean / 1000 // Little's law
	}
}

// addLog takes the engine's stats lines that stood beside a result.
func (in *Input) addLog(log []enginelog.Sample) {
	float := func(n json.Number) (float64, bool) {
		v, err := n.Float64()
		return v, err == nil
	}
	for i := range log {
		running, ok := float(log[i].Running)
		waiting, also := float(log[i].Waiting)
		if !ok || !also {
			continue
		}
		look := Look{Running: running, Waiting: waiting, KV: -1}
		if kv, ok := float(log[i].KVUsage); ok {
			look.KV = kv / 100
		}
		in.Looks, in.LooksFrom = append(in.Looks, look), "the engine's log"
		if hit, ok := float(log[i].PrefixHit); ok {
			share := hit / 100
			in.CachedRate, in.CachedFrom = &share, "the engine's log, over its last thousand requests"
		}
	}
}

// AddRun adds what spate wrote down beyond the summary that every tool has.
func (in *Input) AddRun(run *result.Run, recs iter.Seq[*call.Record], samples []observe.Sample) {
	s := &run.Summary
	in.Source = "the records"
	in.addSchedule(run)
	in.InFlight = s.Concurrency.Mean
	in.SharedPrefix = in.SharedPrefix || run.Plan.Judge.SharedPrefix
	in.Client = clientFindings(run.Verdict)
	in.Records = true
	if recs != nil {
		in.Growth = growth(recs)
	}
	in.addEnvironment(run.Environment)
	in.addServer(s, run.Observed)
	in.addLooks(samples, run)
	in.addCache(run)
}

// addSchedule takes the mean rate of requests that were due at set times without one rate: stages, a ramp, a trace.
func (in *Input) addSchedule(run *result.Run) {
	if rate := run.Summary.Rates.Scheduled; run.Plan.Judge.OpenLoop && in.Rate == 0 && rate != nil {
		in.Rate, in.Varies, in.Burst, in.Prompts = *rate, true, false, run.Summary.Tally.Due
	}
}

// clientChecks are the verdict's checks on the client itself.
var clientChecks = []string{"client_gap", "send_lag", "late_work", "achieved_rate", "stamp_lag", "scheduler_lag", "own_cpu", "gc_pauses", "host_steal", "cpu_quota"}

func clientFindings(v verdict.Verdict) []verdict.Finding {
	var out []verdict.Finding
	for _, f := range v.Bad() {
		if slices.Contains(clientChecks, f.Name) {
			out = append(out, f)
		}
	}
	return out
}

// minTrend is the fewest requests whose thirds can be compared.
const minTrend = 30

// growth compares the first tokens of the end with those of the beginning.
func growth(recs iter.Seq[*call.Record]) float64 {
	type first struct {
		sent time.Duration
		ttft float64
	}
	var list []first
	for r := range recs {
		if t, ok := metrics.TTFT(r); ok && r.Phase == call.Measure && r.Outcome == call.OK {
			list = append(list, first{r.Sent, float64(t)})
		}
	}
	if len(list) < minTrend {
		return 0
	}
	slices.SortFunc(list, func(a, b first) int { return int(min(1, max(-1, a.sent-b.sent))) })
	third := len(list) / 3
	median := func(part []first) float64 {
		values := make([]float64, len(part))
		for i, f := range part {
			values[i] = f.ttft
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	begin, end := median(list[:third]), median(list[len(list)-third:])
	if begin <= 0 {
		return 0
	}
	return end / begin
}

// addEnvironment takes the distance to the server.
func (in *Input) addEnvironment(raw json.RawMessage) {
	var env struct {
		RTT struct {
			Median time.Duration `json:"median_ns"`
		} `json:"round_trip"`
	}
	if json.Unmarshal(raw, &env) == nil {
		in.RTT = call.Millis(env.RTT.Median)
	}
}

// addServer takes the server's own clocks: its counters', or else those it sent with each answer.
func (in *Input) addServer(s *metrics.Summary, seen *observe.Summary) {
	if seen != nil {
		in.Server, in.ServerFrom = seen.Server, "the server's counters"
		if in.Server == nil && seen.Log != nil {
			in.Server, in.ServerFrom = seen.Log, "the engine's log"
		}
		if f := seen.FrontEnd; f != nil {
			in.Rest = f.Rest()
		}
		in.addGPUs(seen.GPUs)
	}
	if s.Server.N > 0 && (in.Server == nil || in.Server.Queue == nil) {
		side := observe.ServerSide{}
		if in.Server != nil {
			side = *in.Server
		}
		n := float64(s.Server.N)
		side.Queue = &observe.Time{MeanMS: s.Server.Queue.Mean, N: n}
		side.Prefill = &observe.Time{MeanMS: s.Server.FirstToken.Mean, N: n}
		side.Decode = &observe.Time{MeanMS: s.Server.Generation.Mean, N: n}
		in.Server, in.ServerFrom = &side, "the times in its answers"
	}
	if in.Rest == nil && s.Server.TTFTRest.N > 0 {
		in.Rest = &s.Server.TTFTRest.Mean
	}
}

func (in *Input) addGPUs(gpus []observe.Device) {
	mean := func(pick func(*observe.Device) *observe.Level) *float64 {
		sum, n := 0.0, 0
		for i := range gpus {
			if l := pick(&gpus[i]); l != nil && gpus[i].Busy {
				sum, n = sum+l.Mean, n+1
			}
		}
		if n == 0 {
			return nil
		}
		sum /= float64(n)
		return &sum
	}
	in.GPUBusy = mean(func(d *observe.Device) *observe.Level { return d.Utilization })
	in.Bandwidth = mean(func(d *observe.Device) *observe.Level { return d.Bandwidth })
}

// addLooks takes the moments of the measured part, by the server's counters, or else by its log.
func (in *Input) addLooks(samples []observe.Sample, run *result.Run) {
	from, to := run.Plan.Start, run.Plan.End
	if to <= from {
		to = from + time.Duration(run.Summary.DurationS*float64(time.Second))
	}
	for _, source := range []string{observe.Server, observe.Log} {
		var looks []Look
		for _, s := range samples {
			running, ok := s.Values["running"]
			if s.Source != source || !ok || s.At < from || s.At > to {
				continue
			}
			look := Look{Running: running, Waiting: s.Values["waiting"], KV: -1}
			if kv, ok := s.Values["kv_usage"]; ok {
				look.KV = kv
			}
			looks = append(looks, look)
		}
		if len(looks) > 0 {
			in.Looks, in.LooksFrom = looks, map[string]string{observe.Server: "the server's counters", observe.Log: "the engine's log"}[source]
			return
		}
	}
}

// addCache takes the best sign of prompts the server had seen before.
func (in *Input) addCache(run *result.Run) {
	switch c := &run.Summary.Cache; {
	case in.Server != nil && in.Server.PrefixQueries != nil:
		in.CachedRate, in.CachedFrom = in.Server.PrefixHitRate, in.ServerFrom
	case c.Reported > 0:
		in.CachedRate, in.CachedFrom = &c.Share, "the usage in the answers"
	case in.Server != nil && in.Server.PrefixHitRate != nil:
		in.CachedRate, in.CachedFrom = in.Server.PrefixHitRate, in.ServerFrom
	}
}

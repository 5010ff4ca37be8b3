// Package verdict says how far a run's numbers can be trusted. It takes the Summary from metrics
// and what the client saw of itself and of the server, runs one check per way a benchmark is known
// to lie, and gives VALID, SUSPECT or INVALID with the sentence a user needs. result keeps the
// Verdict and report prints it. Read this file first; checks.go and server.go hold the checks.
package verdict

import (
	"fmt"
	"math"
	"time"

	"spate/internal/judge/metrics"
)

// Level is how bad one finding is.
type Level string

// Levels, from best to worst.
const (
	OK      Level = "ok"
	Suspect Level = "suspect" // a figure may be off; compare with care
	Invalid Level = "invalid" // the figures do not describe the server
)

// Grade is the verdict on the whole run: the worst of its findings.
type Grade string

// Grades.
const (
	Valid      Grade = "VALID"
	SuspectRun Grade = "SUSPECT"
	InvalidRun Grade = "INVALID"
)

// Self is what the client saw of its own process and host during the measured part.
type Self struct {
	CPUShare    float64       `json:"cpu_share"` // own CPU time over all cores' time, 0..1
	GCPauseMax  time.Duration `json:"gc_pause_max_ns"`
	SchedLagP99 time.Duration `json:"sched_lag_p99_ns"` // runnable until running
	SchedLagMax time.Duration `json:"sched_lag_max_ns"`
	StampLagP99 time.Duration `json:"stamp_lag_p99_ns"` // bytes readable until read
	StampLagMax time.Duration `json:"stamp_lag_max_ns"`
	Arrivals    bool          `json:"arrival_stamps"`  // stamps are the kernel's arrival times, not those of reading
	Gap         time.Duration `json:"gap_ns"`          // the longest time in which the process did nothing
	StealShare  float64       `json:"steal_share"`     // CPU taken by the hypervisor, 0..1
	ClockJump   time.Duration `json:"clock_jump_ns"`   // wall clock against monotonic clock, either way
	Throttled   float64       `json:"throttled_share"` // of the run, held back by a CPU quota, 0..1
	LogDropped  int           `json:"log_dropped"`     // records that did not reach the log
	DiskErrors  int           `json:"disk_errors"`
}

// Server is the change of the server's own counters over the run, where it has any.
type Server struct {
	PrefixQueries float64 `json:"prefix_queries"` // prompt tokens looked up; 0 when unknown
	PrefixHits    float64 `json:"prefix_hits"`
}

// Earlier is a former run of the same command, where one is at hand.
type Earlier struct {
	MedianTTFT float64 `json:"median_ttft_ms"`
}

// Settings are the choices that decide which checks apply.
type Settings struct {
	OpenLoop     bool      `json:"open_loop"`             // requests were due at set times
	IgnoreEOS    bool      `json:"ignore_eos"`            // the server was asked to write to the full length
	SharedPrefix bool      `json:"shared_prefix"`         // the workload repeats prompts on purpose
	Guessed      bool      `json:"guessed_lengths"`       // prompt lengths were estimated: no tokenizer was at hand
	Percentiles  []float64 `json:"percentiles,omitempty"` // those the user named; nil when only the default was used
}

// Input is everything a verdict rests on. Nil parts were not measured, and their checks say so.
type Input struct {
	Summary  metrics.Summary
	Self     *Self
	Server   *Server
	Earlier  *Earlier
	Workers  []Worker // of a load that several processes sent; Self is then that of who collected their records
	Settings Settings
	Killed   bool // the records end where the client did: what was in flight is unknown
}

// Finding is the outcome of one check.
type Finding struct {
	Name     string  `json:"name"`
	Level    Level   `json:"level"`
	Measured bool    `json:"measured"` // false: there was nothing to judge
	Figure   float64 `json:"figure"`
	Unit     string  `json:"unit"`
	Bound    float64 `json:"bound"`           // suspect above
	Limit    float64 `json:"limit,omitempty"` // invalid above; 0 when the check alone never condemns
	Sentence string  `json:"sentence"`
	Hint     string  `json:"hint,omitempty"`
}

// Verdict is the judgement of a run.
type Verdict struct {
	Grade    Grade     `json:"grade"`
	Sentence string    `json:"sentence"`
	Findings []Finding `json:"findings"` // one per check, in a fixed order
}

// Judge runs every check.
func Judge(in Input) Verdict {
	v := Verdict{Grade: Valid}
	for _, check := range checks {
		f := check.judge(&in)
		f.Name = check.name
		v.Findings = append(v.Findings, f)
	}
	v.Grade, v.Sentence = overall(v.Findings)
	return v
}

// Bad lists the findings that are not ok, worst first.
func (v Verdict) Bad() []Finding {
	var out []Finding
	for _, level := range []Level{Invalid, Suspect} {
		for _, f := range v.Findings {
			if f.Level == level {
				out = append(out, f)
			}
		}
	}
	return out
}

// overall is the worst level and the sentence of the first finding that has it.
func overall(findings []Finding) (Grade, string) {
	bad := Verdict{Findings: findings}.Bad()
	if len(bad) == 0 {
		measured := 0
		for _, f := range findings {
			if f.Measured {
				measured++
			}
		}
		return Valid, fmt.Sprintf("%d checks found nothing that would make these numbers wrong.", measured)
	}
	grade, lead := SuspectRun, "Mind before comparing: "
	if bad[0].Level == Invalid {
		grade, lead = InvalidRun, "Do not use these numbers: "
	}
	s := lead + bad[0].Sentence
	switch n := len(bad) - 1; {
	case n == 1:
		s += " (and one more finding)"
	case n > 1:
		s += fmt.Sprintf(" (and %d more findings)", n)
	}
	return grade, s
}

// check is one way a run can go wrong.
type check struct {
	name string
	run  func(*Input) Finding
	own  bool // about the process that sends: each of several is judged
}

// checks run in this order; the first of the worst level gives the verdict its sentence.
var checks = []check{
	{"failures", failures, false},
	{"dropped_work", droppedWork, false},
	{"cut_off", cutOff, false},
	{"workers", lostWorkers, false},
	{"concurrency_cap", concurrencyCap, false},
	{"client_gap", clientGap, true},
	{"send_lag", sendLag, true},
	{"late_work", lateWork, true},
	{"achieved_rate", achievedRate, false},
	{"client_queue", clientQueue, false},
	{"stamp_lag", stampLag, true},
	{"scheduler_lag", schedulerLag, true},
	{"own_cpu", ownCPU, true},
	{"gc_pauses", gcPauses, true},
	{"host_steal", hostSteal, true},
	{"cpu_quota", cpuQuota, true},
	{"clock", clockTrouble, true},
	{"worker_clocks", workerClocks, false},
	{"record_log", recordLog, false},
	{"prefix_cache", prefixCache, false},
	{"output_lengths", outputLengths, false},
	{"finish_reasons", finishReasons, false},
	{"input_lengths", inputLengths, false},
	{"token_counts", tokenCounts, false},
	{"first_chunk", firstChunk, false},
	{"chunk_tokens", chunkTokens, false},
	{"sample_size", sampleSize, false},
}

// graded fills in a finding from its figure: above bound it is suspect, above limit (if there is
// one) invalid. good and bad are the sentences for either side.
func graded(figure float64, unit string, bound, limit float64, good, bad, hint string) Finding {
	f := Finding{
		Level: OK, Measured: true, Figure: finite(figure), Unit: unit, Bound: bound, Limit: limit, Sentence: good,
	}
	switch {
	case limit > 0 && figure > limit:
		f.Level = Invalid
	case figure > bound:
		f.Level = Suspect
	}
	if f.Level != OK {
		f.Sentence, f.Hint = bad, hint
	}
	return f
}

// unmeasured is the finding of a check that has nothing to judge.
func unmeasured(why string) Finding { return Finding{Level: OK, Sentence: why} }

// finite keeps a figure within what JSON can hold.
func finite(x float64) float64 {
	switch {
	case math.IsNaN(x):
		return 0
	case math.IsInf(x, 0):
		return math.Copysign(math.MaxFloat64, x)
	}
	return x
}

// part is n of a whole; 0 of nothing.
func part(n, of float64) float64 {
	if of <= 0 {
		return 0
	}
	return n / of
}

// percent writes a share for people.
func percent(x float64) string {
	switch {
	case x != 0 && math.Abs(x) < 0.001:
		return fmt.Sprintf("%.2g %%", 100*x)
	default:
		return fmt.Sprintf("%.1f %%", 100*x)
	}
}

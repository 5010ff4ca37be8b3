package alarms

import (
	"fmt"
	"strings"
	"time"

	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
)

// figures are those of a finished run, to be bent where the thing itself cannot be.
type figures struct {
	in   verdict.Input
	size float64
}

// bentJobs are runs with one thing wrong each, a little beyond the bound of the check that should find it (size 1), and
// about three times as far.
func bentJobs() []job {
	var out []job
	for _, size := range []int{1, 3} {
		for _, j := range serverJobs(size) {
			out = append(out, j.as(ByServer, size))
		}
		for _, j := range loadJobs(size) {
			out = append(out, j.as(ByLoad, size))
		}
		for _, j := range processJobs(size) {
			out = append(out, j.as(ByProcess, size))
		}
		for _, j := range figureJobs() {
			out = append(out, j.as(ByFigure, size))
		}
	}
	return out
}

func (j job) as(how How, size int) job {
	j.how, j.size = how, size
	j.name = fmt.Sprintf("%s at its bound", j.check)
	if size > 1 {
		j.name = fmt.Sprintf("%s at %d times its bound", j.check, size)
	}
	return j
}

// at picks by size.
func at[T any](size int, one, three T) T {
	if size > 1 {
		return three
	}
	return one
}

// usual is a server and a load without anything special: 240 answers of 10 tokens over 2 to 3 s.
var (
	usualServer = []string{"--ttft", "50ms", "--itl", "10ms"}
	usualClient = []string{"--request-rate", "100", "--num-prompts", "240", "--random-input-len", "32", "--random-output-len", "10"}
)

// with is a list with more behind it.
func with(list []string, more ...string) []string {
	return append(append([]string{}, list...), more...)
}

// serverJobs are servers that do not do what was asked of them, for every n-th request: 1.7 % and 5 % of them where the
// bound is 1 %.
func serverJobs(size int) []job {
	every := at(size, 60, 20)
	rule := func(what string) string { return fmt.Sprintf("rules:\n  - every: %d\n    %s\n", every, what) }
	return []job{
		{check: "failures", script: rule("fault: {kind: status, code: 500}"), server: usualServer, client: usualClient},
		{check: "output_lengths", script: rule("output: 4"), server: usualServer, client: usualClient},
		{check: "finish_reasons", also: []string{"output_lengths"}, script: rule("output: 4\n    fault: {kind: no_finish}"), server: usualServer, client: usualClient},
		// Of eight answers one comes in pairs of tokens: 15 tokens in 14 chunks are 1.07; of four, 8 in 7 are 1.14.
		{
			check: "chunk_tokens", server: usualServer, client: usualClient,
			script: fmt.Sprintf("rules:\n  - every: %d\n    chunks: 2\n", at(size, 8, 3)),
		},
	}
}

// loadJobs are loads that do not measure what they seem to.
func loadJobs(size int) []job {
	// 4 slots of 200 ms serve 20 requests per second.
	full := []string{"--ttft", "100ms", "--itl", "10ms"}
	capped := []string{"--max-concurrency", "4", "--random-input-len", "32", "--random-output-len", "11", "--burstiness", "100000"}
	return []job{
		{check: "client_queue", server: full, client: with(capped, "--num-prompts", "60", "--request-rate", at(size, "20.7", "22.2"))},
		{check: "achieved_rate", also: []string{"client_queue"}, server: full, client: with(capped, "--num-prompts", "100", "--request-rate", at(size, "21.6", "24"))},
		// What waits for a slot when the time is over is never sent.
		{
			check: "dropped_work", server: full,
			client: with(capped, "--num-prompts", "2000", "--duration", "3s", "--request-rate", at(size, "21.6", "24")),
		},
		// 400 requests fall due in 4 s, and those of the last 80 and 240 ms are cut off: 2 and 6 % of them.
		{
			check: "cut_off", server: []string{"--ttft", at(size, "80ms", "240ms"), "--itl", "1ms"},
			client: []string{"--request-rate", "100", "--num-prompts", "2000", "--duration", "4s", "--grace-period", "0s", "--random-input-len", "32", "--random-output-len", "2"},
		},
		{
			check: "prefix_cache", server: usualServer, data: repeated(100, at(size, 15, 40)),
			client: []string{"--request-rate", "50", "--num-prompts", "100", "--dataset-name", "custom", "--custom-output-len", "8", "--disable-shuffle", "--skip-chat-template"},
		},
		{check: "sample_size", server: usualServer, client: with(usualClient, "--num-prompts", at(size, "290", "100"), "--metric-percentiles", "99")},
	}
}

// repeated is a dataset in which so many prompts of all stand a second time.
func repeated(n, again int) string {
	var b strings.Builder
	for i := range n {
		k := i
		if i >= n-again {
			k -= n - again
		}
		b.WriteString(`{"prompt": "`)
		for w := range 160 {
			v := k*160 + w // a word of its own, one token each
			fmt.Fprintf(&b, "%c%c%c%c ", 'a'+v%26, 'a'+v/26%26, 'a'+v/676%26, 'a'+v/17576%26)
		}
		b.WriteString("end\"}\n")
	}
	return b.String()
}

// processJobs do something to the client's process.
func processJobs(size int) []job {
	ms := func(one, three int) time.Duration { return time.Duration(at(size, one, three)) * time.Millisecond }
	slow := []string{"--ttft", "100ms", "--itl", "10ms"}
	open := func(rate, n string) []string {
		return []string{"--request-rate", rate, "--num-prompts", n, "--random-input-len", "32", "--random-output-len", "10"}
	}
	return []job{
		// Stopped for some milliseconds of every few: half of the requests are due while it is.
		{check: "send_lag", also: []string{"late_work"}, server: slow, client: open("100", "300"), harm: harm{stop: ms(18, 45), every: ms(18, 45)}},
		// Requests due in the first 15 and 50 ms of a stop leave over 10 ms late: 3.5 and 11 % of them.
		{check: "late_work", also: []string{"send_lag"}, server: slow, client: open("200", "600"), harm: harm{stop: ms(25, 60), every: 400 * time.Millisecond}},
		{check: "stamp_lag", server: slow, client: with(open("50", "200"), "--random-output-len", "40"), harm: harm{stop: ms(16, 40), every: ms(16, 40)}},
		{check: "client_gap", server: slow, client: open("100", "300"), harm: harm{after: time.Second, stop: ms(140, 330)}},
		// The same in a closed loop.
		{
			check: "client_gap", server: usualServer, harm: harm{after: time.Second, stop: ms(140, 330)},
			client: []string{"--max-concurrency", "10", "--num-prompts", "200", "--random-input-len", "32", "--random-output-len", "10"},
		},
		// Other work on the client's only core, which needs a good part of it.
		{
			check: "cpu_taken", also: []string{"stamp_lag", "scheduler_lag", "send_lag", "late_work", "own_cpu", "client_gap", "host_steal"},
			server: []string{"--ttft", "50ms", "--itl", "2ms"}, harm: harm{burners: at(size, 4, 8), nice: at(size, 12, 19)},
			client: []string{"--max-concurrency", "40", "--num-prompts", "200", "--random-input-len", "32", "--random-output-len", "100"},
		},
	}
}

// figureJobs put into a finished run what cannot be brought about without rights or a fault in spate.
func figureJobs() []job {
	fig := func(check string, bend func(*figures)) job {
		return job{check: check, server: usualServer, client: with(usualClient, "--num-prompts", "60", "--random-input-len", "600"), bend: bend}
	}
	ms := func(x float64) time.Duration { return time.Duration(x * float64(time.Millisecond)) }
	return []job{
		fig("concurrency_cap", func(f *figures) {
			f.in.Summary.Concurrency = metrics.Concurrency{Cap: 10, Peak: 10 + int(f.size)}
		}),
		fig("workers", func(f *figures) {
			lost := int(f.size)
			f.in.Workers = workers(f)
			f.in.Workers[1].Gone, f.in.Workers[1].Lost = true, lost
			f.in.Summary.Failures.Gone, f.in.Summary.Failures.GoneUnsent = lost, lost
			f.in.Summary.Tally.Dropped += lost
			f.in.Summary.Tally.OK -= lost
		}),
		fig("worker_clocks", func(f *figures) {
			f.in.Workers = workers(f)
			f.in.Workers[1].Uncertainty = ms(10.5 * f.size)
		}),
		fig("scheduler_lag", func(f *figures) { f.in.Self.SchedLagP99 = ms(31.5 * f.size) }), // three times a median ITL of 10 ms
		fig("own_cpu", func(f *figures) { f.in.Self.CPUShare = min(1, 0.81*f.size) }),
		fig("gc_pauses", func(f *figures) { f.in.Self.GCPauseMax = ms(31.5 * f.size) }),
		fig("host_steal", func(f *figures) { f.in.Self.StealShare = 0.105 * f.size }),
		fig("cpu_quota", func(f *figures) { f.in.Self.Throttled = 0.011 * f.size }),
		fig("clock", func(f *figures) { f.in.Self.ClockJump = ms(105 * f.size) }),
		fig("record_log", func(f *figures) { f.in.Self.LogDropped = int(f.size) }),
		fig("token_counts", func(f *figures) { f.in.Summary.Lengths.Contradicted = int(f.size) }),
		fig("first_chunk", func(f *figures) { f.in.Summary.TTFT.Median = f.in.Summary.Clocks.FirstToken.Median * (1 - 0.11*f.size) }),
		fig("input_lengths", func(f *figures) {
			f.in.Summary.Lengths.InputMatch = metrics.Match{N: 60, MeanRatio: 1 + 0.105*f.size}
		}),
	}
}

// workers are two that shared the load of a run, each as the one that sent all of it was.
func workers(f *figures) []verdict.Worker {
	one := verdict.Worker{Self: f.in.Self, Sender: metrics.Sender{
		DispatchLag: f.in.Summary.Clocks.DispatchLag, SendLag: f.in.Summary.Clocks.SendLag, Late10ms: f.in.Summary.Rates.Late10ms,
	}}
	out := []verdict.Worker{one, one}
	out[0].Name, out[1].Name = "a", "b"
	return out
}

package explain

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/forecast/profile"
	"spate/internal/host/observe"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/sim/cluster"
	"spate/internal/sim/kv"
)

// scene is a run on a simulated engine, built to have one cause.
type scene struct {
	server  profile.Override
	n       int
	in, out int
	rate    float64 // 0: closed loop or burst
	then    float64 // the rate of the second half of requests; 0: the same
	slots   int
	distant time.Duration // added to every request's way
	repeats int           // prompts repeat after so many
	before  bool          // the same prompts were sent once before the run
	late    time.Duration // of the client, with every request
	stamps  time.Duration // p99 of how late the client stamped
}

// engine is the simulated server of the scenes.
func engine(t *testing.T) *profile.Profile {
	t.Helper()
	shipped, err := profile.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.Find(shipped, "000-test3")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// play runs a scene in virtual time and gathers what a benchmark would have seen of it.
func play(t *testing.T, p *profile.Profile, s scene) Input {
	t.Helper()
	p, err := p.With(s.server)
	if err != nil {
		t.Fatal(err)
	}
	conf := p.Cluster(&p.Cost, 1)
	conf.Log = 250 * time.Millisecond
	conf.Front.BaseNS = float64(2*time.Millisecond + s.distant) // the profile's own may be a network's worth
	server, err := cluster.New(conf)
	if err != nil {
		t.Fatal(err)
	}
	load := func() cluster.Load { return cluster.Load{Calls: cluster.Calls(s.calls()), Slots: s.slots} }
	if s.before {
		if _, err := server.Run(load()); err != nil {
			t.Fatal(err)
		}
	}
	res, err := server.Run(load())
	if err != nil {
		t.Fatal(err)
	}
	return s.seen(res)
}

func (s scene) calls() []cluster.Call {
	list := make([]cluster.Call, s.n)
	for i := range list {
		stream := i
		if s.repeats > 0 {
			stream = i % s.repeats
		}
		list[i] = cluster.Call{Prompt: []kv.Segment{{Stream: uint64(stream) + 1, Len: s.in}}, Out: s.out, MaxOut: s.out}
		if s.rate > 0 {
			list[i].At = time.Duration(float64(i) / s.rate * float64(time.Second))
			if half := s.n / 2; s.then > 0 && i > half {
				list[i].At = list[half].At + time.Duration(float64(i-half)/s.then*float64(time.Second))
			}
		}
	}
	return list
}

// seen is the run as spate would have kept it: records, the server's counters each quarter of a second, a verdict.
func (s scene) seen(res *cluster.Result) Input {
	recs := res.Records()
	for i := range recs {
		if s.late > 0 {
			recs[i].Due = max(0, recs[i].Dispatched-s.late)
		}
	}
	plan := metrics.Run{Requested: s.n, RequestRate: s.rate, MaxConcurrency: s.slots, Percentiles: []float64{50, 90, 99}, Tokenizer: true}
	if s.then > 0 {
		plan.Requested, plan.RequestRate = 0, math.Inf(1) // as with --stages
	}
	run := &result.Run{Plan: result.NewPlan(plan, ""), Server: result.Server{Model: "m"}}
	run.Plan.Judge = verdict.Settings{OpenLoop: s.rate > 0}
	run.Compute(call.List(recs))
	run.Plan.End = res.Duration
	samples := counters(res)
	run.Observe(samples, nil, 0)
	run.Verdict = verdict.Judge(verdict.Input{Summary: run.Summary, Self: &verdict.Self{StampLagP99: s.stamps}, Settings: run.Plan.Judge})
	r := result.FromRun(run)
	in := From(&r)
	in.AddRun(run, call.List(recs).All(), samples)
	return in
}

// counters is what a metrics page would have shown.
func counters(res *cluster.Result) []observe.Sample {
	at := []time.Duration{0}
	looks := map[time.Duration]cluster.Sample{}
	for _, l := range res.Samples {
		at, looks[l.At] = append(at, l.At), l
	}
	at = append(at, res.Duration)
	slices.Sort(at)
	preempted := int64(0)
	for _, e := range res.Engines {
		preempted += e.Preemptions
	}
	out := make([]observe.Sample, 0, len(at))
	for _, t := range slices.Compact(at) {
		v := map[string]float64{"running": 0, "waiting": 0}
		if l, ok := looks[t]; ok {
			v["running"], v["waiting"], v["kv_usage"] = float64(l.Running), float64(l.Waiting), l.KVUsage
		}
		for i := range res.Requests {
			r := &res.Requests[i]
			if r.Last > t && t < res.Duration {
				continue
			}
			v["queue_count"]++
			v["queue_sum"] += (r.Scheduled - r.Queued).Seconds()
			v["prefill_count"]++
			v["prefill_sum"] += (r.First - r.Scheduled).Seconds()
			v["decode_count"]++
			v["decode_sum"] += (r.Last - r.First).Seconds()
			v["prefix_queries"] += float64(r.In)
			v["prefix_hits"] += float64(r.Cached)
		}
		v["preemptions"] = 0
		if t == res.Duration {
			v["preemptions"] = float64(preempted)
		}
		out = append(out, observe.Sample{At: t, Source: observe.Server, Values: v})
	}
	return out
}

func TestEachCause(t *testing.T) {
	off := false
	cases := []struct {
		name string
		scene
		first string
		sure  Confidence
		also  []string // further causes that hold
		never []string
	}{
		{
			name: "queue at max_num_seqs", scene: scene{server: profile.Override{MaxSeqs: 32, PrefixCaching: &off}, n: 100, in: 200, out: 100, slots: 80},
			first: MaxNumSeqs, sure: Medium, never: []string{KVCacheFull, PrefillBound, DecodeBound, BelowCapacity, ClientBound, PrefixCache, Network},
		},
		{
			name: "queue at a usual max_num_seqs", scene: scene{server: profile.Override{MaxSeqs: 64, PrefixCaching: &off}, n: 160, in: 200, out: 100, slots: 128},
			first: MaxNumSeqs, sure: High, never: []string{KVCacheFull, PrefillBound, DecodeBound, BelowCapacity},
		},
		{
			name: "cache full", scene: scene{server: profile.Override{KVTokens: 20000, PrefixCaching: &off}, n: 60, in: 500, out: 300, slots: 50},
			first: KVCacheFull, sure: High, never: []string{MaxNumSeqs, PrefillBound, DecodeBound, BelowCapacity},
		},
		{
			name: "prompts", scene: scene{server: profile.Override{PrefixCaching: &off}, n: 80, in: 6000, out: 8, rate: 20},
			first: PrefillBound, sure: High, never: []string{MaxNumSeqs, KVCacheFull, DecodeBound, BelowCapacity},
		},
		{
			name: "decoding", scene: scene{server: profile.Override{PrefixCaching: &off}, n: 32, in: 100, out: 300, slots: 16},
			first: DecodeBound, sure: High, also: []string{BelowCapacity}, never: []string{MaxNumSeqs, KVCacheFull, PrefillBound},
		},
		{
			name: "rate below capacity", scene: scene{server: profile.Override{PrefixCaching: &off}, n: 60, in: 300, out: 60, rate: 3},
			first: BelowCapacity, sure: High, never: []string{MaxNumSeqs, KVCacheFull, PrefillBound, PrefixCache, ClientBound, Network},
		},
		{
			name: "stages below capacity", scene: scene{server: profile.Override{PrefixCaching: &off}, n: 60, in: 300, out: 60, rate: 2, then: 5},
			first: BelowCapacity, sure: High, never: []string{MaxNumSeqs, KVCacheFull, PrefillBound, PrefixCache, ClientBound, Network},
		},
		{
			name: "stages, the last above capacity", scene: scene{server: profile.Override{MaxSeqs: 4, PrefixCaching: &off}, n: 200, in: 1024, out: 64, rate: 2, then: 40},
			first: MaxNumSeqs, sure: Medium, never: []string{KVCacheFull, PrefillBound, DecodeBound, BelowCapacity},
		},
		{
			name: "repeated prompts", scene: scene{n: 40, in: 2000, out: 50, slots: 8, before: true},
			first: DecodeBound, sure: High, also: []string{PrefixCache}, never: []string{MaxNumSeqs, KVCacheFull},
		},
		{
			name: "far away", scene: scene{server: profile.Override{PrefixCaching: &off}, n: 40, in: 100, out: 20, rate: 5, distant: 300 * time.Millisecond},
			first: Network, sure: High, never: []string{MaxNumSeqs, KVCacheFull, PrefillBound},
		},
		{
			name: "a queue, and a client that stamps a little late", scene: scene{server: profile.Override{MaxSeqs: 4, PrefixCaching: &off}, n: 200, in: 1024, out: 64, rate: 40, stamps: 8 * time.Millisecond},
			first: MaxNumSeqs, sure: Medium, also: []string{ClientBound}, never: []string{KVCacheFull, PrefillBound, DecodeBound, BelowCapacity},
		},
		{
			name: "headroom, and a client that stamps a little late", scene: scene{server: profile.Override{PrefixCaching: &off}, n: 60, in: 300, out: 60, rate: 3, stamps: 2 * time.Millisecond},
			first: BelowCapacity, sure: High, also: []string{ClientBound}, never: []string{MaxNumSeqs, KVCacheFull, PrefillBound},
		},
		{
			name: "late client", scene: scene{server: profile.Override{PrefixCaching: &off}, n: 40, in: 300, out: 50, rate: 10, late: 2 * time.Second},
			first: ClientBound, sure: High, never: []string{MaxNumSeqs, KVCacheFull},
		},
	}
	server := engine(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := Explain(play(t, server, c.scene))
			names := make([]string, len(got))
			for i := range got {
				names[i] = got[i].Name
			}
			if names[0] != c.first || got[0].Confidence != c.sure {
				t.Errorf("causes %v, %s confidence in the first; want %s with %s first", names, got[0].Confidence, c.first, c.sure)
			}
			for _, name := range c.also {
				if !slices.Contains(names, name) {
					t.Errorf("causes %v lack %s", names, name)
				}
			}
			for _, name := range c.never {
				if slices.Contains(names, name) {
					t.Errorf("causes %v have %s: %+v", names, name, got[slices.Index(names, name)])
				}
			}
			lawful(t, got)
		})
	}
}

// lawful checks what holds for every explanation: an answer, with evidence and advice, and no figure out of bounds.
func lawful(t *testing.T, causes []Cause) {
	t.Helper()
	if len(causes) == 0 {
		t.Fatal("no answer at all")
	}
	seen := map[string]bool{}
	for _, c := range causes {
		if seen[c.Name] || c.Sentence == "" || c.Kind == "" {
			t.Errorf("cause %+v is given twice or says nothing", c)
		}
		seen[c.Name] = true
		if c.Name != CannotTell && (len(c.Evidence) == 0 || len(c.Try) == 0 || c.Confidence == "") {
			t.Errorf("%s has no evidence, no advice or no confidence: %+v", c.Name, c)
		}
		if c.Share < 0 || c.Share > 1 {
			t.Errorf("%s explains %v of latency", c.Name, c.Share)
		}
		for _, e := range c.Evidence {
			if e.From == "" || e.Unit == "share" && (e.Value < 0 || e.Value > 1) {
				t.Errorf("%s: evidence %+v", c.Name, e)
			}
		}
	}
}

// TestFewRunningIsSaidOfSome: less than one request on average is no number running.
func TestFewRunningIsSaidOfSome(t *testing.T) {
	for running, said := range map[float64]bool{0.38: false, 0: false, 1: true, 5: true, 200: false} {
		in := Input{InFlight: running, MeanOut: 100, TTFT: Latency{Mean: 50}, TPOT: Latency{Mean: 10}, E2EL: Latency{Mean: 1040}, Source: "the records"}
		c := decodeBound(&in)
		if c == nil || strings.Contains(c.Sentence, " running, a step") != said {
			t.Errorf("%v running: %+v, want its number said: %v", running, c, said)
		}
	}
}

func TestGrowthNeedsManyRequests(t *testing.T) {
	if g := growth(call.List(make([]call.Record, 10)).All()); g != 0 {
		t.Errorf("growth %v of ten requests", g)
	}
}

package sizing

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"spate/internal/figure"
	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/sim"
	"spate/internal/sim/cluster"
	"spate/internal/sim/kv"
	"spate/internal/sim/latency"
)

// clockwork is a server whose steps all take the same time, whatever is in them.
func clockwork(name string, stepMS float64, others ...float64) *profile.Profile {
	cost := func(ms float64) profile.Cost {
		return profile.Cost{Step: latency.Reference{StepNS: ms * 1e6}, Blocks: 10000}
	}
	p := &profile.Profile{
		Schema: profile.Schema, Name: name, Calibrated: true,
		Engine: profile.Facts{Engine: "vllm", Version: "0.10.1", GPU: "A100-80GB", TP: 1, Model: "Qwen3-8B"},
		Sim:    sim.Config{Policy: sim.V1, MaxSeqs: 1, MaxTokens: 2048, MaxModelLen: 4096, BlockSize: 16},
		Cost:   cost(stepMS),
	}
	for _, ms := range others {
		p.Set = append(p.Set, cost(ms))
	}
	return p
}

// load is n requests of equal length.
func load(n, in, out int) *predict.Load {
	l := &predict.Load{Requests: make([]predict.Request, n)}
	for i := range l.Requests {
		l.Requests[i].Call = cluster.Call{Prompt: []kv.Segment{{Stream: uint64(i) + 1, Len: in}}, Out: out, MaxOut: out}
	}
	return l
}

func objectives(t *testing.T, text string) []figure.Objective {
	t.Helper()
	list, err := figure.ParseObjectives(text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func server(t *testing.T, p *profile.Profile) *Server {
	t.Helper()
	s, err := FromProfile(p, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// regular is a plan for requests of ten tokens at constant intervals, one at a time: a replica with
// steps of 10 ms takes ten of them per second and no more.
func regular(t *testing.T, slo string, rate float64, profiles ...*profile.Profile) Options {
	t.Helper()
	o := Options{
		Objectives: objectives(t, slo), Rate: rate, Load: load(300, 100, 10), Burstiness: math.Inf(1), TP: []int{1}, MaxSeqs: []int{1}, MaxTokens: []int{2048},
	}
	for _, p := range profiles {
		o.Servers = append(o.Servers, server(t, p))
	}
	return o
}

func mustMake(t *testing.T, o Options) *Plan {
	t.Helper()
	p, err := Make(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestByHand(t *testing.T) {
	for _, c := range []struct {
		name     string
		rate     float64
		replicas int
	}{
		{"well below one", 1, 1},
		{"nearly one", 9.7, 1},
		{"just above one", 10.3, 2},
		{"two and a half", 25, 3},
		{"many", 970, 97},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustMake(t, regular(t, "p99_ttft<50ms,mean_tpot<11ms", c.rate, clockwork("steady", 10)))
			got := p.Recommended
			if got == nil || got.Replicas < c.replicas || got.Replicas > int(math.Ceil(float64(c.replicas)*1.02)) || got.GPUs != got.Replicas {
				t.Fatalf("recommended %+v, want %d replicas", got, c.replicas)
			}
			if got.Limit > 10 || got.Limit < 10/rung {
				t.Errorf("a replica takes %g per second, want 10 or a rung less", got.Limit)
			}
			if got.Breaks == nil || got.Breaks.Rate < 10*float64(got.Replicas) || got.Breaks.Rate > 10*rung*float64(got.Replicas) {
				t.Errorf("breaks at %+v, want just above ten per replica", got.Breaks)
			}
			if got.Breaks.Objective != "p99_ttft<50ms" {
				t.Errorf("%s breaks first, want p99_ttft<50ms", got.Breaks.Objective)
			}
			ttft, tpot := got.Figures[0], got.Figures[1]
			if math.Abs(ttft.Predicted-10) > 0.01 || math.Abs(ttft.Margin-80) > 0.1 || math.Abs(tpot.Predicted-10) > 0.01 {
				t.Errorf("figures %+v %+v, want 10 ms each, 80 %% below the bound of 50", ttft, tpot)
			}
		})
	}
}

func TestQueueGrowsWithoutLatencyObjective(t *testing.T) {
	p := mustMake(t, regular(t, "mean_tpot<11ms", 30, clockwork("steady", 10)))
	if c := p.Recommended; c == nil || c.Breaks.Objective != queueGrows || c.Limit > 12 {
		t.Errorf("recommended %+v: an overloaded replica must not count although its tokens come in time", c)
	}
}

func TestMoreRateNeverNeedsFewerGPUs(t *testing.T) {
	prof := clockwork("bursty", 10)
	prof.Sim.MaxSeqs = 8
	prof.Cost.Step.PrefillNS = 50e3
	before := 0
	for _, rate := range []float64{0.3, 4, 12, 20, 33, 90, 200} {
		o := regular(t, "p99_ttft<200ms,p99_tpot<30ms", rate, prof)
		o.Burstiness, o.MaxSeqs, o.MaxTokens = 1, []int{8, 16}, []int{512, 2048}
		c := mustMake(t, o).Recommended
		if c == nil || c.GPUs < before {
			t.Fatalf("%g per second: %+v after %d GPUs at a lower rate", rate, c, before)
		}
		before = c.GPUs
	}
	if before < 2 {
		t.Errorf("%d GPUs at the highest rate: nothing was tested", before)
	}
}

func TestStricterNeverNeedsFewerGPUs(t *testing.T) {
	before := math.MaxInt
	for _, slo := range []string{"p99_ttft<30ms", "p99_ttft<100ms", "p99_ttft<1s", "p99_ttft<10s"} {
		o := regular(t, slo, 40, clockwork("steady", 10))
		o.Burstiness = 1
		c := mustMake(t, o).Recommended
		if c == nil || c.GPUs > before {
			t.Fatalf("%s: %+v after %d GPUs with a stricter one", slo, c, before)
		}
		before = c.GPUs
	}
}

// TestRestsOn: a plan says on how many requests it rests, and when they were too few to settle.
func TestRestsOn(t *testing.T) {
	for n, want := range map[int]string{
		100:  "rests on 100 simulated requests for each replica\ntoo few requests: at the limit of a replica 1000 would be needed for the number in flight to settle; give --num-prompts 1000 or more\n",
		1500: "rests on 1000 simulated requests for each replica\n",
	} {
		o := regular(t, "p99_ttft<50ms", 1, clockwork("steady", 10))
		o.Load = load(n, 100, 10)
		var b strings.Builder
		if err := mustMake(t, o).Write(&b); err != nil || !strings.HasSuffix(b.String(), want) {
			t.Errorf("%d requests: %v\n%s", n, err, b.String())
		}
	}
}

func TestImpossible(t *testing.T) {
	p := mustMake(t, regular(t, "p99_ttft<9ms", 1, clockwork("steady", 10)))
	c := p.Candidates[0]
	if p.Recommended != nil || c.Verdict != Fails || c.Replicas != 0 || !strings.Contains(c.Reason, "no number of replicas helps") {
		t.Errorf("recommended %+v, candidate %+v", p.Recommended, c)
	}
	var b strings.Builder
	if err := p.Write(&b); err != nil || !strings.Contains(b.String(), "nothing meets the objectives") {
		t.Errorf("%v: %s", err, b.String())
	}
}

func TestTooLongRequestsSaySo(t *testing.T) {
	o := regular(t, "p99_ttft<1s", 1, clockwork("steady", 10))
	o.Load = load(100, 5000, 10)
	if p := mustMake(t, o); p.Recommended != nil || !strings.Contains(p.Candidates[0].Reason, "do not fit") {
		t.Errorf("candidates %+v", p.Candidates)
	}
}

func TestCannotTell(t *testing.T) {
	for _, c := range []struct {
		name    string
		slo     string
		others  []float64
		verdict Verdict
		certain int
	}{
		{"all vectors meet", "p99_ttft<50ms", []float64{10, 9}, Meets, 0},
		{"one is too slow for two replicas", "p99_ttft<50ms", []float64{11}, CannotTell, 3},
		{"no number settles it", "p99_tpot<10.5ms", []float64{11}, CannotTell, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := mustMake(t, regular(t, c.slo, 19.2, clockwork("steady", 10, c.others...))).Recommended
			if got == nil || got.Verdict != c.verdict || got.Certain != c.certain || got.Replicas != 2 || got.Vectors != 1+len(c.others) {
				t.Errorf("got %+v, want %s and certainty with %d replicas", got, c.verdict, c.certain)
			}
		})
	}
}

func TestLeastCost(t *testing.T) {
	fast, slow := clockwork("fast", 5), clockwork("slow", 10)
	for _, c := range []struct {
		name        string
		fast, slow  float64
		want        string
		costPerHour float64
	}{
		{"no prices", 0, 0, "fast", 0},
		{"twice as fast at three times the price", 3, 1, "slow", 4},
		{"twice as fast at the price", 1, 1, "fast", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := regular(t, "p99_ttft<50ms", 38, fast, slow)
			o.Servers[0].Price, o.Servers[1].Price = c.fast, c.slow
			got := mustMake(t, o).Recommended
			if got == nil || got.Profile != c.want {
				t.Fatalf("recommended %+v, want %s", got, c.want)
			}
			if (got.Cost != nil) != (c.fast > 0) || got.Cost != nil && *got.Cost != c.costPerHour {
				t.Errorf("cost %v, want %g", got.Cost, c.costPerHour)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*profile.Profile)
		want   string
	}{
		"unknown hardware": {func(p *profile.Profile) { p.Engine.GPU = "" }, "unknown"},
		"disaggregated":    {func(p *profile.Profile) { p.Engine.Disagg = &profile.Disagg{} }, "separate engines for prompts and decoding"},
		"another engine":   {func(p *profile.Profile) { p.Engine.Engine = "sglang" }, "sglang"},
	} {
		t.Run(name, func(t *testing.T) {
			p := clockwork("odd", 10)
			c.change(p)
			if _, err := FromProfile(p, 0); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	across := clockwork("across", 10)
	across.Engine.Nodes, across.Engine.TP = 2, 2
	o := regular(t, "p99_ttft<50ms", 5, across)
	o.TP = []int{2, 4}
	p := mustMake(t, o)
	if len(p.Candidates) != 1 || len(p.Refused) != 1 || p.Refused[0].TP != 4 || !strings.Contains(p.Refused[0].Reason, "across nodes") {
		t.Errorf("candidates %+v, refused %+v", p.Candidates, p.Refused)
	}
}

func TestMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no rate":      {func(o *Options) { o.Rate = 0 }, "rate 0"},
		"throughput":   {func(o *Options) { o.Objectives = objectives(t, "request_throughput>5") }, "follows from the rate"},
		"lower bound":  {func(o *Options) { o.Objectives = objectives(t, "p99_ttft>5ms") }, "upper bounds"},
		"zero":         {func(o *Options) { o.Objectives = objectives(t, "p99_ttft<0ms") }, "must be above 0"},
		"no profile":   {func(o *Options) { o.Servers = nil }, "needs a profile"},
		"few requests": {func(o *Options) { o.Load = load(5, 10, 10) }, "too few"},
		"one token":    {func(o *Options) { o.Load, o.Objectives = load(50, 10, 1), objectives(t, "p99_tpot<5ms") }, "have no tpot"},
	} {
		t.Run(name, func(t *testing.T) {
			o := regular(t, "p99_ttft<50ms", 5, clockwork("steady", 10))
			c.change(&o)
			if _, err := Make(o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	p := mustMake(t, regular(t, "p99_ttft<50ms", 5, clockwork("steady", 10)))
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	best, ok := got["recommended"].(map[string]any)
	if !ok || got["predicted_not_measured"] != true || got["rate_per_s"] != 5.0 {
		t.Fatalf("%s", data)
	}
	for _, key := range []string{
		"profile", "calibrated", "gpu", "tensor_parallel_size", "max_num_seqs", "max_num_batched_tokens", "verdict", "replicas", "gpus",
		"max_rate_per_replica", "objectives", "breaks_first", "command",
	} {
		if _, ok := best[key]; !ok {
			t.Errorf("recommended has no %s: %s", key, data)
		}
	}
	again, err := json.Marshal(mustMake(t, regular(t, "p99_ttft<50ms", 5, clockwork("steady", 10))))
	if err != nil || !slices.Equal(data, again) {
		t.Errorf("the same plan came out differently: %v\n%s\n%s", err, data, again)
	}
}

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		name  string
		sched sim.Config
		want  string
	}{
		{"new engine", sim.Config{Policy: sim.V1, PrefixCaching: true}, "--enable-prefix-caching"},
		{"no prefix cache", sim.Config{Policy: sim.V1}, "--no-enable-prefix-caching"},
		{"whole prompts", sim.Config{Policy: sim.V1, WholePrompts: true}, "--no-enable-prefix-caching --no-enable-chunked-prefill"},
		{"old engine, chunked", sim.Config{Policy: sim.V0Chunked}, "--enable-chunked-prefill"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Variant{Shape: Shape{TP: 2, MaxSeqs: 64, MaxTokens: 2048}, model: "a/b", context: 4096, sched: c.sched}
			want := "vllm serve a/b --tensor-parallel-size 2 --max-num-seqs 64 --max-num-batched-tokens 2048 --max-model-len 4096 " + c.want
			if got := v.Command(); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// TestProgress counts every profile and size once, from none to all, and changes nothing.
func TestProgress(t *testing.T) {
	o := regular(t, "mean_tpot<11ms", 30, clockwork("steady", 10), clockwork("slow", 20))
	want := mustMake(t, o)
	var seen []int
	o.Progress = func(done, total int) {
		if total != 2 {
			t.Errorf("%d in all, want 2", total)
		}
		seen = append(seen, done)
	}
	got := mustMake(t, o)
	if !slices.Equal(seen, []int{0, 1, 2}) {
		t.Errorf("told %v, want 0 to 2", seen)
	}
	if got.Recommended.Command != want.Recommended.Command {
		t.Errorf("recommends %s, without progress %s", got.Recommended.Command, want.Recommended.Command)
	}
}

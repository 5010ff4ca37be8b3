package result

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/figure"
	"spate/internal/judge/metrics"
	"spate/internal/load/schedule"
	"spate/internal/settings/config"
)

const ms = time.Millisecond

// signed is a request of a tenant: sent at a time, its first token after ttft and three more each itl.
func signed(id int, tenant string, at, ttft, itl time.Duration) call.Record {
	r := call.NewRecord(&call.Request{ID: id, Phase: call.Measure, In: call.Count{N: 10, From: call.FromTokenizer}, MaxOut: 4})
	r.Labels = map[string]string{TenantLabel: tenant}
	r.Due, r.Dispatched, r.Started, r.Sent = at, at, at, at
	for i := range 4 {
		r.Chunks = append(r.Chunks, call.Chunk{At: at + ttft + time.Duration(i)*itl, Kind: call.Visible})
	}
	r.End = at + ttft + 3*itl
	r.FirstToken, r.LastToken, r.LastEvent = at+ttft, r.End, r.End
	r.Outcome, r.Out, r.In, r.Status = call.OK, call.Count{N: 4, From: call.FromServer}, call.Count{N: 10, From: call.FromServer}, 200
	return r
}

// mixed is a run of two tenants. chat sends at 0, 100 and 200 ms and has its first tokens after 20, 40 and 60
// ms; batch sends at 50 and 150 ms, has a first token after 200 ms, and its second request fails at 350.
func mixed() (*Run, []call.Record) {
	recs := []call.Record{
		signed(0, "chat", 0, 20*ms, 10*ms), signed(2, "chat", 100*ms, 40*ms, 10*ms), signed(4, "chat", 200*ms, 60*ms, 10*ms),
		signed(1, "batch", 50*ms, 200*ms, 20*ms), signed(3, "batch", 150*ms, 200*ms, 20*ms),
	}
	bad := &recs[4]
	bad.Outcome, bad.Fault, bad.Err, bad.Chunks, bad.Out, bad.End = call.Failed, call.FaultStatus, "HTTP 500", nil, call.Count{}, 350*ms
	probe := signed(0, "", 10*ms, ms, ms)
	probe.Phase, probe.Labels = call.Probe, nil
	recs = append(recs, probe)
	plan := func(end time.Duration, objectives ...metrics.Objective) Plan {
		return NewPlan(metrics.Run{End: end, Objectives: objectives, Tokenizer: true, Percentiles: []float64{99}}, "")
	}
	run := newRun()
	run.Plan = plan(350 * ms)
	run.Tenants = []Tenant{
		{Name: "chat", Model: "m", Plan: plan(290*ms, metrics.Objective{Metric: "ttft", Bound: 50}), SLO: []string{"mean_ttft<45ms", "error_rate<1%"}},
		{Name: "batch", Plan: plan(350 * ms), SLO: []string{"mean_ttft<100ms", "goodput_ratio>0.5"}},
	}
	return run, recs
}

// TestTenantsByHand computes every cell of the rows on paper.
func TestTenantsByHand(t *testing.T) {
	run, recs := mixed()
	run.Compute(call.List(recs))
	chat, batch, all := &run.Tenants[0].Summary, &run.Tenants[1].Summary, &run.Summary
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("TTFT of chat", chat.TTFT.Mean, 40)                   // (20+40+60)/3
	near("TTFT of batch", batch.TTFT.Mean, 200)                // of its one answer
	near("TTFT of all", all.TTFT.Mean, 80)                     // (20+40+60+200)/4
	near("p99 TTFT of chat", chat.TTFT.P(99), 59.6)            // 40 + 0.98*20
	near("TPOT of chat", chat.TPOT.Mean, 10)                   // 30 ms for 3 tokens
	near("TPOT of all", all.TPOT.Mean, 12.5)                   // (3*10+20)/4
	near("ITL of all", all.ITL.Mean, 12.5)                     // 9 gaps of 10 ms, 3 of 20
	near("duration of chat", chat.DurationS, 0.29)             // its own part
	near("throughput of chat", chat.RequestThroughput, 3/0.29) //
	near("throughput of all", all.RequestThroughput, 4/0.35)   //
	near("tokens of all", all.OutputThroughput, 16/0.35)       //
	near("goodput of chat", *chat.RequestGoodput, 2/0.29)      // 60 ms is above 50
	near("share of chat", chat.Goodput.Share, 2.0/3)           //
	near("goodput of all", *all.RequestGoodput, 2/0.35)        // batch has no bounds to keep
	near("share of all, of those with bounds", all.Goodput.Share, 2.0/3)
	if batch.Goodput != nil {
		t.Error("batch has a goodput")
	}
	sum := func(f func(*metrics.Summary) int) {
		t.Helper()
		if f(chat)+f(batch) != f(all) {
			t.Errorf("%d and %d make %d", f(chat), f(batch), f(all))
		}
	}
	for _, f := range []func(*metrics.Summary) int{
		func(s *metrics.Summary) int { return s.Completed }, func(s *metrics.Summary) int { return s.Failed }, func(s *metrics.Summary) int { return s.TotalInput },
		func(s *metrics.Summary) int { return s.TotalOutput }, func(s *metrics.Summary) int { return s.Tally.Due }, func(s *metrics.Summary) int { return s.TTFT.N },
	} {
		sum(f)
	}
	if run.Tenants[1].Tally != (call.Tally{Due: 2, OK: 1, Failed: 1, Attempts: 2}) || !slices.Equal(run.Tenants[1].Errors, []string{"HTTP 500"}) {
		t.Errorf("batch: %+v, %q", run.Tenants[1].Tally, run.Tenants[1].Errors)
	}
	want := []Check{{"mean_ttft<45ms", "mean_ttft_ms", 40, true}, {"error_rate<1%", "error_rate", 0, true}}
	if diff := cmp.Diff(want, run.Tenants[0].Checks); diff != "" {
		t.Error(diff)
	}
	if met, judged := run.Tenants[0].Meets(); !met || !judged {
		t.Error("chat met its objectives")
	}
	missed := run.Tenants[1].Missed() // a share of nothing is no figure, and meets nothing
	if len(missed) != 2 || missed[0].Value != 200 || !math.IsNaN(float64(missed[1].Value)) {
		t.Errorf("batch missed %v", missed)
	}
}

// TestTenantsRecovered holds that a killed run has the rows of one that ended.
func TestTenantsRecovered(t *testing.T) {
	finished, recs := mixed()
	finished.Compute(call.List(recs))
	dir := filepath.Join(t.TempDir(), "run")
	run, _ := mixed()
	for i := range run.Tenants {
		run.Tenants[i].Plan.Start, run.Tenants[i].Plan.End = 0, 0 // not known before the end
	}
	run.Plan.Start, run.Plan.End = 0, 0
	f, err := Create(run, Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for i := range recs {
		if err := f.Log.Record(&recs[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Log.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got.State != Recovered || len(got.Tenants) != 2 {
		t.Fatalf("state %s, %d tenants", got.State, len(got.Tenants))
	}
	for i := range got.Tenants {
		was, is := &finished.Tenants[i], &got.Tenants[i]
		if was.Tally != is.Tally || was.Summary.TTFT.Mean != is.Summary.TTFT.Mean || len(is.Checks) != 2 {
			t.Errorf("%s: %+v and %v, was %+v and %v", is.Name, is.Tally, is.Summary.TTFT.Mean, was.Tally, was.Summary.TTFT.Mean)
		}
	}
	if *got.Summary.RequestGoodput != 2/got.Summary.DurationS {
		t.Errorf("goodput %v over %v s", *got.Summary.RequestGoodput, got.Summary.DurationS)
	}
}

func TestTenantAsRun(t *testing.T) {
	run, recs := mixed()
	run.Compute(call.List(recs))
	b := config.Bench{Tenants: []config.Tenant{{Name: "chat", Dataset: config.Dataset{Name: "random"}}, {Name: "batch", Dataset: config.Dataset{Name: "sonnet"}}}}
	var err error
	if run.Config, err = json.Marshal(b); err != nil {
		t.Fatal(err)
	}
	one := run.Tenant("batch")
	one.Config = config.OfTenant(one.Config, 1)
	if one.Labels[TenantLabel] != "batch" || run.Labels[TenantLabel] != "" || one.Summary.TTFT.Mean != 200 || one.ID != run.ID+"/batch" || len(one.Tenants) != 0 {
		t.Errorf("batch as a run: %q %v, TTFT %v", one.ID, one.Labels, one.Summary.TTFT.Mean)
	}
	if !strings.Contains(string(one.Config), `"name":"sonnet"`) || strings.Contains(string(one.Config), `"name":"random"`) {
		t.Errorf("its settings are %s", one.Config)
	}
	if run.Tenant("nobody") != nil {
		t.Error("a tenant nobody named")
	}
	// A file with a figure that is none is read again.
	run.Schema = Schema
	data, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(data)
	if err != nil || !math.IsNaN(float64(again.Tenants[1].Checks[1].Value)) || again.Tenants[0].Summary.TTFT.Mean != 40 {
		t.Errorf("read again: %v, %+v", err, again.Tenants)
	}
}

// TestTenantsOfLikeNames: the rate of one of two tenants differs, whose names differ in a dot.
func TestTenantsOfLikeNames(t *testing.T) {
	of := func(rate float64) *Run {
		raw, err := json.Marshal(config.Bench{Tenants: []config.Tenant{
			{Name: "a.b", Load: config.Load{Settings: schedule.Settings{RequestRate: config.Float(rate)}}}, {Name: "a_b", Load: config.Load{Settings: schedule.Settings{RequestRate: 7}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return &Run{ID: "r", Config: raw}
	}
	if err := of(5).Comparable(of(5)); err != nil {
		t.Error(err)
	}
	if err := of(5).Comparable(of(6)); err == nil || !strings.HasSuffix(err.Error(), "differ in tenants.a.b.load.request_rate: 5 against 6") {
		t.Errorf("%v, want the rate of a.b", err)
	}
}

func TestTenantsComparable(t *testing.T) {
	of := func(rate float64, given config.Source) *Run {
		b := config.Bench{Tenants: []config.Tenant{{Name: "a.b", Load: config.Load{Settings: schedule.Settings{RequestRate: config.Float(rate)}}, Given: map[string]config.Source{"seed": given}}}}
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		return &Run{ID: "r", Config: raw}
	}
	if err := of(5, config.FromArgs).Comparable(of(5, config.FromFile)); err != nil {
		t.Errorf("who said it matters: %v", err)
	}
	judged, err := json.Marshal(config.Bench{Tenants: []config.Tenant{{
		Name: "a.b", Load: config.Load{Settings: schedule.Settings{RequestRate: 5}}, Headers: []config.Header{{Name: "X-Team", Value: "b"}},
		Goodput: []config.Limit{{Metric: "ttft", MS: 50}}, SLO: []figure.Objective{{Text: "mean_ttft<45ms"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := of(5, config.FromFile).Comparable(&Run{ID: "r", Config: judged}); err != nil {
		t.Errorf("what a tenant is judged by matters: %v", err)
	}
	if err := of(5, config.FromFile).Comparable(&Run{ID: "r", Config: []byte("{}")}); err == nil {
		t.Error("a run without the tenant is comparable")
	}
	if err := of(5, config.FromFile).Comparable(of(6, config.FromFile)); err == nil || !strings.Contains(err.Error(), "tenants.a.b.load.request_rate: 5 against 6") {
		t.Errorf("a tenant's rate: %v", err)
	}
}

package bench

import (
	"math"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/figure"
	"spate/internal/judge/metrics"
	"spate/internal/result"
	"spate/internal/settings/config"
)

// TestUnmetWithoutFigure tells why there is nothing to hold an objective against.
func TestUnmetWithoutFigure(t *testing.T) {
	one := call.NewRecord(&call.Request{Phase: call.Measure, MaxOut: 1})
	one.Sent, one.FirstToken, one.End, one.Outcome, one.Out.N = 0, time.Millisecond, time.Millisecond, call.OK, 1
	none, short := metrics.Summarize(nil, metrics.Run{}), metrics.Summarize([]call.Record{one}, metrics.Run{End: time.Second})
	for _, c := range []struct {
		of         *metrics.Summary
		text, want string
	}{
		{&none, "p99_ttft<1s", "objective p99_ttft<1s is not met: there is no p99_ttft_ms, since no request succeeded"},
		{&none, "error_rate<1%", "objective error_rate<1% is not met: there is no error_rate, since no request came to an end of its own"},
		{&short, "mean_itl<1s", "objective mean_itl<1s is not met: there is no mean_itl_ms, since no answer had a second token"},
		{&short, "request_goodput>1", "objective request_goodput>1 is not met: there is no request_goodput, since --goodput gives no bounds to count by"},
	} {
		o, err := figure.ParseObjectives(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := unmet(o, c.of); len(got) != 1 || got[0] != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		row := result.Tenant{Name: "chat", Summary: *c.of, Checks: []result.Check{{Text: c.text, Key: o[0].Key(), Value: config.Float(math.NaN())}}}
		if got := unmetTenants(&result.Run{Tenants: []result.Tenant{row}}); len(got) != 1 || got[0] != "tenant chat: "+c.want {
			t.Errorf("%q, want %q of chat", got, c.want)
		}
	}
}

// TestErrorRate counts by hand: of ten requests that the user did not stop, four got no answer.
func TestErrorRate(t *testing.T) {
	fates := []struct {
		n       int
		outcome call.Outcome
		fault   call.Fault
	}{
		{6, call.OK, call.NoFault},
		{1, call.Failed, call.FaultStatus},
		{2, call.Canceled, call.FaultCutoff},
		{1, call.Dropped, call.FaultCutoff},
		{3, call.Canceled, call.FaultStopped},
	}
	var recs []call.Record
	add := func(outcome call.Outcome, fault call.Fault) *call.Record {
		at := time.Duration(len(recs)) * time.Millisecond
		rec := call.NewRecord(&call.Request{ID: len(recs), Phase: call.Measure, MaxOut: 1})
		rec.Due, rec.Dispatched, rec.Started, rec.Sent, rec.End = at, at, at, at, at+time.Second
		rec.Outcome, rec.Fault = outcome, fault
		recs = append(recs, rec)
		return &recs[len(recs)-1]
	}
	for _, f := range fates {
		for range f.n {
			add(f.outcome, f.fault)
		}
	}
	// A failed attempt that another one made good is no error.
	add(call.Failed, call.FaultStatus).Retried = true
	recs[len(recs)-1].ID = 0
	recs[0].Attempt = 1

	s := metrics.Summarize(recs, metrics.Run{End: time.Minute})
	for text, met := range map[string]bool{"error_rate<=40%": true, "error_rate<40%": false, "error_rate>=40%": true} {
		o, err := figure.ParseObjectives(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(unmet(o, &s)) == 0; got != met {
			t.Errorf("%s: met %v, want %v: %v", text, got, met, unmet(o, &s))
		}
	}
	none := metrics.Summarize(nil, metrics.Run{})
	if v := (figure.Objective{Metric: "error_rate"}).Of(&none); !math.IsNaN(v) {
		t.Errorf("%v of no requests", v)
	}
}

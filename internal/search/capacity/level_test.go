package capacity

import (
	"math"
	"slices"
	"testing"

	"spate/internal/figure"
	"spate/internal/settings/config"
)

// TestServiceIsWhatABusyServerServes holds that the rate of a server that was asked for too much is found, and that
// one with time to spare tells none.
func TestServiceIsWhatABusyServerServes(t *testing.T) {
	for serves, busy := range map[float64]bool{18: true, 19: true, 30: false} {
		w, closed := NewWatch(nil, Rate, 1800), NewWatch(nil, Concurrency, 1800)
		recs := served(1800, 20, serves, 0)
		for i := range recs {
			_ = w.Record(&recs[i])
			_ = closed.Record(&recs[i])
		}
		s := w.Busy()
		if rate := s.Served / s.Seconds; busy && !(math.Abs(rate-serves) < 0.01*serves && s.atLeast() <= serves && s.atLeast() > 0.97*serves) {
			t.Errorf("serving %g of 20: %g, at least %g, of %+v", serves, rate, s.atLeast(), s)
		}
		if !busy && s != (Service{}) {
			t.Errorf("serving %g of 20: %+v, want nothing", serves, s)
		}
		if closed.Busy() != (Service{}) {
			t.Error("in a closed loop no rate is asked for")
		}
	}
}

// observed is a probe with a figure of p99_ttft<500ms and no failures.
func observed(load float64, planned int, value float64) Observation {
	v := config.Float(value)
	return Observation{Load: load, Planned: planned, Requests: planned, Readings: []Reading{{Value: v, Low: v * 0.99, High: v * 1.01}, reading(figure.Share(0, planned))}}
}

func searchOf(t *testing.T, list ...Observation) *Search {
	t.Helper()
	opt := Options{By: Rate, Objectives: objectives(t, "p99_ttft<500ms")}
	opt.Defaults()
	s := New(opt)
	for _, o := range list {
		s.Observe(o)
	}
	return s
}

// TestNoLoadIsMetAboveWhatIsServed: 900 requests in 50 s, with a standard deviation of 10, are at least
// (900 - 2.576 * 10) / 50 = 17.485 requests/s.
func TestNoLoadIsMetAboveWhatIsServed(t *testing.T) {
	full := observed(20, 300, 100)
	full.Growth, full.Busy = Growth{By: 100, Variance: 400}, Service{Served: 900, Seconds: 50, Variance: 100}
	spare := observed(19, 300, 100)
	spare.Busy = Service{Served: 90, Seconds: 50, Variance: 100} // of a load not shown to be too much: says nothing
	s := searchOf(t, observed(15, 300, 100), observed(17.4, 300, 100), observed(17.5, 300, 100), spare, full)
	for load, want := range map[float64]State{15: Met, 17.4: Met, 17.5: Unclear, 19: Unclear, 20: Missed} {
		if got := s.State(load); got != want {
			t.Errorf("%g is %s, want %s", load, got, want)
		}
	}
	if a := s.Answer(); a.Load != 17.4 || a.Above != 20 {
		t.Errorf("%v to %v, want 17.4 to 20", a.Load, a.Above)
	} else if want := "17.5 requests/s met the objectives while it was probed, but the server is only known to serve 17.48 when it is never idle: a queue may still grow"; !slices.Contains(a.Notes, want) {
		t.Errorf("notes %q do not say %q", a.Notes, want)
	}
	far := full
	far.Load = 40
	if got := searchOf(t, observed(17.5, 300, 100), far).State(17.5); got != Met {
		t.Errorf("17.5 is %s by what is served at 40, want met: a server may serve less when it is given far too much", got)
	}
}

// TestAnEndedProbeCountsWhereItBrokeItsBound holds that latencies from before the queue grew are no good news, and
// that bad ones are not forgotten.
func TestAnEndedProbeCountsWhereItBrokeItsBound(t *testing.T) {
	for value, want := range map[float64]State{100: Met, 900: Unclear} {
		ended := observed(10, 900, value)
		ended.Saturated, ended.Requests = true, 300
		if got := searchOf(t, observed(10, 300, 450), observed(10, 900, 450), ended).State(10); got != want {
			t.Errorf("ended at %g ms: %s, want %s", value, got, want)
		}
	}
}

// TestAPromiseRestsOnWholeProbes holds that neither the short first probe nor one that was ended stands behind the
// highest load that is met.
func TestAPromiseRestsOnWholeProbes(t *testing.T) {
	ended := observed(10, 900, 100)
	ended.Saturated = true
	high := observed(10.4, 900, 5000)
	list := []Observation{high, high, high, observed(10, 300, 100), ended, observed(10, 900, 100)}
	for n := range 2 {
		p, more := searchOf(t, list...).Next()
		if want := (Probe{Load: 10, Repeat: 4 + n, Times: longer, Number: len(list) + 1}); p != want || !more {
			t.Errorf("%d whole probes: %+v %v, want %+v", 1+n, p, more, want)
		}
		list = append(list, observed(10, 900, 100))
	}
	if p, more := searchOf(t, list...).Next(); more {
		t.Errorf("three whole probes: one more is asked for: %+v", p)
	}
}

// TestProbesThatAgreeByChanceDoNotDecide holds that the load above tells how much probes differ, too, if it is close.
func TestProbesThatAgreeByChanceDoNotDecide(t *testing.T) {
	agree := []Observation{observed(10, 900, 450), observed(10, 900, 455), observed(10, 900, 460), observed(10, 900, 455)}
	for load, want := range map[float64]State{10.4: Unclear, 10.6: Met} { // the tolerance is 5 %
		list := append(slices.Clone(agree), observed(load, 900, 400), observed(load, 900, 700), observed(load, 900, 500), observed(load, 900, 480))
		if got := searchOf(t, list...).State(10); got != want {
			t.Errorf("with probes that differ at %g: 10 is %s, want %s", load, got, want)
		}
	}
}

// TestPromiseIsLessThanWhatWasMet: what is told as capacity is the highest load that met its objectives, less the tolerance;
// of requests in flight that number itself.
func TestPromiseIsLessThanWhatWasMet(t *testing.T) {
	for _, c := range []struct {
		by         By
		load, want float64
	}{{Rate, 20, 18}, {Concurrency, 23, 23}} {
		s := &Search{opt: Options{By: c.by, Tolerance: 0.1}}
		if got := s.promise(c.load); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v of %v: %v, want %v", c.load, c.by, got, c.want)
		}
	}
}

// TestProbesThatCannotMeetABoundDecide: the figures are those of probes over a socket at 24.7 requests/s. They were
// ended at different moments and differ so much that their intervals hold the bound, but each had broken it for good.
func TestProbesThatCannotMeetABoundDecide(t *testing.T) {
	ended := func(repeat, requests int, value float64) Observation {
		o := observed(24.7, 2223, value)
		o.Repeat, o.Requests, o.Aborted = repeat, requests, "p99_ttft<500ms cannot be met any more: 73 requests are beyond it"
		return o
	}
	first, whole := observed(24.7, 741, 545), observed(24.7, 2223, 497)
	first.Repeat, whole.Repeat = 1, 4
	saturated := ended(4, 400, 640)
	saturated.Saturated = true
	second, third := ended(2, 327, 640), ended(3, 473, 505)
	for name, c := range map[string]struct {
		probes []Observation
		want   State
	}{
		"two ended":                     {[]Observation{first, second, third}, Missed},
		"one ended":                     {[]Observation{first, third}, Unclear},
		"one came to its end":           {[]Observation{first, second, third, whole}, Unclear},
		"one ended by its queue":        {[]Observation{first, second, third, saturated}, Unclear},
		"the first alone shows the way": {[]Observation{first}, Missed}, // by its own interval
	} {
		if got := searchOf(t, c.probes...).State(24.7); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestOpenLoadsAreShown: a load that stays open is shown with its figures, since it is why nothing can be told.
func TestOpenLoadsAreShown(t *testing.T) {
	a := searchOf(t, observed(10, 300, 100), observed(20, 300, 499), observed(40, 300, 900)).Answer()
	if a.Verdict != CannotTell || len(a.Why) != 3 {
		t.Fatalf("%s, %q: want cannot tell, and three loads", a.Verdict, a.Why)
	}
	if want := "20 requests/s, 1 probe of 300 requests: unclear: p99_ttft_ms 499, bound 500; error_rate 0 % of 300 (0 to 1.3 %), bound 1 %"; a.Why[1] != want {
		t.Errorf("%q, want %q", a.Why[1], want)
	}
}

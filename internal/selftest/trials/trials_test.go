package trials

import "testing"

// TestSearchesAreRight makes a few searches of the cheapest load; spate selftest capacity makes many of ten.
func TestSearchesAreRight(t *testing.T) {
	if testing.Short() {
		t.Skip("short: makes hundreds of searches")
	}
	for _, sc := range Scenarios() {
		if sc.Name != "in flight, tail of TPOT" {
			continue
		}
		t.Run(sc.Name, func(t *testing.T) {
			o, err := Run(sc, Options{Searches: 3, Seed: 1, Parallel: 2})
			if err != nil {
				t.Fatal(err)
			}
			if o.Near != o.Searches || o.Probes < 5 || o.Seconds <= 0 || !(o.Truth.Low < o.Truth.High) {
				t.Errorf("%+v", o)
			}
		})
	}
}

// TestGoodProbesGoOn holds that probes of a server that keeps up are not ended because its queue grows, and that
// those of one with twice too much are.
func TestGoodProbesGoOn(t *testing.T) {
	for _, sc := range Scenarios() {
		if sc.Name != Saturating {
			continue
		}
		alarms, err := Alarms(sc, Truth{13.82, 13.9}, 5, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range alarms {
			if a.Share <= 0.95 && a.Ended > 0 || a.Share >= 2 && a.Ended < a.Probes {
				t.Errorf("%+v", a)
			}
		}
	}
}

func TestScenariosOpen(t *testing.T) {
	list := Scenarios()
	if len(list) != 10 {
		t.Errorf("%d loads, want ten", len(list))
	}
	for _, sc := range list {
		if _, err := sc.open(); err != nil {
			t.Error(err)
		}
	}
}

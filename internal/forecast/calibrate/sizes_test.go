package calibrate

import (
	"os"
	"testing"

	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
)

// TestAnotherSize predicts measured servers with the shipped parameters of another model of the series on
// the same GPU: from the smaller to the larger, and back. Nothing is fitted.
func TestAnotherSize(t *testing.T) {
	data, err := os.ReadFile("testdata/sizes.json")
	if err != nil {
		t.Fatal(err)
	}
	f, err := predict.ParseRows(data)
	if err != nil {
		t.Fatal(err)
	}
	fams, err := families(f)
	if err != nil {
		t.Fatal(err)
	}
	done := map[*Family]*Fit{}
	for _, fam := range fams {
		done[fam] = shippedFit(t, fam)
	}
	list, err := sizes(fams, done, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 6 {
		t.Fatalf("%d pairs, want three, both ways", len(list))
	}
	for _, s := range list {
		if e := s.Errors["output_throughput"]; !(e <= 10) {
			t.Errorf("%s by the parameters of %s: throughput is off by %.1f %%, want at most 10", s.To, s.From, e)
		}
	}
}

// shippedFit is the fit that a shipped profile holds.
func shippedFit(t *testing.T, fam *Family) *Fit {
	t.Helper()
	all, err := profile.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.Find(all, fam.groups[0].name)
	if err != nil {
		t.Fatal(err)
	}
	fit := &Fit{Held: make([]bool, len(fam.params)), at: point{x: make([]float64, len(fam.params))}}
	for i := range fam.params {
		for _, q := range p.Params {
			if q.Name == fam.params[i].Name {
				fit.at.x[i], fit.Held[i] = fam.params[i].toX(q.Value), !q.Free
			}
		}
	}
	return fit
}

func TestSeries(t *testing.T) {
	name := func(model, gpu string) string {
		g, err := newGroup("g", profile.Facts{Engine: "vllm", Version: "0.10.1", GPU: gpu, Model: model, TP: 8})
		if err != nil {
			t.Fatal(err)
		}
		return series(&Family{groups: []*group{g}})
	}
	if a, b := name("Qwen3-8B", "A100-80GB"), name("Qwen3-32B", "A100-80GB"); a != b || a == "" {
		t.Errorf("two sizes of a model are of series %q and %q", a, b)
	}
	for _, other := range [][2]string{{"Qwen3-30B-A3B", "A100-80GB"}, {"Qwen3-8B", "H100-80GB"}, {"gpt-oss-20b", "A100-80GB"}} {
		if name(other[0], other[1]) == name("Qwen3-8B", "A100-80GB") {
			t.Errorf("%s on %s is of the series of Qwen3-8B on the A100", other[0], other[1])
		}
	}
}

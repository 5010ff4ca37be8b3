package latency

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spate/internal/rng"
)

// TestReferenceTerms checks each mechanism of the reference form against its formula.
func TestReferenceTerms(t *testing.T) {
	mixed := Batch{Prefill: 100, Prompts: 1, Decode: 8, Attention2: 100 * (2*50 + 100), KV: 4000, WindowKV: 1000, MaxContext: 900, Adapters: 2}
	decode := Batch{Decode: 9, KV: 4000, MaxContext: 900}
	cases := []struct {
		name string
		r    Reference
		b    Batch
		want float64
	}{
		{"a step", Reference{StepNS: 5e6}, decode, 5e6},
		{"prompt tokens", Reference{PrefillNS: 1e5}, mixed, 1e7},
		{"prompt attention", Reference{AttentionNS: 3}, mixed, 3 * 100 * (50 + 50)},
		{"decoding requests", Reference{DecodeNS: 1e4}, decode, 9e4},
		{"KV reads", Reference{KVNS: 20}, decode, 8e4},
		{"KV reads with a window", Reference{KVNS: 20, WindowShare: 0.5}, mixed, 20 * (2000 + 500)},
		{"a step with prompts", Reference{MixedNS: 7e5}, mixed, 7e5},
		{"a step without prompts", Reference{StepNS: 1, MixedNS: 7e5}, decode, 1},
		{"KV read beside a prompt", Reference{KVNS: 20, MixedKVNS: 30}, mixed, 50 * 4000},
		{"KV read without prompts", Reference{KVNS: 20, MixedKVNS: 30}, decode, 20 * 4000},
		{"products hidden in part", Reference{DecodeNS: 1e4, Balance: 27}, decode, 9e4 * 9 / (9 + 27)},
		{"products of a mixed step", Reference{PrefillNS: 1e4, DecodeNS: 2e4, Balance: 36}, mixed, (100e4 + 16e4) * 108 / (108 + 36)},
		{"experts", Reference{MoENS: 1e7, MoERatio: 1.0 / 16}, decode, 1e7 * 9.0 / (15 + 9)},
		{"two nodes", Reference{CommNS: 1e6, CommTokenNS: 1e3, CommRootNS: 1e5}, decode, 1e6 + 9e3 + 3e5},
		{"first band", Reference{StepNS: 1e6, DecodeNS: 1e3, Bands: []Band{{Above: 9, StepNS: 9e6}}}, decode, 1e6 + 9e3},
		{"last band", Reference{StepNS: 1e6, Bands: []Band{{Above: 2, StepNS: 5e6}, {Above: 8, StepNS: 9e6, DecodeNS: 10}}}, decode, 9e6 + 90},
		{"eager below", Reference{StepNS: 1, EagerNS: 1e6, EagerAbove: 900}, decode, 1},
		{"eager above", Reference{EagerNS: 1e6, EagerAbove: 899}, decode, 1e6},
		{"eager not with prompts", Reference{StepNS: 1, EagerNS: 1e6, EagerAbove: 1}, mixed, 1},
		{"graph padding", Reference{DecodeNS: 1e4, GraphMax: 512}, decode, 16e4},
		{"adapters", Reference{AdapterNS: 100}, mixed, 200},
		{"floor", Reference{StepNS: 10, MinNS: 1000}, decode, 1000},
		{"host in the way", Reference{StepNS: 1000, HostNS: 300}, decode, 1300},
		{"host hidden", Reference{StepNS: 1000, HostNS: 300, HostHidden: true}, decode, 1000},
		{"host longer than the step", Reference{StepNS: 100, HostNS: 300, HostHidden: true}, decode, 300},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := c.r.Step(c.b); got != time.Duration(math.Round(c.want)) {
				t.Errorf("got %v, want %v", got, time.Duration(c.want))
			}
		})
	}
}

// TestActivated checks the experts that tokens touch: one its own share, more always more, never all, and
// fewer than if all experts were alike.
func TestActivated(t *testing.T) {
	for _, r := range []float64{1.0 / 16, 1.0 / 8, 1.0 / 32} {
		if got := Activated(r, 1); math.Abs(got-r) > 1e-12 {
			t.Errorf("one token touches %v of the experts, want %v", got, r)
		}
		last := Activated(r, 1)
		for n := 2.0; n < 4096; n *= 1.5 {
			got := Activated(r, n)
			if got <= last || got >= 1 || got >= 1-math.Pow(1-r, n) {
				t.Errorf("%v tokens touch %v of the experts, %v a few less; all alike: %v", n, got, last, 1-math.Pow(1-r, n))
			}
			last = got
		}
	}
	if got := Activated(0.5, 0); got != 0 {
		t.Errorf("no token touches %v of the experts", got)
	}
}

// TestGraphSize checks the capture sizes.
func TestGraphSize(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 2, 3: 4, 5: 8, 9: 16, 17: 24, 255: 256, 257: 272, 512: 512, 513: 513} {
		if got := GraphSize(n, 512); got != want {
			t.Errorf("%d requests pad to %d, want %d", n, got, want)
		}
	}
}

// TestAfter checks that a decode batch described some steps later equals the one a planner would
// describe then.
func TestAfter(t *testing.T) {
	b := Batch{Decode: 3, KV: 30, WindowKV: 25, Growing: 2, MaxContext: 12}
	if got, want := b.After(2), (Batch{Decode: 3, KV: 36, WindowKV: 29, Growing: 2, MaxContext: 14}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestJitter checks mean and spread of the noise, and that a seed fixes it.
func TestJitter(t *testing.T) {
	step := &Reference{StepNS: 1e7}
	j := &Jittered{Model: step, Sigma: 0.1, Draw: rng.New(1, "jitter")}
	k := &Jittered{Model: step, Sigma: 0.1, Draw: rng.New(1, "jitter")}
	sum, square := 0.0, 0.0
	const n = 20000
	for range n {
		d := j.Step(Batch{})
		if d != k.Step(Batch{}) {
			t.Fatal("the same seed gives another duration")
		}
		x := float64(d) / 1e7
		sum += x
		square += math.Log(x) * math.Log(x)
	}
	if mean := sum / n; math.Abs(mean-1) > 0.005 {
		t.Errorf("mean %v", mean)
	}
	if sigma := math.Sqrt(square / n); math.Abs(sigma-0.1) > 0.005 {
		t.Errorf("sigma %v", sigma)
	}
}

// eight is Qwen3-8B in 16 bits.
func eight() Shape {
	return Shape{
		Layers: 36, Hidden: 4096, Linear: 6.95e9, Head: 151936 * 4096, WeightBytes: 2 * (6.95e9 + 151936*4096),
		PairFLOPs: 4 * 36 * 32 * 128, KVBytes: 147456, KVHeads: 8,
	}
}

func a100() Device { return Device{FLOPS: 312e12, Bandwidth: 2.039e12, Link: 300e9, Network: 12e9} }

func usual() Efficiency {
	return Efficiency{Memory: 0.8, Compute: 0.6, LayerNS: 40e3, RequestNS: 2e4, ReduceNS: 2e4, ReduceShare: 0.6, NetworkNS: 5e4}
}

// TestPhysicalFigures checks durations worked out by hand from the datasheet.
func TestPhysicalFigures(t *testing.T) {
	p := Physical{Shape: eight(), Device: a100(), Efficiency: usual()}
	lone := p.Step(Batch{Decode: 1, KV: 1000})
	// 15.1 GB at 1.63 TB/s, 36 x 40 us, one request, 147 MB of KV
	want := 15.145e9/1.6312e12*1e9 + 36*40e3 + 2e4 + 147.456e6/1.6312e12*1e9
	if math.Abs(float64(lone)-want) > 0.01*want {
		t.Errorf("a lone decode step takes %v, want %v", lone, time.Duration(want))
	}
	prompt := p.Step(Batch{Prefill: 2048, Prompts: 1, Attention2: 2048 * 2048})
	want = (2*6.95e9*2048+2*622e6)/187.2e12*1e9 + 36*40e3 + 2e4 + 589824*2048*2048/2/187.2e12*1e9
	if math.Abs(float64(prompt)-want) > 0.01*want {
		t.Errorf("a prompt of 2048 takes %v, want %v", prompt, time.Duration(want))
	}
}

// TestPhysicalLaws checks that more work takes longer, and better hardware does not.
func TestPhysicalLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Physical{Shape: eight(), Device: a100(), Efficiency: usual(), TP: rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "tp")}
		if rapid.Bool().Draw(t, "moe") {
			p.Shape.ExpertBytes, p.Shape.ExpertRatio = 40e9, 8.0/128
		}
		b := Batch{
			Prefill: rapid.IntRange(0, 4000).Draw(t, "prefill"), Decode: rapid.IntRange(1, 300).Draw(t, "decode"),
			KV: rapid.Int64Range(0, 1e6).Draw(t, "kv"), Attention2: rapid.Int64Range(0, 1e7).Draw(t, "attention"),
		}
		d := p.Step(b)
		for name, more := range map[string]Batch{
			"prompt": {Prefill: b.Prefill + 500, Decode: b.Decode, KV: b.KV, Attention2: b.Attention2},
			"decode": {Prefill: b.Prefill, Decode: b.Decode + 50, KV: b.KV, Attention2: b.Attention2},
			"kv":     {Prefill: b.Prefill, Decode: b.Decode, KV: b.KV + 1e5, Attention2: b.Attention2},
		} {
			if p.Step(more) <= d {
				t.Fatalf("more %s does not take longer: %v, %v", name, p.Step(more), d)
			}
		}
		q := p
		q.Device.Bandwidth *= 2
		q.Device.FLOPS *= 2
		if q.Step(b) >= d {
			t.Fatal("a GPU twice as fast is not faster")
		}
		q = p
		q.TP, q.Nodes = max(2, p.TP), 2
		if p.TP > 1 && q.Step(b) <= d {
			t.Fatal("a network between the GPUs costs nothing")
		}
	})
}

// TestPhysicalReference checks that the derived coefficients give the same decode steps.
func TestPhysicalReference(t *testing.T) {
	p := Physical{Shape: eight(), Device: a100(), Efficiency: usual(), TP: 2}
	p.Shape.ExpertBytes, p.Shape.ExpertRatio = 40e9, 8.0/128
	r := p.Reference()
	for _, b := range []Batch{{Decode: 1, KV: 100, WindowKV: 100}, {Decode: 32, KV: 32000, WindowKV: 32000}} {
		got, want := float64(r.Step(b)), float64(p.Step(b))
		if math.Abs(got-want) > 0.01*want {
			t.Errorf("%+v: %v, want %v", b, got, want)
		}
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Reference
	if err := json.Unmarshal(data, &back); err != nil || back.Step(Batch{Decode: 7}) != r.Step(Batch{Decode: 7}) {
		t.Errorf("%v: coefficients do not survive JSON", err)
	}
}

func BenchmarkReference(b *testing.B) {
	r := &Reference{StepNS: 1e7, PrefillNS: 1e5, DecodeNS: 1e4, KVNS: 20, MoENS: 1e6, MoERatio: 0.06}
	batch := Batch{Decode: 100, KV: 1e5}
	for b.Loop() {
		batch = batch.After(1)
		r.Step(batch)
	}
}

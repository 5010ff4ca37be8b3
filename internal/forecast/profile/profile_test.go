package profile

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestShippedProfilesAreWhole(t *testing.T) {
	list, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 15 {
		t.Fatalf("%d profiles ship, want one per group of the reference reports", len(list))
	}
	for _, p := range list {
		free := 0
		for _, q := range p.Params {
			if q.Free {
				free++
			}
			if q.Value < q.Low-1e-9 || q.Value > q.High+1e-9 {
				t.Errorf("%s: %s %v lies outside %v to %v", p.Name, q.Name, q.Value, q.Low, q.High)
			}
		}
		allowed := 8
		if p.Engine.Nodes > 1 {
			allowed += 3
		}
		if p.Engine.Disagg != nil {
			allowed += 5
		}
		if free == 0 || free > allowed {
			t.Errorf("%s has %d fitted parameters, want 1 to %d", p.Name, free, allowed)
		}
		if !p.Calibrated || len(p.Provenance.Rows) == 0 || p.Provenance.Digest == "" {
			t.Errorf("%s does not say where it comes from", p.Name)
		}
		data, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		q, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		again, err := q.Encode()
		if err != nil || !bytes.Equal(data, again) {
			t.Errorf("%s changes when it is read and written", p.Name)
		}
	}
}

func TestFindHints(t *testing.T) {
	list, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	if p, err := Find(list, "003-qwen3-8b"); err != nil || p.Name != "qwen3-8b-1xA100-80GB-vllm0.10" || p.Alias() != "003-Qwen3-8B" {
		t.Errorf("found %v, %v", p, err)
	}
	for _, slip := range []string{"003-Qwen3-9B", "qwen3-8b", "qwen3-8b-1xA100-80GB-vlm0.10"} {
		const want = "did you mean qwen3-8b-1xA100-80GB-vllm0.10 (003-Qwen3-8B)?"
		if _, err := Find(list, slip); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", slip, err, want)
		}
	}
	own := []*Profile{{Name: "003-qwen3-8b"}, {Name: "mine"}} // as calibrate writes the groups of a rows file
	for name, want := range map[string]*Profile{"qwen3-8b-1xA100-80GB-vllm0.10": own[0], "003-Qwen3-8B": own[0], "MINE": own[1]} {
		if p, err := Find(own, name); err != nil || p != want {
			t.Errorf("%s among own profiles: %v, %v", name, p, err)
		}
	}
}

// TestNamesTellTheServer holds names to the facts: model, number of GPUs, engine and its version; and aliases to files.
func TestNamesTellTheServer(t *testing.T) {
	list, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != len(named) {
		t.Errorf("%d profiles ship and %d have names", len(list), len(named))
	}
	seen := map[string]bool{}
	for _, p := range list {
		e := &p.Engine
		if _, err := files.ReadFile("data/" + p.Alias() + ".json"); err != nil || p.Alias() == "" || seen[p.Name] {
			t.Errorf("%s has the alias %q, which should be the name of its file: %v", p.Name, p.Alias(), err)
		}
		seen[p.Name] = true
		if !e.Known() {
			continue
		}
		version := strings.Join(strings.Split(e.Version, ".")[:2], ".")
		server := fmt.Sprintf("-%dx%s-%s%s", e.GPUs, e.GPU, e.Engine, version)
		model, rest, ok := strings.Cut(p.Name, server)
		words := strings.Split(model, "-")
		if words[len(words)-1] == "int4" {
			words = words[:len(words)-1]
		}
		if !ok || !strings.HasPrefix(strings.ToLower(e.Model), strings.Join(words, "-")) {
			t.Errorf("%s is %s on %s", p.Name, e.Model, server)
		}
		if d := e.Disagg; (d != nil) != strings.HasPrefix(rest, "-disaggregated-") || d != nil && !strings.Contains(rest, d.Transport) {
			t.Errorf("%s moves KV over %+v", p.Name, d)
		}
	}
}

func TestOverride(t *testing.T) {
	list, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Find(list, "003-Qwen3-8B")
	if err != nil {
		t.Fatal(err)
	}
	q, err := p.With(Override{MaxSeqs: 64, TP: 2})
	if err != nil {
		t.Fatal(err)
	}
	a, b := &p.Cost.Step, &q.Cost.Step
	if q.Sim.MaxSeqs != 64 || q.Calibrated || b.PrefillNS != a.PrefillNS/2 || b.KVNS != a.KVNS/2 {
		t.Errorf("two GPUs: %+v, one: %+v", b, a)
	}
	if b.StepNS >= a.StepNS || q.Cost.Blocks < 2*p.Cost.Blocks {
		t.Errorf("two GPUs step in %v ns with %d blocks, one in %v with %d", b.StepNS, q.Cost.Blocks, a.StepNS, p.Cost.Blocks)
	}
	if p.Sim.MaxSeqs != 256 || p.Engine.TP != 1 {
		t.Error("the override changed the profile it was taken from")
	}
	if _, err := p.With(Override{MaxTokens: 16}); err == nil {
		t.Error("a token budget below the number of sequences was accepted")
	}
	unknown, err := Find(list, "002")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unknown.With(Override{TP: 4}); err == nil {
		t.Error("a model nobody knows was spread over more GPUs")
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON": "{", "no schema": "{}", "no name": `{"schema": 1}`, "no scheduler": `{"schema": 1, "name": "x"}`,
		"newer": `{"schema": 99, "name": "x"}`,
	} {
		if _, err := Decode([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	list, err := Shipped()
	if err != nil {
		f.Fatal(err)
	}
	data, err := list[0].Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"schema":1,"name":"x","scheduler":{"policy":"vllm-v1"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode(data)
		if err != nil {
			return
		}
		if _, err := p.Encode(); err != nil {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}

package workload

import (
	"strings"
	"testing"

	"spate/internal/load/lengths"

	"github.com/google/go-cmp/cmp"
)

func TestDatasets(t *testing.T) {
	for _, d := range Datasets() {
		if cfg, err := Default(d.Name); err != nil || Check(d.Name) != nil || cfg.Dataset != d.Name || cfg.N != 1000 || d.About == "" || d.open == nil {
			t.Errorf("%s: %v, %+v", d.Name, err, cfg)
		}
	}
	if n := len(Datasets()); n != 18 {
		t.Errorf("%d datasets, want vLLM's 14 and 4 more", n)
	}
	for name, want := range map[string]string{
		"sharegtp": "sharegpt", "Random": "random", "sonet": "sonnet", "prefix-repetition": "prefix_repetition", "custom_img": "custom_image", "randommm": "random-mm",
	} {
		if err := Check(name); err == nil || !strings.Contains(err.Error(), `did you mean "`+want+`"?`) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if err := Check("custom_mm"); err != nil {
		t.Errorf("custom_mm: %v", err)
	}
}

func TestConfigRefused(t *testing.T) {
	open, _ := files(nil)
	cases := []struct {
		name string
		cfg  Config
		tok  Tokenizer
		want string
	}{
		{"unknown dataset", Config{Dataset: "randon"}, nil, `"random"`},
		{"repetition with a path", Config{Dataset: "prefix_repetition", Path: "x"}, nil, "remove the dataset path"},
		{"sharegpt without", Config{Dataset: "sharegpt"}, nil, "--dataset-path"},
		{"nothing to open it with", Config{Dataset: "custom", Path: "x"}, nil, "no way to open"},
		{"no such file", Config{Dataset: "custom", Path: "x", Open: open}, nil, "no such file"},
		{"no such poem", Config{Dataset: "sonnet", Path: "x", Open: open, N: 1}, nil, "no such file"},
		{"no such talk", Config{Dataset: "sharegpt", Path: "x", Open: open, N: 1}, nil, "no such file"},
		{"no requests", Config{Dataset: "random"}, nil, "at least 1"},
		{"ids without a tokenizer", Config{Dataset: "random", N: 1, IDs: true}, nil, "need a tokenizer"},
		{"ids for chat", Config{Dataset: "random", N: 1, IDs: true, Chat: true}, &letters{}, "chat endpoint"},
		{"negative output", Config{Dataset: "random", N: 1, Output: -2}, nil, "negative"},
		{"negative input", Config{Dataset: "random", N: 1, Input: -2}, nil, "negative"},
		{"unknown rules", Config{Dataset: "random", N: 1, Era: "v7"}, nil, `"v7"`},
		{"seed too large for old rules", Config{Dataset: "random", N: 1, Input: 9, Era: V6, Seed: 1 << 32}, nil, "seed"},
		{"all ids special", Config{Dataset: "random", N: 1, Input: 9}, sized{flat{2}, 0, []int32{0, 1}}, "special"},
		{"no vocabulary", Config{Dataset: "random", N: 1, Input: 9}, flat{}, "vocabulary of 0"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := New(c.cfg, c.tok, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestPreview(t *testing.T) {
	cfg := Config{Dataset: "random", N: 500, Input: 100, Output: 20, Prefix: 10, Ratio: lengths.Ratio{Input: 0.5, Output: 0.5}, Endless: true}
	plan, err := Preview(t.Context(), cfg, flat{5000}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Endless = false
	got, _ := requests(t, cfg, flat{5000}, nil)
	var in, out int64
	for _, r := range got {
		in, out = in+int64(r.In.N), out+int64(r.MaxOut)
	}
	if plan.Requests != 500 || plan.In.Total() != in || plan.Out.Total() != out || !plan.Drawn {
		t.Errorf("planned %d requests of %d and %d; made %d and %d", plan.Requests, plan.In.Total(), plan.Out.Total(), in, out)
	}
	if lo, hi := plan.In.At(0), plan.In.At(1); lo < 60 || hi > 160 || lo > plan.In.At(0.5) || plan.In.At(0.5) > hi {
		t.Errorf("lengths %d to %d", lo, hi)
	}
	open, closed := files(map[string]string{"talk": talk()})
	plan, err = Preview(t.Context(), Config{Dataset: "sharegpt", Path: "talk", Open: open, N: 4, Seed: 3, Output: FromData}, &letters{}, nil, nil)
	if err != nil || *closed != 1 {
		t.Fatalf("%v; closed %d times", err, *closed)
	}
	want := Plan{Requests: 4, In: lengths.List{4, 5, 5, 5}, Out: lengths.List{6, 6, 6, 2044}, Notes: plan.Notes}
	if d := cmp.Diff(want, plan); d != "" || len(plan.Notes) != 1 {
		t.Errorf("%s, notes %q", d, plan.Notes)
	}
	if plan.Out.Mean() != 515.5 || plan.Out.At(0.75) != 6 || plan.Out.At(0.76) != 2044 {
		t.Errorf("mean %v, quantiles %d and %d", plan.Out.Mean(), plan.Out.At(0.75), plan.Out.At(0.76))
	}
	if none := (lengths.List{}); none.Mean() != 0 || none.At(0.5) != 0 {
		t.Error("no lengths have a mean or a quantile")
	}
	if _, err := Preview(t.Context(), Config{}, nil, nil, nil); err == nil {
		t.Error("an empty configuration was previewed")
	}
}

func TestEstimate(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "one": 2, "one two three four five six seven eight nine ten": 13, " \n\t": 0, "你好世界": 4, "hello 世界": 4,
	} {
		if got := estimate(text); got != want {
			t.Errorf("estimate(%q) = %d, want %d", text, got, want)
		}
	}
}

// TestPreviewIsBounded looks at a billion requests: those that take a moment stand for all.
func TestPreviewIsBounded(t *testing.T) {
	t.Parallel()
	plan, err := Preview(t.Context(), Config{Dataset: "random", N: 1_000_000_000, Input: 100, Output: 20}, nil, nil, nil)
	if err != nil || !plan.Sampled || plan.Requests != maxBlock || plan.In.Mean() != 100 {
		t.Errorf("%d requests, sampled %v, mean %v: %v", plan.Requests, plan.Sampled, plan.In.Mean(), err)
	}
	open, _ := files(map[string]string{"talk": talk()})
	cfg := Config{Dataset: "sharegpt", Path: "talk", Open: open, N: 1_000_000_000, Seed: 3, Output: FromData}
	enough := make(chan struct{})
	close(enough)
	plan, err = Preview(t.Context(), cfg, &letters{}, nil, enough)
	if err != nil || !plan.Sampled || plan.Requests != 1 {
		t.Errorf("told that it is enough: %d requests, sampled %v: %v", plan.Requests, plan.Sampled, err)
	}
}

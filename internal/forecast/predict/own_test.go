package predict

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"spate/internal/forecast/profile"
	"spate/internal/load/schedule"
	"spate/internal/settings/config"
)

// settings are bench's, for short random prompts.
func settings(change func(*config.Bench)) *config.Bench {
	c := &config.Bench{}
	c.Dataset.Name = config.DatasetRandom
	c.Dataset.Random.InputLen, c.Dataset.Random.OutputLen = 20, 8
	c.Load.RequestRate, c.Load.Burstiness, c.Load.NumPrompts = config.Float(math.Inf(1)), 1, 30
	c.Load.GracePeriod = -1
	change(c)
	return c
}

// TestLoadsAreDueAsBenchSendsThem: the same flags mean the same times.
func TestLoadsAreDueAsBenchSendsThem(t *testing.T) {
	one, five := 1, 5
	for _, c := range []struct {
		name   string
		change func(*config.Bench)
		want   int // requests, 0: do not care
	}{
		{"burst", func(*config.Bench) {}, 30},
		{"rate", func(c *config.Bench) { c.Load.RequestRate = 4 }, 30},
		{"rate for a time", func(c *config.Bench) {
			c.Load.RequestRate, c.Load.NumPrompts, c.Load.Duration = 4, 0, 5*time.Second
		}, 0},
		{"stages", func(c *config.Bench) {
			c.Load.NumPrompts = 0
			c.Load.Stages = schedule.Stages{{For: 5 * time.Second, From: 2, To: 2}, {For: 5 * time.Second, From: 2, To: 8}}
		}, 0},
		{"ramp", func(c *config.Bench) {
			c.Load.RampUp, c.Load.RampStart, c.Load.RampEnd = schedule.RampLinear, &one, &five
		}, 30},
		{"capped rate", func(c *config.Bench) { c.Load.RequestRate, c.Load.MaxConcurrency = 4, &five }, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := settings(c.change)
			l, err := NewLoad(cfg, Prompts{})
			if err != nil {
				t.Fatal(err)
			}
			a, err := cfg.Arrivals(cfg.Load.NumPrompts, nil).Arrivals()
			if err != nil {
				t.Fatal(err)
			}
			want := slices.Collect(a.Plan.Due)
			var got []time.Duration
			for _, r := range l.Requests {
				got = append(got, r.At)
			}
			if !slices.Equal(got, want) || c.want > 0 && len(got) != c.want || len(got) == 0 {
				t.Errorf("%d requests due at %v..., bench has %d at %v...", len(got), first(got), len(want), first(want))
			}
			own, err := l.Run(toy(), 0, false)
			if err != nil {
				t.Fatal(err)
			}
			if int(own.Metrics["completed"]) != len(got) {
				t.Errorf("%v of %d completed", own.Metrics["completed"], len(got))
			}
		})
	}
}

func first(list []time.Duration) []time.Duration { return list[:min(3, len(list))] }

// TestClosedLoopEndsByTime: it keeps all places busy until the time is over, sends nothing after it, and
// gives up what is not done when the grace period is.
func TestClosedLoopEndsByTime(t *testing.T) {
	three := 3
	for _, grace := range []time.Duration{-1, 0, 20 * time.Millisecond} {
		cfg := settings(func(c *config.Bench) {
			c.Load.NumPrompts, c.Load.MaxConcurrency, c.Load.Duration, c.Load.GracePeriod = 0, &three, 60*time.Second, grace
		})
		l, err := NewLoad(cfg, Prompts{})
		if err != nil {
			t.Fatal(err)
		}
		own, err := l.Run(toy(), 0, false)
		if err != nil {
			t.Fatal(err)
		}
		canceled, last := 0, time.Duration(0)
		for _, r := range own.Result.Requests {
			last = max(last, r.Sent)
			if r.Failed {
				canceled++
			} else if grace >= 0 && r.Last > cfg.Load.Duration+grace {
				t.Errorf("grace %v: a request ended at %v", grace, r.Last)
			}
		}
		if last >= cfg.Load.Duration || last < cfg.Load.Duration-time.Second {
			t.Errorf("grace %v: the last request was sent at %v", grace, last)
		}
		if (grace < 0) != (canceled == 0) || canceled > three {
			t.Errorf("grace %v: %d given up", grace, canceled)
		}
		if n := len(own.Result.Requests); n < firstGuess*three || l.Plan(nil).Due != n || l.Plan(nil).Requested != 0 {
			t.Errorf("grace %v: %d sent, plan %+v", grace, n, l.Plan(nil))
		}
	}
}

// TestLoadFromFile takes every row of a file; without a tokenizer words stand for tokens.
func TestLoadFromFile(t *testing.T) {
	cfg := settings(func(c *config.Bench) {
		c.Dataset.Name, c.Load.NumPrompts, c.Dataset.Custom.OutputLen = config.DatasetCustom, 0, 3
	})
	if _, err := NewLoad(cfg, Prompts{}); err == nil || !strings.Contains(err.Error(), "custom") {
		t.Errorf("a dataset without its file: %v", err)
	}
	cfg.Dataset.Path = filepath.Join(t.TempDir(), "rows.jsonl")
	rows := ""
	for i := range 7 {
		rows += fmt.Sprintf("{\"prompt\": \"row %d has ten words of which this is one\"}\n", i)
	}
	if err := os.WriteFile(cfg.Dataset.Path, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := NewLoad(cfg, Prompts{})
	if err != nil || len(l.Requests) != 7 {
		t.Fatalf("%v, %+v", err, l)
	}
	var log bytes.Buffer
	if err := l.Log(toy(), 0, &log); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); len(lines) != 4 || !strings.HasPrefix(lines[0], "Iteration(0): 5 context requests, 64 context tokens, 0 generation requests") {
		t.Errorf("log:\n%s", log.String())
	}
}

// TestSeparationOrdersAsMeasured: in virtual time, so exactly, the profiles of the published comparison
// of prefill/decode servers show its order. Separating costs time to the first token, most over TCP, and
// keeps decoding even under load.
func TestSeparationOrdersAsMeasured(t *testing.T) {
	shipped, err := profile.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, rate Rate) Metrics {
		p, err := profile.Find(shipped, name)
		if err != nil {
			t.Fatal(err)
		}
		w := Workload{Prompts: 200, Rate: rate, Dataset: "random", Input: 1024, Output: 6, IgnoreEOS: true, Client: "vllm-0.6"}
		if err := w.complete(); err != nil {
			t.Fatal(err)
		}
		l := &Load{Requests: w.Requests(0)}
		own, err := l.Run(p, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		again, err := l.Run(p, 0, false)
		if err != nil || again.Result.Digest != own.Result.Digest {
			t.Errorf("%s: not the same twice: %v", name, err)
		}
		return own.Metrics
	}
	names := []string{"001-plain", "001-rdma2", "001-rdma1", "001-tcp"}
	low, high := map[string]Metrics{}, map[string]Metrics{}
	for _, n := range names {
		low[n], high[n] = run(n, 2), run(n, 8)
		t.Logf("%-10s TTFT %5.0f ms, TPOT %4.0f ms at 2/s; TPOT %5.0f ms at 8/s", n, low[n]["mean_ttft_ms"], low[n]["mean_tpot_ms"], high[n]["mean_tpot_ms"])
	}
	ttft := func(n string) float64 { return low[n]["mean_ttft_ms"] }
	if !(ttft("001-plain") < ttft("001-rdma2") && ttft("001-rdma2") <= ttft("001-rdma1") && ttft("001-rdma1") < ttft("001-tcp")) {
		t.Error("mean TTFT at 2/s does not rise from plain over RDMA to TCP")
	}
	for _, n := range names[1:] {
		if high[n]["mean_tpot_ms"] >= high["001-plain"]["mean_tpot_ms"] {
			t.Errorf("mean TPOT at 8/s: %s is not below plain", n)
		}
	}
}

// TestSharedPrefixesAreCached: prompts that begin alike find their beginning in the cache, whole, however their other
// words are counted. Requests come one at a time, so only the first of each beginning computes it.
func TestSharedPrefixesAreCached(t *testing.T) {
	one := 1
	cfg := settings(func(c *config.Bench) {
		c.Dataset.Name, c.Load.NumPrompts, c.Load.MaxConcurrency = config.DatasetRepetition, 60, &one
		c.Dataset.PrefixRepetition.PrefixLen, c.Dataset.PrefixRepetition.SuffixLen = 1024, 256
		c.Dataset.PrefixRepetition.NumPrefixes, c.Dataset.PrefixRepetition.OutputLen = 3, 2
	})
	l, err := NewLoad(cfg, Prompts{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := l.Run(toy(), 0, false)
	if err != nil {
		t.Fatal(err)
	}
	computed := 0
	for _, r := range own.Result.Requests {
		switch {
		case r.Cached == 0:
			computed++
		case r.Cached < 1024-promptBlock || r.Cached > 1024: // a beginning may end within a block
			t.Errorf("request %d of %d tokens has %d from the cache, want the 1024 of its beginning", r.Index, r.In, r.Cached)
		}
	}
	if computed != 3 {
		t.Errorf("%d beginnings were computed, want 3", computed)
	}
}

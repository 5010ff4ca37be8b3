package observe

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// page answers every request with a text, or hangs, or fails.
func page(text func(n int64) string) func(*http.Request) (*http.Response, error) {
	var n atomic.Int64
	return func(req *http.Request) (*http.Response, error) {
		switch body := text(n.Add(1)); body {
		case "hang":
			<-req.Context().Done()
			return nil, req.Context().Err()
		case "refuse":
			return nil, errors.New("connection refused")
		default:
			return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Body: io.NopCloser(strings.NewReader(body))}, nil
		}
	}
}

func clock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

func count(fates []Fate, source string) Fate {
	for _, f := range fates {
		if f.Source == source {
			return f
		}
	}
	return Fate{}
}

func TestWatchSamplesEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w, err := Start(t.Context(), Options{
			Clock: clock(), Interval: time.Second, Dir: dir,
			Do:      page(func(int64) string { return "vllm:num_requests_running 3\nvllm:kv_cache_usage_perc 0.5\n" }),
			Metrics: []string{"http://a/metrics", "http://b/metrics"},
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(9500 * time.Millisecond)
		so, err := ReadSamples(dir) // as after a kill
		if err != nil || len(so) != 20 {
			t.Errorf("%d samples on disk before the end, %v; want 10 of server and host each", len(so), err)
		}
		samples, fates := w.Stop()
		if f := count(fates, Server); f.Samples != 11 || f.Failed != 0 {
			t.Errorf("server: %+v, want 11 samples with the last", f)
		}
		for i, s := range samples {
			if s.Source == Server && (s.Values["running"] != 6 || s.Values["kv_usage"] != 0.5) {
				t.Errorf("sample %d of two servers: %v, want 6 running and a mean cache", i, s.Values)
			}
		}
		if last := samples[len(samples)-1].At; last != 9500*time.Millisecond {
			t.Errorf("last sample at %v", last)
		}
		all, err := ReadSamples(dir)
		if err != nil || len(all) != len(samples) {
			t.Errorf("%d of %d samples on disk, %v", len(all), len(samples), err)
		}
	})
}

func TestWatchSurvivesItsSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := Start(t.Context(), Options{
			Clock: clock(), Interval: time.Second, Metrics: []string{"http://a/metrics"}, DCGM: "http://g/metrics",
			Do: func(req *http.Request) (*http.Response, error) {
				if req.URL.Host == "g" {
					return nil, errors.New("connection refused")
				}
				return page(func(int64) string { return "hang" })(req)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(60 * time.Second)
		_, fates := w.Stop()
		if f := count(fates, gpu); f.Failed != patience || f.Samples != 0 || !strings.Contains(f.Error, "refused") {
			t.Errorf("a source that was never there: %+v, want it given up after %d", f, patience)
		}
		if f := count(fates, Server); f.Failed != patience {
			t.Errorf("a server that hangs: %+v", f)
		}
		if f := count(fates, Host); f.Samples < 60 {
			t.Errorf("the others stopped the host's samples: %+v", f)
		}
	})
}

func TestWatchCountsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := Start(t.Context(), Options{
			Clock: clock(), Interval: time.Second, Metrics: []string{"http://a/metrics"},
			Do: page(func(n int64) string {
				if n%2 == 0 {
					return "refuse"
				}
				return "sglang:num_running_reqs 1\n"
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20500 * time.Millisecond)
		_, fates := w.Stop()
		if f := count(fates, Server); f.Failed != 11 || f.Samples != 11 {
			t.Errorf("%+v, want each second look counted as failed", f)
		}
	})
}

// A run of four hours keeps an hour of seconds and two of two seconds.
func TestPaceSlowsDown(t *testing.T) {
	p := pace{step: time.Second}
	n := 0
	for at := time.Duration(0); at < 4*time.Hour; at += p.next() {
		n++
	}
	if n < 3600+3600+900-2 || n > 3600+3600+900+2 {
		t.Errorf("%d looks in four hours, want about 8100", n)
	}
	p, n = pace{step: time.Second}, 0
	for at := time.Duration(0); at < 4*time.Hour; at += time.Second {
		if p.due(at) {
			n++
		}
	}
	if n < 8000 || n > 8200 {
		t.Errorf("%d of a talkative source kept, want about 8100", n)
	}
}

func TestWatchFollowsSMI(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	dir := t.TempDir()
	smi := filepath.Join(dir, "nvidia-smi")
	script := "#!/bin/sh\necho '0, 612.50, 98, 55, 70000, 61, 1980'\necho '1, [N/A], 0, 0, 3, 30, 345'\necho 'Unable to determine'\nexec sleep 600\n"
	if err := os.WriteFile(smi, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := Start(t.Context(), Options{Clock: clock(), Interval: time.Hour, SMI: smi})
	if err != nil {
		t.Fatal(err)
	}
	seen := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, f := range w.fates {
			if f.Source == gpu && f.Failed > 0 {
				return true
			}
		}
		return false
	}
	for deadline := time.Now().Add(30 * time.Second); !seen() && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	samples, fates := w.Stop()
	if f := count(fates, gpu); f.Samples != 2 || f.Failed != 1 {
		t.Errorf("%+v, want two samples and one line that is none", f)
	}
	for _, s := range samples {
		if s.Source == "gpu0" && (s.Values["power"] != 612.5 || s.Values["utilization"] != 0.98) {
			t.Errorf("gpu0: %v", s.Values)
		}
		if _, has := s.Values["power"]; s.Source == "gpu1" && has {
			t.Errorf("gpu1 has power: %v", s.Values)
		}
	}
}

func TestWatchSaysWhySMIEnded(t *testing.T) {
	w, err := Start(context.Background(), Options{Clock: clock(), Interval: time.Hour, SMI: filepath.Join(t.TempDir(), "none")})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		w.mu.Lock()
		failed := w.fates[len(w.fates)-1].Failed
		w.mu.Unlock()
		if failed > 0 {
			break
		}
	}
	_, fates := w.Stop()
	if f := count(fates, gpu); f.Failed != 1 || !strings.Contains(f.Error, "start nvidia-smi") {
		t.Errorf("%+v", f)
	}
}

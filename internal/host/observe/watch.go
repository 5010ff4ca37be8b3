package observe

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"spate/internal/host/probe"
)

// Options say what to watch. Every source may be missing.
type Options struct {
	Clock    func() time.Duration // the run's
	Interval time.Duration        // between two looks at a source
	Dir      string               // run folder; empty keeps samples in memory only

	Do        probe.Do // asks servers
	Metrics   []string // addresses of the servers' metrics pages
	ServerLog string   // file that the server writes its log to
	SMI       string   // the nvidia-smi program
	DCGM      string   // address of a DCGM exporter
}

// Watch takes samples until it is stopped. Each source has a goroutine of its own, so that one that hangs holds up
// no other; none shares anything with the threads that send and stamp.
type Watch struct {
	opt     Options
	cancel  context.CancelFunc
	sources sync.WaitGroup

	mu      sync.Mutex
	file    *os.File
	samples []Sample
	fates   []*Fate
}

// Fate is how sampling a source went.
type Fate struct {
	Source  string `json:"source"`
	Samples int    `json:"samples"`
	Failed  int    `json:"failed,omitempty"`
	Error   string `json:"error,omitempty"` // the last one
}

// timeout bounds one look: a server that is busy must not pile up questions.
const timeout = 5 * time.Second

// patience is how often in a row a source may fail before its first success and still be asked: a server without
// a metrics page should not find a complaint in its log each second.
const patience = 3

// Start begins to watch. The error is about the samples' file; sources that fail are counted.
func Start(ctx context.Context, opt Options) (*Watch, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &Watch{opt: opt, cancel: cancel}
	if opt.Dir != "" {
		f, err := os.OpenFile(filepath.Join(opt.Dir, File), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			cancel()
			return nil, fmt.Errorf("open series: %w", err)
		}
		w.file = f
	}
	w.poll(ctx, Host, hostLook(), nil)
	if len(opt.Metrics) > 0 {
		w.poll(ctx, Server, serverLook(opt.Do, opt.Metrics), nil)
	}
	if opt.ServerLog != "" {
		t := newTail(opt.ServerLog)
		w.poll(ctx, Log, t.look, t.close)
	}
	if opt.DCGM != "" {
		w.poll(ctx, gpu, dcgmLook(opt.Do, opt.DCGM), nil)
	}
	if opt.SMI != "" {
		w.follow(ctx)
	}
	return w, nil
}

// Stop takes a last sample of every source, so that counters are known beyond the end of the load, and returns all.
func (w *Watch) Stop() ([]Sample, []Fate) {
	w.cancel()
	w.sources.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file != nil {
		_ = w.file.Close() // each line was written as it came
		w.file = nil
	}
	fates := make([]Fate, 0, len(w.fates))
	for _, f := range w.fates {
		fates = append(fates, *f)
	}
	return w.samples, fates
}

// look takes samples of a source. Their time is the caller's to set.
type look func(ctx context.Context) ([]Sample, error)

// poll looks at once, then each interval, and once more at the end. The first look is over when it returns, or the
// counters' start would be somewhere within the load. done, which may be nil, is called after the last.
func (w *Watch) poll(ctx context.Context, name string, see look, done func()) {
	fate := w.fate(name)
	p := pace{step: w.opt.Interval}
	w.take(ctx, fate, see)
	w.sources.Go(func() {
		if done != nil {
			defer done()
		}
		for timer := time.NewTimer(p.next()); ; timer.Reset(p.next()) {
			select {
			case <-ctx.Done():
				timer.Stop()
				if !fate.hopeless() {
					w.take(context.WithoutCancel(ctx), fate, see)
				}
				return
			case <-timer.C:
			}
			if fate.hopeless() {
				return
			}
			w.take(ctx, fate, see)
		}
	})
}

func (f *Fate) hopeless() bool { return f.Samples == 0 && f.Failed >= patience }

func (w *Watch) fate(source string) *Fate {
	f := &Fate{Source: source}
	w.mu.Lock()
	w.fates = append(w.fates, f)
	w.mu.Unlock()
	return f
}

// take looks once. A look's time is its middle: the server answered somewhere in between.
func (w *Watch) take(ctx context.Context, fate *Fate, see look) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	before := w.opt.Clock()
	samples, err := see(ctx)
	at := (before + w.opt.Clock()) / 2
	for i := range samples {
		samples[i].At = at
	}
	w.keep(fate, samples, err)
}

// keep puts samples where they are safe: each line is written at once and whole, so that a kill loses none before.
func (w *Watch) keep(fate *Fate, samples []Sample, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		fate.Failed++
		fate.Error = err.Error()
	}
	for _, s := range samples {
		fate.Samples++
		w.samples = append(w.samples, s)
		text, err := encode(s)
		if err != nil || w.file == nil {
			continue
		}
		if _, err := w.file.Write(text); err != nil {
			fate.Error = err.Error()
			_ = w.file.Close()
			w.file = nil // the disk is full, say; memory still has them
		}
	}
}

// pace is when to look next. After an hour's worth of looks at one second the gap doubles, and again after as many,
// so that a run of days keeps a few thousand samples and not a million.
type pace struct {
	step time.Duration
	n    int
	last time.Duration
}

const hour = 3600

func (p *pace) next() time.Duration {
	p.n++
	if p.n%hour == 0 {
		p.step *= 2
	}
	return p.step
}

// due tells, for a source that speaks by itself, whether what it says at a time is to be kept.
func (p *pace) due(at time.Duration) bool {
	if p.n > 0 && at-p.last < p.step*9/10 {
		return false
	}
	p.last = at
	p.next()
	return true
}

// serverLook reads the metrics pages of all servers as one: counts add up, the used share of the cache is a mean.
func serverLook(do probe.Do, urls []string) look {
	return func(ctx context.Context) ([]Sample, error) {
		sum := map[string]float64{}
		for _, url := range urls {
			c, err := probe.Scrape(ctx, do, url)
			if err != nil {
				return nil, err
			}
			for name, v := range c.Levels() {
				if name == "kv_usage" {
					v /= float64(len(urls))
				}
				sum[name] += v
			}
		}
		if len(sum) == 0 {
			return nil, fmt.Errorf("%s has none of the counters of vLLM, SGLang, TGI or llama.cpp", urls[0])
		}
		return []Sample{{Source: Server, Values: sum}}, nil
	}
}

func hostLook() look {
	pulse := probe.NewPulse()
	return func(context.Context) ([]Sample, error) {
		return []Sample{{Source: Host, Values: pulse.Look()}}, nil
	}
}

func dcgmLook(do probe.Do, url string) look {
	return func(ctx context.Context) ([]Sample, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, fmt.Errorf("asking for GPU metrics: %w", err)
		}
		resp, err := do(req)
		if err != nil {
			return nil, fmt.Errorf("asking for GPU metrics: %w", err)
		}
		defer resp.Body.Close() //nolint:errcheck // read only
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s answered %s", req.URL.Redacted(), resp.Status)
		}
		gpus, err := probe.ParseDCGM(http.MaxBytesReader(nil, resp.Body, 8<<20))
		if err != nil {
			return nil, err
		}
		return gpuSamples(gpus), nil
	}
}

func gpuSamples(gpus []probe.GPU) []Sample {
	out := make([]Sample, 0, len(gpus))
	for _, g := range gpus {
		if len(g.Values) > 0 {
			out = append(out, Sample{Source: gpu + g.Index, Values: g.Values})
		}
	}
	return out
}

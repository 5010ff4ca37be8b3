package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"spate/internal/host/observe"
	"spate/internal/safe/infile"
)

// checkServerLog refuses a log that could not be followed. One that is not there yet may come.
func (s *session) checkServerLog() error {
	path := s.Config.Observe.ServerLog
	if path == "" {
		return nil
	}
	f, err := infile.Open(path, infile.Unbounded)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("--server-log: %w", err)
	}
	return f.Close()
}

// startObserving begins to sample the server, its GPUs and this host. It is nil when nothing is to be watched; what
// cannot be watched is a note, not a reason to stop.
func (s *session) startObserving(ctx context.Context, hasMetrics bool) *observe.Watch {
	o := &s.Config.Observe
	if o.Off || o.Interval <= 0 {
		return nil
	}
	opt := observe.Options{Clock: s.clock.Now, Interval: o.Interval, ServerLog: o.ServerLog, Do: s.ask}
	if s.folder != nil {
		opt.Dir = s.folder.Dir
	}
	switch {
	case o.ServerMetrics == "off":
	case o.ServerMetrics != "auto" && o.ServerMetrics != "":
		opt.Metrics = []string{o.ServerMetrics}
	case hasMetrics:
		for _, base := range s.whole.target.client.BaseURLs {
			opt.Metrics = append(opt.Metrics, base+"/metrics")
		}
	}
	switch {
	case strings.Contains(o.GPUMetrics, "://"):
		opt.DCGM = o.GPUMetrics
	case o.GPUMetrics == "nvidia-smi" || o.GPUMetrics == "auto" && s.local():
		path, err := exec.LookPath("nvidia-smi")
		if err != nil && o.GPUMetrics != "auto" {
			s.note("GPUs are not sampled: %v", err)
		}
		opt.SMI = path
	}
	w, err := observe.Start(ctx, opt)
	if err != nil {
		s.note("the server is not sampled: %v", err)
		return nil
	}
	return w
}

// ask sends a question about the run. The user's headers, and the key among them, go to the server only: an exporter
// of GPU figures is somebody else.
func (s *session) ask(req *http.Request) (*http.Response, error) {
	for _, base := range s.whole.target.client.BaseURLs {
		if u, err := url.Parse(base); err == nil && u.Scheme == req.URL.Scheme && u.Host == req.URL.Host {
			return s.whole.control.Do(req)
		}
	}
	return s.whole.control.Elsewhere(req)
}

// local reports whether the server is on this machine, so that its GPUs are those that are seen here. The embedded
// server has none.
func (s *session) local() bool {
	if s.Config.Sim.Enabled {
		return false
	}
	if s.whole.target.client.Unix != "" {
		return true
	}
	for _, base := range s.whole.target.client.BaseURLs {
		u, err := url.Parse(base)
		if err != nil || !localHost(u.Hostname()) {
			return false
		}
	}
	return true
}

func localHost(name string) bool {
	if own, err := os.Hostname(); err == nil && strings.EqualFold(own, name) || strings.EqualFold(name, "localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}

// noLines says why a server's log gave nothing.
func noLines(path string) string {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "there is no such file"
	}
	return "no stats line of an engine came during the run; vLLM prints one each 10 s"
}

// observed puts what was seen into the result.
func (s *session) observed() {
	for _, f := range s.watch.fates {
		switch {
		case f.Samples == 0 && f.Failed > 0:
			s.note("no samples of the %s: %s", f.Source, f.Error)
		case f.Samples == 0 && f.Source == observe.Log:
			s.note("--server-log %s: %s", s.Config.Observe.ServerLog, noLines(s.Config.Observe.ServerLog))
		}
	}
	s.run.Observe(s.watch.samples, s.watch.fates, s.Config.Observe.PricePerHour)
}

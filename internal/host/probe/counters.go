package probe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Counters are a server's Prometheus metrics at one moment, summed over label sets: engines, ranks and models of
// one server count together.
type Counters struct {
	// Engine is the serving engine the names belong to: vllm, sglang, tgi, llama.cpp, trtllm, or empty.
	Engine string
	// Sums holds each counter and gauge under its full name, and each histogram as name_sum and name_count.
	Sums map[string]float64
	// Finished counts finished requests by reason.
	Finished map[string]float64
	// Accepted counts accepted draft tokens by their position in the draft.
	Accepted map[int]float64
	// Config are the labels of the engine's cache configuration.
	Config map[string]string
}

// maxMetrics bounds what is read of a metrics page. vLLM's is about 100 KB.
const maxMetrics = 32 << 20

// Scrape reads the metrics page at url.
func Scrape(ctx context.Context, do Do, url string) (Counters, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Counters{}, fmt.Errorf("asking for metrics: %w", err)
	}
	req.Header.Set("Accept", "text/plain; version=0.0.4")
	body, err := get(do, req, maxMetrics)
	if err != nil {
		return Counters{}, fmt.Errorf("reading metrics: %w", err)
	}
	return ParseCounters(strings.NewReader(body))
}

// get returns the body of a good answer.
func get(do Do, req *http.Request, limit int64) (string, error) {
	resp, err := do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	raw, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("reading %s: %w", req.URL.Redacted(), err)
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%s answered %s", req.URL.Redacted(), resp.Status)
	case int64(len(raw)) > limit:
		return "", fmt.Errorf("%s answered more than %d bytes", req.URL.Redacted(), limit)
	}
	return string(raw), nil
}

// ParseCounters reads a page in Prometheus' text format.
func ParseCounters(page io.Reader) (Counters, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(withoutBuckets(page))
	if err != nil {
		return Counters{}, fmt.Errorf("parsing metrics: %w", err)
	}
	if len(families) == 0 {
		return Counters{}, errors.New("parsing metrics: the page has none")
	}
	c := Counters{
		Sums:     map[string]float64{},
		Finished: map[string]float64{},
		Accepted: map[int]float64{},
		Config:   map[string]string{},
	}
	for name, family := range families {
		if e := engineOf(name); e != "" && (c.Engine == "" || e < c.Engine) { // the order of families is not fixed
			c.Engine = e
		}
		for _, m := range family.GetMetric() {
			c.add(name, m)
		}
		if n := len(family.GetMetric()); n > 1 && slices.Contains(kvNames, name) {
			c.Sums[name] /= float64(n) // a share does not add up over engines
		}
	}
	return c, nil
}

// withoutBuckets leaves out the bars of histograms, of which nothing is used: they are nine tenths of a page, and
// parsing them would take the client's time each second.
func withoutBuckets(page io.Reader) io.Reader {
	var kept bytes.Buffer
	in := bufio.NewReader(page)
	for {
		text, err := in.ReadBytes('\n')
		name, labels, _ := bytes.Cut(text, []byte("{"))
		if !bytes.HasSuffix(name, []byte("_bucket")) || !bytes.Contains(labels, []byte(`le="`)) {
			kept.Write(text)
		}
		if errors.Is(err, io.EOF) {
			return &kept
		}
		if err != nil {
			return io.MultiReader(&kept, broken{err})
		}
	}
}

// broken is what is left of a reader that failed.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// engineOf tells the engine from the prefix of its metrics. No server exports two of them.
func engineOf(name string) string {
	for _, p := range [...]struct{ prefix, engine string }{
		{"vllm:", "vllm"},
		{"sglang:", "sglang"},
		{"sglang_", "sglang"},
		{"tgi_", "tgi"},
		{"llamacpp:", "llama.cpp"},
		{"trtllm_", "trtllm"},
		{"lmdeploy:", "lmdeploy"},
	} {
		if strings.HasPrefix(name, p.prefix) {
			return p.engine
		}
	}
	return ""
}

// add counts one labelled value.
func (c *Counters) add(name string, m *dto.Metric) {
	if h := m.GetHistogram(); h != nil {
		c.sum(name+"_sum", h.GetSampleSum())
		c.sum(name+"_count", float64(h.GetSampleCount()))
		return
	}
	if s := m.GetSummary(); s != nil {
		c.sum(name+"_sum", s.GetSampleSum())
		c.sum(name+"_count", float64(s.GetSampleCount()))
		return
	}
	v := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue() // one of them is set
	if !plausible(v) {
		return
	}
	c.sum(name, v)
	switch name {
	case "vllm:request_success_total", "trtllm_request_success_total", "vllm:request_success":
		c.Finished[label(m, "finished_reason")] += v
	case "vllm:spec_decode_num_accepted_tokens_per_pos_total", "vllm:spec_decode_num_accepted_tokens_per_pos":
		if pos, err := strconv.Atoi(label(m, "position")); err == nil {
			c.Accepted[pos] += v
		}
	case "vllm:cache_config_info", "sglang:cache_config_info", "trtllm_cache_config_info":
		for _, l := range m.GetLabel() {
			c.Config[l.GetName()] = l.GetValue()
		}
	}
}

func (c *Counters) sum(name string, v float64) {
	if plausible(v) {
		c.Sums[name] += v
	}
}

// plausible rejects NaN, infinities and values whose sums could become one: no counter is that large.
func plausible(v float64) bool { return math.Abs(v) < 1e100 }

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// find returns the first of the names that is there. Engines renamed counters over time and export old and new
// names side by side for a while, so adding them up would count twice.
func (c Counters) find(names ...string) (name string, ok bool) {
	for _, n := range names {
		if _, ok := c.Sums[n]; ok {
			return n, true
		}
	}
	return "", false
}

// Running is how many requests the engine works on now; false where it does not say.
func (c Counters) Running() (float64, bool) { return c.value(runningNames) }

// Waiting is how many requests the engine queues now.
func (c Counters) Waiting() (float64, bool) { return c.value(waitingNames) }

func (c Counters) value(names []string) (float64, bool) {
	name, ok := c.find(names...)
	return c.Sums[name], ok
}

// Levels are the figures of a server under one name each, whatever its engine calls them: gauges as they are,
// counters as they stand, and the server's clocks as a sum in seconds and a count. What it does not tell is not there.
func (c Counters) Levels() map[string]float64 {
	out := map[string]float64{}
	for _, l := range levels {
		if v, ok := c.value(l.names); ok {
			out[l.what] = v
		}
	}
	for _, t := range timers {
		for _, name := range t.names {
			if n, ok := c.Sums[name+"_count"]; ok {
				out[t.what+"_sum"], out[t.what+"_count"] = c.Sums[name+"_sum"], n
				break
			}
		}
	}
	return out
}

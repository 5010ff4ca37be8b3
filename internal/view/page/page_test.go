package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/result/harvest"
	"spate/internal/rng"
	"spate/internal/view/curve"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const ms = time.Millisecond

// made is a run of n requests at a rate; more than 20 a second queue up at the server. Every fail-th request
// fails, none when it is 0.
func made(name string, n int, rate float64, fail, chunks int) (result.Entry, []call.Record) {
	recs := requests(n, rate, fail, chunks)
	return entry(name, recs, rate), recs
}

func requests(n int, rate float64, fail, chunks int) []call.Record {
	r := rng.New(3, "page test", uint64(n))
	gap := time.Duration(float64(time.Second) / rate)
	recs := make([]call.Record, 0, n)
	for i := range n {
		at := 250*ms + time.Duration(i)*gap
		rec := call.NewRecord(&call.Request{ID: i, Phase: call.Measure, In: call.Count{N: 200 + r.IntN(50), From: call.FromServer}})
		rec.In = rec.Asked
		rec.Due, rec.Dispatched, rec.Started, rec.Sent = at, at, at, at+time.Duration(r.IntN(900))*time.Microsecond
		queue := max(0, time.Duration(i)*(50*ms-gap))
		now := rec.Sent + queue + time.Duration(40+r.IntN(60))*ms
		for range chunks {
			rec.Chunks = append(rec.Chunks, call.Chunk{At: now, Tokens: 1, Kind: call.Visible})
			now += time.Duration(8000+r.IntN(9000)) * time.Microsecond
		}
		rec.FirstToken, rec.LastToken, rec.LastEvent, rec.End = rec.Chunks[0].At, now, now, now
		rec.Outcome, rec.Out, rec.Status, rec.Finish = call.OK, call.Count{N: chunks, From: call.FromServer}, 200, "length"
		if fail > 0 && i%fail == fail-1 {
			rec.Outcome, rec.Fault, rec.Err, rec.Chunks, rec.Status = call.Failed, call.FaultStatus, "HTTP status 500: <b>engine died</b>", nil, 500
			rec.End = rec.Sent + 30*ms
		}
		recs = append(recs, rec)
	}
	return recs
}

func entry(name string, recs []call.Record, rate float64) result.Entry {
	run := &result.Run{
		Schema: result.Schema, ID: name, State: result.Complete, Tool: "spate test", Started: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC),
		Command: []string{"spate", "bench", "--request-rate", fmt.Sprint(rate), "--header", "X-Note=it's"},
		Labels:  map[string]string{"gpus": "2"},
		Server:  result.Server{Model: "Qwen/Qwen3-8B", Backend: "openai", Kind: "vllm", Version: "0.10.1", URLs: []string{"http://127.0.0.1:8000"}},
		Plan:    result.NewPlan(metrics.Run{Start: 250 * ms, RequestRate: rate, Tokenizer: true, Percentiles: []float64{50, 90, 99}}, fmt.Sprintf("%d requests at %v per second", len(recs), rate)),
		Config:  json.RawMessage(`{"seed": 0}`),
		Environment: json.RawMessage(`{"host": {"os": "linux", "arch": "amd64", "kernel": "6.1", "cpu": "A CPU", "cores": 4, "memory_bytes": 8589934592,
			"load_average": [0.5, 0.25]}, "server": {"models": [{"id": "Qwen3-8B"}]}}`),
	}
	run.Compute(call.List(recs))
	run.Verdict = verdict.Verdict{Grade: verdict.SuspectRun, Sentence: "Mind before comparing: <late>.", Findings: []verdict.Finding{
		{Name: "failures", Level: verdict.OK, Measured: true, Figure: 0.01, Unit: "share", Bound: 0.05, Sentence: "Few failed."},
		{Name: "send_lag", Level: verdict.Suspect, Measured: true, Figure: 12.345, Unit: "ms", Bound: 10, Sentence: "Requests left late.", Hint: "Use a quieter host."},
		{Name: "concurrency_cap", Level: verdict.OK, Sentence: "No cap was set."},
	}}
	run.Errors = metrics.FirstErrors(call.List(recs), 3)
	return result.FromRun(run)
}

// set is some runs and where their records are.
type set struct {
	entries []result.Entry
	records map[string][]call.Record
}

func (s *set) add(e result.Entry, recs []call.Record) {
	if s.records == nil {
		s.records = map[string][]call.Record{}
	}
	s.entries = append(s.entries, e)
	s.records[e.ID] = recs
}

func (s *set) page(t testing.TB, opt Options) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out, s.entries, opt, func(e *result.Entry) ([]call.Record, error) { return s.records[e.ID], nil }); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// several are three runs under rising load and a result of another tool.
func several() *set {
	s := &set{}
	for _, rate := range []float64{40, 10, 20} {
		s.add(made(fmt.Sprintf("rate-%v", rate), int(rate)*4, rate, 13, 12))
	}
	s.add(result.Named(foreign()), nil)
	return s
}

const foreignText = `
============ Serving Benchmark Result ============
Successful requests:                     200
Benchmark duration (s):                  25.10
Total input tokens:                      51200
Total generated tokens:                  1200
Request throughput (req/s):              7.97
Output token throughput (tok/s):         47.81
Total Token throughput (tok/s):          2087.65
---------------Time to First Token----------------
Mean TTFT (ms):                          120.50
Median TTFT (ms):                        101.25
P99 TTFT (ms):                           480.00
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          21.00
Median TPOT (ms):                        20.50
P99 TPOT (ms):                           60.75
---------------Inter-token Latency----------------
Mean ITL (ms):                           21.00
Median ITL (ms):                         19.00
P99 ITL (ms):                            88.00
==================================================
`

func foreign() result.Entry {
	h, err := harvest.Read("other.log", strings.NewReader(foreignText))
	if err != nil || len(h.Entries) != 1 {
		panic(fmt.Sprint(len(h.Entries), " results: ", err))
	}
	return h.Entries[0]
}

// charts reads the data of a page back.
func charts(t testing.TB, page []byte) (out struct {
	Charts map[string]struct {
		Lines []struct {
			Name string
			Kind curve.Kind
			X, Y []*float64
		}
	}
	Runs []struct {
		Duration  float64 `json:"duration_s"`
		Waterfall *struct {
			Total                                     int
			ID, Sent, Wait, First, End, In, Out, Fate string
		}
	}
},
) {
	t.Helper()
	m := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindSubmatch(page)
	if m == nil {
		t.Fatal("the page has no data")
	}
	if err := json.Unmarshal(m[1], &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPageHasEveryView(t *testing.T) {
	page := several().page(t, Options{Says: []string{"It says `this`."}, Explain: []Section{{Title: "Why", Sentences: []string{"Because."}}, {Title: "Alone", Run: "rate-20", Sentences: []string{"Only here."}}}})
	d := charts(t, page)
	for _, key := range []string{
		"pareto", "load:request_throughput:p99:ttft", "load:output_throughput:mean:tpot", "load:request_rate:median:e2el",
		"percentiles:ttft", "cdf:tpot", "histogram:itl", "r0:time-rate", "r2:time-latency", "r1:time-in-flight",
	} {
		if len(d.Charts[key].Lines) == 0 {
			t.Errorf("no chart %s", key)
		}
	}
	for _, text := range []string{
		"It says <code>this</code>.", "Because.", "Only here.", "rate-10", "Mind before comparing: &lt;late&gt;.", "Requests left late. Use a quieter host.",
		"spate bench --request-rate 40 --header &#39;X-Note=it&#39;\\&#39;&#39;s&#39;", "A CPU, 4 cores, 8 GiB, linux 6.1 amd64", "0.5, 0.25", "server · models · id",
		"Successful requests", "vllm-block", "HTTP status 500: &lt;b&gt;engine died&lt;/b&gt;", "480.00", "Time to first token",
	} {
		if !bytes.Contains(page, []byte(text)) {
			t.Errorf("the page lacks %q", text)
		}
	}
	if i := bytes.Index(page, []byte("%!")); i >= 0 {
		t.Errorf("markup and what is filled in do not match: %s", page[max(0, i-80):i+40])
	}
	if n := len(d.Charts["percentiles:ttft"].Lines); n != 4 {
		t.Errorf("%d lines of percentiles, with the other tool's it should be 4", n)
	}
}

// hash is a text as a policy names it.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func TestPageReachesNothingOutside(t *testing.T) {
	page := string(several().page(t, Options{}))
	for _, bad := range []string{`src="`, "@import", "url(http", `href="http`, "//cdn", "fetch(", "XMLHttpRequest", "WebSocket", "<link", "<iframe", "<img"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	csp := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	if csp == nil {
		t.Fatal("no policy")
	}
	policy := strings.NewReplacer("&#39;", "'", "&#43;", "+").Replace(csp[1])
	for tag, directive := range map[string]string{"script": "script-src", "style": "style-src"} {
		m := regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`+tag+`>`).FindAllStringSubmatch(page, -1)
		if len(m) != 1 {
			t.Fatalf("%d elements %s", len(m), tag)
		}
		if want := directive + " '" + hash(m[0][1]) + "'"; !strings.Contains(policy, want) {
			t.Errorf("policy %q lacks %q", policy, want)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
}

func TestTextIsNeverMarkup(t *testing.T) {
	const evil = `</script><script>alert(1)</script><img src=x onerror=alert(2)>"'`
	e, recs := made("run", 20, 10, 3, 4)
	e.Name, e.ID = evil, evil
	e.Run.Server.Model, e.Run.Plan.Text, e.Run.Notes = evil, evil, []string{evil}
	e.Run.Errors, e.Run.Command = []string{evil}, []string{"spate", evil}
	e.Run.Environment = json.RawMessage(`{"host": ` + string(must(json.Marshal(evil))) + `}`)
	e.Run.Config = json.RawMessage(must(json.Marshal(map[string]string{evil: evil})))
	e.Labels = map[string]string{"gpus": "1", evil: evil}
	e.Problems = []result.Problem{{Text: evil}}
	other, otherRecs := made("other", 20, 20, 0, 4)
	s := &set{}
	s.add(e, recs)
	s.add(other, otherRecs)
	page := string(s.page(t, Options{Title: evil, Says: []string{evil}, Footer: evil, Explain: []Section{{Title: evil, Sentences: []string{evil}}, {Run: evil, Title: evil, Sentences: []string{evil}}}}))
	if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img") {
		t.Error("text of a result became markup")
	}
	if n := strings.Count(page, "<script"); n != 2 {
		t.Errorf("%d scripts, not data and code", n)
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func TestWaterfallComesBack(t *testing.T) {
	s := &set{}
	s.add(made("one", 300, 30, 7, 5))
	d := charts(t, s.page(t, Options{}))
	got := d.Runs[0].Waterfall
	want := curve.Requests(s.records["one"], s.entries[0].Run.Plan.Metrics(), 1000)
	column := func(text string) []int64 {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		var out []int64
		for len(raw) > 0 {
			v, n := binary.Varint(raw)
			out, raw = append(out, v), raw[n:]
		}
		return out
	}
	ids, sent, wait, first, end, in, out, fate := column(got.ID), column(got.Sent), column(got.Wait), column(got.First), column(got.End), column(got.In), column(got.Out), column(got.Fate)
	if got.Total != 300 || len(sent) != 300 {
		t.Fatalf("%d bars of %d", len(sent), got.Total)
	}
	var id, at int64
	for i, b := range want.Bars {
		id, at = id+ids[i], at+sent[i]
		u := func(v int64) time.Duration { return time.Duration(v) * resolution }
		back := curve.Bar{ID: int(id), Sent: u(at), Due: u(at - wait[i]), First: u(at + first[i]), End: u(at + first[i] + end[i]), In: int(in[i]), Out: int(out[i]), Outcome: b.Outcome}
		b.Sent, b.Due, b.First, b.End = b.Sent.Round(resolution), b.Due.Round(resolution), b.First.Round(resolution), b.End.Round(resolution)
		if diff := cmp.Diff(b, back); diff != "" || fates[b.Outcome] != fate[i] {
			t.Fatalf("bar %d, fate %d (-want +got):\n%s", i, fate[i], diff)
		}
	}
}

// big is a run of a hundred thousand requests. Its summary is that of the first of them, but for its length:
// to compute all intervals would take longer than all other tests.
var big = sync.OnceValue(func() *set {
	recs := requests(100_000, 19, 1000, 4)
	e := entry("big", recs[:500], 19)
	e.Run.Summary.DurationS = recs[len(recs)-1].End.Seconds()
	e.Run.Summary.Series.StepS = 10
	for range 500 {
		s := &e.Run.Summary.Series
		s.Sent, s.Finished, s.Failed, s.Output, s.InFlight = append(s.Sent, 190), append(s.Finished, 190), append(s.Failed, 0), append(s.Output, 760), append(s.InFlight, 3)
	}
	s := &set{}
	s.add(e, recs)
	return s
})

func TestLargeRunsStaySmall(t *testing.T) {
	page := big().page(t, Options{})
	t.Logf("a page of 100,000 requests has %.2f MB", float64(len(page))/1e6)
	if len(page) > 3_000_000 {
		t.Errorf("%d bytes", len(page))
	}
	few := big().page(t, Options{MaxBars: 2000})
	if d := charts(t, few); d.Runs[0].Waterfall.Total != 100_000 || len(few) > 300_000 {
		t.Errorf("2,000 bars of %d take %d bytes", d.Runs[0].Waterfall.Total, len(few))
	}
}

// TestPageSaysWhatItLacks: a log too large for charts of single requests is told, not passed over.
func TestPageSaysWhatItLacks(t *testing.T) {
	var out bytes.Buffer
	none := func(*result.Entry) ([]call.Record, error) { return nil, errors.New("the log has 5 GB") }
	if err := write(&out, big().entries, Options{}, none); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "No charts of single requests: the log has 5 GB") {
		t.Error("the page does not say why it has no charts of single requests")
	}
}

func TestOtherToolsAlone(t *testing.T) {
	a, b := foreign(), foreign()
	b.Metrics = append(result.Figures{}, a.Metrics...)
	for i := range b.Metrics {
		if b.Metrics[i].Name == "request_throughput" {
			b.Metrics[i].Text = "9.10"
		}
	}
	failed := result.Entry{Source: result.Source{File: "other.log", Line: 90}, Format: result.FormatFailedLaunch, Error: "ValueError: too long"}
	s := &set{entries: []result.Entry{result.Named(a), result.Named(b), result.Named(failed)}}
	page := s.page(t, Options{})
	d := charts(t, page)
	if l := d.Charts["load:request_throughput:p99:ttft"].Lines; len(l) != 1 || len(l[0].X) != 2 {
		t.Errorf("load curve of summaries: %+v", l)
	}
	for _, text := range []string{"7.97", "9.10", "ValueError: too long", "1 more have no figures", "P99 480"} {
		if !bytes.Contains(page, []byte(text)) {
			t.Errorf("the page lacks %q", text)
		}
	}
	if err := Write(&bytes.Buffer{}, nil, Options{}); err != nil {
		t.Errorf("a page of nothing: %v", err)
	}
}

// TestGolden holds what a page says without its scripts. Style and scripts are seen by the browser test.
func TestGolden(t *testing.T) {
	e, recs := made("one run", 60, 30, 20, 6)
	s := &set{}
	s.add(e, recs)
	page := s.page(t, Options{Says: []string{"A sentence."}})
	page = regexp.MustCompile(`(?s)<(style|script)[^>]*>.*?</(style|script)>`).ReplaceAll(page, []byte("<$1></$1>"))
	page = regexp.MustCompile(`sha256-.*?=&#39;`).ReplaceAll(page, []byte("sha256-&#39;"))
	path := filepath.Join("testdata", "run.html")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(page)); diff != "" {
		t.Errorf("the page changed (-want +got), run with -update if meant:\n%s", diff)
	}
}

func TestNumbersForPeople(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 3: "3", 3.14159: "3.14", 123.456: "123.5", 1234.5: "1,234", 1234567: "1,234,567", -9876.4: "-9,876"} {
		if got := group(v); got != want {
			t.Errorf("group(%v) = %q, not %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.00002: "0", 0.0008407: "0.0008", 1: "1", 2.811: "2.81", 14.05: "14.1", 250: "250"} {
		if got := brief(v); got != want {
			t.Errorf("brief(%v) = %q, not %q", v, got, want)
		}
	}
	if got, err := json.Marshal(numbers{1, 0.1234567, 1e-9, 12345678}); err != nil || string(got) != "[1,0.123457,1e-09,1.23457e+07]" {
		t.Errorf("numbers: %s, %v", got, err)
	}
}

// TestHeadlinesLeaveOutWhatMayNotBeUsed: the best figures are of runs that count, and predictions never share a
// headline with measurements.
func TestHeadlinesLeaveOutWhatMayNotBeUsed(t *testing.T) {
	s := several() // output rises with the rate: rate-40 has the best
	s.entries[0].Run.Verdict.Grade = verdict.InvalidRun
	guess, recs := made("guess", 200, 50, 0, 12)
	guess.Run.Verdict.Grade = ""
	guess.Labels = map[string]string{result.PredictedLabel: "true"}
	s.add(guess, recs)
	text := string(s.page(t, Options{}))
	_, overview, _ := strings.Cut(text, `id="overview"`)
	overview, _, _ = strings.Cut(overview, "</section>")
	for _, want := range []string{"2 SUSPECT, 1 INVALID, 1 predicted, 1 not judged", "without 1 INVALID, 1 predicted (of 5)", "<em>rate-20 (SUSPECT)</em>"} {
		if !strings.Contains(overview, want) {
			t.Errorf("the overview has no %q:\n%s", want, overview)
		}
	}
	if strings.Contains(overview, "rate-40") || strings.Contains(overview, "guess") {
		t.Errorf("the overview rests on what may not be used:\n%s", overview)
	}
	for _, want := range []string{`<th scope="col">Run</th><th scope="col">Verdict</th>`, `<span class="badge invalid">INVALID</span>`, `<span class="badge none">predicted</span>`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

// TestManyRunsStaySmall: 126 runs, as a sweep of three lists makes, are below 2 MB.
func TestManyRunsStaySmall(t *testing.T) {
	s := &set{}
	for i := range 126 {
		s.add(made(fmt.Sprintf("1a2b3c-%03d-isl=128-osl=32-request-rate=%d-r1", i, i), 60, float64(5+i%42), 0, 32))
	}
	page := s.page(t, Options{})
	if len(page) >= 2<<20 {
		t.Errorf("126 runs take %d bytes", len(page))
	}
	for _, want := range []string{`<main class="many">`, "data-filter", "Environment and all settings are in the run&#39;s folder"} {
		if !bytes.Contains(page, []byte(strings.ReplaceAll(want, "&#39;", "'"))) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/fleet/broker"
	"spate/internal/fleet/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "a-token-for-tests"

// home is a real broker whose process can be ended and started again on its address.
type home struct {
	t    *testing.T
	dir  string
	addr string
	*broker.Broker
}

func newHome(t *testing.T) *home {
	h := &home{t: t, dir: filepath.Join(t.TempDir(), "store"), addr: "127.0.0.1:0"}
	h.start()
	t.Cleanup(func() { h.Close() })
	return h
}

func (h *home) start() {
	h.t.Helper()
	var err error
	if h.Broker, err = broker.Start(broker.Options{Listen: h.addr, Dir: h.dir, Token: token}); err != nil {
		h.t.Fatal(err)
	}
	h.addr = "127.0.0.1:" + h.Port()
}

func (h *home) dial(name string) *Link {
	h.t.Helper()
	l, err := Dial(Options{Join: Join{URL: h.URL(), Token: token}, Name: name})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(l.Close)
	return l
}

// gathered is what an inbox saw.
type gathered struct {
	mu   sync.Mutex
	ids  map[int]int // how often each record came
	done []*wire.Done
	bad  []error
}

func (g *gathered) arrivals(names ...string) Arrivals {
	g.ids = map[int]int{}
	return Arrivals{
		Names:  names,
		Record: func(_ int, r *call.Record) error { g.mu.Lock(); g.ids[r.ID]++; g.mu.Unlock(); return nil },
		Done:   func(_ int, d *wire.Done) { g.mu.Lock(); g.done = append(g.done, d); g.mu.Unlock() },
		Bad:    func(_ int, err error) { g.mu.Lock(); g.bad = append(g.bad, err); g.mu.Unlock() },
	}
}

// check wants records 0 to n-1, each once.
func (g *gathered) check(t *testing.T, n int) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range n {
		if g.ids[i] != 1 {
			t.Errorf("record %d came %d times", i, g.ids[i])
			return
		}
	}
	if len(g.ids) != n || len(g.bad) > 0 {
		t.Errorf("%d records of %d; %v", len(g.ids), n, g.bad)
	}
}

func record(id int, worker string) *call.Record {
	r := call.NewRecord(&call.Request{ID: id, Phase: call.Measure})
	r.Worker, r.Outcome, r.Due = worker, call.OK, time.Duration(id)
	return &r
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestRecordsArriveOnce: several parts at once, lines longer than a message among them, and the end of each part after
// its records.
func TestRecordsArriveOnce(t *testing.T) {
	h := newHome(t)
	ctx := within(t, time.Minute)
	c, w := h.dial("coordinator"), h.dial("worker")
	if err := c.CreateRun(ctx, "r1"); err != nil {
		t.Fatal(err)
	}
	var g gathered
	in, err := c.OpenInbox(ctx, "r1", g.arrivals("a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	const each = 3000
	var wg sync.WaitGroup
	for part, name := range []string{"a", "b"} {
		out := w.NewOutbox("r1", wire.Part(part), "s", true)
		wg.Go(func() {
			for i := range each {
				r := record(2*i+part, name)
				if i == each/2 {
					r.Text = strings.Repeat("long ", 600_000) // 3 MB: four messages
				}
				if err := out.Record(r); err != nil {
					t.Error(err)
				}
			}
			if err := out.Flush(ctx); err != nil {
				t.Error(err)
			}
			if made, acked, left := out.Counts(); made != each || acked != each || left != 0 {
				t.Errorf("%d made, %d acknowledged, %d left", made, acked, left)
			}
			if err := w.Keep(ctx, wire.Dones("r1", wire.Part(part)), "done-"+name, &wire.Done{Worker: name, Records: each}); err != nil {
				t.Error(err)
			}
			_ = out.Close()
		})
	}
	wg.Wait()
	if err := in.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	g.check(t, 2*each)
	if len(g.done) != 2 {
		t.Errorf("%d parts ended", len(g.done))
	}
}

// TestABrokerThatRestartsLosesNothing: records are made while it is gone, too; none is lost and the broker keeps none
// twice.
func TestABrokerThatRestartsLosesNothing(t *testing.T) {
	h := newHome(t)
	ctx := within(t, time.Minute)
	c, w := h.dial("coordinator"), h.dial("worker")
	if err := c.CreateRun(ctx, "r1"); err != nil {
		t.Fatal(err)
	}
	var g gathered
	in, err := c.OpenInbox(ctx, "r1", g.arrivals("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out := w.NewOutbox("r1", wire.Part(0), "s", false)
	defer func() { _ = out.Close() }()
	n := 0
	make1000 := func() {
		for range 1000 {
			if err := out.Record(record(n, "a")); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	make1000()
	if err := out.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	h.Close()
	make1000()
	time.Sleep(2 * batchAfter) // it is tried, and fails
	h.start()
	make1000()
	if err := out.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := in.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	g.check(t, n)
}

// TestABatchSentTwiceIsKeptOnce: the acknowledgement was lost, the worker sends again.
func TestABatchSentTwiceIsKeptOnce(t *testing.T) {
	h := newHome(t)
	ctx := within(t, time.Minute)
	l := h.dial("worker")
	if err := l.CreateRun(ctx, "r1"); err != nil {
		t.Fatal(err)
	}
	out := l.NewOutbox("r1", wire.Part(0), "s", false)
	defer func() { _ = out.Close() }()
	m := out.message(recorder.Append(nil, record(1, "a"), false), "")
	for range 3 {
		if _, err := l.JS.PublishMsg(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	s, err := l.JS.Stream(ctx, wire.Stream("r1"))
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("the broker keeps %d messages", n)
	}
}

// TestARunThatIsOverTakesNothing: a worker that comes back too late is told so, rather than to wait for ever.
func TestARunThatIsOverTakesNothing(t *testing.T) {
	h := newHome(t)
	ctx := within(t, time.Minute)
	l := h.dial("worker")
	if err := l.CreateRun(ctx, "r1"); err != nil {
		t.Fatal(err)
	}
	if runs, err := l.Runs(ctx); err != nil || len(runs) != 1 || runs[0] != "r1" {
		t.Errorf("runs %v, %v", runs, err)
	}
	if err := l.DropRun(ctx, "r1"); err != nil {
		t.Fatal(err)
	}
	out := l.NewOutbox("r1", wire.Part(0), "s", false)
	defer func() { _ = out.Close() }()
	if err := out.Record(record(1, "a")); err != nil {
		t.Fatal(err)
	}
	if err := out.Flush(ctx); !errors.Is(err, ErrGone) {
		t.Errorf("Flush: %v", err)
	}
	if err := l.Keep(ctx, wire.Dones("r1", wire.Part(0)), "x", &wire.Done{Worker: "a"}); !errors.Is(err, ErrGone) {
		t.Errorf("Keep: %v", err)
	}
}

// TestALogIsSentAgain: what a worker has on disk comes to the coordinator, torn lines left out.
func TestALogIsSentAgain(t *testing.T) {
	h := newHome(t)
	ctx := within(t, time.Minute)
	l := h.dial("worker")
	if err := l.CreateRun(ctx, "r1"); err != nil {
		t.Fatal(err)
	}
	var log []byte
	for i := range 500 {
		log = recorder.Append(log, record(i, "a"), false)
	}
	log = append(log, `{"id":500,"wor`...) // killed in the middle of a write
	n, err := l.SendLog(ctx, "r1", wire.Part(0), "again", bytes.NewReader(log))
	if err != nil || n != 500 {
		t.Fatalf("%d records, %v", n, err)
	}
	var g gathered
	in, err := l.OpenInbox(ctx, "r1", g.arrivals("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	g.check(t, 500)
}

// TestWhatAWorkerMayNotSay: records under another name, parts that do not exist and lines that are none are refused, and
// reading goes on.
func TestWhatAWorkerMayNotSay(t *testing.T) {
	h := newHome(t)
	ctx := within(t, time.Minute)
	l := h.dial("worker")
	if err := l.CreateRun(ctx, "r1"); err != nil {
		t.Fatal(err)
	}
	var g gathered
	in, err := l.OpenInbox(ctx, "r1", g.arrivals("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for _, m := range []struct {
		subject string
		data    []byte
	}{
		{wire.Records("r1", wire.Part(0)), recorder.Append(nil, record(7, "b"), false)},
		{wire.Records("r1", wire.Part(5)), recorder.Append(nil, record(7, "a"), false)},
		{wire.Records("r1", "x"), []byte("zzz\n")},
		{wire.Records("r1", wire.Part(0)), []byte("{\"id\":-4}\n")},
		{wire.Dones("r1", wire.Part(0)), []byte("no")},
		{wire.Records("r1", wire.Part(0)), recorder.Append(nil, record(0, "a"), false)},
	} {
		if _, err := l.JS.Publish(ctx, m.subject, m.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	if len(g.ids) != 1 || g.ids[0] != 1 || len(g.bad) != 3 || len(g.done) != 0 {
		t.Errorf("records %v, refused %v", g.ids, g.bad)
	}
}

// TestTheTimeIsTold over a real connection: both clocks are this machine's, so that the true offset is known.
func TestTheTimeIsTold(t *testing.T) {
	h := newHome(t)
	ctx := within(t, time.Minute)
	c, w := h.dial("coordinator"), h.dial("worker")
	run, own := call.ClockAt(time.Now().Add(-time.Hour)), call.NewClock()
	stop, err := c.TellTime("r1", run)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	est, err := w.AskTime(ctx, "r1", own.Now)
	if err != nil {
		t.Fatal(err)
	}
	truth := own.Start().Sub(run.Start())
	if wrong := (est.Offset - truth).Abs(); wrong > est.RoundTrip/2+1 || est.Exchanges != Exchanges {
		t.Errorf("%+v is %v from the truth", est, wrong)
	}
	t.Logf("offset wrong by %v, fastest round trip %v", (est.Offset - truth).Abs(), est.RoundTrip)
	stop()
	if err := c.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.AskTime(ctx, "r1", own.Now); err == nil {
		t.Error("nobody told the time, and it was known")
	}
}

// TestWallClocks: the time of a worker on this host is this host's, and what is no time is refused.
func TestWallClocks(t *testing.T) {
	h := newHome(t)
	ctx := within(t, time.Minute)
	l, w := h.dial("status"), h.dial("worker")
	answers := map[string]nats.MsgHandler{"good": TellWallClock}
	for name, text := range map[string]string{"word": "noon", "before": "-5", "endless": strings.Repeat("9", 1000), "empty": ""} {
		answers[name] = func(m *nats.Msg) { _ = m.Respond([]byte(text)) }
	}
	for name, answer := range answers {
		if _, err := w.NC.Subscribe(wire.WorkerClock(name), answer); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	answers["nobody"] = nil
	for name := range answers {
		est, err := l.AskWallClock(ctx, name)
		switch {
		case name != "good" && err == nil:
			t.Errorf("%s: %+v", name, est)
		case name == "good" && (err != nil || est.Exchanges != Exchanges || est.Offset.Abs() > est.RoundTrip/2+1):
			t.Errorf("%+v, %v", est, err)
		}
	}
}

// TestFilesTravelByContent: once, checked on arrival, and a file that was changed on the way or on disk is not used.
func TestFilesTravelByContent(t *testing.T) {
	h := newHome(t)
	ctx := within(t, time.Minute)
	l := h.dial("worker")
	dir := t.TempDir()
	path := filepath.Join(dir, "data.jsonl")
	want := bytes.Repeat([]byte("a line of a dataset\n"), 100_000) // 2 MB: many pieces
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Hash(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.PutFile(ctx, f); err != nil {
			t.Fatal(err)
		}
	}
	cache := filepath.Join(dir, "cache")
	get := func() {
		t.Helper()
		at, err := l.GetFile(ctx, f, cache)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(at); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	get()
	if err := os.WriteFile(filepath.Join(cache, f.Hash), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	get()

	s, err := l.JS.ObjectStore(ctx, wire.Files)
	if err != nil {
		t.Fatal(err)
	}
	other := f
	other.Hash = strings.Repeat("ab", 32)
	if _, err := s.Put(ctx, jetstream.ObjectMeta{Name: other.Hash}, bytes.NewReader(want)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.GetFile(ctx, other, cache); err == nil || !strings.Contains(err.Error(), "were announced") {
		t.Errorf("another content: %v", err)
	}
	small := f
	small.Size = 10
	if _, err := l.GetFile(ctx, small, filepath.Join(dir, "cache2")); err == nil || !strings.Contains(err.Error(), "10 bytes") {
		t.Errorf("more than was announced: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "cache*", "arriving-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestWhoMayConnect: with TLS and a token, and with nothing less.
func TestWhoMayConnect(t *testing.T) {
	cert, key, err := broker.NewCert([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	conf, err := broker.TLS(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.Start(broker.Options{Listen: "127.0.0.1:0", Dir: filepath.Join(t.TempDir(), "s"), Token: token, TLS: conf})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	good := Join{URL: b.URL(), Token: token, CA: string(cert)}
	path := filepath.Join(t.TempDir(), "join")
	text, err := good.Text()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := ReadJoin(path, "")
	if err != nil || read != good {
		t.Fatalf("join file: %+v, %v", read, err)
	}
	l, err := Dial(Options{Join: read})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.NC.TLSConnectionState(); err != nil || !l.Private() {
		t.Error("a connection with TLS is none")
	}
	l.Close()
	for _, c := range []struct {
		join Join
		want string
	}{
		{Join{URL: b.URL(), CA: string(cert)}, "SPATE_FLEET_TOKEN"},
		{Join{URL: b.URL(), CA: string(cert), Token: "other"}, "SPATE_FLEET_TOKEN"},
		{Join{URL: b.URL(), Token: token}, "certificate"},
		{Join{URL: b.URL(), Token: token, CA: "x"}, "no PEM"},
		{Join{URL: "nats://127.0.0.1:1", Token: token}, "nobody listens"},
	} {
		l, err := Dial(Options{Join: c.join})
		if err == nil {
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(fmt.Sprint(err), token) {
			t.Errorf("%+v: %v; want %q", c.join, err, c.want)
		}
	}
}

func TestReadJoinSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte(`{"url":"http://x:1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]string{
		"http://host:4222":         "begins with http://",
		"nats://":                  "names no host",
		"gpu7:4222":                "neither an address",
		filepath.Join(dir, "none"): "neither an address",
		bad:                        "begins with http://",
		"nats://user:hunter2secret@:1,nats://a:1": "names no host",
	} {
		_, err := ReadJoin(word, "")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2secret") {
			t.Errorf("%s: %v; want %q", word, err, want)
		}
	}
	j, err := ReadJoin("nats://a:4222,nats://b:4222", "tok")
	if err != nil || j.Token.Reveal() != "tok" || strings.Contains(fmt.Sprintf("%+v", j), "tok\"") {
		t.Errorf("%+v, %v", j, err)
	}
}

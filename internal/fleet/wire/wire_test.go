package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spate/internal/call"
	"spate/internal/call/recorder"
)

const hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func goodJob() *Job {
	return &Job{
		Run: "r1", Version: "1.0", Protocol: Protocol, Part: 1, Of: 3, Worker: "b", Config: json.RawMessage(`{"load":{}}`),
		Files: []File{{Path: "data/a.jsonl", Hash: hash, Size: 12}},
	}
}

// TestMessagesComeBackAsTheyLeft, each through Encode and Decode.
func TestMessagesComeBackAsTheyLeft(t *testing.T) {
	at := 5 * time.Second
	back := func(t *testing.T, in, out Message, decode func([]byte) error) {
		t.Helper()
		data, err := Encode(in)
		if err != nil {
			t.Fatal(err)
		}
		if err := decode(data); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(in, out); d != "" {
			t.Errorf("changed on the way:\n%s", d)
		}
	}
	var job Job
	back(t, goodJob(), &job, func(b []byte) error { return Decode(b, &job) })
	var hello Hello
	back(t, &Hello{Worker: "a-1", Host: "h", Version: "1", Protocol: 1, Cores: 8, PID: 3, Run: "r"}, &hello, func(b []byte) error { return Decode(b, &hello) })
	var pulse Pulse
	back(t, &Pulse{Start: &at, Stop: true}, &pulse, func(b []byte) error { return Decode(b, &pulse) })
	var beat Beat
	back(t, &Beat{Worker: "a", Due: 7, Sent: 6, Done: 5, InFlight: 1}, &beat, func(b []byte) error { return Decode(b, &beat) })
	var done Done
	back(t, &Done{Worker: "a", Records: 9, Report: json.RawMessage(`{"a":1}`)}, &done, func(b []byte) error { return Decode(b, &done) })
	var plan Plan
	back(t, &Plan{Run: "r", Of: 2, Workers: []string{"a", "b"}, Folder: "runs/x"}, &plan, func(b []byte) error { return Decode(b, &plan) })
}

// TestWhatCannotBeIsRefused, each with a word of what was wrong; what was there before stays.
func TestWhatCannotBeIsRefused(t *testing.T) {
	for _, c := range []struct {
		data, want string
		decode     func([]byte) error
	}{
		{`{"run":"r","worker":"b","part":3,"of":3}`, "part 3 of 3", func(b []byte) error { return Decode(b, &Job{}) }},
		{`{"run":"r","worker":"b","part":-1,"of":3}`, "part is -1", func(b []byte) error { return Decode(b, &Job{}) }},
		{`{"run":"r.>","worker":"b","part":0,"of":3}`, "run \"r.>\"", func(b []byte) error { return Decode(b, &Job{}) }},
		{`{"run":"r","worker":"b","part":0,"of":1,"files":[{"path":"x","hash":"00","size":1}]}`, "hash \"00\"", func(b []byte) error { return Decode(b, &Job{}) }},
		{`{"run":"r","worker":"b","part":0,"of":1,"files":[{"path":"x","hash":"` + hash + `","size":-1}]}`, "-1 bytes", func(b []byte) error { return Decode(b, &Job{}) }},
		{`{"worker":"a","due":-1}`, "due is -1", func(b []byte) error { return Decode(b, &Beat{}) }},
		{`{"worker":"a","load":-1}`, "load is -1", func(b []byte) error { return Decode(b, &Hello{}) }},
		{`{"worker":""}`, "worker \"\"", func(b []byte) error { return Decode(b, &Hello{}) }},
		{`{"worker":"` + strings.Repeat("a", 65) + `"}`, "1 to 64 letters", func(b []byte) error { return Decode(b, &Hello{}) }},
		{`{"worker":"a","host":"` + strings.Repeat("h", MaxText+1) + `"}`, "host has 2001 bytes", func(b []byte) error { return Decode(b, &Hello{}) }},
		{`{"start_ns":-5}`, "start_ns is -5", func(b []byte) error { return Decode(b, &Pulse{}) }},
		{`{} {}`, "something follows", func(b []byte) error { return Decode(b, &Pulse{}) }},
		{`[]`, "not a message", func(b []byte) error { return Decode(b, &Pulse{}) }},
		{`{"run":"r","of":2,"workers":["a"]}`, "names 1", func(b []byte) error { return Decode(b, &Plan{}) }},
		{`{"worker":"a","clock":{"uncertainty_ns":-1}}`, "uncertainty is -1", func(b []byte) error { return Decode(b, &Done{}) }},
		{strings.Repeat(" ", MaxMessage) + `{}`, "at most", func(b []byte) error { return Decode(b, &Pulse{}) }},
	} {
		if err := c.decode([]byte(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.90s: %v; want %q", c.data, err, c.want)
		}
	}
	kept := Beat{Worker: "a", Due: 3}
	if Decode([]byte(`{"worker":"a","due":-1}`), &kept) == nil || kept.Due != 3 {
		t.Errorf("a bad message changed %+v", kept)
	}
	if _, err := Encode(&Job{Run: "a b"}); err == nil {
		t.Error("a job that nobody would take was sent")
	}
}

// TestOtherVersionsAreRefusedByName: whoever computes the load must compute the same one.
func TestOtherVersionsAreRefusedByName(t *testing.T) {
	h := Hello{Worker: "gpu7-1", Version: "1.4", Protocol: Protocol}
	if err := h.Fits("1.4"); err != nil {
		t.Error(err)
	}
	if err := h.Fits("1.5"); err == nil || !strings.Contains(err.Error(), "gpu7-1 is spate 1.4 and this is spate 1.5") {
		t.Errorf("another version: %v", err)
	}
	h.Protocol = 99
	if err := h.Fits("1.4"); err == nil || !strings.Contains(err.Error(), "protocol 99") {
		t.Errorf("another protocol: %v", err)
	}
}

func TestPartsInSubjects(t *testing.T) {
	for _, n := range []int{0, 7, 63, MaxWorkers - 1} {
		if got, err := PartOf(Records("run", Part(n))); err != nil || got != n {
			t.Errorf("part %d came back as %d, %v", n, got, err)
		}
	}
	for _, s := range []string{"spate.v1.run.r.kept.records.1", "spate.v1.run.r.kept.records.abcde", "spate.v1.run.r.kept.records.-0001", "99999", ""} {
		if _, err := PartOf(s); err == nil {
			t.Errorf("%q has a part", s)
		}
	}
	if run, ok := StreamRun(Stream("x1")); !ok || run != "x1" {
		t.Error("a stream forgets its run")
	}
	for _, name := range []string{"gpu7.example.com", "日本", strings.Repeat("x", 200), "a b/c"} {
		if err := Name("", CleanName(name)+"-12345678"); err != nil {
			t.Errorf("CleanName(%q): %v", name, err)
		}
	}
}

func rec(id int, worker string) call.Record {
	r := call.NewRecord(&call.Request{ID: id, Phase: call.Measure})
	r.Worker, r.Outcome, r.Due = worker, call.OK, time.Duration(id)
	return r
}

// TestLinesNameStrangers: what is no record, and what another worker signed, is refused, and the rest is kept.
func TestLinesNameStrangers(t *testing.T) {
	a, b, c := rec(1, "a"), rec(2, "b"), rec(3, "a")
	var data []byte
	data = recorder.Append(data, &a, false)
	data = append(data, "{torn\n"...)
	data = recorder.Append(data, &b, false)
	data = recorder.Append(data, &c, false)
	var got []int
	err := Lines(data, "a", func(r *call.Record) error { got = append(got, r.ID); return nil })
	if !cmp.Equal(got, []int{1, 3}) || err == nil || !strings.Contains(err.Error(), `of worker "b"`) || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("records %v, %v", got, err)
	}
}

// TestPiecesComeTogether, whatever comes twice; a line with a gap is refused, and the next one is read again.
func TestPiecesComeTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SliceOfN(rapid.Byte(), 1, 400).Draw(t, "line")
		pieces, header := Pieces(line, rapid.IntRange(1, 100).Draw(t, "most"))
		var a Assembler
		var whole []byte
		for i, p := range pieces {
			for range rapid.IntRange(1, 3).Draw(t, "times") {
				got, err := a.Add(header(i), p)
				if i == len(pieces)-1 && whole != nil {
					continue // the whole line again, or an orphan of it: the coordinator knows the record
				}
				if err != nil {
					t.Fatal(err)
				}
				if got != nil {
					whole = bytes.Clone(got)
				}
			}
		}
		if !bytes.Equal(whole, line) {
			t.Fatalf("%d bytes came back as %d", len(line), len(whole))
		}
	})
	var a Assembler
	_, _ = a.Add("1/3", []byte("x"))
	if _, err := a.Add("3/3", []byte("z")); err == nil {
		t.Error("a line with a gap was put together")
	}
	if _, err := a.Add("2/3", []byte("y")); err == nil {
		t.Error("a piece without a beginning was taken")
	}
	for _, h := range []string{"0/2", "3/2", "x", "1/", "1/99999999"} {
		if _, err := a.Add(h, []byte("x")); err == nil {
			t.Errorf("%q is a piece", h)
		}
	}
	if got, err := a.Add("", []byte("line\n")); err != nil || string(got) != "line\n" {
		t.Errorf("after all that: %q, %v", got, err)
	}
}

// FuzzDecode: no message does harm, and what is taken can be sent on.
func FuzzDecode(f *testing.F) {
	job, _ := Encode(goodJob())
	f.Add(job)
	f.Add([]byte(`{"worker":"a","due":1,"start_ns":5,"workers":["a"],"of":1,"run":"r"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		again := func(m Message, err error) {
			if err != nil {
				return
			}
			if _, err := Encode(m); err != nil && len(data) < MaxMessage/8 {
				t.Errorf("%T was read and cannot be sent: %v", m, err)
			}
		}
		var job Job
		again(&job, Decode(data, &job))
		var hello Hello
		again(&hello, Decode(data, &hello))
		var ready Ready
		again(&ready, Decode(data, &ready))
		var pulse Pulse
		again(&pulse, Decode(data, &pulse))
		var beat Beat
		again(&beat, Decode(data, &beat))
		var done Done
		again(&done, Decode(data, &done))
		var plan Plan
		again(&plan, Decode(data, &plan))
	})
}

// FuzzBatch: whatever a worker sends, nothing but its own records that can be is taken.
func FuzzBatch(f *testing.F) {
	r := rec(1, "a")
	f.Add("", recorder.Append(nil, &r, true))
	f.Add("1/2", []byte(`{"id":1,`))
	f.Fuzz(func(t *testing.T, header string, data []byte) {
		var a Assembler
		lines, err := a.Add(header, data)
		if err != nil {
			return
		}
		_ = Lines(lines, "a", func(r *call.Record) error {
			if r.Worker != "a" || r.Check() != nil {
				t.Errorf("a record that cannot be: %+v", r)
			}
			return nil
		})
	})
}

// BenchmarkLines is what a coordinator does with each record of 100 chunks before its sinks see it.
func BenchmarkLines(b *testing.B) {
	r := rec(1, "a")
	r.Name, r.In, r.Out, r.Asked = "bench-12345678-1", call.Count{N: 1024, From: call.FromServer}, call.Count{N: 100, From: call.FromServer}, call.Count{N: 1024}
	for i := range 100 {
		r.Chunks = append(r.Chunks, call.Chunk{At: 3*time.Second + time.Duration(i)*7_123_456, Kind: call.Visible})
	}
	var data []byte
	for range 100 {
		data = recorder.Append(data, &r, false)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		n := 0
		if err := Lines(data, "a", func(*call.Record) error { n++; return nil }); err != nil || n != 100 {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "records/s")
}

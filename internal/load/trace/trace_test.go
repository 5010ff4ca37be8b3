package trace

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestRead(t *testing.T) {
	text := `{"timestamp": 0, "input_length": 6755, "output_length": 500, "hash_ids": [0, 1, 2]}` + "\r\n\n" +
		`{"timestamp": "2.5", "input_length": 10.0, "output_length": 0, "hash_ids": ["a", -1, 18446744073709551615], "type": "text"}` + "\n" +
		`{"input_length": 3, "output_length": 4, "hash_ids": null}`
	rows, err := Read(strings.NewReader(text), Mooncake(), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []Row{
		{In: 6755, Out: 500, Blocks: []uint64{0, 1, 2}},
		{At: 2500 * time.Microsecond, In: 10, Blocks: []uint64{0x22cc3617b80a3a7f, 1<<64 - 1, 1<<64 - 1}},
		{In: 3, Out: 4},
	}
	want[1].Blocks[0] = rows[1].Blocks[0] // of a text: any, but always the same
	if d := cmp.Diff(want, rows); d != "" || rows[1].Blocks[0] == 0 {
		t.Error(d)
	}
	few, err := Read(strings.NewReader(text), Mooncake(), 1)
	if err != nil || len(few) != 1 {
		t.Errorf("%d rows, %v", len(few), err)
	}
	f := Timed()
	f.Labels = Labels{"t", "i", "o", "h"}
	rows, err = Read(strings.NewReader(`{"t": 1.25, "i": 3, "o": 4, "h": [7]}`), f, 0)
	if d := cmp.Diff([]Row{{At: 1250 * time.Millisecond, In: 3, Out: 4, Blocks: []uint64{7}}}, rows); d != "" || err != nil {
		t.Error(d, err)
	}
}

func TestReadRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "no rows",
		"1":                   "line 1: not a JSON object",
		`{"input_length": 1}`: `no "output_length"`,
		"\n" + `{"input_length": -1, "output_length": 1}`:                  `line 2: "input_length" is -1`,
		`{"input_length": 1, "output_length": "x"}`:                        `"output_length" is "x"`,
		`{"input_length": 1e12, "output_length": 1}`:                       "not a number of tokens",
		`{"input_length": 1, "output_length": 1, "timestamp": []}`:         "not a time",
		`{"input_length": 1, "output_length": 1, "timestamp": 1e300}`:      "not a time",
		`{"input_length": 1, "output_length": 1, "hash_ids": 3}`:           "not a list",
		`{"input_length": 1, "output_length": 1, "hash_ids": [1.5]}`:       "neither a whole number nor text",
		`{"input_length": 1, "output_length": 1, "hash_ids": [1]} trailer`: "not a JSON object",
	} {
		if _, err := Read(strings.NewReader(text), Timed(), 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for _, f := range []Format{{}, {Chunk: 1}, {Chunk: 1, Unit: 1}} {
		if _, err := Read(strings.NewReader(`{}`), f, 0); err == nil {
			t.Errorf("format %+v was taken", f)
		}
	}
}

// TestIdealByHand is the trace of blocks of 4 from the documentation.
func TestIdealByHand(t *testing.T) {
	rows := []Row{
		{In: 12, Blocks: []uint64{1, 2, 3}},    // nothing yet
		{In: 11, Blocks: []uint64{1, 2, 4}},    // 1 and 2: 8
		{In: 4, Blocks: []uint64{2}},           // 2 never stood in front: 0
		{In: 10, Blocks: []uint64{1, 2, 3}},    // 8 and 2 of block 3
		{In: 16, Blocks: []uint64{1, 2, 4, 9}}, // 8, and the 3 tokens of 4 that were seen
		{In: 16, Blocks: []uint64{1, 2, 4, 9}}, // all 16
	}
	got := IdealHits(rows, 4)
	if want := (Ideal{Requests: 6, Tokens: 69, Hit: 8 + 10 + 11 + 16, Blocks: 6}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if r := got.Rate(); r != 45.0/69 {
		t.Errorf("rate %v", r)
	}
	if (Ideal{}).Rate() != 0 {
		t.Error("nothing has a rate")
	}
}

func TestReplay(t *testing.T) {
	rows := []Row{{At: 5 * time.Second}, {At: 7 * time.Second}, {At: 6 * time.Second}, {At: 107 * time.Second}}
	got, err := Replay(rows, 0.5, 0)
	if d := cmp.Diff([]time.Duration{0, 4 * time.Second, 4 * time.Second, 204 * time.Second}, got); d != "" || err != nil {
		t.Error(d, err)
	}
	got, err = Replay(rows, 1, 10*time.Second)
	if d := cmp.Diff([]time.Duration{0, 2 * time.Second, 2 * time.Second, 12 * time.Second}, got); d != "" || err != nil {
		t.Error(d, err)
	}
	for _, speed := range []float64{0, -1, 1e-300} {
		if _, err := Replay(rows, speed, 0); err == nil {
			t.Errorf("speed %v was taken", speed)
		}
	}
}

func TestNamed(t *testing.T) {
	rows := []Row{{In: 9}, {In: 4, Blocks: []uint64{1}}, {In: 9}}
	Named(rows, 4)
	if got := IdealHits(rows, 4); got.Hit != 0 || got.Tokens != 22 {
		t.Errorf("%+v", got)
	}
}

// TestTrip: what is written is read back the same, and BurstGPT keeps what it has room for.
func TestTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Row {
			return Row{
				At: time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "ms")) * time.Millisecond,
				In: rapid.IntRange(0, 1e6).Draw(t, "in"), Out: rapid.IntRange(0, 1e6).Draw(t, "out"),
				Blocks: rapid.SliceOfN(rapid.Uint64(), 1, 4).Draw(t, "blocks"),
			}
		}), 1, 5).Draw(t, "rows")
		for _, f := range []Format{Timed(), Mooncake()} {
			var buf bytes.Buffer
			if err := Write(&buf, rows, f); err != nil {
				t.Fatal(err)
			}
			back, err := Read(&buf, f, 0)
			if d := cmp.Diff(rows, back); d != "" || err != nil {
				t.Fatal(d, err)
			}
		}
		var buf bytes.Buffer
		if err := WriteBurst(&buf, rows, "GPT-4"); err != nil {
			t.Fatal(err)
		}
		back, err := ReadBurst(&buf)
		if err != nil || len(back) != len(rows) {
			t.Fatal(err)
		}
		for i, b := range back {
			if b.Model != "GPT-4" || b.At != rows[i].At || b.In != rows[i].In || b.Out != rows[i].Out {
				t.Fatalf("%+v became %+v", rows[i], b)
			}
		}
	})
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{"timestamp": 1, "input_length": 5, "output_length": 6, "hash_ids": [1, 2]}`, `{"input_length": 1, "output_length": 1, "hash_ids": ["x"]}`, "\n\n{}", `[1]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		rows, err := Read(bytes.NewReader(text), Mooncake(), 0)
		if err != nil {
			return
		}
		ideal := IdealHits(rows, 512)
		if ideal.Hit > ideal.Tokens || ideal.Requests != len(rows) {
			t.Fatalf("%+v of %d rows", ideal, len(rows))
		}
		if times, err := Replay(rows, 1, time.Minute); err == nil {
			for i := 1; i < len(times); i++ {
				if times[i] < times[i-1] || times[i]-times[i-1] > time.Minute {
					t.Fatalf("times %v", times)
				}
			}
		}
	})
}

func FuzzReadBurst(f *testing.F) {
	f.Add([]byte("Timestamp,Model,Request tokens,Response tokens\n1,GPT-4,5,6\n"))
	f.Add([]byte("\ufeffModel,Request tokens,Response tokens\nx,1e3,\"2\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		rows, err := ReadBurst(bytes.NewReader(text))
		for _, r := range rows {
			if err == nil && (r.In < 0 || r.Out < 0) {
				t.Fatalf("%+v", r)
			}
		}
	})
}

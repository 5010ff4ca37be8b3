package workload

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spate/internal/call"
	"spate/internal/load/lengths"
)

// sized is a tokenizer that only says how large it is.
type sized struct {
	flat
	special int
	barred  []int32
}

func (t sized) SpecialIDs() []int32 { return t.barred }
func (t sized) SpecialsToAdd() int  { return t.special }

// TestDrawsEqualNumpy holds the draws against values NumPy 2.4 gave for the same calls in the same
// order.
func TestDrawsEqualNumpy(t *testing.T) {
	raw, err := os.ReadFile("testdata/random_draws.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name       string
		Era        Era
		Seed       uint64
		N          int
		Input      int
		Output     int
		In         float64 `json:"ratio_in"`
		Out        float64 `json:"ratio_out"`
		Prefix     int
		Vocab      int
		Special    int
		SpecialIDs []int32 `json:"special_ids"`
		FirstIn    []int32 `json:"first_in"`
		FirstOut   []int32 `json:"first_out"`
		FirstOff   []int32 `json:"first_offset"`
		Last       []int32
		SumIn      int64   `json:"sum_in"`
		SumOut     int64   `json:"sum_out"`
		SumOff     int64   `json:"sum_offset"`
		PrefixIDs  []int32 `json:"prefix_ids"`
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			cfg := Config{Dataset: "random", N: c.N, Seed: c.Seed, Era: c.Era, Input: c.Input, Output: c.Output, Prefix: c.Prefix, Ratio: lengths.Ratio{Input: c.In, Output: c.Out}}
			r, err := newRandom(cfg, sized{flat{c.Vocab}, c.Special, c.SpecialIDs})
			if err != nil {
				t.Fatal(err)
			}
			b, first := r.block, len(c.FirstIn)
			last := []int32{b.in[c.N-1], b.out[c.N-1], b.offset[c.N-1]}
			got := []any{b.in[:first], b.out[:first], b.offset[:first], last, lengths.List(b.in).Total(), lengths.List(b.out).Total(), lengths.List(b.offset).Total(), r.prefix}
			want := []any{c.FirstIn, c.FirstOut, c.FirstOff, c.Last, c.SumIn, c.SumOut, c.SumOff, c.PrefixIDs}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestRandomByHand follows three requests through HEAD's rules. With lengths fixed, NumPy's first
// draws for seed 0 are the offsets 34, 26, 20 (of 41); the allowed ids are 1 to 40, so id = place+1.
func TestRandomByHand(t *testing.T) {
	cfg := Config{Dataset: "random", N: 3, Input: 4, Output: 2, IDs: true, NamePrefix: "run-"}
	got, notes := requests(t, cfg, &letters{}, nil)
	count := call.Count{N: 3, From: call.FromTokenizer} // one of four is left to the server's <s>
	want := []call.Request{
		{ID: 0, Name: "run-0", Phase: call.Measure, Prompt: call.Prompt{IDs: []int32{35, 36, 37}}, In: count, MaxOut: 2},
		{ID: 1, Number: 1, Name: "run-1", Phase: call.Measure, Prompt: call.Prompt{IDs: []int32{28, 29, 30}}, In: count, MaxOut: 2},
		{ID: 2, Number: 2, Name: "run-2", Phase: call.Measure, Prompt: call.Prompt{IDs: []int32{23, 24, 25}}, In: count, MaxOut: 2},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(notes) != 0 {
		t.Errorf("notes: %q", notes)
	}
	cfg.IDs = false // 35,36,37 are qr,st,uv; 28,29,30 are cd,ef,gh; 23,24,25 are w,x,y, but wx is one token
	text, _ := requests(t, cfg, &letters{}, nil)
	if d := cmp.Diff([]string{"qrstuv", "cdefgh"}, texts(text)[:2]); d != "" {
		t.Error(d)
	}
	if p := text[2].Prompt.Text; !strings.HasPrefix(p, "wxy") || p == "wxy" || text[2].In.N != 3 {
		t.Errorf("request 2 is %q of %d tokens; want wxy and a token of padding", p, text[2].In.N)
	}
}

func TestRandomOldRules(t *testing.T) {
	// Seed 0 gives RandomState's 0, 3 of 41 for the prefix, then 3, 39, 9 as offsets.
	cfg := Config{Dataset: "random", N: 3, Input: 3, Output: 2, Prefix: 2, Era: V6, Ratio: lengths.Ratio{Input: 1, Output: 1}}
	got, _ := requests(t, cfg, &letters{}, nil)
	// ids 0,3 then 3,4,5 | 40,0,1 (39+1 wraps at 41) | 11,12,13; decoded and sent as that.
	if d := cmp.Diff([]string{"<s>ccde", "<s>cbcd<s>a", "<s>cklm"}, texts(got)); d != "" {
		t.Error(d)
	}
	for _, r := range got {
		if r.In != (call.Count{N: 5, From: call.FromRequested}) {
			t.Errorf("request %d counts %+v, want the nominal 5", r.ID, r.In)
		}
	}
	// v0.10 leaves one token to the server and cuts what encodes longer: <s> c bcd <s> is
	// <s> c b cd <s>, five tokens, cut to four.
	cfg.Era, cfg.Ratio = V10, lengths.Ratio{}
	got, _ = requests(t, cfg, &letters{}, nil)
	if d := cmp.Diff([]string{"<s>ccd", "<s>cbcd", "<s>ckl"}, texts(got)); d != "" {
		t.Error(d)
	}
	var lens []int
	for _, r := range got {
		lens = append(lens, r.In.N)
	}
	if d := cmp.Diff([]int{3, 4, 3}, lens); d != "" { // cd and kl are one token: v0.10 comes out short
		t.Error(d)
	}
}

func TestFit(t *testing.T) {
	pads := func(ids ...int32) func() int32 {
		return func() int32 {
			id := ids[0]
			ids = ids[1:]
			return id
		}
	}
	cases := []struct {
		name string
		ids  []int32
		want int
		pad  func() int32
		text string
		out  []int32
	}{
		{"as it is", []int32{1, 3}, 2, pads(), "ac", []int32{1, 3}},
		{"padded once", []int32{1, 2, 3, 4}, 4, pads(24, 26), "abcdxz", []int32{27, 28, 24, 26}},
		{"padding merges", []int32{1, 3}, 3, pads(4, 24), "acdx", []int32{1, 28, 24}},
		{"cut", []int32{40, 40}, 3, pads(), "bcdb", []int32{2, 28, 2}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := &random{fitter: fitter{tok: &letters{}}}
			text, ids := r.fit(&scratch{enc: &letters{}}, c.ids, c.want, c.pad)
			if d := cmp.Diff(c.text, text); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(c.out, ids); d != "" {
				t.Error(d)
			}
			if len(r.notes()) != 0 {
				t.Errorf("notes: %q", r.notes())
			}
		})
	}
}

// stubborn always encodes to one token more than was decoded.
type stubborn struct{ letters }

func (t *stubborn) NewEncoder() Encoder { return t }

func (t *stubborn) Encode(dst []int32, text string, _ bool) []int32 {
	for range text {
		dst = append(dst, 2)
	}
	return append(dst, 2)
}

func TestFitGivesUp(t *testing.T) {
	tok := &stubborn{}
	r := &random{fitter: fitter{tok: tok}}
	text, ids := r.fit(&scratch{enc: tok}, []int32{2, 2}, 2, func() int32 { return 2 })
	if text != "bb" || len(ids) != 3 {
		t.Errorf("got %q and %d ids; want the last text and its true length 3", text, len(ids))
	}
	if n := tok.decodes.Load(); n != fitRounds+1 {
		t.Errorf("%d rounds, want %d and a last look", n, fitRounds)
	}
	if n := r.notes(); len(n) != 1 || !strings.Contains(n[0], "1 prompts") || !strings.Contains(n[0], "off by 1 ") {
		t.Errorf("notes: %q", n)
	}
}

func TestRatio(t *testing.T) {
	good := map[string]lengths.Ratio{
		"0.0": {}, "0.5": {Input: 0.5, Output: 0.5}, " 1 ": {Input: 1, Output: 1},
		`{"input": 0.25, "output": 0.5}`: {Input: 0.25, Output: 0.5}, `{"output":0,"input":0.9}`: {Input: 0.9, Output: 0},
	}
	for s, want := range good {
		if got, err := lengths.ParseRatio(s); err != nil || got != want {
			t.Errorf("lengths.ParseRatio(%q) = %v, %v; want %v", s, got, err, want)
		} else if back, err := lengths.ParseRatio(got.String()); err != nil || back != got {
			t.Errorf("%q does not read back: %v, %v", got.String(), back, err)
		}
	}
	for _, s := range []string{"", "half", "inf", "nan", "[0.1]", `{"input":1,"output":1}{}`, `{"input":0.1}`, `{"input":0.1,"output":"a"}`, `{"input":0.1,"output":0.1,"x":1}`, `{"in":1,"out":2}`} {
		if got, err := lengths.ParseRatio(s); err == nil {
			t.Errorf("lengths.ParseRatio(%q) = %v, want an error", s, got)
		}
	}
}

func TestSpans(t *testing.T) {
	cases := []struct {
		name     string
		cfg      Config
		specials int
		in, out  lengths.Span
		err      string
	}{
		{name: "fixed", cfg: Config{Era: Head, Input: 100, Output: 10}, in: lengths.Span{Low: 100, High: 100}, out: lengths.Span{Low: 10, High: 10}},
		{name: "floor and ceil", cfg: Config{Era: Head, Input: 101, Output: 11, Ratio: lengths.Ratio{Input: 0.5, Output: 0.5}}, in: lengths.Span{Low: 50, High: 152}, out: lengths.Span{Low: 5, High: 17}},
		{name: "specials come off first", cfg: Config{Era: Head, Input: 103, Output: 1, Ratio: lengths.Ratio{Input: 0.5, Output: 0.9}}, specials: 2, in: lengths.Span{Low: 50, High: 152}, out: lengths.Span{Low: 1, High: 2}},
		{name: "output never 0", cfg: Config{Era: Head, Input: 1}, in: lengths.Span{Low: 1, High: 1}, out: lengths.Span{Low: 1, High: 1}},
		{name: "v0.10 cuts", cfg: Config{Era: V10, Input: 101, Output: 11, Ratio: lengths.Ratio{Input: 0.5, Output: 0.5}}, in: lengths.Span{Low: 50, High: 151}, out: lengths.Span{Low: 5, High: 16}},
		{name: "v0.6 is fixed at 1", cfg: Config{Era: V6, Input: 101, Output: 11, Ratio: lengths.Ratio{Input: 1, Output: 1}}, specials: 2, in: lengths.Span{Low: 101, High: 101}, out: lengths.Span{Low: 11, High: 11}},
		{name: "v0.6 spreads downwards", cfg: Config{Era: V6, Input: 101, Output: 11, Ratio: lengths.Ratio{Input: 0.5, Output: 0}}, in: lengths.Span{Low: 50, High: 101}, out: lengths.Span{Low: 0, High: 11}},
		{name: "ratio 1 today", cfg: Config{Era: Head, Input: 9, Output: 9, Ratio: lengths.Ratio{Input: 1, Output: 1}}, err: "v0.8.4"},
		{name: "ratio 1 in v0.10", cfg: Config{Era: V10, Input: 9, Output: 9, Ratio: lengths.Ratio{Input: 0, Output: 1}}, err: "output range ratio 1"},
		{name: "negative", cfg: Config{Era: Head, Input: 9, Output: 9, Ratio: lengths.Ratio{Input: -0.1, Output: 0}}, err: "outside [0, 1)"},
		{name: "above 1 in v0.6", cfg: Config{Era: V6, Input: 9, Output: 9, Ratio: lengths.Ratio{Input: 0, Output: 1.5}}, err: "outside [0, 1]"},
		{name: "could be empty", cfg: Config{Era: Head, Input: 2, Output: 9, Ratio: lengths.Ratio{Input: 0.6, Output: 0}}, err: "empty prompts"},
		{name: "prefix makes it non-empty", cfg: Config{Era: Head, Input: 2, Output: 9, Prefix: 1, Ratio: lengths.Ratio{Input: 0.6, Output: 0}}, in: lengths.Span{Low: 0, High: 4}, out: lengths.Span{Low: 9, High: 9}},
		{name: "no rows to take it from", cfg: Config{Era: Head, Input: 2, Output: FromData}, err: "output length"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in, out, err := c.cfg.spans(c.specials)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil || in != c.in || out != c.out {
				t.Errorf("spans %v %v, %v; want %v %v", in, out, err, c.in, c.out)
			}
		})
	}
}

// TestRandomLaws holds for any lengths: bounds, exact count, shared prefix, no special ids.
func TestRandomLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Dataset: "random", N: rapid.IntRange(1, 8).Draw(t, "n"), Seed: rapid.Uint64().Draw(t, "seed"),
			Input: rapid.IntRange(3, 40).Draw(t, "input"), Output: rapid.IntRange(0, 40).Draw(t, "output"),
			Prefix: rapid.IntRange(0, 9).Draw(t, "prefix"), IDs: rapid.Bool().Draw(t, "ids"),
			Ratio: lengths.Ratio{Input: rapid.Float64Range(0, 0.5).Draw(t, "ri"), Output: rapid.Float64Range(0, 0.99).Draw(t, "ro")},
			Era:   Head, Salt: rapid.SampledFrom([]string{"", "x"}).Draw(t, "salt"),
		}
		tok := &letters{}
		in, out, err := cfg.spans(tok.SpecialsToAdd())
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(cfg, tok, nil)
		if err != nil {
			t.Fatal(err)
		}
		prefix := s.ds.(*random).prefix
		for i := range cfg.N {
			r, err := s.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if r.ID != i || r.Name != fmt.Sprint(i) {
				t.Fatalf("request %d is %d, %q", i, r.ID, r.Name)
			}
			if n := r.MaxOut; int64(n) < out.Low || int64(n) > out.High {
				t.Fatalf("output %d outside %v", n, out)
			}
			ids := r.Prompt.IDs
			if !cfg.IDs {
				ids = tok.Encode(nil, r.Prompt.Text, false)
			}
			n := int64(len(ids) - cfg.Prefix)
			if len(ids) != r.In.N || (n < in.Low || n > in.High) && len(s.Notes()) == 0 {
				t.Fatalf("%d ids, counted %d, bounds %v and a prefix of %d", len(ids), r.In.N, in, cfg.Prefix)
			}
			if cfg.IDs && cfg.Salt == "" && !cmp.Equal(prefix, ids[:len(prefix)]) {
				t.Fatalf("ids %v do not open with %v", ids, prefix)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRandomEndless(t *testing.T) {
	cfg := Config{Dataset: "random", N: 3, Input: 30, Output: 9, Ratio: lengths.Ratio{Input: 0.5, Output: 0.5}, Endless: true, IDs: true}
	s, err := New(cfg, flat{5000}, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	var first []call.Request
	for i := range 50 {
		r, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprint(r.Prompt.IDs)
		if before, ok := seen[key]; ok {
			t.Errorf("request %d repeats %d", i, before)
		}
		seen[key] = i
		first = append(first, r)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Endless = false
	bounded, _ := requests(t, cfg, flat{5000}, nil)
	if d := cmp.Diff(bounded, first[:3]); d != "" {
		t.Errorf("the first N differ from a bounded run: %s", d)
	}
}

func TestSaltKeepsLengths(t *testing.T) {
	cfg := Config{Dataset: "random", N: 4, Input: 64, Output: 9}
	plain, _ := requests(t, cfg, flat{5000}, nil)
	cfg.Salt = "run one"
	one, _ := requests(t, cfg, flat{5000}, nil)
	cfg.Salt = "run two"
	two, _ := requests(t, cfg, flat{5000}, nil)
	for i := range plain {
		a, b, c := plain[i].Prompt.Text, one[i].Prompt.Text, two[i].Prompt.Text
		if len(a) != len(b) || len(b) != len(c) {
			t.Errorf("lengths %d, %d, %d differ", len(a), len(b), len(c))
		}
		if a[:20] == b[:20] || b[:20] == c[:20] || a[:20] == c[:20] {
			t.Errorf("salted prompts share their beginning: %q %q %q", a[:20], b[:20], c[:20])
		}
		if a[5*saltIDs:] != b[5*saltIDs:] {
			t.Errorf("the salt reached beyond its %d tokens", saltIDs)
		}
	}
}

func TestRandomWithoutTokenizer(t *testing.T) {
	cfg := must(t, "random")
	cfg.N, cfg.Input, cfg.Prefix = 50, 100, 20
	got, notes := requests(t, cfg, nil, nil)
	if len(notes) != 1 || !strings.Contains(notes[0], "no tokenizer") {
		t.Errorf("notes: %q", notes)
	}
	shared := got[0].Prompt.Text
	words, seen := 0, map[string]bool{}
	for _, r := range got {
		if r.In != (call.Count{N: 120, From: call.FromRequested}) {
			t.Errorf("request %d counts %+v", r.ID, r.In)
		}
		for !strings.HasPrefix(r.Prompt.Text, shared) {
			shared = shared[:len(shared)-1]
		}
		words += len(strings.Fields(r.Prompt.Text))
		seen[r.Prompt.Text] = true
	}
	if len(seen) != cfg.N {
		t.Errorf("%d different prompts of %d", len(seen), cfg.N)
	}
	if n := len(strings.Fields(shared)); n < 13 {
		t.Errorf("only %d words are shared: %q", n, shared)
	}
	if per := 120 * float64(cfg.N) / float64(words); per < 1.25 || per > 1.35 {
		t.Errorf("%.3f tokens to a word, want about %v", per, perWord)
	}
	cfg.Prefix, cfg.Input = 0, 1
	for _, r := range drain(t, mustNew(t, cfg, nil)) {
		if len(strings.Fields(r.Prompt.Text)) != 1 {
			t.Errorf("one token is %q", r.Prompt.Text)
		}
	}
}

func mustNew(t testing.TB, cfg Config, tok Tokenizer) *Stream {
	t.Helper()
	s, err := New(cfg, tok, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

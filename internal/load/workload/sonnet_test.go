package workload

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
)

// bytewise gives each byte a token, and one more in front with special tokens.
type bytewise struct{ flat }

func (bytewise) NewEncoder() Encoder { return bytewise{} }

func (bytewise) Encode(dst []int32, text string, special bool) []int32 {
	if special {
		dst = append(dst, 1)
	}
	for i := range len(text) {
		dst = append(dst, int32(text[i]))
	}
	return dst
}

// base is what the instruction takes: its bytes and the special token.
const base = len(versePrompt) + 1

// stairs has ten lines of 1 to 10 bytes: 6.5 tokens on average, the special token of each included.
func stairs() string {
	var b strings.Builder
	for i := range 10 {
		b.WriteString(strings.Repeat("a", i) + "\n")
	}
	return b.String()
}

func sonnetOf(t *testing.T, cfg Config, text string, tmpl Template) ([]sample, []string) {
	t.Helper()
	cfg.Dataset, cfg.Path = "sonnet", "poem"
	cfg.Open, _ = files(map[string]string{"poem": text})
	got, notes := requests(t, cfg, bytewise{}, tmpl)
	all := samples(got)
	for i := range all {
		all[i].text = strings.TrimPrefix(all[i].text, versePrompt)
	}
	return all, notes
}

// TestSonnetByHand: 20 tokens at 6.5 to a line are 3 lines. CPython's seed 0 draws the lines
// 8 7 4, then 2 5 4, then 7 3 4: 22, 14 and 17 bytes. The first is above 20 and drawn anew.
func TestSonnetByHand(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) + "\n" }
	first := sample{a(8) + a(7) + a(4), base + 22, 5}
	second := sample{a(2) + a(5) + a(4), base + 14, 5}
	third := sample{a(7) + a(3) + a(4), base + 17, 5}
	cases := []struct {
		name string
		cfg  Config
		want []sample
	}{
		{"rejects", Config{N: 2, Input: base + 20, Output: 5}, []sample{second, third}},
		{"v0.6 takes all", Config{N: 2, Input: base + 20, Prefix: base + 1, Output: 5, Era: V6}, []sample{first, second}},
		{"shared lines", Config{N: 1, Input: base + 200, Prefix: base + 200, Output: 5}, []sample{{stairs(), base + 55, 5}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, notes := sonnetOf(t, c.cfg, stairs(), nil)
			if d := cmp.Diff(c.want, got, cmp.AllowUnexported(sample{})); d != "" {
				t.Error(d)
			}
			if len(notes) != 1 || !strings.Contains(notes[0], "no chat template") {
				t.Errorf("notes %q", notes)
			}
		})
	}
}

// TestSonnetRounding: lines of 3 bytes are 4 tokens, and halves go to the even number.
func TestSonnetRounding(t *testing.T) {
	for _, c := range []struct{ input, prefix, lines, shared int }{
		{10, 0, 2, 0},  // 2.5
		{14, 0, 4, 0},  // 3.5
		{1, 0, 1, 0},   // 0.25: never none
		{40, 2, 10, 0}, // 0.5
		{40, 6, 10, 2}, // 1.5
		{40, 10, 10, 2},
	} {
		p := &sonnet{cfg: Config{Input: base + c.input, Prefix: base + c.prefix, Era: Head}, lines: []string{"aa\n", "bb\n", "cc\n", "dd\n"}}
		if err := p.measure(&scratch{enc: bytewise{}}); err != nil {
			t.Fatal(err)
		}
		if shared := strings.Count(p.opening, "\n") - 1; p.extra+shared != c.lines || shared != c.shared {
			t.Errorf("input +%d, prefix +%d: %d shared and %d drawn, want %d of %d", c.input, c.prefix, shared, p.extra, c.shared, c.lines)
		}
	}
}

func TestSonnetTemplate(t *testing.T) {
	// The template's six bytes count, and belong to the prompt unless the endpoint adds them.
	cfg := Config{N: 1, Input: base + 6 + 20, Output: 5}
	want := []sample{{strings.Repeat("a", 2) + "\n" + strings.Repeat("a", 5) + "\n" + strings.Repeat("a", 4) + "\n", base + 6 + 14, 5}}
	cfg.Chat = true
	got, notes := sonnetOf(t, cfg, stairs(), wrap)
	if d := cmp.Diff(want, got, cmp.AllowUnexported(sample{})); d != "" {
		t.Error(d)
	}
	cfg.Chat = false
	want[0].text = "<s>" + versePrompt + want[0].text + "<s>"
	got, more := sonnetOf(t, cfg, stairs(), wrap)
	if d := cmp.Diff(want, got, cmp.AllowUnexported(sample{})); d != "" {
		t.Error(d)
	}
	if len(notes)+len(more) != 0 {
		t.Errorf("notes %q %q", notes, more)
	}
}

func TestSonnetRefuses(t *testing.T) {
	cases := []struct {
		name, text, want string
		cfg              Config
	}{
		{"too short", stairs(), "too short", Config{Input: base, Output: 1}},
		{"empty file", "", "no lines", Config{Input: base + 9, Output: 1}},
		{"no output length", stairs(), "output length", Config{Input: base + 9, Output: FromData}},
		{"v0.6 short prefix", stairs(), "prefix length", Config{Input: base + 9, Prefix: base, Output: 1, Era: V6}},
		{"v0.6 long prefix", stairs(), "prefix length", Config{Input: base + 9, Prefix: base + 9, Output: 1, Era: V6}},
		{"hopeless", strings.Repeat("a", 50) + "\n", "in a row", Config{Input: base + 30, Output: 1}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Dataset, c.cfg.Path, c.cfg.N = "sonnet", "poem", 1
			c.cfg.Open, _ = files(map[string]string{"poem": c.text})
			s, err := New(c.cfg, bytewise{}, nil)
			if err == nil {
				_, err = s.Next(t.Context())
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestEmbeddedVerse(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(verse, "\n"), "\n")
	if len(lines) != 504 {
		t.Errorf("%d lines, want 36 times 14", len(lines))
	}
	seen := map[string]bool{}
	for i, l := range lines {
		if l != strings.TrimSpace(l) || len(l) < 20 || len(l) > 60 || seen[l] {
			t.Errorf("line %d: %q", i+1, l)
		}
		seen[l] = true
	}
	cfg := must(t, "sonnet")
	cfg.N = 100
	got, _ := requests(t, cfg, nil, nil)
	shared := got[0].Prompt.Text
	for _, r := range got {
		if r.In.N > cfg.Input || r.In.N < cfg.Input*8/10 || r.MaxOut != 150 || r.In.From != call.FromRequested {
			t.Errorf("request %d: %+v and %d", r.ID, r.In, r.MaxOut)
		}
		for !strings.HasPrefix(r.Prompt.Text, shared) {
			shared = shared[:len(shared)-1]
		}
	}
	if n := estimate(shared); n < 180 || n > 240 {
		t.Errorf("%d tokens shared, want about 200", n)
	}
}

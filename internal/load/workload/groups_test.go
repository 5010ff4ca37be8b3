package workload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/load/lengths"
)

// TestRepetitionEqualsVLLM holds prompts against those of vLLM's rules in Python: NumPy's global generator for
// every id, padding included, and random.shuffle.
func TestRepetitionEqualsVLLM(t *testing.T) {
	cases := []struct {
		name string
		cfg  Config
		want []string
		note string
	}{
		{
			"shuffled, one dropped",
			Config{N: 7, Prefix: 5, Suffix: 4, Groups: 2},
			[]string{"xquvymeo<s>r", "<s>ccyziawxyzw", "<s>ccyzifxxl", "<s>ccyzisustw", "xquvymqrxefs", "xquvymhitp"},
			"6 requests are sent, not 7",
		},
		{
			"in order",
			Config{N: 9, Seed: 42, Prefix: 3, Suffix: 6, Groups: 3, NoShuffle: true},
			[]string{"wxcdngtwxrvj", "wxcdnjwqryzwb", "wxcdnuawefuva", "tklkuxzabon", "tklkbstfthwx", "tklkqcxmhy", "asabfgopmpqr", "asabyzcaeccd", "asabqymniqrm"},
			"",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Dataset, c.cfg.Output = "prefix_repetition", 3
			got, notes := requests(t, c.cfg, &letters{}, nil)
			if d := cmp.Diff(c.want, texts(got)); d != "" {
				t.Error(d)
			}
			for _, r := range got {
				if r.In != (call.Count{N: 9, From: call.FromTokenizer}) || r.MaxOut != 3 {
					t.Errorf("request %d: %+v tokens, %d wanted", r.ID, r.In, r.MaxOut)
				}
			}
			if (len(notes) == 1) != (c.note != "") || c.note != "" && !strings.Contains(notes[0], c.note) {
				t.Errorf("notes %q, want %q", notes, c.note)
			}
		})
	}
}

// common is how many leading elements two lists share.
func common[T comparable](a, b []T) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func TestRepetitionShares(t *testing.T) {
	cfg := Config{Dataset: "prefix_repetition", N: 40, Prefix: 30, Suffix: 10, Groups: 4, Output: 1, IDs: true, Seed: 5}
	got, _ := requests(t, cfg, flat{50000}, nil)
	groups := map[string]int{}
	for _, r := range got {
		groups[fmt.Sprint(r.Prompt.IDs[:30])]++
	}
	for g, n := range groups {
		if n != 10 {
			t.Errorf("prefix %.20s stands in %d prompts, want 10", g, n)
		}
	}
	if len(groups) != 4 {
		t.Errorf("%d prefixes, want 4", len(groups))
	}
	cfg.Salt = "x"
	salted, _ := requests(t, cfg, flat{50000}, nil)
	for i := range got {
		a, b := got[i].Prompt.IDs, salted[i].Prompt.IDs
		if a[0] == b[0] || common(a[8:], b[8:]) != 32 {
			t.Fatalf("request %d: a salt changes the first 8 ids alone: %v, %v", i, a, b)
		}
	}
	cfg.IDs, cfg.Salt, cfg.Endless = false, "", true
	s, err := New(cfg, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		r, err := s.Next(t.Context())
		if err != nil || (r.Labels[call.RepeatLabel] == "yes") != (i >= 40) || r.In.N != 40 {
			t.Fatalf("request %d: %v, %+v", i, err, r)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSharedPrefixes(t *testing.T) {
	cfg := must(t, "generated-shared-prefix")
	cfg.N, cfg.Groups, cfg.PerGroup, cfg.Prefix, cfg.Suffix, cfg.Output = 0, 5, 8, 64, 16, 4
	even, _ := requests(t, cfg, flat{50000}, nil)
	count := map[string]int{}
	questions := map[string]bool{}
	for _, r := range even {
		system, question, ok := strings.Cut(r.Prompt.Text, "\n\n")
		if !ok || len(system) != 5*64 || len(question) != 5*16 || r.MaxOut != 4 {
			t.Fatalf("prompt of %d tokens, %d wanted: %q", r.In.N, r.MaxOut, r.Prompt.Text)
		}
		count[system]++
		questions[question] = true
	}
	for _, n := range count {
		if n != 8 {
			t.Errorf("a system prompt stands in %d prompts, want 8", n)
		}
	}
	if len(count) != 5 || len(questions) != 40 {
		t.Errorf("%d system prompts and %d questions, want 5 and 40", len(count), len(questions))
	}
	cfg.Zipf, cfg.NoShuffle = 1.5, true
	law, _ := requests(t, cfg, flat{50000}, nil)
	ranks := map[string]int{}
	for _, r := range law {
		system, question, _ := strings.Cut(r.Prompt.Text, "\n\n")
		if count[system] == 0 || !questions[question] {
			t.Errorf("Zipf's law changes a text: %q", r.Prompt.Text)
		}
		ranks[r.Labels["group"]]++
	}
	if ranks["0"] <= ranks["4"] || ranks["0"] < 12 {
		t.Errorf("groups are asked %v times; rank 1 has over half of the weight", ranks)
	}
	cfg.GroupRatio, cfg.Zipf = 0.5, 0
	for _, r := range first(requests(t, cfg, flat{50000}, nil)) {
		system, question, _ := strings.Cut(r.Prompt.Text, "\n\n")
		if s, q := len(system)/5, len(question)/5; s < 32 || s > 64 || q < 8 || q > 16 || r.MaxOut < 2 || r.MaxOut > 4 {
			t.Errorf("lengths %d, %d and %d lie outside the upper half", s, q, r.MaxOut)
		}
	}
	cfg.N = 7
	if got, _ := requests(t, cfg, nil, nil); len(got) != 7 {
		t.Errorf("%d requests, want 7", len(got))
	}
}

// TestSharedPrefixTurns: conversations begin as single questions do, go on with the server's answers, and keep
// their group.
func TestSharedPrefixTurns(t *testing.T) {
	cfg := must(t, "generated-shared-prefix")
	cfg.N, cfg.Groups, cfg.PerGroup, cfg.Prefix, cfg.Suffix, cfg.Output, cfg.Chat = 0, 2, 3, 20, 5, 4, true
	single, _ := requests(t, cfg, flat{50000}, nil)
	cfg.Talk.Turns = lengths.Dist{Law: "constant", A: 3}
	s, err := New(cfg, flat{50000}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	sent := hold(t, s, fine)
	if len(sent) != 18 || len(single) != 6 {
		t.Fatalf("%d requests, %d without turns", len(sent), len(single))
	}
	groups := map[string]int{}
	for i, turn := range sent {
		r := &turn.Request
		said := spoken(t, r)
		begin := "u:" + single[i/3].Prompt.Text
		groups[r.Labels["group"]]++
		if !strings.HasPrefix(said, begin) || strings.Count(said, "|u:") != i%3 || strings.Count(said, "|a:answer") != i%3 || r.Turn != i%3 || r.MaxOut != 4 {
			t.Errorf("request %d, turn %d, %d tokens asked for: %q", i, r.Turn, r.MaxOut, said)
		}
		if r.Labels["group"] != single[i/3].Labels["group"] {
			t.Errorf("request %d is of group %s", i, r.Labels["group"])
		}
	}
	if groups["0"] != 9 || groups["1"] != 9 {
		t.Errorf("groups %v", groups)
	}
}

func first(r []call.Request, _ []string) []call.Request { return r }

func TestGroupsRefused(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Dataset: "prefix_repetition", N: 4, Prefix: 1, Output: 1}, "prefixes asked for"},
		{Config{Dataset: "prefix_repetition", N: 4, Prefix: 1, Output: 1, Groups: 5}, "fewer than 5 prefixes"},
		{Config{Dataset: "prefix_repetition", N: 4, Output: 1, Groups: 2}, "both empty"},
		{Config{Dataset: "prefix_repetition", N: 4, Prefix: 1, Groups: 2, Output: FromData}, "output length"},
		{Config{Dataset: "prefix_repetition", N: 4, Prefix: 1, Groups: 2, Seed: 1 << 33}, "seed"},
		{Config{Dataset: "prefix_repetition", N: 4, Prefix: 1, Suffix: -1, Groups: 2}, "negative"},
		{Config{Dataset: "generated-shared-prefix", PerGroup: 2}, "groups"},
		{Config{Dataset: "generated-shared-prefix", Groups: 2, PerGroup: 2, GroupRatio: 2}, "ratio"},
		{Config{Dataset: "generated-shared-prefix", Groups: 2, PerGroup: 2, Zipf: -1}, "Zipf"},
		{Config{Dataset: "generated-shared-prefix", Groups: 2, PerGroup: 2, Output: FromData}, "output length"},
	} {
		if _, err := New(c.cfg, nil, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.cfg, err, c.want)
		}
	}
}

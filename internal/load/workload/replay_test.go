package workload

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spate/internal/call"
	"spate/internal/load/trace"
)

const burstCSV = `Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,GPT-4,10,5,15,Conversation log
118,GPT-4,20,0,20,Conversation log
185,GPT-4,30,7,37,Conversation log
214,GPT-4,40,9,49,Conversation log
220.5,GPT-4,50,11,61,Conversation log
300,GPT-4,60,13,73,Conversation log
`

// TestBurstGPT holds the picked rows against pandas 3.1: df.sample(n, random_state=seed, replace=n>len).
func TestBurstGPT(t *testing.T) {
	for _, c := range []struct {
		n    int
		seed uint64
		want [][2]int
	}{
		{3, 0, [][2]int{{40, 9}, {10, 5}, {30, 7}}},
		{5, 7, [][2]int{{10, 5}, {50, 11}, {40, 9}, {30, 7}, {60, 13}}},
		{8, 1, [][2]int{{50, 11}, {60, 13}, {10, 5}, {30, 7}, {50, 11}, {10, 5}, {10, 5}, {30, 7}}},
	} {
		open, closed := files(map[string]string{"b.csv": burstCSV})
		got, notes := requests(t, Config{Dataset: "burstgpt", Path: "b.csv", Open: open, N: c.n, Seed: c.seed}, &letters{}, nil)
		var lens [][2]int
		for i, r := range got {
			lens = append(lens, [2]int{r.In.N, r.MaxOut})
			if want := decoded(i, r.In.N); r.Prompt.Text != want {
				t.Errorf("prompt %d is %q, want %q", i, r.Prompt.Text, want)
			}
		}
		if d := cmp.Diff(c.want, lens); d != "" || *closed != 1 {
			t.Errorf("%d of seed %d: %s; closed %d times", c.n, c.seed, d, *closed)
		}
		if (len(notes) > 0) != (c.n > 5) {
			t.Errorf("notes %q", notes)
		}
	}
}

// decoded is what ids i, i+1 ... of the 41 decode to.
func decoded(i, n int) string {
	var ids []int32
	for k := range n {
		ids = append(ids, int32((i+k)%41))
	}
	return string((&letters{}).AppendDecode(nil, ids, false))
}

func TestBurstGPTReplayed(t *testing.T) {
	open, _ := files(map[string]string{"b.csv": burstCSV})
	s, err := New(Config{Dataset: "burstgpt", Path: "b.csv", Open: open, N: 4, SelfTimed: true, Trace: Trace{Speed: 2, MaxGap: 20 * time.Second}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	times, err := s.Times()
	if err != nil {
		t.Fatal(err)
	}
	// 45, 185, 214, 220.5 s at twice the speed: gaps 70, 14.5, 3.25, the first cut to 20.
	want := []time.Duration{0, 20 * time.Second, 34500 * time.Millisecond, 37750 * time.Millisecond}
	if d := cmp.Diff(want, times); d != "" {
		t.Error(d)
	}
	var lens []int
	for _, r := range drain(t, s) {
		lens = append(lens, r.In.N)
	}
	if d := cmp.Diff([]int{10, 30, 40, 50}, lens); d != "" {
		t.Error(d)
	}
}

func TestBurstGPTRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":            "first line",
		"Model,x\n":   `no column "Request tokens"`,
		burstCSV[:69]: "none of 0 rows",
		strings.Replace(burstCSV, "GPT-4,10", "GPT-4,ten", 1): `line 3: "Request tokens" is "ten"`,
		strings.Replace(burstCSV, "\n45,", "\nnoon,", 1):      "not a time",
	} {
		open, _ := files(map[string]string{"b.csv": text})
		_, err := New(Config{Dataset: "burstgpt", Path: "b.csv", Open: open, N: 1}, nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

// trail is a trace of 4-token blocks. By hand: the second request finds blocks 1 and 2 (8 tokens), the third
// nothing (2 stands at the front), the fourth 1, 2 and the first 2 tokens of 3, the fifth all 10.
const trail = `{"timestamp": 1000, "input_length": 12, "output_length": 3, "hash_ids": [1, 2, 3]}
{"timestamp": 1500, "input_length": 11, "output_length": 4, "hash_ids": [1, 2, 4]}

{"timestamp": 1500, "input_length": 4, "output_length": 5, "hash_ids": [2]}
{"timestamp": 9000, "input_length": 10, "output_length": 6, "hash_ids": [1, 2, 3]}
{"timestamp": 8000, "input_length": 10, "output_length": 7, "hash_ids": [1, 2, 3]}
`

func trailConfig(t *testing.T) Config {
	t.Helper()
	open, _ := files(map[string]string{"t.jsonl": trail})
	cfg := must(t, "mooncake")
	cfg.Path, cfg.Open, cfg.N, cfg.TakesIDs = "t.jsonl", open, 0, true
	cfg.Trace.Format.Chunk = 4
	return cfg
}

func TestReplay(t *testing.T) {
	cfg := trailConfig(t)
	s, err := New(cfg, flat{1000}, nil)
	if err != nil {
		t.Fatal(err)
	}
	times, err := s.Times()
	if err != nil {
		t.Fatal(err)
	}
	ms := time.Millisecond
	if d := cmp.Diff([]time.Duration{0, 500 * ms, 500 * ms, 8000 * ms, 8000 * ms}, times); d != "" {
		t.Error(d)
	}
	ideal, ok := s.Ideal()
	if want := (trace.Ideal{Requests: 5, Tokens: 47, Hit: 28}); !ok || ideal != want {
		t.Errorf("ideal %+v, want %+v", ideal, want)
	}
	notes := s.Notes()
	if len(notes) != 1 || !strings.Contains(notes[0], "59.5745%: 28 of the 47 prompt tokens of 5 requests") {
		t.Errorf("notes %q", notes)
	}
	got := drain(t, s)
	var lens []int
	for i, r := range got {
		lens = append(lens, r.In.N, len(r.Prompt.IDs), r.MaxOut)
		for k := range i {
			want := [][]int{{}, {8}, {0, 0}, {10, 8, 0}, {10, 8, 0, 10}}[i][k]
			if n := common(got[k].Prompt.IDs, r.Prompt.IDs); n != want {
				t.Errorf("prompts %d and %d share %d tokens, want %d", k, i, n, want)
			}
		}
	}
	if d := cmp.Diff([]int{12, 12, 3, 11, 11, 4, 4, 4, 5, 10, 10, 6, 10, 10, 7}, lens); d != "" {
		t.Error(d)
	}
	// The tokens of a block are the same in every process and on every machine: these were made once.
	if d := cmp.Diff([]int32{goldenBlock[0], goldenBlock[1], goldenBlock[2], goldenBlock[3]}, got[0].Prompt.IDs[:4]); d != "" {
		t.Errorf("the first block changed: %s", d)
	}
	cfg.Seed, cfg.Salt = 9, ""
	again, _ := requests(t, cfg, flat{1000}, nil)
	if d := cmp.Diff(got, again); d != "" {
		t.Errorf("the seed changes a trace's prompts: %s", d)
	}
	cfg.Salt = "fresh"
	fresh, _ := requests(t, cfg, flat{1000}, nil)
	if n := common(got[0].Prompt.IDs[1:], fresh[0].Prompt.IDs[1:]); n > 2 {
		t.Errorf("a salt leaves %d tokens as they were", n)
	}
}

// goldenBlock are the tokens of block 1, of a vocabulary of 1000 whose first two ids are special.
var goldenBlock = [4]int32{519, 638, 431, 242}

// TestReplayStructure is the law of traces: two prompts share exactly the tokens their blocks share, and what the
// ideal cache hits is the longest beginning any earlier prompt has.
func TestReplayStructure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunk := rapid.IntRange(1, 5).Draw(t, "chunk")
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) trace.Row {
			ids := rapid.SliceOfN(rapid.Uint64Range(0, 3), 0, 5).Draw(t, "blocks")
			return trace.Row{In: rapid.IntRange(0, chunk*len(ids)).Draw(t, "in"), Blocks: ids}
		}), 1, 12).Draw(t, "rows")
		cfg := Config{TakesIDs: true, Trace: Trace{Format: trace.Format{Chunk: chunk}}}
		r, _, err := newReplayOf(cfg, flat{6}, rows) // four tokens to draw from: as many as there are blocks
		if err != nil {
			t.Fatal(err)
		}
		var prompts [][]int32
		var hit int64
		for i := range rows {
			req, _, err := r.build(&scratch{}, job{index: i})
			if err != nil || len(req.Prompt.IDs) != rows[i].In {
				t.Fatalf("row %d: %d tokens, %v", i, len(req.Prompt.IDs), err)
			}
			longest := 0
			for k, p := range prompts {
				n := common(p, req.Prompt.IDs)
				if want := overlap(rows[k], rows[i], chunk); n != want {
					t.Fatalf("rows %v and %v share %d tokens, want %d", rows[k], rows[i], n, want)
				}
				longest = max(longest, n)
			}
			hit += int64(longest)
			prompts = append(prompts, req.Prompt.IDs)
		}
		if hit != r.ideal.Hit {
			t.Fatalf("ideal hits %d tokens, prompts share %d", r.ideal.Hit, hit)
		}
	})
}

// overlap is what the block ids of two rows say they share.
func overlap(a, b trace.Row, chunk int) int {
	n := min(common(a.Blocks, b.Blocks)*chunk, a.In, b.In)
	return n
}

func TestReplayAsText(t *testing.T) {
	cfg := trailConfig(t)
	cfg.TakesIDs = false
	got, notes := requests(t, cfg, flat{1000}, nil)
	if n := common([]byte(got[0].Prompt.Text), []byte(got[1].Prompt.Text)); n/5 != 8 || len(notes) != 2 {
		t.Errorf("texts share %d tokens, want 8; notes %q", n/5, notes)
	}
	words, notes := requests(t, cfg, nil, nil)
	if a, b := words[0].Prompt.Text, words[3].Prompt.Text; !strings.HasPrefix(a, b[:len(b)/2]) || words[0].In != (call.Count{N: 12, From: call.FromRequested}) {
		t.Errorf("%q and %q begin alike; notes %q", a, b, notes)
	}
	cfg.Open, _ = files(map[string]string{"t.jsonl": `{"input_length": 9, "output_length": 1}` + "\n" + `{"input_length": 9, "output_length": 1, "hash_ids": [1]}`})
	cfg.TakesIDs = true
	got, notes = requests(t, cfg, flat{1000}, nil)
	if len(got) != 2 || got[0].In.N != 9 || got[1].In.N != 4 || !strings.Contains(fmt.Sprint(notes), "no block ids") || !strings.Contains(fmt.Sprint(notes), "too few") {
		t.Errorf("%+v, %q", got, notes)
	}
}

func TestBenchFiles(t *testing.T) {
	open, _ := files(map[string]string{
		"q.jsonl":     `{"question_id": 1, "category": "qa", "turns": ["ace", "x"]}` + "\n" + `{"category": "math", "turns": ["bdf"]}` + "\n" + `{"category": "qa", "turns": ["gik"]}`,
		"speed.jsonl": `{"category": "qa", "messages": [{"role": "user", "content": "ace"}]}` + "\n" + `{"turns": ["bdf"]}`,
		"bad.jsonl":   `{"prompt": "x"}`,
	})
	cfg := must(t, "spec_bench")
	cfg.N, cfg.Path, cfg.Open, cfg.SkipTemplate, cfg.Category, cfg.Seed = 0, "q.jsonl", open, true, "qa", 77
	got, _ := requests(t, cfg, &letters{}, nil)
	if d := cmp.Diff([]sample{{"ace", 4, 256}, {"gik", 4, 256}}, samples(got), cmp.AllowUnexported(sample{})); d != "" { // random.seed(0) leaves two as they are
		t.Error(d)
	}
	cfg.Path = "bad.jsonl"
	if _, err := New(cfg, nil, nil); err == nil || !strings.Contains(err.Error(), `line 1: no "turns"`) {
		t.Errorf("%v", err)
	}
	cfg = must(t, "speed_bench")
	cfg.N, cfg.Path, cfg.Open, cfg.NoShuffle = 0, "speed.jsonl", open, true
	got, _ = requests(t, cfg, &letters{}, wrap)
	if d := cmp.Diff([]sample{{"<s>ace<s>", 6, 4096}, {"<s>bdf<s>", 6, 4096}}, samples(got), cmp.AllowUnexported(sample{})); d != "" {
		t.Error(d)
	}
	cfg.Path = "bad.jsonl"
	if _, err := New(cfg, nil, nil); err == nil || !strings.Contains(err.Error(), "messages") {
		t.Errorf("%v", err)
	}
}

package workload

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/load/lengths"
)

// hold runs all conversations of a stream against an answer, in the order requests become due, and lists
// what was sent.
func hold(t *testing.T, s *Stream, answer func(r *call.Request) call.Record) []Turn {
	t.Helper()
	var sent []Turn
	for _, r := range drain(t, s) {
		queue := []Turn{{Request: r}}
		for len(queue) > 0 {
			turn := queue[0]
			queue = queue[1:]
			sent = append(sent, turn)
			rec := answer(&turn.Request)
			rec.ID = turn.Request.ID
			queue = append(queue, s.Follow(&rec)...)
		}
	}
	return sent
}

func fine(r *call.Request) call.Record {
	return call.Record{Outcome: call.OK, Text: fmt.Sprintf("answer %d", r.ID)}
}

// spoken is what the messages of a request say.
func spoken(t *testing.T, r *call.Request) string {
	t.Helper()
	var ms []struct{ Role, Content string }
	if err := json.Unmarshal(r.Prompt.Messages, &ms); err != nil {
		t.Fatalf("%s: %v", r.Prompt.Messages, err)
	}
	var all []string
	for _, m := range ms {
		all = append(all, m.Role[:1]+":"+m.Content)
	}
	return strings.Join(all, "|")
}

func TestConversations(t *testing.T) {
	file := `[{"conversations": [{"from": "system", "value": "be brief"}, {"from": "human", "value": "ace"}, {"from": "gpt", "value": "acegik"}, {"from": "human", "value": "gik"}, {"from": "gpt", "value": "ac"}]},
		{"messages": [{"role": "user", "content": "moq"}, {"role": "assistant", "content": "abab"}]}]`
	open, _ := files(map[string]string{"t.json": file})
	cfg := Config{Dataset: "multi-turn", Path: "t.json", Open: open, Chat: true, Output: FromData, NoShuffle: true, NamePrefix: "r-", Talk: Talk{Think: lengths.Dist{Law: "constant", A: 1.5}}}
	s, err := New(cfg, &letters{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, turn := range hold(t, s, fine) {
		r := &turn.Request
		got = append(got, fmt.Sprintf("%s %s %d %s out %d after %v", r.Name, r.Session, r.Turn, spoken(t, r), r.MaxOut, turn.After))
	}
	want := []string{
		"r-0 s0 0 s:be brief|u:ace out 7 after 0s",
		"r-1 s0 1 s:be brief|u:ace|a:answer 0|u:gik out 3 after 1.5s",
		"r-2 s1 0 u:moq out 3 after 0s",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestConversationAsText: without a chat endpoint history is text, and a request's length is that of all of it.
func TestConversationAsText(t *testing.T) {
	cfg := must(t, "multi-turn")
	cfg.N, cfg.Input, cfg.Output, cfg.Prefix, cfg.Seed = 3, 20, 5, 7, 4
	cfg.Talk.Turns, cfg.Talk.NextIn, cfg.Talk.Think = lengths.Dist{Law: "uniform", A: 2, B: 4}, lengths.Dist{Law: "constant", A: 6}, lengths.Dist{Law: "exponential", A: 0.1}
	s, err := New(cfg, flat{1000}, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := map[string]string{}
	ids := map[int]bool{}
	var think time.Duration
	for _, turn := range hold(t, s, fine) {
		r := turn.Request
		if old, ok := before[r.Session]; ok != (r.Turn > 0) || !strings.HasPrefix(r.Prompt.Text, old+"\n\nanswer ") && ok {
			t.Errorf("turn %d of %s does not go on from what was said: %q", r.Turn, r.Session, r.Prompt.Text)
		}
		before[r.Session] = r.Prompt.Text
		if ids[r.ID] || r.MaxOut != 5 {
			t.Errorf("id %d comes twice, or asks for %d tokens", r.ID, r.MaxOut)
		}
		ids[r.ID] = true
		think += turn.After
	}
	if len(before) != 3 || len(ids) < 6 || len(ids) > 12 || think == 0 {
		t.Errorf("%d conversations, %d requests, %v of thought", len(before), len(ids), think)
	}
	for id := range len(ids) {
		if !ids[id] {
			t.Errorf("no request %d: ids have gaps", id)
		}
	}
}

const agents = `{"turns": [
	{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "plan"}], "output_tokens": 9, "branches": [
		[{"messages": [{"role": "user", "content": "b1"}]}, {"messages": [{"role": "tool", "content": "b2"}], "think_ms": 250}],
		[{"messages": [{"role": "user", "content": "c1"}], "branches": [[{"messages": [{"role": "user", "content": "d1"}]}]]}]
	]},
	{"messages": [{"role": "user", "content": "sum up"}], "think_ms": 1000}
]}`

func TestAgents(t *testing.T) {
	open, _ := files(map[string]string{"a.jsonl": agents, "sgl.json": `{"conversations": [[{"messages": [{"role": "user", "content": "x"}], "prompt_tokens": 3}, {"messages": [{"role": "user", "content": "y"}]}], [{"messages": [{"role": "user", "content": "z"}]}]]}`})
	cfg := must(t, "agentic")
	cfg.N, cfg.Path, cfg.Open, cfg.Chat = 0, "a.jsonl", open, true
	s, err := New(cfg, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, turn := range hold(t, s, fine) {
		r := turn.Request
		got = append(got, fmt.Sprintf("%d %s[%s]%d %s out %d after %v", r.ID, r.Session, r.Labels["branch"], r.Turn, spoken(t, &r), r.MaxOut, turn.After))
	}
	want := []string{ // breadth first, as all answers come at once
		"0 s0[]0 s:S|u:plan out 9 after 0s",
		"1 s0[0.0]0 u:b1 out 220 after 0s",
		"2 s0[0.1]0 u:c1 out 220 after 0s",
		"3 s0[0.0]1 u:b1|a:answer 1|t:b2 out 220 after 250ms",
		"4 s0[0.1/0.0]0 u:d1 out 220 after 0s",
		"5 s0[]1 s:S|u:plan|a:answer 0|u:sum up out 220 after 1s", // the last sub-agent ended
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	cfg.Path, cfg.Talk.MaxTurns = "sgl.json", 1
	if s, err = New(cfg, nil, nil); err != nil {
		t.Fatal(err)
	}
	if sent := hold(t, s, fine); len(sent) != 2 || sent[1].Request.Session != "s1" {
		t.Errorf("%+v", sent)
	}
}

// TestConversationBreaks: a failed request ends its conversation, sub-agents at work included.
func TestConversationBreaks(t *testing.T) {
	open, _ := files(map[string]string{"a.jsonl": agents + agents})
	cfg := must(t, "agentic")
	cfg.N, cfg.Path, cfg.Open, cfg.Chat = 0, "a.jsonl", open, true
	s, err := New(cfg, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	sent := hold(t, s, func(r *call.Request) call.Record {
		if r.ID == 1 {
			return call.Record{Outcome: call.Failed}
		}
		return fine(r)
	})
	per := map[string]int{}
	for _, turn := range sent {
		per[turn.Request.Session]++
	}
	if per["s0"] != 3 || per["s1"] != 6 || !slices.ContainsFunc(s.Notes(), func(n string) bool { return strings.HasPrefix(n, "1 conversations ended early") }) {
		t.Errorf("%v, %q", per, s.Notes())
	}
}

func TestConversationsRefused(t *testing.T) {
	open, _ := files(map[string]string{
		"none.jsonl": `{"x": 1}`, "empty.jsonl": `{"messages": []}`, "round.jsonl": `{"turns": [{"x": 1}]}`,
		"deep.jsonl": strings.Repeat(`{"turns":[{"messages":[{}],"branches":[[`, 1) + strings.Repeat(`{"messages":[{}],"branches":[[`, 12) + strings.Repeat(`]]}`, 12) + `]]}]}`,
	})
	for path, want := range map[string]string{"none.jsonl": `row 1: no "conversations"`, "empty.jsonl": "none of 1 rows", "round.jsonl": `no "messages"`, "deep.jsonl": "deeper", "gone.jsonl": "no such file"} {
		if _, err := New(Config{Dataset: "agentic", Path: path, Open: open, Output: FromData, Chat: true}, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if _, err := New(Config{Dataset: "multi-turn"}, nil, nil); err == nil || !strings.Contains(err.Error(), "--num-prompts") {
		t.Errorf("%v", err)
	}
}

func FuzzScripts(f *testing.F) {
	f.Add([]byte(agents))
	f.Add([]byte(`{"conversations": [[{"messages": ["x"]}], 5]}`))
	f.Add([]byte(`[{"conversations": [{"from": "human", "value": ["a"]}, {"from": "gpt"}]}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<14 {
			return
		}
		open, _ := files(map[string]string{"f.jsonl": string(text)})
		s, err := New(Config{Dataset: "agentic", Path: "f.jsonl", Open: open, Output: FromData, Chat: true, Workers: 1}, nil, nil)
		if err != nil {
			return
		}
		total := 0
		for i := range s.Count() {
			total += count(s.ds.(*dialogs).scripts(nil, i))
		}
		if sent := hold(t, s, fine); len(sent) != total {
			t.Fatalf("%d requests of %d", len(sent), total)
		}
	})
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/load/deal"
	"spate/internal/load/workload"
	"spate/internal/result"
	"spate/internal/send/driver"
	"spate/internal/settings/flags"
)

// noting is a server that notes what it is sent. Its answers depend on nothing, so that conversations go on alike.
type noting struct {
	*httptest.Server
	takes time.Duration // to answer

	mu  sync.Mutex
	all map[string]string // path and body by x-request-id
	bad []string
}

func newNoting(t *testing.T) *noting {
	t.Helper()
	n := &noting{all: map[string]string{}}
	n.Server = httptest.NewServer(http.HandlerFunc(n.answer))
	t.Cleanup(n.Close)
	return n
}

func (n *noting) answer(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || strings.HasSuffix(r.URL.Path, "tokenize") {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	id := r.Header.Get("x-request-id")
	n.mu.Lock()
	if _, twice := n.all[id]; twice || id == "" {
		n.bad = append(n.bad, id)
	}
	n.all[id] = r.URL.Path + " " + string(body)
	n.mu.Unlock()
	time.Sleep(n.takes)
	switch {
	case strings.HasSuffix(r.URL.Path, "/embeddings"):
		_, _ = io.WriteString(w, `{"data":[{"embedding":[0.5]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`)
	case strings.HasSuffix(r.URL.Path, "/rerank"):
		_, _ = io.WriteString(w, `{"results":[{"index":0,"relevance_score":0.5}],"usage":{"prompt_tokens":3,"total_tokens":3}}`)
	default:
		w.Header().Set("Content-Type", "text/event-stream")
		text := `"text":"ok"`
		if !strings.HasSuffix(r.URL.Path, "/v1/completions") {
			text = `"delta":{"content":"ok"}`
		}
		_, _ = io.WriteString(w, `data: {"choices":[{`+text+`,"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}
}

// take hands out what was noted, and forgets it.
func (n *noting) take(t *testing.T) map[string]string {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.bad) > 0 {
		t.Errorf("sent more than once, or without a name: %q", n.bad)
	}
	all := n.all
	n.all, n.bad = map[string]string{}, nil
	return all
}

// startTogether lets workers begin when the last of them is ready or has nothing to do.
type startTogether struct {
	clock call.Clock
	open  chan struct{}

	mu   sync.Mutex
	left int
	at   time.Duration
}

func (s *startTogether) arrive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left == 0 {
		s.at = s.clock.Now() + 5*time.Millisecond
		close(s.open)
	}
}

func (s *startTogether) begin(ctx context.Context) (time.Duration, error) {
	s.arrive()
	select {
	case <-s.open:
		return s.at, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// partJob is a run with these flags that writes nothing. Tenants come from a file.
func partJob(t *testing.T, base string, args []string) Job {
	t.Helper()
	args = append([]string{"--base-url", base, "--model", "m", "--no-output", "--disable-tqdm", "--no-observe", "--seed", "7"}, args...)
	r, err := flags.Parse(args, flags.Options{IDPrefix: "t-", ReadFile: os.ReadFile})
	if err != nil {
		t.Fatal(err)
	}
	return Job{
		Config: r.Bench, Command: args, Version: "test", Getenv: func(string) string { return "" }, Home: t.TempDir(),
		Stdout: io.Discard, Stderr: io.Discard,
	}
}

// inParts sends a load from so many workers and returns the records of all. A load of most requests leaves the workers
// after these idle, of which only the last is run.
func inParts(t *testing.T, base string, args []string, of, most int) (recs []call.Record, outs []*Outcome) {
	t.Helper()
	clock := call.NewClock()
	line := &startTogether{clock: clock, open: make(chan struct{}), left: of}
	outs = make([]*Outcome, of)
	var wg sync.WaitGroup
	for k := range of {
		if idle := k > 0 && k < of-1 && k >= most; idle {
			line.arrive()
			continue
		}
		j := partJob(t, base, args)
		j.Workers = Workers{Part: deal.Part{Index: k, Of: of}, Worker: fmt.Sprint("w", k), Clock: clock}
		began := false
		j.Begin = func(ctx context.Context) (time.Duration, error) {
			began = true
			return line.begin(ctx)
		}
		wg.Go(func() {
			out, err := Run(context.Background(), j)
			if !began {
				line.arrive()
			}
			if err != nil && !errors.Is(err, ErrIdle) {
				t.Errorf("worker %d of %d: %v", k, of, err)
			}
			outs[k] = out
		})
	}
	wg.Wait()
	for k, out := range outs {
		if out == nil {
			continue
		}
		for _, r := range out.Records() {
			if r.Worker != fmt.Sprint("w", k) {
				t.Errorf("a record of worker %d is signed %q", k, r.Worker)
			}
			if r.Phase == call.Measure && r.Dispatched < line.at {
				t.Errorf("request %s left %v before the start", r.Name, line.at-r.Dispatched)
			}
			recs = append(recs, r)
		}
		_ = out.Close()
	}
	return recs, outs
}

// sent is a request as it was on the wire, with what its record says of it.
type sent struct {
	Name, Phase, Session, Model, Body string
	ID, Turn                          int
	Due                               time.Duration // from the start; of a later turn, from the end of the one before
}

// wireSet joins what a server noted with the records. Without set times, due times follow from the answers.
func wireSet(t *testing.T, noted map[string]string, recs []call.Record, start time.Duration, timed bool) []sent {
	t.Helper()
	answered := func(r *call.Record) (last time.Duration) { // when the answer came that a turn waited for
		for i := range recs {
			if e := recs[i].End; recs[i].Session == r.Session && e <= r.Due {
				last = max(last, e)
			}
		}
		return last
	}
	out := make([]sent, 0, len(recs))
	for i := range recs {
		r := &recs[i]
		late := r.Outcome == call.Dropped && r.Fault == call.FaultCutoff // due just before the end, on a busy machine
		if late {
			noted[r.Name] = unsent
		}
		if r.Outcome != call.OK && !late {
			t.Errorf("request %s: %s %s", r.Name, r.Fault, r.Err)
		}
		s := sent{Name: r.Name, Phase: string(r.Phase), Session: r.Session, Model: r.Model, Body: noted[r.Name], ID: r.ID, Turn: r.Turn}
		switch {
		case r.Turn > 0 || r.Labels["branch"] != "":
			s.Due = r.Due - answered(r)
		case r.Due < start: // the warm-up of a burst, which is over before
			s.Due = call.Unset
		case timed && r.Labels[result.TenantLabel] != "batch": // which is a closed loop
			s.Due = r.Due - start
		}
		if s.Body == "" {
			t.Errorf("the server did not see %s", r.Name)
		}
		out = append(out, s)
	}
	if len(noted) != len(recs) {
		t.Errorf("the server saw %d requests, there are %d records", len(noted), len(recs))
	}
	slices.SortFunc(out, func(a, b sent) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// unsent stands for the body of a request that the client was too late to send.
const unsent = "not sent"

// alike compares requests; bodies only where they were sent.
func alike(want, got []sent) string {
	return cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Body" },
		cmp.Comparer(func(a, b string) bool { return a == b || a == unsent || b == unsent })))
}

// partCase is a load.
type partCase struct {
	name, args string
	least      int  // requests it has at least
	closed     bool // nothing is due by the clock
}

const rated = " --request-rate 2000"

// partCases are every dataset and every law of arrival.
func partCases(t *testing.T) []partCase {
	t.Helper()
	at := partFiles(t)
	chat := " --backend openai-chat"
	n := " --num-prompts 12"
	short := " --isl 8 --osl 2"
	return []partCase{
		{name: "random", args: "--dataset-name random" + n + " --random-range-ratio 0.5 --random-prefix-len 4" + rated, least: 12},
		{name: "random of a law", args: "--dataset-name random --isl lognormal(20,5) --osl uniform(1,4) --salt x" + n + rated, least: 12},
		{name: "random with a tokenizer", args: "--dataset-name random --isl 9 --osl 2 --tokenizer " + at("tokenizer.json") + n + rated, least: 12},
		{name: "random from a file", args: "--compat sglang --dataset-name random --isl 9 --osl 2 --dataset-path ../test/e2e/testdata/data/sharegpt.json" + n + rated, least: 12},
		{name: "random batches", args: "--dataset-name random --backend openai-embeddings --random-batch-size 3 --isl 6 --num-prompts 41" + rated, least: 14},
		{name: "random-rerank", args: "--dataset-name random-rerank --backend vllm-rerank --random-batch-size 2 --isl 40" + n + rated, least: 6},
		{name: "random-mm", args: "--dataset-name random-mm --random-mm-bucket-config {(8,8,1):1.0}" + chat + short + n + rated, least: 12},
		{name: "sharegpt", args: "--dataset-name sharegpt --dataset-path ../test/e2e/testdata/data/sharegpt.json --num-prompts 20" + rated, least: 20},
		{name: "sonnet", args: "--dataset-name sonnet --sonnet-input-len 230 --sonnet-prefix-len 100" + n + rated, least: 12},
		{name: "burstgpt", args: "--dataset-name burstgpt --dataset-path " + at("burst.csv") + n + rated, least: 12},
		{name: "hf", args: "--dataset-name hf --dataset-path " + at("hub") + n + " --hf-output-len 3" + rated, least: 12},
		{name: "custom", args: "--dataset-name custom --dataset-path ../test/e2e/testdata/data/rows.jsonl --num-prompts 14 --custom-output-len -1" + rated, least: 14},
		{name: "custom_audio", args: "--dataset-name custom_audio --backend openai-audio --dataset-path " + at("talk.jsonl") + n + rated, least: 12},
		{name: "custom_image", args: "--dataset-name custom_image --custom-ensure-client-side-data --dataset-path " + at("images.jsonl") + chat + n + rated, least: 12},
		{name: "prefix_repetition", args: "--dataset-name prefix_repetition --prefix-repetition-num-prefixes 4 --prefix-repetition-prefix-len 9 --prefix-repetition-suffix-len 5" + n + rated, least: 12},
		{name: "spec_bench", args: "--dataset-name spec_bench --dataset-path " + at("question.jsonl") + n + rated, least: 12},
		{name: "speed_bench", args: "--dataset-name speed_bench --dataset-path " + at("speed") + n + rated, least: 12},
		{name: "timed_trace", args: "--dataset-name timed_trace --dataset-path " + at("trace.jsonl") + " --timed-trace-sec-multiplier 0.001", least: 12},
		{name: "mooncake", args: "--dataset-name mooncake --dataset-path " + at("trace.jsonl"), least: 12},
		{name: "mooncake at a rate", args: "--dataset-name mooncake --no-self-timed --dataset-path " + at("trace.jsonl") + rated, least: 12},
		{name: "generated-shared-prefix", args: "--dataset-name generated-shared-prefix --gsp-num-groups 4 --gsp-prompts-per-group 3 --gsp-system-prompt-len 9 --gsp-question-len 5" + rated, least: 12},
		{name: "shared prefixes in turns", args: "--dataset-name generated-shared-prefix --gsp-num-groups 3 --gsp-prompts-per-group 3 --gsp-system-prompt-len 9 --gsp-num-turns uniform(1,3)" + chat + rated, least: 10},
		{name: "multi-turn", args: "--dataset-name multi-turn --multi-turn-turns uniform(1,4) --think-time 0.001" + chat + short + " --num-prompts 12" + rated, least: 13},
		{name: "multi-turn from a file", args: "--dataset-name multi-turn --dataset-path " + at("talks.json") + chat + rated, least: 8},
		{name: "agentic", args: "--dataset-name agentic --dataset-path " + at("agents.jsonl") + chat + rated, least: 12},

		{name: "burst", args: short + n, least: 12},
		{name: "burst with a warm-up", args: short + n + " --num-warmups 5", least: 17},
		{name: "closed loop", args: short + n + " --max-concurrency 5", least: 12, closed: true},
		{name: "closed loop with a warm-up", args: short + n + " --max-concurrency 5 --num-warmups 7", least: 19, closed: true},
		{name: "closed loop of conversations", args: "--dataset-name multi-turn" + chat + short + " --num-prompts 6 --max-concurrency 3", least: 24, closed: true},
		{name: "constant", args: short + n + rated + " --burstiness inf", least: 12},
		{name: "gamma", args: short + n + rated + " --burstiness 0.4", least: 12},
		{name: "capped", args: short + n + rated + " --max-concurrency 3", least: 12},
		{name: "for a time", args: short + " --request-rate 400 --duration 50ms", least: 15},
		{name: "ramp", args: short + n + " --ramp-up-strategy linear --ramp-up-start-rps 500 --ramp-up-end-rps 2000", least: 12},
		{name: "exponential ramp", args: short + n + " --ramp-up-strategy exponential --ramp-up-start-rps 500 --ramp-up-end-rps 2000", least: 12},
		{name: "stages", args: short + " --stages 50ms@200,50ms@600", least: 30},
		{name: "warm-ups before a rate", args: short + n + rated + " --num-warmups 7", least: 19},
		{name: "a timed warm-up", args: short + n + " --request-rate 400 --warmup-duration 30ms", least: 24},
		{name: "adapters", args: short + n + rated + " --lora-modules a b c --lora-assignment random", least: 12},
		{name: "adapters for conversations", args: "--dataset-name multi-turn" + chat + short + " --num-prompts 6 --lora-modules a b c --lora-assignment random" + rated, least: 24},
		{name: "tenants", args: "--config " + at("mix.yaml"), least: 30},
	}
}

// partFiles writes the files of datasets.
func partFiles(t *testing.T) func(name string) string {
	t.Helper()
	dir := t.TempDir()
	tok := unpacked(t, "../token/tokenizer/testdata/qwen.tokenizer.json.gz")
	var trace, agents strings.Builder
	for i := range 12 {
		fmt.Fprintf(&trace, `{"timestamp": %d, "input_length": %d, "output_length": 2, "hash_ids": [1, %d]}`+"\n", 7*i, 513+i, i)
	}
	for i := range 4 { // one sub-agent: several at once are named in the order of their answers
		fmt.Fprintf(&agents, `{"turns": [{"messages": [{"role": "user", "content": "plan %d"}], "branches": [[{"messages": [{"role": "user", "content": "look"}]}]]}, `+
			`{"messages": [{"role": "user", "content": "sum up"}], "think_ms": 2}]}`+"\n", i)
	}
	for name, text := range map[string]string{
		"burst.csv":   "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n" + strings.Repeat("0,GPT-4,12,3,15,API log\n0.1,GPT-4,9,2,11,API log\n", 6),
		"trace.jsonl": trace.String(), "agents.jsonl": agents.String(),
		"question.jsonl":          `{"category": "qa", "turns": ["what is it"]}` + "\n" + `{"category": "math", "turns": ["one and one"]}` + "\n" + `{"category": "qa", "turns": ["and why"]}`,
		"hub/data/test.jsonl":     `{"question": "how many are there"}` + "\n" + `{"question": "and how few"}` + "\n" + `{"question": "or none"}`,
		"images.jsonl":            `{"prompt": "what is it", "image_files": ["one.png"]}` + "\n" + `{"prompt": "and this", "image_files": ["one.png"]}`,
		"one.png":                 "\x89PNG\r\n\x1a\nnot really a picture",
		"talk.jsonl":              `{"audio": "talk.wav", "prompt": "listen"}`,
		"talk.wav":                "RIFF\x00\x00\x00\x00WAVE",
		"speed/qualitative.jsonl": `{"category": "qa", "messages": [{"role": "user", "content": "tell me"}]}` + "\n" + `{"category": "qa", "messages": [{"role": "user", "content": "tell more"}]}`,
		"talks.json": `[{"conversations": [{"from": "human", "value": "ace"}, {"from": "gpt", "value": "acegik"}, {"from": "human", "value": "gik"}, {"from": "gpt", "value": "ac"}]},
			{"messages": [{"role": "user", "content": "moq"}, {"role": "assistant", "content": "abab"}]}, {"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}, {"role": "user", "content": "three"}, {"role": "assistant", "content": "four"}, {"role": "user", "content": "five"}]},
			{"messages": [{"role": "user", "content": "six"}, {"role": "assistant", "content": "seven"}, {"role": "user", "content": "eight"}]}]`,
		"mix.yaml": "tenants:\n" + chatTenant + batchTenant + thirdTenant,
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return func(name string) string {
		if name == "tokenizer.json" {
			return tok
		}
		return filepath.Join(dir, name)
	}
}

// TestPartsSendTheSame sends each load from one process, and from 1, 2, 7 and 64 workers. Whatever is sent, and when it
// is due, is the same: bodies as the server read them, due times as the records have them.
func TestPartsSendTheSame(t *testing.T) {
	defer driver.Tune()() // runs beside each other leave it as it is
	srv := newNoting(t)
	seen := map[string]bool{}
	for _, c := range partCases(t) {
		t.Run(c.name, func(t *testing.T) {
			args := strings.Fields(c.args)
			j := partJob(t, srv.URL, args)
			seen[j.Config.Dataset.Name] = true
			out, err := Run(context.Background(), j)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = out.Close() }()
			start := func(o *Outcome) time.Duration { return o.Worker().Start }
			want := wireSet(t, srv.take(t), out.Records(), start(out), !c.closed)
			if len(want) < c.least {
				t.Fatalf("%d requests, want at least %d", len(want), c.least)
			}
			for _, of := range []int{1, 2, 7, 64} {
				recs, outs := inParts(t, srv.URL, args, of, len(want))
				i := slices.IndexFunc(outs, func(o *Outcome) bool { return o != nil })
				if i < 0 {
					t.Fatalf("none of %d workers sent anything", of)
				}
				got := wireSet(t, srv.take(t), recs, start(outs[i]), !c.closed)
				if d := alike(want, got); d != "" {
					t.Fatalf("%d workers send something else (-one process +workers):\n%s", of, d)
				}
			}
		})
	}
	for _, d := range workload.Datasets() {
		if !seen[d.Name] {
			t.Errorf("dataset %s is not tried", d.Name)
		}
	}
}

// TestPartRefused: what cannot be split is refused with the reason, and a worker without requests says so at once.
func TestPartRefused(t *testing.T) {
	srv := newNoting(t)
	for _, c := range []struct {
		args string
		part deal.Part
		want string
	}{
		{"--request-rate 5 --pacing slept", deal.Part{Index: 0, Of: 2}, "--pacing slept cannot be split"},
		{"--max-concurrency 4 --num-warmups 2 --duration 1s", deal.Part{Index: 0, Of: 2}, "use --warmup-duration"},
		{"--max-concurrency 4", deal.Part{Index: 4, Of: 5}, "nothing to send: it is worker 5 of 5"},
		{"--num-prompts 3 --request-rate 5", deal.Part{Index: 3, Of: 4}, "nothing to send: it is worker 4 of 4, of 3 requests"},
		{"--config " + partFiles(t)("mix.yaml"), deal.Part{Index: 3, Of: 4}, "nothing to send: there are 3 tenants for 4 workers"},
		{"", deal.Part{Index: 2, Of: 2}, "there is no worker 2 of 2"},
	} {
		j := partJob(t, srv.URL, strings.Fields(c.args))
		j.Part = c.part
		_, err := Run(context.Background(), j)
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrIdle) != strings.Contains(c.want, "nothing to send") {
			t.Errorf("%s as %+v: %v, want %q", c.args, c.part, err, c.want)
		}
	}
	j := partJob(t, srv.URL, []string{"--num-prompts", "3"})
	gone := errors.New("the coordinator is gone")
	j.Part, j.Begin = deal.Part{Index: 0, Of: 2}, func(context.Context) (time.Duration, error) { return 0, gone }
	if _, err := Run(context.Background(), j); !errors.Is(err, gone) {
		t.Errorf("without a start: %v", err)
	}
	if sent := srv.take(t); len(sent) != 0 {
		t.Errorf("%d requests were sent", len(sent))
	}
}

package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/result"
	"spate/internal/result/harvest"
)

// TestContract holds both databases to the same behaviour.
func TestContract(t *testing.T) {
	cases := []struct {
		name string
		test func(t *testing.T, where string)
	}{
		{"what is put comes back", roundTrip},
		{"putting again changes nothing", putAgain},
		{"a run that ends later gets its figures", endsLater},
		{"a folder that moved is reported and found again", moved},
		{"names of users are not unique", sameName},
		{"filters", filters},
		{"sorting", sorting},
		{"labels", labels},
		{"removing", removing},
		{"ids", ids},
		{"references", references},
		{"text no database takes", oddText},
		{"secrets", secrets},
		{"many goroutines", manyGoroutines},
		{"many processes", manyProcesses},
		{"a newer schema", newerSchema},
	}
	for _, db := range databases {
		t.Run(db.name, func(t *testing.T) {
			t.Parallel() // each waits for its disk most of the time
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) { c.test(t, db.make(t)) })
			}
		})
	}
}

func put(t *testing.T, s *Store, entries ...result.Entry) []string {
	t.Helper()
	kept, err := s.PutAll(context.Background(), entries)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(kept))
	for i, k := range kept {
		out[i] = k.ID
	}
	return out
}

func list(t *testing.T, s *Store, f Filter) []Item {
	t.Helper()
	items, err := s.List(context.Background(), f)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

func idsOf(items []Item) []string {
	var out []string
	for i := range items {
		out = append(out, items[i].ID)
	}
	return out
}

func get(t *testing.T, s *Store, ref string) (Item, result.Entry) {
	t.Helper()
	it, e, err := s.Get(context.Background(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return it, e
}

func roundTrip(t *testing.T, where string) {
	s := open(t, where)
	own, others := measured(t, t.TempDir(), 0), imported(t)
	own.Run.Summary.TTFT.Mean, own.Run.Summary.OutputThroughput = 100.0/3, 1e22/7 // every bit comes back
	own = result.FromRun(own.Run)
	kept := put(t, s, append(others, own)...)
	wantOnce(t, s, "33.33", "1428571428571")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, where)

	it, e := get(t, s, kept[2])
	if it.ID != own.ID || it.Model != "Qwen/Qwen3-8B" || it.Engine != "x" || it.Backend != "openai" || it.GPU != "NVIDIA H100 80GB HBM3" ||
		it.Verdict != "VALID" || it.State != "complete" || it.Command != "spate bench --num-prompts 2" || !it.Started.Equal(started(0)) || it.Folder != own.Run.Dir {
		t.Errorf("own run: %+v", it)
	}
	e.Key = ""
	if diff := cmp.Diff(own.Run, e.Run); diff != "" {
		t.Errorf("own run came back with differences (-put +got):\n%s", diff)
	}
	if diff := cmp.Diff(own.Metrics, e.Metrics); diff != "" || len(e.Metrics) < 20 {
		t.Errorf("own figures came back with differences (-put +got):\n%s", diff)
	}
	if diff := cmp.Diff(it.Figures, e.Metrics); diff != "" {
		t.Errorf("a list and the entry differ (-list +entry):\n%s", diff)
	}
	if recs, err := e.Records(); err != nil || len(recs) != 2 {
		t.Errorf("%d records, %v; want 2", len(recs), err)
	}
	for i := range others {
		_, e := get(t, s, kept[i])
		e.ID, e.Key, e.Labels = others[i].ID, "", nil
		want, err := result.Encode(&others[i])
		got, bad := result.Encode(&e)
		if err = errors.Join(err, bad); err != nil || !bytes.Equal(want, got) {
			t.Errorf("%v\nput %s\ngot %s", err, want, got)
		}
		if e.Text("duration") != "2.00" {
			t.Errorf("duration %q, want it as printed, 2.00", e.Text("duration"))
		}
	}
}

func putAgain(t *testing.T, where string) {
	s := open(t, where)
	own := measured(t, t.TempDir(), 0)
	first := put(t, s, append(imported(t), own)...)
	page2 := filepath.Join(t.TempDir(), "copy.md") // the same text at another place, lines moved down
	if err := os.WriteFile(page2, []byte("\n\n"+page), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := harvest.Find([]string{page2, own.Run.Dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := s.PutAll(context.Background(), set.Entries)
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range kept {
		if k.New || k.ID != first[i] {
			t.Errorf("result %d: %+v, want it known as %s", i, k, first[i])
		}
	}
	if n := len(list(t, s, Filter{})); n != 3 {
		t.Errorf("%d results after putting 3 twice", n)
	}
	if it, _ := get(t, s, first[0]); it.Source != page2 {
		t.Errorf("source %s, want the place it was seen at last, %s", it.Source, page2)
	}
	figures := own // as a table of figures has it: the run, without its folder
	figures.Key, figures.Run = result.Identity(&own), nil
	put(t, s, figures)
	if it, e := get(t, s, first[2]); it.Folder != own.Run.Dir || e.Run == nil {
		t.Errorf("its figures alone took the folder %q from a run", own.Run.Dir)
	}
	if err := s.Remove(context.Background(), first[2]); err != nil {
		t.Fatal(err)
	}
	put(t, s, figures)
	put(t, s, own)
	if it, e := get(t, s, own.ID); it.Folder != own.Run.Dir || e.Run == nil {
		t.Error("a run known by its figures does not get the rest when its folder comes")
	}
}

func endsLater(t *testing.T, where string) {
	s := open(t, where)
	e := quick(0, "r0")
	killed := *e.Run
	killed.State, killed.Summary.Completed = result.Recovered, 1
	id := put(t, s, result.FromRun(&killed))[0]
	if err := s.Tag(context.Background(), id, map[string]string{"kept": "yes"}, []string{"n"}); err != nil {
		t.Fatal(err)
	}
	if again := put(t, s, e)[0]; again != id {
		t.Fatalf("the same run is %s and %s", id, again)
	}
	it, e := get(t, s, id)
	if it.State != "complete" || e.Text("completed") != "2" {
		t.Errorf("state %s with %s completed, want the result of the whole run", it.State, e.Text("completed"))
	}
	if diff := cmp.Diff(map[string]string{"engine": "x", "kept": "yes"}, it.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	put(t, s, result.FromRun(&killed)) // a complete run is never made less of
	if it, e := get(t, s, id); it.State != "complete" || e.Text("completed") != "2" {
		t.Errorf("state %s with %s completed after putting the killed run again", it.State, e.Text("completed"))
	}
}

func moved(t *testing.T, where string) {
	s := open(t, where)
	root := t.TempDir()
	e := measured(t, root, 0)
	id := put(t, s, e)[0]
	old, now := e.Run.Dir, filepath.Join(root, "elsewhere")
	if err := os.Rename(old, now); err != nil {
		t.Fatal(err)
	}
	it, gone := get(t, s, id)
	if s.Records(&it) != RecordsGone || !strings.Contains(s.Lost(&it), old) {
		t.Errorf("records are %s: %q", s.Records(&it), s.Lost(&it))
	}
	if recs, err := gone.Records(); recs != nil || err != nil || gone.Text("completed") != "2" {
		t.Errorf("records %v, %v, completed %q: want the summary only", recs, err, gone.Text("completed"))
	}
	other := it
	other.Host = "another-machine"
	if s.Records(&other) != RecordsAway || !strings.Contains(s.Lost(&other), "another-machine") {
		t.Errorf("on another machine the records are %s: %q", s.Records(&other), s.Lost(&other))
	}
	set, err := harvest.Find([]string{now}, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, set.Entries...)
	it, found := get(t, s, id)
	if recs, err := found.Records(); len(recs) != 2 || err != nil || s.Records(&it) != RecordsHere {
		t.Errorf("%d records, %v, %s after importing the new place", len(recs), err, s.Records(&it))
	}
}

func sameName(t *testing.T, where string) {
	s := open(t, where)
	a, b := quick(0, "run"), quick(1, "run")
	kept := put(t, s, a, b)
	if kept[0] != "run" || !strings.HasPrefix(kept[1], "run-") || len(kept[1]) != len("run-")+6 {
		t.Errorf("two runs called run are %v", kept)
	}
	if again := put(t, s, b, a); again[0] != kept[1] || again[1] != kept[0] {
		t.Errorf("put again they are %v, want %v the other way round", again, kept)
	}
}

func filters(t *testing.T, where string) {
	s := open(t, where)
	kept := put(t, s, append(imported(t), quick(0, "r0"), quick(1, "r1"), quick(2, "r2"))...)
	llama, qwen, r0, r1, r2 := kept[0], kept[1], kept[2], kept[3], kept[4]
	if err := s.Tag(context.Background(), qwen, map[string]string{"gpu": "Instinct MI300X"}, nil); err != nil {
		t.Fatal(err)
	}
	bound := func(text string) []Bound {
		b, err := ParseBound(text)
		if err != nil {
			t.Fatal(err)
		}
		return []Bound{b}
	}
	for _, c := range []struct {
		name string
		f    Filter
		want []string
	}{
		{"none", Filter{}, []string{llama, qwen, r0, r1, r2}},
		{"model, a word", Filter{Model: "llama"}, []string{llama}},
		{"model, capitals aside", Filter{Model: "QWEN3"}, []string{qwen, r0, r1, r2}},
		{"model, pattern for all of it", Filter{Model: "Qwen*"}, []string{qwen, r0, r1, r2}},
		{"model, pattern that needs more", Filter{Model: "8B*"}, nil},
		{"model, one letter", Filter{Model: "qwen/qwen?-8b"}, []string{qwen, r0, r1, r2}},
		{"model, what SQL takes for a pattern", Filter{Model: "%"}, nil},
		{"engine", Filter{Engine: "vllm"}, []string{llama}},
		{"backend", Filter{Backend: "openai"}, []string{r0, r1, r2}},
		{"gpu", Filter{GPU: "h100"}, []string{r0, r1, r2}},
		{"gpu, said by a label", Filter{GPU: "mi300"}, []string{qwen}},
		{"format", Filter{Format: "vllm-block"}, []string{llama, qwen}},
		{"verdict", Filter{Verdict: "valid"}, []string{r0, r1, r2}},
		{"label", Filter{Labels: []Label{{Name: "n", Value: "1"}}}, []string{r1}},
		{"label, any value", Filter{Labels: []Label{{Name: "n", Any: true}}}, []string{r0, r1, r2}},
		{"label, no such value", Filter{Labels: []Label{{Name: "n", Value: "11"}}}, nil},
		{"two labels", Filter{Labels: []Label{{Name: "n", Value: "2"}, {Name: "engine", Value: "x"}}}, []string{r2}},
		{"since", Filter{Since: started(1), Until: started(9)}, []string{r1, r2}},
		{"until", Filter{Since: started(0), Until: started(1)}, []string{r0}},
		{"figure below", Filter{Where: bound("mean_e2el_ms<950")}, []string{r0}},
		{"figure at most", Filter{Where: bound("mean_e2el_ms<=950")}, []string{r0, r1}},
		{"figure with a unit", Filter{Where: bound("mean_e2el>0.95s")}, []string{r2}},
		{"figure equal", Filter{Where: bound("output_throughput=20")}, []string{qwen}},
		{"figure unequal", Filter{Where: bound("output_throughput!=20"), Format: "vllm-block"}, []string{llama}},
		{"two figures", Filter{Where: append(bound("mean_ttft_ms>12"), bound("mean_ttft_ms<20")...)}, []string{llama}},
		{"figure nobody has", Filter{Where: bound("nonsense>0")}, nil},
		{"ids", Filter{IDs: []string{r1, llama}}, []string{llama, r1}},
		{"no ids", Filter{IDs: []string{}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := idsOf(list(t, s, c.f))
			slices.Sort(got)
			slices.Sort(c.want)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func sorting(t *testing.T, where string) {
	s := open(t, where)
	kept := put(t, s, quick(1, "r1"), quick(0, "r0"), quick(2, "r2"), imported(t)[0])
	r1, r0, r2, llama := kept[0], kept[1], kept[2], kept[3]
	for _, c := range []struct {
		name string
		f    Filter
		want []string
	}{
		{"newest first", Filter{Engine: "x"}, []string{r2, r1, r0}},
		{"oldest first", Filter{Engine: "x", Sort: "started"}, []string{r0, r1, r2}},
		{"by a figure, without it last", Filter{Sort: "mean_e2el_ms"}, []string{r0, r1, r2, llama}},
		{"by a figure downwards, without it still last", Filter{Sort: "mean_e2el_ms", Desc: true}, []string{r2, r1, r0, llama}},
		{"the first two", Filter{Sort: "mean_e2el_ms", Limit: 2}, []string{r0, r1}},
		{"by model, ties by id", Filter{Sort: "model", Limit: 3}, []string{r0, r1, r2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, idsOf(list(t, s, c.f))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func labels(t *testing.T, where string) {
	ctx := context.Background()
	s := open(t, where)
	id := put(t, s, quick(0, "r0"))[0]
	if err := s.Tag(ctx, id, map[string]string{"engine": "y", "best": "", "tp": "2"}, []string{"n", "never there"}); err != nil {
		t.Fatal(err)
	}
	it, e := get(t, s, id)
	want := map[string]string{"engine": "y", "best": "", "tp": "2"}
	if diff := cmp.Diff(want, it.Labels); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, e.Labels); diff != "" {
		t.Errorf("of the entry (-want +got):\n%s", diff)
	}
	if err := s.Tag(ctx, "nobody", map[string]string{"a": "b"}, nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("label of nobody: %v", err)
	}
}

func removing(t *testing.T, where string) {
	ctx := context.Background()
	s := open(t, where)
	kept := put(t, s, append(imported(t), quick(0, "r0"))...)
	if err := s.Remove(ctx, kept[0], "nobody"); !errors.Is(err, ErrUnknown) {
		t.Errorf("remove one and nobody: %v", err)
	}
	if n := len(list(t, s, Filter{})); n != 3 {
		t.Fatalf("%d results after a removal that could not be, want 3", n)
	}
	if err := s.Remove(ctx, kept...); err != nil {
		t.Fatal(err)
	}
	names, err := s.FigureNames(ctx)
	if err != nil || len(names) != 0 || len(list(t, s, Filter{})) != 0 {
		t.Errorf("left behind: figures %v, %v", names, err)
	}
	again := put(t, s, imported(t)...)
	if diff := cmp.Diff(kept[:2], again); diff != "" {
		t.Errorf("a removed result that comes back has another id (-was +is):\n%s", diff)
	}
}

func ids(t *testing.T, where string) {
	ctx := context.Background()
	s := open(t, where)
	if _, err := s.ID(ctx, "last"); !errors.Is(err, ErrUnknown) {
		t.Errorf("last of an empty store: %v", err)
	}
	var entries []result.Entry
	for n, name := range []string{"20261115-100000-m-aa11", "20261115-110000-m-bb22", "20261115-120000-m-aa33", "abc", "abcd"} {
		entries = append(entries, quick(n, name))
	}
	put(t, s, entries...)
	for _, c := range []struct{ ref, want, problem string }{
		{"abc", "abc", ""},
		{"abcd", "abcd", ""},
		{"20261115-11", "20261115-110000-m-bb22", ""},
		{"bb22", "20261115-110000-m-bb22", ""},
		{"last", "abcd", ""},
		{"20261115", "", "the beginning or end of 3 ids"},
		{"ab", "", "abcd"},
		{"20261115-110000-m-bb23", "", `did you mean "20261115-110000-m-bb22"?`},
		{"%", "", "no such result"},
		{"", "", "empty"},
	} {
		got, err := s.ID(ctx, c.ref)
		if got != c.want || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%q is %q, %v; want %q, %q", c.ref, got, err, c.want, c.problem)
		}
	}
}

func references(t *testing.T, where string) {
	ctx := context.Background()
	root := t.TempDir()
	s := open(t, where)
	inStore := put(t, s, append(imported(t), measured(t, root, 0))...)
	apart := measured(t, root, 1) // in a folder only
	text := filepath.Join(root, "page.md")
	if err := os.WriteFile(text, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	f := Finder{Where: where, Stdin: strings.NewReader(page)}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		refs    string
		want    int
		problem string
	}{
		{inStore[2], 1, ""},
		{inStore[0][:6], 1, ""},
		{"last", 1, ""},
		{apart.Run.Dir, 1, ""},
		{text, 2, ""},
		{text + ":25", 1, ""},
		{text + ":3", 0, "no result that begins on line 3"},
		{"-", 2, ""},
		{"model:Qwen*", 2, ""},
		{"label:engine=x", 1, ""},
		{"model:qwen,label:engine=x,where:completed>=2", 1, ""},
		{"model:gpt", 0, "no result found"},
		{inStore[0] + " " + apart.Run.Dir + " model:Qwen*", 4, ""},
		{"label:=x", 0, "is not a label"},
		{"model:a,modle:b", 0, `did you mean "model"?`},
		{"20261115-120000-Qwen4-8B", 0, "neither a file nor a folder"},
	} {
		got, err := f.Resolve(ctx, strings.Fields(c.refs))
		if len(got) != c.want || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: %d results, %v; want %d, %q", c.refs, len(got), err, c.want, c.problem)
		}
	}
	if err := os.RemoveAll(filepath.Join(root, inStore[2])); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Resolve(ctx, []string{inStore[2]}); err != nil || len(f.Problems) == 0 || !strings.Contains(f.Problems[len(f.Problems)-1].Text, "moved or deleted") {
		t.Errorf("a run without its folder: %v, %v", err, f.Problems)
	}
}

func oddText(t *testing.T, where string) {
	s := open(t, where)
	e := imported(t)[0]
	bad := "nul\x00 broken\xff 日本 'quote' \\ \u2028"
	e.Name, e.Labels = bad, map[string]string{bad: bad, "x'); DROP TABLE spate_runs; --": "%_"}
	e.Context = append(e.Context, result.Fact{Name: bad, Value: bad})
	e.Error = bad
	e.Extra = result.Figures{result.NewWord(bad, bad, ""), result.NewPrinted("huge", "1e400", ""), result.NewPrinted("tiny", "-1e-400", "")}
	e.Metrics = append(e.Metrics, result.NewWord("rate", "inf", ""))
	id := put(t, s, e)[0]
	it, back := get(t, s, id)
	if it.Name != "nul broken\uFFFD 日本 'quote' \\ \u2028" || len(it.Labels) != 2 || back.Text("rate") != "inf" {
		t.Errorf("%q, labels %q", it.Name, it.Labels)
	}
	if huge, _ := back.Extra.Get("huge"); huge.Text != "1e400" {
		t.Errorf("a figure beyond any float came back as %+v", huge)
	}
}

func secrets(t *testing.T, where string) {
	s := open(t, where)
	e := imported(t)[0]
	launch := `docker run -e HF_TOKEN=hf_abcdefghijklmnopqrst --env X="Bearer \"sk-abcdefghijklmnopqrst\"" image`
	e.Launch = &launch
	e.Context = append(e.Context, result.Fact{Name: "server_command", Value: launch})
	e.Error = "GET http://me:hunter22@host/v1: 401"
	id := put(t, s, e)[0]
	it, back := get(t, s, id)
	data, err := result.Encode(&back)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"hf_abcdef", "sk-abcdef", "hunter22"} {
		if strings.Contains(string(data)+it.Error, secret) {
			t.Errorf("%s is in the store: %s", secret, data)
		}
	}
	if !strings.Contains(*back.Launch, "docker run -e HF_TOKEN=") {
		t.Errorf("launch came back as %s", *back.Launch)
	}
}

func manyGoroutines(t *testing.T, where string) {
	const writers, each = 3, 4
	var wg sync.WaitGroup
	failed := make(chan error, writers)
	for w := range writers {
		wg.Go(func() {
			s, err := Open(context.Background(), where) // all at once: one of them makes the schema
			if err != nil {
				failed <- err
				return
			}
			for n := range each { // half of what a writer puts others put too
				if _, err := s.PutAll(context.Background(), []result.Entry{numbered(n), numbered(1000*(w+1) + n)}); err != nil {
					failed <- err
				}
			}
			if err := s.Close(); err != nil {
				failed <- err
			}
		})
	}
	wg.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	if n := len(list(t, open(t, where), Filter{})); n != each+writers*each {
		t.Errorf("%d results, want %d", n, each+writers*each)
	}
}

func manyProcesses(t *testing.T, where string) {
	const processes, each = 3, 6
	var running []*exec.Cmd
	var said [processes]bytes.Buffer
	for p := range processes {
		cmd := childCmd(t, where, p*each/2, each) // each overlaps with the next
		cmd.Stderr = &said[p]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
	}
	for p, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v\n%s", p, err, said[p].String())
		}
	}
	if n := len(list(t, open(t, where), Filter{})); n != (processes+1)*each/2 {
		t.Errorf("%d results, want %d", n, (processes+1)*each/2)
	}
}

func newerSchema(t *testing.T, where string) {
	ctx := context.Background()
	s := open(t, where)
	put(t, s, imported(t)...)
	if _, err := s.db.ExecContext(ctx, "UPDATE spate_schema SET version = 99"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before, isFile := fileBytes(t, where)
	_, err := Open(ctx, where)
	if err == nil || !strings.Contains(err.Error(), "schema 99") || !strings.Contains(err.Error(), "update spate") {
		t.Errorf("a newer store: %v", err)
	}
	if after, _ := fileBytes(t, where); isFile && !bytes.Equal(before, after) {
		t.Error("the file of a newer spate was changed")
	}
}

func fileBytes(t *testing.T, where string) (data []byte, isFile bool) {
	t.Helper()
	p, err := parsePlace(where)
	if err != nil || p.postgres {
		return nil, false
	}
	if data, err = os.ReadFile(p.path); err != nil {
		t.Fatal(err)
	}
	return data, true
}

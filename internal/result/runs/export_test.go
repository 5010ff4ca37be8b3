package runs

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/result/harvest"
)

// rich is an entry with something of everything.
func rich() Entry {
	launch := "vllm serve m --port <8000> & tail"
	return Entry{
		ID: "a,b", Name: "one \"two\"\nthree", Labels: map[string]string{"bare": "", "tp": "2"},
		Result: harvest.Result{
			Source: harvest.Source{File: "log.txt", Line: 7, EndLine: 9}, Format: harvest.FormatVLLMBlock,
			Context: harvest.Context{
				{Name: "headings", Value: []string{"Big", "Small"}, From: "headings above", Line: 1},
				{Name: "num_prompts", Value: json.Number("10"), From: "command", Line: 2},
				{Name: "arguments", Value: map[string]any{"seed": json.Number("0"), "x": nil}, From: "command", Line: 2},
				{Name: "date", Value: "20261115-120000", From: "file: date"},
				{Name: "nothing", Value: nil, From: "file"},
			},
			Metrics: harvest.Figures{
				{Name: "duration", Text: "2.00"},
				{Name: "request_rate", Text: "inf", Word: true},
				{Name: "mean_ttft_ms", Text: "12.50", From: "seconds × 1000"},
				{Name: "tiny", Text: "1e-400"},
			},
			Extra:     harvest.Figures{{Name: "odd name (s)", Text: "-0.0"}},
			EngineLog: []harvest.EngineSample{{Line: 3, Running: "4", KVUsage: "12.5"}},
			Launch:    &launch,
			Error:     "RuntimeError: out of memory",
			Problems:  []harvest.Problem{{File: "log.txt", Line: 7, Kind: harvest.Note, Text: "8 of 10"}},
		},
	}
}

func TestEncodeDecode(t *testing.T) {
	own, err := Read([]string{newRun(t, t.TempDir())}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []Entry{rich(), own.Entries[0]} {
		data, err := Encode(&e)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		e.Key = Identity(&e)
		again, err := Encode(&back)
		if err != nil || !bytes.Equal(data, again) {
			t.Errorf("%v\nwritten %s\nagain   %s", err, data, again)
		}
		if diff := cmp.Diff(e.Result.Metrics, back.Result.Metrics); diff != "" {
			t.Errorf("figures (-was +is):\n%s", diff)
		}
		if diff := cmp.Diff(e.Run, back.Run); diff != "" {
			t.Errorf("run (-was +is):\n%s", diff)
		}
		back.Key = ""
		if e.Run == nil {
			if diff := cmp.Diff(e.Result, back.Result); diff != "" {
				t.Errorf("result (-was +is):\n%s", diff)
			}
		}
		if Identity(&back) != e.Key {
			t.Error("what was read back has another identity")
		}
	}
	for _, bad := range []string{``, `{}`, `[]`, `{"spate_export":2,"result":{}}`, `{"spate_export":1}`, `{"spate_export":1,"result":{"metrics":{"a":[1]}}}`, `{"spate_export":1,"result":{"context":[]}}`} {
		if _, err := Decode([]byte(bad)); err == nil {
			t.Errorf("%s is an entry", bad)
		}
	}
}

func TestIdentity(t *testing.T) {
	base := rich()
	same := rich()
	same.ID, same.Name, same.Labels, same.Result.Source, same.Result.Problems = "x", "y", nil, harvest.Source{File: "elsewhere", Line: 1}, nil
	same.Result.Context[0].Line, same.Result.EngineLog[0].Line = 99, 99
	if Identity(&base) != Identity(&same) {
		t.Error("where a result was read changes its identity")
	}
	for name, change := range map[string]func(r *harvest.Result){
		"figure":     func(r *harvest.Result) { r.Metrics[0].Text = "2.0" },
		"setting":    func(r *harvest.Result) { r.Context[1].Value = json.Number("11") },
		"heading":    func(r *harvest.Result) { r.Context[0].Value = []string{"Big"} },
		"format":     func(r *harvest.Result) { r.Format = harvest.FormatSGLangBlock },
		"error":      func(r *harvest.Result) { r.Error = "" },
		"engine log": func(r *harvest.Result) { r.EngineLog[0].Running = "5" },
		"moved name": func(r *harvest.Result) { r.Metrics[0], r.Extra = r.Metrics[1], harvest.Figures{r.Metrics[0]} },
	} {
		other := rich()
		change(&other.Result)
		if Identity(&base) == Identity(&other) {
			t.Errorf("another %s is the same result", name)
		}
	}
}

// writers are the forms entries are exported in.
var writers = []struct {
	name  string
	write func(io.Writer, []Entry) error
}{{"x.json", WriteJSON}, {"x.jsonl", WriteJSONL}, {"x.csv", WriteCSV}}

func TestExportsAreReadAgain(t *testing.T) {
	root := t.TempDir()
	own, err := Read([]string{newRun(t, root)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := Read([]string{"-"}, strings.NewReader("# QPS 2\n\n"+block))
	if err != nil {
		t.Fatal(err)
	}
	was := slices.Concat([]Entry{rich()}, own.Entries, block.Entries)
	for _, w := range writers {
		t.Run(w.name, func(t *testing.T) {
			var buf bytes.Buffer
			if err := w.write(&buf, was); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), w.name)
			if err := os.WriteFile(path, buf.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			set, err := Read([]string{path, "-"}, &buf) // the same again from standard input
			if err != nil || len(set.Problems) > 0 || len(set.Entries) != 2*len(was) {
				t.Fatalf("%d entries of %d, %v, %v", len(set.Entries), 2*len(was), set.Problems, err)
			}
			for i := range set.Entries {
				sameFigures(t, &was[i%len(was)], &set.Entries[i])
			}
		})
	}
}

func sameFigures(t *testing.T, was, is *Entry) {
	t.Helper()
	printed := func(fs harvest.Figures) (out []string) {
		for _, f := range fs {
			word := ""
			if f.Word {
				word = " (a word)"
			}
			out = append(out, f.Name+"="+f.Text+word)
		}
		slices.Sort(out) // a table has one order of columns for all
		return out
	}
	if diff := cmp.Diff(printed(was.Result.Metrics), printed(is.Result.Metrics)); diff != "" {
		t.Errorf("%s: figures (-was +is):\n%s", was.ID, diff)
	}
	if diff := cmp.Diff(printed(was.Result.Extra), printed(is.Result.Extra)); diff != "" {
		t.Errorf("%s: extra figures (-was +is):\n%s", was.ID, diff)
	}
	if diff := cmp.Diff(was.Labels, is.Labels); diff != "" {
		t.Errorf("%s: labels (-was +is):\n%s", was.ID, diff)
	}
	if is.ID != was.ID || is.Name != was.Name || Identity(is) != Identity(was) || !is.Started().Equal(was.Started()) || is.Result.Format != was.Result.Format || is.Result.Source.File != was.Result.Source.File {
		t.Errorf("was %q %q %s %v, is %q %q %s %v", was.ID, was.Name, Identity(was), was.Started(), is.ID, is.Name, Identity(is), is.Started())
	}
}

func TestDamagedExportKeepsWhatIsThere(t *testing.T) {
	for _, w := range writers {
		t.Run(w.name, func(t *testing.T) {
			var buf bytes.Buffer
			if err := w.write(&buf, []Entry{rich(), rich(), rich()}); err != nil {
				t.Fatal(err)
			}
			cut := buf.Bytes()[:buf.Len()-40]
			set, err := Read([]string{"-"}, bytes.NewReader(cut))
			if err != nil || len(set.Entries) != 2 || len(set.Problems) != 1 || !set.Problems[0].Bad() {
				t.Errorf("%d entries, %v, %v; want 2 and a problem", len(set.Entries), set.Problems, err)
			}
		})
	}
}

func FuzzExport(f *testing.F) {
	for _, w := range writers {
		var buf bytes.Buffer
		if err := w.write(&buf, []Entry{rich()}); err != nil {
			f.Fatal(err)
		}
		f.Add(buf.Bytes())
	}
	f.Add([]byte("spate_id,key,line,label.,extra.\n,,x,\"\"\"\"\"\",1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := Read([]string{"-"}, bytes.NewReader(data))
		if err != nil || !isExport(data) {
			return
		}
		var buf bytes.Buffer
		if err := WriteJSONL(&buf, set.Entries); err != nil {
			return // a word where harvest has a number cannot be written
		}
		again, err := Read([]string{"-"}, &buf)
		if err != nil || len(again.Entries) != len(set.Entries) || len(again.Problems) > 0 {
			t.Errorf("%d entries of %d, %v, %v", len(again.Entries), len(set.Entries), again.Problems, err)
		}
	})
}

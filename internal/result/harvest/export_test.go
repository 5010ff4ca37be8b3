package harvest

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

	"spate/internal/host/enginelog"
	"spate/internal/result"
)

// rich is an entry with something of everything.
func rich() result.Entry {
	launch := "vllm serve m --port <8000> & tail"
	return result.Entry{
		ID: "a,b", Name: "one \"two\"\nthree", Labels: map[string]string{"bare": "", "tp": "2"},
		Source: result.Source{File: "log.txt", Line: 7, EndLine: 9}, Format: result.FormatVLLMBlock,
		Context: result.Context{
			{Name: "headings", Value: []string{"Big", "Small"}, From: "headings above", Line: 1},
			{Name: "num_prompts", Value: json.Number("10"), From: "command", Line: 2},
			{Name: "arguments", Value: map[string]any{"seed": json.Number("0"), "x": nil}, From: "command", Line: 2},
			{Name: "date", Value: "20261115-120000", From: "file: date"},
			{Name: "nothing", Value: nil, From: "file"},
		},
		Metrics: result.Figures{
			result.NewPrinted("duration", "2.00", ""),
			result.NewWord("request_rate", "inf", ""),
			result.NewPrinted("mean_ttft_ms", "12.50", "seconds × 1000"),
			result.NewPrinted("tiny", "1e-400", ""),
		},
		Extra:     result.Figures{result.NewPrinted("odd name (s)", "-0.0", "")},
		EngineLog: []enginelog.Sample{{Line: 3, Running: "4", KVUsage: "12.5"}},
		Launch:    &launch,
		Error:     "RuntimeError: out of memory",
		Problems:  []result.Problem{{File: "log.txt", Line: 7, Kind: result.Note, Text: "8 of 10"}},
	}
}

func TestEncodeDecode(t *testing.T) {
	own, err := Find([]string{newRun(t, t.TempDir())}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []result.Entry{rich(), own.Entries[0]} {
		data, err := result.Encode(&e)
		if err != nil {
			t.Fatal(err)
		}
		back, err := result.DecodeEntry(data)
		if err != nil {
			t.Fatal(err)
		}
		e.Key = result.Identity(&e)
		again, err := result.Encode(&back)
		if err != nil || !bytes.Equal(data, again) {
			t.Errorf("%v\nwritten %s\nagain   %s", err, data, again)
		}
		if diff := cmp.Diff(e.Metrics, back.Metrics); diff != "" {
			t.Errorf("figures (-was +is):\n%s", diff)
		}
		if diff := cmp.Diff(e.Run, back.Run); diff != "" {
			t.Errorf("run (-was +is):\n%s", diff)
		}
		if e.Run == nil {
			if diff := cmp.Diff(e, back); diff != "" {
				t.Errorf("result (-was +is):\n%s", diff)
				back.Key = ""
			}
		}
		if result.Identity(&back) != e.Key {
			t.Error("what was read back has another identity")
		}
	}
	for _, bad := range []string{``, `{}`, `[]`, `{"spate_export":2,"result":{}}`, `{"spate_export":1}`, `{"spate_export":1,"result":{"metrics":{"a":[1]}}}`, `{"spate_export":1,"result":{"context":[]}}`} {
		if _, err := result.DecodeEntry([]byte(bad)); err == nil {
			t.Errorf("%s is an entry", bad)
		}
	}
}

func TestIdentity(t *testing.T) {
	base := rich()
	same := rich()
	same.ID, same.Name, same.Labels, same.Source, same.Problems = "x", "y", nil, result.Source{File: "elsewhere", Line: 1}, nil
	same.Context[0].Line, same.EngineLog[0].Line = 99, 99
	if result.Identity(&base) != result.Identity(&same) {
		t.Error("where a result was read changes its identity")
	}
	for name, change := range map[string]func(r *result.Entry){
		"figure":     func(r *result.Entry) { r.Metrics[0].Text = "2.0" },
		"setting":    func(r *result.Entry) { r.Context[1].Value = json.Number("11") },
		"heading":    func(r *result.Entry) { r.Context[0].Value = []string{"Big"} },
		"format":     func(r *result.Entry) { r.Format = result.FormatSGLangBlock },
		"error":      func(r *result.Entry) { r.Error = "" },
		"engine log": func(r *result.Entry) { r.EngineLog[0].Running = "5" },
		"moved name": func(r *result.Entry) { r.Metrics[0], r.Extra = r.Metrics[1], result.Figures{r.Metrics[0]} },
	} {
		other := rich()
		change(&other)
		if result.Identity(&base) == result.Identity(&other) {
			t.Errorf("another %s is the same result", name)
		}
	}
}

// writers are the forms entries are exported in.
var writers = []struct {
	name  string
	write func(io.Writer, []result.Entry) error
}{{"x.json", result.WriteJSON}, {"x.jsonl", result.WriteJSONL}, {"x.csv", result.WriteCSV}}

func TestExportsAreReadAgain(t *testing.T) {
	root := t.TempDir()
	own, err := Find([]string{newRun(t, root)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := Find([]string{"-"}, strings.NewReader("# QPS 2\n\n"+blockText))
	if err != nil {
		t.Fatal(err)
	}
	was := slices.Concat([]result.Entry{rich()}, own.Entries, block.Entries)
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
			set, err := Find([]string{path, "-"}, &buf) // the same again from standard input
			if err != nil || len(set.Problems) > 0 || len(set.Entries) != 2*len(was) {
				t.Fatalf("%d entries of %d, %v, %v", len(set.Entries), 2*len(was), set.Problems, err)
			}
			for i := range set.Entries {
				sameFigures(t, &was[i%len(was)], &set.Entries[i])
			}
		})
	}
}

func sameFigures(t *testing.T, was, is *result.Entry) {
	t.Helper()
	printed := func(fs result.Figures) (out []string) {
		for _, f := range fs {
			word := ""
			if f.Word {
				word = " (a word)"
			}
			out = append(out, f.Name+"="+f.String()+word)
		}
		slices.Sort(out) // a table has one order of columns for all
		return out
	}
	if diff := cmp.Diff(printed(was.Metrics), printed(is.Metrics)); diff != "" {
		t.Errorf("%s: figures (-was +is):\n%s", was.ID, diff)
	}
	if diff := cmp.Diff(printed(was.Extra), printed(is.Extra)); diff != "" {
		t.Errorf("%s: extra figures (-was +is):\n%s", was.ID, diff)
	}
	if diff := cmp.Diff(was.Labels, is.Labels); diff != "" {
		t.Errorf("%s: labels (-was +is):\n%s", was.ID, diff)
	}
	if is.ID != was.ID || is.Name != was.Name || result.Identity(is) != result.Identity(was) || !is.Started().Equal(was.Started()) || is.Format != was.Format || is.Source.File != was.Source.File {
		t.Errorf("was %q %q %s %v, is %q %q %s %v", was.ID, was.Name, result.Identity(was), was.Started(), is.ID, is.Name, result.Identity(is), is.Started())
	}
}

func TestDamagedExportKeepsWhatIsThere(t *testing.T) {
	for _, w := range writers {
		t.Run(w.name, func(t *testing.T) {
			var buf bytes.Buffer
			if err := w.write(&buf, []result.Entry{rich(), rich(), rich()}); err != nil {
				t.Fatal(err)
			}
			cut := buf.Bytes()[:buf.Len()-40]
			set, err := Find([]string{"-"}, bytes.NewReader(cut))
			if err != nil || len(set.Entries) != 2 || len(set.Problems) != 1 || !set.Problems[0].Bad() {
				t.Errorf("%d entries, %v, %v; want 2 and a problem", len(set.Entries), set.Problems, err)
			}
		})
	}
}

func FuzzExport(f *testing.F) {
	for _, w := range writers {
		var buf bytes.Buffer
		if err := w.write(&buf, []result.Entry{rich()}); err != nil {
			f.Fatal(err)
		}
		f.Add(buf.Bytes())
	}
	f.Add([]byte("spate_id,key,line,label.,extra.\n,,x,\"\"\"\"\"\",1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := Find([]string{"-"}, bytes.NewReader(data))
		if err != nil || !result.IsExport(data) {
			return
		}
		var buf bytes.Buffer
		if err := result.WriteJSONL(&buf, set.Entries); err != nil {
			return // a word where harvest has a number cannot be written
		}
		again, err := Find([]string{"-"}, &buf)
		if err != nil || len(again.Entries) != len(set.Entries) || len(again.Problems) > 0 {
			t.Errorf("%d entries of %d, %v, %v", len(again.Entries), len(set.Entries), again.Problems, err)
		}
	})
}

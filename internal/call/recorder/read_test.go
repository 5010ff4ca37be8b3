package recorder

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
)

func TestReadToleratesDamage(t *testing.T) {
	a, b := sample(1, 3), sample(2, 0)
	a.Text, b.Text = "", ""
	lineA, lineB := string(appendRecord(nil, &a, false)), string(appendRecord(nil, &b, false))
	cases := []struct {
		name    string
		content string
		ids     []int
		damage  Damage
	}{
		{"empty file", "", nil, Damage{}},
		{"whole", lineA + lineB, []int{1, 2}, Damage{}},
		{"complete last line without its end", lineA + strings.TrimSuffix(lineB, "\n"), []int{1, 2}, Damage{}},
		{
			"torn last line", lineA + lineB[:len(lineB)/2],
			[]int{1},
			Damage{Torn: true, Lines: []BadLine{{2, "unexpected end of JSON input"}}},
		},
		{
			"garbage between", lineA + "%%%\n" + lineB,
			[]int{1, 2},
			Damage{Bad: 1, Lines: []BadLine{{2, "invalid character '%' looking for beginning of value"}}},
		},
		{
			"empty line", lineA + "\n" + lineB,
			[]int{1, 2},
			Damage{Bad: 1, Lines: []BadLine{{2, "unexpected end of JSON input"}}},
		},
		{
			"JSON that is no record", `{"x":1}` + "\n" + lineB + `{"id":3,"outcome":"great"}` + "\n",
			[]int{2},
			Damage{Bad: 2, Lines: []BadLine{{1, "no id"}, {3, `unknown outcome "great"`}}},
		},
		{
			"columns of different length", `{"id":3,"outcome":"ok","chunk_ns":[1,2],"chunk_tokens":[1]}` + "\n" + `{"id":4,"outcome":"ok","chunk_kind":[1]}` + "\n",
			nil,
			Damage{Bad: 2, Lines: []BadLine{{1, "1 chunk_tokens for 2 chunks"}, {2, "1 chunk_kind for 0 chunks"}}},
		},
		{
			"kind out of range", `{"id":3,"outcome":"ok","chunk_ns":[1],"chunk_kind":[256]}` + "\n",
			nil,
			Damage{Bad: 1, Lines: []BadLine{{1, "chunk_kind 256"}}},
		},
		{"fields of a newer version", `{"id":3,"outcome":"ok","novel":{"a":[1]}}` + "\n", []int{3}, Damage{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "records.jsonl")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			recs, damage, err := Read(path)
			if err != nil {
				t.Fatal(err)
			}
			var ids []int
			for _, r := range recs {
				ids = append(ids, r.ID)
			}
			if d := cmp.Diff(c.ids, ids); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(c.damage, damage); d != "" {
				t.Error(d)
			}
			if damage.Any() == (damage.String() == "no damage") {
				t.Errorf("String %q disagrees with Any %v", damage, damage.Any())
			}
		})
	}
}

func TestReadNamesOnlySomeLines(t *testing.T) {
	damage, err := Scan(strings.NewReader(strings.Repeat("x\n", 1000)), func(*call.Record) error { return nil })
	if err != nil || damage.Bad != 1000 || len(damage.Lines) != maxNamed {
		t.Errorf("got %d bad, %d named, err %v; want 1000, %d, nil", damage.Bad, len(damage.Lines), err, maxNamed)
	}
}

func TestScanStopsAtVisitorsError(t *testing.T) {
	r := sample(1, 1)
	line := string(appendRecord(nil, &r, false))
	stop := errors.New("stop")
	seen := 0
	_, err := Scan(strings.NewReader(line+line), func(*call.Record) error { seen++; return stop })
	if !errors.Is(err, stop) || seen != 1 {
		t.Errorf("err %v after %d records, want stop after 1", err, seen)
	}
}

func TestReadMissingFile(t *testing.T) {
	if _, _, err := Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("err = %v, want not exist", err)
	}
}

// FuzzDecode holds that no line breaks the decoder, and that what it accepts, the encoder keeps.
func FuzzDecode(f *testing.F) {
	r := sample(3, 4)
	f.Add(appendRecord(nil, &r, true))
	f.Add([]byte(`{"id":1,"outcome":"failed","due_ns":null,"labels":{},"server":{},"chunk_ns":[1],"chunk_kind":[0]}`))
	f.Add([]byte(`{"id":-0,"outcome":"ok","error":"\ud800","ID":4}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, line []byte) {
		got, err := Decode(line)
		if err != nil {
			return
		}
		again, err := Decode(appendRecord(nil, &got, true))
		if err != nil {
			t.Fatalf("encoder made an unreadable line: %v", err)
		}
		if d := cmp.Diff(got, again); d != "" {
			t.Fatal(d)
		}
	})
}

// FuzzScan holds that any file can be read to its end, and that every line is a record or damage.
func FuzzScan(f *testing.F) {
	r := sample(3, 2)
	line := appendRecord(nil, &r, false)
	f.Add(append(append([]byte("junk\n"), line...), line[:9]...))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		good := 0
		damage, err := Scan(strings.NewReader(string(content)), func(*call.Record) error { good++; return nil })
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(string(content), "\n")
		if len(content) > 0 && content[len(content)-1] != '\n' {
			lines++
		}
		bad := damage.Bad
		if damage.Torn {
			bad++
		}
		if good+bad != lines {
			t.Fatalf("%d records + %d damaged != %d lines", good, bad, lines)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	r := sample(1, 100)
	line := appendRecord(nil, &r, false)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(line); err != nil {
			b.Fatal(err)
		}
	}
}

package interop

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// lines reads one of the files testdata/python.py writes.
func lines(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func TestFloatsAsPython(t *testing.T) {
	all := lines(t, "floats.txt")
	if len(all) < 500 {
		t.Fatalf("only %d floats to compare", len(all))
	}
	for _, line := range all {
		word := strings.Fields(line)
		bits, err := strconv.ParseUint(word[0], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		f := math.Float64frombits(bits)
		got, err := AppendPython(nil, f)
		if err != nil || string(got) != word[1] {
			t.Errorf("json of %x = %s (%v), Python says %s", bits, got, err, word[1])
		}
		if got := PyFloat(f); got != word[2] {
			t.Errorf("repr of %x = %s, Python says %s", bits, got, word[2])
		}
	}
}

func TestStringsAsPython(t *testing.T) {
	for _, line := range lines(t, "strings.txt") {
		raw, want, _ := strings.Cut(line, " ")
		b, err := hex.DecodeString(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendPyString(nil, string(b))); got != want {
			t.Errorf("json of %q = %s, Python says %s", b, got, want)
		}
	}
}

func TestAppendPython(t *testing.T) {
	cases := []struct {
		name string
		in   any
		want string
	}{
		{"none", nil, "null"},
		{"bools", []any{true, false}, "[true, false]"},
		{"empty list", []int(nil), "[]"},
		{"empty object", Object{}, "{}"},
		{"nested", Object{{"a", []float64{1, 2.5}}, {"b", Object{{"c", "d"}}}}, `{"a": [1.0, 2.5], "b": {"c": "d"}}`},
		{"lists of lists", [][]float64{{0.1}, nil}, "[[0.1], []]"},
		{"objects in a list", []Object{{{"k", 1}}}, `[{"k": 1}]`},
		{"words", []string{"a", "é"}, `["a", "\u00e9"]`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := AppendPython(nil, c.in)
			if err != nil || string(got) != c.want {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
		})
	}
	if _, err := AppendPython(nil, Object{{"when", struct{}{}}}); err == nil || !strings.Contains(err.Error(), "when") {
		t.Errorf("unknown type: %v, want an error naming the key", err)
	}
}

func TestObjectKeepsPlaces(t *testing.T) {
	o := Object{{"a", 1}, {"b", 2}}
	o.Set("a", 3)
	o.Set("c", 4)
	o.Delete("b")
	o.Delete("nothing")
	got, _ := AppendPython(nil, o)
	if string(got) != `{"a": 3, "c": 4}` {
		t.Errorf("got %s", got)
	}
}

// FuzzString holds that any string becomes ASCII that JSON readers read back.
func FuzzString(f *testing.F) {
	f.Add("a\"\\\n\x7fé😀")
	f.Add("\xff\xed\xa0\x80")
	f.Fuzz(func(t *testing.T, s string) {
		out := appendPyString(nil, s)
		for _, b := range out {
			if b >= utf8.RuneSelf || b < ' ' {
				t.Fatalf("byte %#x in %s", b, out)
			}
		}
		var back string
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatal(err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); utf8.ValidString(s) && back != want {
			t.Fatalf("%q came back as %q", want, back)
		}
	})
}

// FuzzFloat holds that every float is printed as itself and with a mark of being a float.
func FuzzFloat(f *testing.F) {
	f.Add(1e16)
	f.Add(math.Copysign(0, -1))
	f.Add(123456.0)
	f.Fuzz(func(t *testing.T, x float64) {
		s := PyFloat(x)
		back, err := strconv.ParseFloat(s, 64)
		if err != nil || (back != x && !math.IsNaN(x)) {
			t.Fatalf("%v printed as %s reads as %v (%v)", x, s, back, err)
		}
		if !strings.ContainsAny(s, ".en") {
			t.Fatalf("%s looks like an integer", s)
		}
	})
}

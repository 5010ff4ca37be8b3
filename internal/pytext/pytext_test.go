package pytext

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
		if got := string(AppendJSONFloat(nil, f)); got != word[1] {
			t.Errorf("json of %x = %s, Python says %s", bits, got, word[1])
		}
		if got := Float(f); got != word[2] {
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
		if got := string(AppendJSONString(nil, string(b), true)); got != want {
			t.Errorf("json of %q = %s, Python says %s", b, got, want)
		}
	}
}

// FuzzString holds that any string becomes ASCII that JSON readers read back.
func FuzzString(f *testing.F) {
	f.Add("a\"\\\n\x7fé😀")
	f.Add("\xff\xed\xa0\x80")
	f.Fuzz(func(t *testing.T, s string) {
		out := AppendJSONString(nil, s, true)
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
		s := Float(x)
		back, err := strconv.ParseFloat(s, 64)
		if err != nil || (back != x && !math.IsNaN(x)) {
			t.Fatalf("%v printed as %s reads as %v (%v)", x, s, back, err)
		}
		if !strings.ContainsAny(s, ".en") {
			t.Fatalf("%s looks like an integer", s)
		}
	})
}

func TestPythonRepr(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0.0", 1: "1.0", 0.1: "0.1", 1e15: "1000000000000000.0", 1e16: "1e+16", 1e-5: "1e-05", 0.0001: "0.0001", 123456.789: "123456.789",
		math.Inf(-1): "-inf", 1.5e300: "1.5e+300", -2: "-2.0",
	} {
		if got := Float(f); got != want {
			t.Errorf("Float(%g) = %s, want %s", f, got, want)
		}
	}
	for s, want := range map[string]string{
		"a": "'a'", "it's": `"it's"`, `both ' and "`: `'both \' and "'`, "a\nb\\": `'a\nb\\'`, "é": "'é'", "\x00\x7f": `'\x00\x7f'`, "\u200b": `'\u200b'`, "a\xff": `'a\udcff'`, "\ufffd": "'\ufffd'", "\U000e0001": `'\U000e0001'`,
	} {
		if got := Quote(s); got != want {
			t.Errorf("Quote(%q) = %s, want %s", s, got, want)
		}
	}
}

package protocol

import (
	"encoding/json"
	"strings"
	"testing"
)

func FuzzAppendString(f *testing.F) {
	f.Add("a\"\\\x00é\xff\u2028")
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		if err := json.Unmarshal(appendString(nil, s), &back); err != nil {
			t.Fatal(err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); back != replaceEach(s) && back != want {
			t.Fatalf("%q came back as %q", s, back)
		}
	})
}

// replaceEach replaces every invalid byte by its own U+FFFD, which is what encoding/json does.
func replaceEach(s string) string { return string([]rune(s)) }

package explain

import (
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	causes := []Cause{
		{
			Name: KVCacheFull, Kind: Limit, Confidence: High, Sentence: "The KV cache was full: " + strings.Repeat("word ", 20) + "end.",
			Evidence: []Evidence{{"moments", 0.275, "share", "the log"}, {"waiting", 36, "requests", "the log"}, {"ratio", 1.2345, "", "the records"}},
			Try:      []string{"more cache"},
		},
		{Name: CannotTell, Kind: Unknown, Sentence: "Not told.", Needs: []string{"a log"}},
	}
	var out strings.Builder
	if err := Write(&out, causes); err != nil {
		t.Fatal(err)
	}
	want := `kv-cache-full (high confidence): The KV cache was full: word word word word word word word word word
  word word word word word word word word word word word end.
  - moments: 27.5 %, by the log
  - waiting: 36 requests, by the log
  - ratio: 1.23, by the records
  try: more cache

cannot-tell: Not told.
  needed to be sure: a log
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.0123456: "0.0123", 3: "3", 99.95: "100", 1234.5: "1234", -0.5: "-0.5"} {
		if got := Number(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

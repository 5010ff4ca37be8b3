package recorder

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"spate/internal/call"
)

// TestDecodeNamesWhatCannotBe puts values at the edges of what fits a line into every number of a record:
// the line is refused with the name of the field, and nothing is computed from it.
func TestDecodeNamesWhatCannotBe(t *testing.T) {
	times := []string{
		"due_ns", "dispatched_ns", "started_ns", "sent_ns", "first_byte_ns", "headers_ns", "first_token_ns",
		"first_text_ns", "last_token_ns", "last_event_ns", "end_ns", "dial_ns", "handshake_ns", "audio_ns", "retry_wait_ns",
	}
	counts := []string{"id", "attempt", "turn", "target", "asked_out", "inputs", "claimed", "bytes_in"}
	edges := []int64{math.MinInt64, math.MinInt64 + 1, -2, math.MaxInt64}
	for _, name := range append(times, counts...) {
		for _, n := range edges {
			if name == "bytes_in" && n > 0 {
				continue
			}
			line := fmt.Sprintf(`{"id":1,"outcome":"ok","%s":%d}`, name, n)
			if _, err := Decode([]byte(line)); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: error %v, want one that names it", line, err)
			}
		}
	}
	for _, name := range []string{"asked", "in", "out", "cached", "reason", "tool_out"} {
		line := fmt.Sprintf(`{"id":1,"outcome":"ok","%s":{"n":%d}}`, name, int64(math.MaxInt32)+1)
		if _, err := Decode([]byte(line)); err == nil || !strings.Contains(err.Error(), name+".n") {
			t.Errorf("%s: error %v, want one that names it", line, err)
		}
	}
	for _, at := range edges {
		line := fmt.Sprintf(`{"id":1,"outcome":"ok","chunk_ns":[5,%d]}`, at)
		if _, err := Decode([]byte(line)); err == nil || !strings.Contains(err.Error(), "chunk 1") {
			t.Errorf("%s: error %v, want one that names the chunk", line, err)
		}
	}
}

// TestDecodeDoubts reads a line that an earlier release wrote about a server that made its count up.
func TestDecodeDoubts(t *testing.T) {
	line := `{"id":1,"outcome":"ok","asked_out":16,"bytes_in":700,"chunk_ns":[1000,2000,3000],"out":{"n":2147483647,"from":"server"}}`
	r, err := Decode([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	if r.Out != (call.Count{}) || r.Claimed != math.MaxInt32 || r.Chunks[2].At != 3*time.Microsecond {
		t.Errorf("out %+v, claimed %d: want the count set aside", r.Out, r.Claimed)
	}
	fair := strings.Replace(line, "2147483647", "700", 1)
	if r, err = Decode([]byte(fair)); err != nil || r.Out.N != 700 || r.Claimed != 0 {
		t.Errorf("a count that can be is %+v, claimed %d, %v", r.Out, r.Claimed, err)
	}
}

package explain

import (
	"os"
	"strings"
	"testing"

	"spate/internal/host/observe"
)

// A share below one half is no evidence for "most".
func TestPrefillSentenceSaysWhatTheFigureIs(t *testing.T) {
	in := &Input{ITL: Latency{Median: 5, P99: 30}, Server: &observe.ServerSide{
		Queue: &observe.Time{MeanMS: 10}, Prefill: &observe.Time{MeanMS: 24}, Decode: &observe.Time{MeanMS: 66},
	}}
	c := prefillBound(in)
	if c == nil || !strings.HasPrefix(c.Sentence, "34 % of a request's time passed before its first token") || strings.Contains(c.Sentence, "most") {
		t.Errorf("%+v", c)
	}
}

// README shows the demo, which sends 25 requests per second.
func TestReadmeShowsTheSentence(t *testing.T) {
	raw, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	c := belowCapacity(&Input{Rate: 25, RequestRate: 25})
	if c == nil || !strings.Contains(strings.Join(strings.Fields(string(raw)), " "), c.Sentence) {
		t.Errorf("README.md does not show %+v", c)
	}
}

package chart

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"image/png"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
)

const ms = time.Millisecond

func sample() []call.Record {
	late := call.Record{
		Name: "late", Phase: call.Measure, Sent: 30 * ms, In: call.Count{N: 5}, Out: call.Count{N: 3}, End: 75 * ms,
		Chunks: []call.Chunk{{At: 50 * ms}, {At: 60 * ms}, {At: 75 * ms}},
	}
	early := call.Record{Name: "</script>", Phase: call.Measure, Sent: 10 * ms, End: 25 * ms, Fault: call.FaultCut}
	warm := call.Record{Phase: call.Warmup, Sent: 1 * ms}
	never := call.Record{Phase: call.Measure, Sent: call.Unset}
	retried := call.Record{Phase: call.Measure, Sent: 2 * ms, Retried: true}
	return []call.Record{late, early, warm, never, retried}
}

func TestTimelineBars(t *testing.T) {
	want := []bar{
		{Name: "</script>", Start: 0, First: 15, Gaps: []float64{}, Fault: "truncated"},
		{Name: "late", Start: 20, First: 20, Gaps: []float64{10, 15}, In: 5, Out: 3},
	}
	if d := cmp.Diff(want, timelineBars(sample())); d != "" {
		t.Errorf("bars (-want +got):\n%s", d)
	}
}

func TestTimelinePageStandsAlone(t *testing.T) {
	var b bytes.Buffer
	if err := Timeline(&b, "run <1>", sample(), [2]float64{25, 50}); err != nil {
		t.Fatal(err)
	}
	html := b.String()
	if n := strings.Count(html, "</script>"); n != 1 || strings.Contains(html, "%!") {
		t.Errorf("%d script ends: a request's name can break out of the data", n)
	}
	if regexp.MustCompile(`(src|href)=|https?://`).MatchString(html) {
		t.Error("the page refers to something outside itself")
	}
	data := regexp.MustCompile(`const bars = (.*), low`).FindStringSubmatch(html)
	if data == nil {
		t.Fatal("no data in the page")
	}
	var bars []bar
	if err := json.Unmarshal([]byte(data[1]), &bars); err != nil || len(bars) != 2 {
		t.Errorf("%d bars, %v", len(bars), err)
	}
	if !strings.Contains(html, "run &lt;1&gt;") {
		t.Error("the title is not escaped")
	}
}

func TestHistogram(t *testing.T) {
	counts, low, width := histogram([]int{10, 10, 11, 14})
	if d := cmp.Diff([]int{2, 1, 0, 0, 1}, counts); d != "" || low != 10 || width != 1 {
		t.Errorf("low %d width %d (-want +got):\n%s", low, width, d)
	}
	counts, _, width = histogram([]int{0, 1000})
	total := 0
	for _, n := range counts {
		total += n
	}
	if len(counts) > bins || width*len(counts) < 1001 || total != 2 {
		t.Errorf("%d bins of %d hold %d", len(counts), width, total)
	}
}

func TestLengthsIsAPicture(t *testing.T) {
	for _, in := range [][]int{nil, {7}, {1, 500, 500, 1000}} {
		var b bytes.Buffer
		if err := Lengths(&b, in, []int{3, 3}); err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(&b)
		if err != nil {
			t.Fatal(err)
		}
		blue := 0
		for x := range img.Bounds().Dx() / 2 {
			for y := range img.Bounds().Dy() {
				if r, _, bl, _ := img.At(x, y).RGBA(); bl > 0xc000 && r < 0x5000 {
					blue++
				}
			}
		}
		if (blue > 0) != (len(in) > 0) {
			t.Errorf("%d values drew %d pixels of bars", len(in), blue)
		}
	}
}

// TestTimelineMayDoNothingElse holds that the page runs its own script and style sheet and nothing that a name brings in.
func TestTimelineMayDoNothingElse(t *testing.T) {
	recs := []call.Record{{Name: `</script><script>alert(1)</script>`, Phase: call.Measure, Outcome: call.OK}}
	var b bytes.Buffer
	if err := Timeline(&b, `<img src=x onerror=alert(1)>`, recs, [2]float64{25, 50}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	if policy == nil {
		t.Fatal("the page has no policy")
	}
	text := strings.NewReplacer("&#39;", "'", "&#43;", "+").Replace(policy[1])
	for tag, directive := range map[string]string{"script": "script-src", "style": "style-src"} {
		m := regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`+tag+`>`).FindAllStringSubmatch(page, -1)
		if len(m) != 1 {
			t.Fatalf("%d elements %s", len(m), tag)
		}
		sum := sha256.Sum256([]byte(m[0][1]))
		if want := directive + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(text, want) {
			t.Errorf("policy %q lacks %q", text, want)
		}
	}
	if !strings.HasPrefix(text, "default-src 'none';") || strings.Contains(page, "style=") || strings.Contains(page, "<img") {
		t.Errorf("policy %q, page %.200s", text, page)
	}
}

package workload

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image/jpeg"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/load/lengths"
	"spate/internal/load/media"
	"spate/internal/rng"
)

// TestRankedEqualsVLLM holds queries and documents against vLLM's rules run with NumPy 2.4: first token and
// length of every text, and the length of each request.
func TestRankedEqualsVLLM(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"reranker", Config{N: 5, Input: 20, Batch: 2, Ratio: lengths.Ratio{Input: 0.3, Output: 0.3}}, rankedGolden},
		{"none", Config{N: 5, Input: 20, Batch: 3, NoReranker: true}, embeddedGolden},
	} {
		c.cfg.Dataset, c.cfg.Seed = "random-rerank", 7
		got, _ := requests(t, c.cfg, flat{1000}, nil)
		var all []string
		for _, r := range got {
			var parts []string
			for _, text := range r.Prompt.Texts {
				ids := flat{1000}.Encode(nil, text, false)
				parts = append(parts, fmt.Sprintf("[%d, %d]", ids[0], len(ids)))
			}
			all = append(all, fmt.Sprintf("[[%s], %d]", strings.Join(parts, ", "), r.In.N))
			if r.MaxOut != 0 || r.In.From != call.FromTokenizer {
				t.Errorf("%s: %+v", c.name, r)
			}
		}
		if s := "[" + strings.Join(all, ", ") + "]"; s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
	for _, cfg := range []Config{{N: 5, Input: 3}, {N: 1, Input: 20, NoReranker: true}} {
		cfg.Dataset = "random-rerank"
		if _, err := New(cfg, nil, nil); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}

const (
	rankedGolden   = `[[[[627, 12], [228, 8], [59, 10]], 44], [[[627, 12], [305, 8], [291, 9]], 43], [[[627, 12], [880, 9]], 22]]`
	embeddedGolden = `[[[[946, 20], [628, 20], [688, 20]], 60], [[[946, 20], [902, 20], [584, 20]], 60]]`
)

func TestBatches(t *testing.T) {
	cfg := Config{Dataset: "random", N: 7, Input: 9, Output: 3, Batch: 3, Seed: 2}
	got, _ := requests(t, cfg, flat{1000}, nil)
	cfg.Batch = 1
	single, _ := requests(t, cfg, flat{1000}, nil)
	var flatten []string
	var sizes []int
	for _, r := range got {
		sizes = append(sizes, len(r.Prompt.Texts), r.In.N, r.MaxOut)
		flatten = append(flatten, r.Prompt.Texts...)
	}
	if d := cmp.Diff(texts(single), flatten); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]int{3, 27, 0, 3, 27, 0, 1, 9, 0}, sizes); d != "" {
		t.Error(d)
	}
}

func TestDistributions(t *testing.T) {
	open, _ := files(map[string]string{"lens": "[10, 20\n20 30]", "bad": "10 x", "none": ""})
	const n = 20000
	stats := func(d lengths.Dist) (mean, std, low, high float64) {
		if err := lengths.Load(&d, open); err != nil {
			t.Fatal(err)
		}
		r := rng.New(1, d.Law)
		sum, squares := 0.0, 0.0
		low, high = math.Inf(1), 0
		for range n {
			v := float64(d.Length(r))
			sum, squares, low, high = sum+v, squares+v*v, min(low, v), max(high, v)
		}
		mean = sum / n
		return mean, math.Sqrt(squares/n - mean*mean), low, high
	}
	for text, want := range map[string][4]float64{ // mean, standard deviation, least, most
		"512":                {512, 0, 512, 512},
		"uniform(100,200)":   {150, 29.15, 100, 200},
		"normal(480, 40)":    {480, 40, 300, 660},
		"lognormal(480,240)": {480, 240, 20, 4000},
		"exponential(300)":   {300, 300, 1, 4500},
		"empirical(lens)":    {20, 7.07, 10, 30},
	} {
		d, err := lengths.ParseDist(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		mean, std, low, high := stats(d)
		if math.Abs(mean-want[0]) > 0.02*want[0] || math.Abs(std-want[1]) > 0.05*want[1] || low < want[2] || high > want[3] {
			t.Errorf("%s: mean %.1f, deviation %.1f, from %v to %v; want %v", text, mean, std, low, high, want)
		}
		if back, err := lengths.ParseDist(d.String()); err != nil || back.String() != d.String() {
			t.Errorf("%s became %s, %v", text, d, err)
		}
	}
	for text, want := range map[string]string{
		"": "neither a number", "-5": "not a length", "nan": "not a length", "norml(1,2)": `did you mean "normal"?`, "normal(1)": "takes 2 numbers", "normal(a,2)": "not a number",
		"uniform(5,2)": "ends before", "empirical()": "empirical(lengths.txt)", "normal(1,2": "neither", "exponential(0)": "above 0",
	} {
		if _, err := lengths.ParseDist(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, name := range []string{"bad", "none", "gone"} {
		if _, err := New(Config{Dataset: "random", N: 1, Input: 1, Output: 1, InDist: lengths.Dist{Law: "empirical", File: name}, Open: open}, nil, nil); err == nil {
			t.Errorf("lengths of %s were taken", name)
		}
	}
}

func TestLengthsAreSpread(t *testing.T) {
	joint, err := lengths.ParseBuckets("128,64:25; 512,128:75")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Dataset: "random", N: 4000, Input: 9, Output: 1, Joint: joint, IDs: true, Seed: 3}
	got, _ := requests(t, cfg, flat{1000}, nil)
	pairs := map[[2]int]int{}
	for _, r := range got {
		pairs[[2]int{len(r.Prompt.IDs), r.MaxOut}]++
	}
	if n := pairs[[2]int{128, 64}]; len(pairs) != 2 || n < 900 || n > 1100 || pairs[[2]int{512, 128}] != 4000-n {
		t.Errorf("%v", pairs)
	}
	cfg.Joint, cfg.InDist, cfg.OutDist, cfg.N = nil, lengths.Dist{Law: "uniform", A: 10, B: 12}, lengths.Dist{Law: "constant", A: 7}, 100
	got, _ = requests(t, cfg, &letters{}, nil)
	for _, r := range got { // one token is left to the server
		if r.In.N < 9 || r.In.N > 11 || r.MaxOut != 7 {
			t.Errorf("%d tokens, %d wanted", r.In.N, r.MaxOut)
		}
	}
	for _, text := range []string{"", "128:25", "128,64:0", "128,64:x", "a,64:1", "128|-1,64:1", "0,64:1"} {
		if _, err := lengths.ParseBuckets(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// parted is a chat message with parts.
type parted struct {
	Role    string
	Content []struct {
		Type     string
		Text     string
		ImageURL struct{ URL string }          `json:"image_url"`
		Audio    struct{ Data, Format string } `json:"input_audio"`
	}
}

func messageOf(t *testing.T, r call.Request) parted {
	t.Helper()
	var m []parted
	if err := json.Unmarshal(r.Prompt.Messages, &m); err != nil || len(m) != 1 || m[0].Role != "user" || r.Prompt.Text != "" {
		t.Fatalf("%.200s: %v", r.Prompt.Messages, err)
	}
	return m[0]
}

func TestPictures(t *testing.T) {
	sizes, err := media.ParseSizes("{(16, 24, 1): 0.5, (9, 7, 1): 0.5, (720, 1280, 16): 0.0}")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Dataset: "random-mm", N: 16, Input: 5, Output: 2, Chat: true, Media: Media{Items: 2, Ratio: 0.5, Limit: 3, Sizes: sizes}}
	got, _ := requests(t, cfg, flat{1000}, nil)
	counts, kinds, seen := map[int]int{}, map[string]int{}, map[string]bool{}
	for _, r := range got {
		m := messageOf(t, r)
		if m.Content[0].Type != "text" || len(m.Content[0].Text) != 25 || r.In.N != 5 {
			t.Fatalf("%+v", m)
		}
		counts[len(m.Content)-1]++
		for _, p := range m.Content[1:] {
			data, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.ImageURL.URL, "data:image/jpeg;base64,"))
			if err != nil {
				t.Fatal(err)
			}
			img, err := jpeg.DecodeConfig(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			kinds[fmt.Sprint(img.Height, "x", img.Width)]++
			seen[p.ImageURL.URL] = true
		}
	}
	total := counts[1] + 2*counts[2] + 3*counts[3]
	if len(counts) != 3 || len(kinds) != 2 || kinds["16x24"] == 0 || kinds["9x7"] == 0 || len(seen) != total {
		t.Errorf("%v pictures, sizes %v, %d different of %d", counts, kinds, len(seen), total)
	}
	again, _ := requests(t, cfg, flat{1000}, nil)
	if d := cmp.Diff(got, again); d != "" {
		t.Error("the same seed gives other pictures")
	}
	for want, change := range map[string]func(*Config){
		"openai-chat": func(c *Config) { c.Chat = false },
		"share above": func(c *Config) { c.Media.Sizes = nil },
	} {
		bad := cfg
		change(&bad)
		if _, err := New(bad, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, text := range []string{"", "{(1,2): 1}", "{(1,2,3)}", "{(0,2,3): 1}", "{(1,2,3): x}", "(1,2,3): 1", "{(1,2,3): -1}"} {
		if _, err := media.ParseSizes(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func wav(seconds float64) string {
	b := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00")
	b = binary.LittleEndian.AppendUint32(b, 8000)
	b = binary.LittleEndian.AppendUint32(b, 16000)
	b = append(b, 2, 0, 16, 0)
	n := int(seconds * 16000)
	b = append(append(b, "data"...), binary.LittleEndian.AppendUint32(nil, uint32(n))...)
	return string(append(b, make([]byte, n)...))
}

func TestAlbums(t *testing.T) {
	open, _ := files(map[string]string{
		"d/i.jsonl": `{"prompt": "acegi", "image_files": ["a.png", "http://x/b.jpg"]}` + "\n" +
			`{"content": [{"type": "image", "image": "a.png"}, {"type": "text", "text": "ace"}, {"type": "image_url", "image_url": {"url": "file:///d/a.png"}}]}`,
		"d/a.png": smallPNG, "/d/a.png": smallPNG, "d/lie.png": "root:x:0:0", "d/lie.jsonl": `{"prompt": "ace", "image_files": ["lie.png"]}`,
		"d/s.jsonl": `{"prompt": "", "audio": "s.wav", "output_tokens": 9}`, "d/s.wav": wav(1.5),
	})
	cfg := Config{Dataset: "custom_mm", Path: "d/i.jsonl", Open: open, Chat: true, Output: 4, NoShuffle: true}
	urls := func(cfg Config) (all [][]string) {
		got, _ := requests(t, cfg, &letters{}, nil)
		for _, r := range got {
			var one []string
			for _, p := range messageOf(t, r).Content {
				one = append(one, p.Text+p.ImageURL.URL)
			}
			all = append(all, append(one, fmt.Sprint(r.In.N, r.MaxOut)))
		}
		return all
	}
	if d := cmp.Diff([][]string{{"acegi", "file://a.png", "http://x/b.jpg", "6 4"}, {"file://a.png", "ace", "file:///d/a.png", "4 4"}}, urls(cfg)); d != "" {
		t.Error(d)
	}
	cfg.Media.Inline = true
	png := "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(smallPNG))
	if d := cmp.Diff([][]string{{"acegi", png, "http://x/b.jpg", "6 4"}, {png, "ace", png, "4 4"}}, urls(cfg)); d != "" {
		t.Error(d)
	}
	lie := cfg
	lie.Path, lie.Media.Open = "d/lie.jsonl", beside(open, "d/lie.jsonl")
	s, err := New(lie, &letters{}, nil)
	if err == nil {
		s.Start(context.Background())
		_, err = s.Next(context.Background())
		_ = s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "by its content it is no image") {
		t.Errorf("a file that is no image: %v", err)
	}
	cfg.Dataset, cfg.Path, cfg.Output = "custom_audio", "d/s.jsonl", FromData
	got, _ := requests(t, cfg, nil, nil)
	if m := messageOf(t, got[0]); m.Content[1].Type != "input_audio" || m.Content[1].Audio.Format != "wav" || got[0].MaxOut != 9 {
		t.Errorf("%+v", m)
	}
	cfg.Chat, cfg.Speech = false, true
	got, _ = requests(t, cfg, nil, nil)
	if a := got[0].Prompt.Audio; a == nil || a.Name != "s.wav" || a.Seconds != 1.5 || len(a.Data) != 24044 {
		t.Errorf("%+v", a)
	}
	for want, change := range map[string]func(*Config){
		"such a backend": func(c *Config) { c.Speech = false },
		"not images":     func(c *Config) { c.Dataset = "custom_image" },
		`no "audio"`:     func(c *Config) { c.Path = "d/i.jsonl" },
		"neither":        func(c *Config) { c.Dataset, c.Speech, c.Chat, c.Path = "custom_image", false, true, "d/s.jsonl" },
	} {
		bad := cfg
		change(&bad)
		if _, err := New(bad, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func FuzzParseLengths(f *testing.F) {
	for _, s := range []string{"normal(480,240)", "128,64:25;512,128:75", "128|3,64|4:1", "{(256, 256, 1): 0.5}", "empirical(x)", "lognormal(1,0)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := lengths.ParseDist(s); err == nil && d.Law != "empirical" {
			if n := d.Length(rng.New(0, "x")); n < 1 || n > lengths.MaxLength {
				t.Fatalf("%q gave %d", s, n)
			}
		}
		if bs, err := lengths.ParseBuckets(s); err == nil && len(bs) == 0 {
			t.Fatalf("%q gave no lengths", s)
		}
		sizes, _ := media.ParseSizes(s)
		for _, p := range sizes {
			if p.Height < 1 || p.Width < 1 || p.Frames < 1 || p.Share < 0 {
				t.Fatalf("%q gave %+v", s, p)
			}
		}
	})
}

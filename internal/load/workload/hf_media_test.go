package workload

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image/png"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/load/media"
)

const (
	smallPNG = "\x89PNG\r\n\x1a\nrest"
	smallMP4 = "\x00\x00\x00\x18ftypisomrest"
)

// quoted is a text as JSON has it, bytes that are no text included.
func quoted(s string) string {
	b, _ := json.Marshal(base64.StdEncoding.EncodeToString([]byte(s)))
	return string(b)
}

// parts shows the content of a message.
func parts(raw json.RawMessage) string {
	var m []struct {
		Content []struct {
			Type, Text string
			ImageURL   struct{ URL string }          `json:"image_url"`
			VideoURL   struct{ URL string }          `json:"video_url"`
			Audio      struct{ Data, Format string } `json:"input_audio"`
		}
	}
	if err := json.Unmarshal(raw, &m); err != nil || len(m) != 1 {
		return fmt.Sprintf("%s: %v", raw, err)
	}
	var out []string
	for _, p := range m[0].Content {
		out = append(out, strings.TrimSpace(p.Type+" "+p.Text+p.ImageURL.URL+p.VideoURL.URL+p.Audio.Format+" "+p.Audio.Data))
	}
	return strings.Join(out, " | ")
}

func TestHubMediaRules(t *testing.T) {
	png64 := base64.StdEncoding.EncodeToString([]byte(smallPNG))
	mp464 := base64.StdEncoding.EncodeToString([]byte(smallMP4))
	sound := wav(1)
	sound64 := base64.StdEncoding.EncodeToString([]byte(sound))
	open := onDisk(map[string]string{
		"arena.jsonl":   `{"conversation": [[{"role": "user", "content": "what is it"}], [{"role": "assistant", "content": "a cat"}]], "images": [` + quoted(smallPNG) + `, "http://x/second.png"]}`,
		"bench.jsonl":   `{"turns": [[{"role": "user", "content": "and this"}]], "images": [{"bytes": null, "path": "pics/a.png"}]}`,
		"pics/a.png":    smallPNG,
		"mmvu.jsonl":    `{"question": "which one", "choices": {"B": "two", "A": "one", "C": null}, "video": "clips/v.mp4"}`,
		"clips/v.mp4":   smallMP4,
		"mmvu2.jsonl":   `{"question": "which one", "choices": {}, "video": "https://x/v.mp4"}`,
		"star.jsonl":    `{"question": "what colour Options: A: red, B: blue", "image": ` + quoted(smallPNG) + `}`,
		"llava.jsonl":   `{"conversations": [{"from": "human", "value": "acegik"}, {"from": "gpt", "value": "acegi"}], "image": ` + quoted(smallPNG) + `}`,
		"own.jsonl":     `{"prompt": "look", "image": ` + quoted(smallPNG) + `}`,
		"speech.jsonl":  `{"text": "it was so", "audio": ` + quoted(sound) + `}`,
		"samples.jsonl": `{"audio": {"array": [0, 0.5, -1, 2], "sampling_rate": 4}}`,
	})
	picture, video := "image_url data:image/png;base64,"+png64, "video_url data:video/mp4;base64,"+mp464
	for _, c := range []struct {
		path, id string
		want     string
		out      int
	}{
		{"arena.jsonl", "lmarena-ai/VisionArena-Chat", "text what is it | " + picture, 128},
		{"bench.jsonl", "lmarena-ai/vision-arena-bench-v0.1", "text and this | " + picture, 128},
		{"mmvu.jsonl", "yale-nlp/MMVU", "text which one A.one B.two | " + video, 128},
		{"mmvu2.jsonl", "yale-nlp/MMVU", "text which one | video_url https://x/v.mp4", 128},
		{"star.jsonl", "Lin-Chen/MMStar", "text what colour | " + picture, 128},
		{"llava.jsonl", "lmms-lab/LLaVA-OneVision-Data", "text acegik | " + picture, 6},
		{"own.jsonl", "", "text look | " + picture, 256},
		{"speech.jsonl", "openslr/librispeech_asr", "text | input_audio wav " + sound64, 1024},
	} {
		cfg := Config{Dataset: "hf", Path: c.path, Open: open, Chat: true, HF: HF{Name: c.id}}
		got, notes := requests(t, cfg, &letters{}, nil)
		if len(got) != 1 || parts(got[0].Prompt.Messages) != c.want || got[0].MaxOut != c.out {
			t.Errorf("%s: %+v, want %s; notes %q", c.path, got, c.want, notes)
		}
	}
	cfg := Config{Dataset: "hf", Open: open, Speech: true, HF: HF{Name: "facebook/voxpopuli"}}
	for path, seconds := range map[string]float64{"speech.jsonl": 1, "samples.jsonl": 1} {
		cfg.Path = path
		got, _ := requests(t, cfg, nil, nil)
		if a := got[0].Prompt.Audio; len(got) != 1 || a == nil || a.Name != "audio.wav" || a.Seconds != seconds || got[0].MaxOut != 1024 {
			t.Errorf("%s: %+v", path, a)
		}
	}
	cfg.HF = HF{} // found by its column
	if got, notes := requests(t, cfg, nil, nil); got[0].Prompt.Audio == nil || !strings.Contains(fmt.Sprint(notes), `"audio"`) {
		t.Errorf("%+v, %q", got, notes)
	}
	cfg = Config{Dataset: "hf", Path: "own.jsonl", Open: open}
	if got, notes := requests(t, cfg, nil, nil); got[0].Prompt.Text != "look" || !strings.Contains(fmt.Sprint(notes), `"image" is left out`) {
		t.Errorf("%+v, %q", got, notes)
	}
}

// TestHubPictures reads images as the Hugging Face library saves them.
func TestHubPictures(t *testing.T) {
	got, _ := requests(t, Config{Dataset: "hf", Path: "pictures", Open: saved(t), Chat: true, NoShuffle: true, HF: HF{Name: "Lin-Chen/MMStar"}}, nil, nil)
	if len(got) != 2 {
		t.Fatalf("%d requests", len(got))
	}
	for i, want := range []string{"text what is it?", "text and this?"} {
		words := strings.SplitN(parts(got[i].Prompt.Messages), " | image_url data:image/png;base64,", 2)
		data, err := base64.StdEncoding.DecodeString(words[len(words)-1])
		if err != nil || words[0] != want {
			t.Fatalf("%q, %v", words, err)
		}
		if img, err := png.DecodeConfig(bytes.NewReader(data)); err != nil || img.Width != 4 || img.Height != 3 {
			t.Errorf("%+v, %v", img, err)
		}
	}
}

func TestHubMediaRefused(t *testing.T) {
	open := onDisk(map[string]string{
		"p.jsonl": `{"question": "x", "image": "gone.png"}`, "s.jsonl": `{"audio": "http://x/a.wav"}`, "t.jsonl": `{"prompt": "x"}`,
		"r.jsonl": `{"audio": {"array": [0.5]}}`, "l.jsonl": `{"question": "x", "image": "` + strings.Repeat("?", 2000) + `"}`, "n.jsonl": `{"question": "x", "image": 7}`,
	})
	for _, c := range []struct {
		path string
		cfg  Config
		want string
	}{
		{"p.jsonl", Config{HF: HF{Name: "Lin-Chen/MMStar"}}, "openai-chat"},
		{"p.jsonl", Config{Chat: true, HF: HF{Name: "Lin-Chen/MMStar"}}, "gone.png"},
		{"l.jsonl", Config{Chat: true, HF: HF{Name: "Lin-Chen/MMStar"}}, "neither"},
		{"n.jsonl", Config{Chat: true, HF: HF{Name: "Lin-Chen/MMStar"}}, "is no image"},
		{"s.jsonl", Config{HF: HF{Name: "LIUM/tedlium"}}, "openai-audio"},
		{"s.jsonl", Config{Speech: true, HF: HF{Name: "LIUM/tedlium"}}, "downloads nothing"},
		{"r.jsonl", Config{Speech: true, HF: HF{Name: "LIUM/tedlium"}}, "without its sampling rate"},
		{"t.jsonl", Config{Speech: true, HF: HF{Name: "LIUM/tedlium"}}, `no "audio"`},
		{"t.jsonl", Config{Speech: true}, "takes recordings"},
		{"p.jsonl", Config{Speech: true, HF: HF{Name: "Lin-Chen/MMStar"}}, "MMStar has images or videos"},
	} {
		c.cfg.Dataset, c.cfg.Path, c.cfg.Open, c.cfg.N = "hf", c.path, open, 1
		s, err := New(c.cfg, nil, nil)
		if err == nil {
			_, err = s.Next(t.Context())
			if e := s.Close(); e != nil {
				t.Fatal(e)
			}
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
}

// TestRecordingsByLength leaves out what is too short or too long, as far as a file says how long it is.
func TestRecordingsByLength(t *testing.T) {
	flac := append([]byte("fLaC\x80\x00\x00\x22"), make([]byte, 34)...)
	binary.BigEndian.PutUint64(flac[18:], 16000<<44|1<<41|15<<36|40000) // 2.5 s
	if s := media.Seconds(flac); s != 2.5 {
		t.Fatalf("%v s", s)
	}
	rows := ""
	for _, s := range []string{wav(0.5), wav(3), string(flac), "OggS unknown"} {
		rows += `{"audio": ` + quoted(s) + "}\n"
	}
	cfg := Config{Dataset: "hf", Path: "a.jsonl", Open: onDisk(map[string]string{"a.jsonl": rows}), Speech: true, NoShuffle: true, HF: HF{Name: "kensho/spgispeech", MinSeconds: 1, MaxSeconds: 2.6}}
	got, _ := requests(t, cfg, nil, nil)
	var names []string
	for _, r := range got {
		names = append(names, r.Prompt.Audio.Name)
	}
	if d := cmp.Diff([]string{"audio.flac", "audio.ogg"}, names); d != "" {
		t.Error(d)
	}
}

// TestRecordingFilesByLength does the same with files that rows name: their heads say how long they are.
func TestRecordingFilesByLength(t *testing.T) {
	tree := map[string]string{"d/short.wav": wav(0.5), "d/fine.wav": wav(2), "d/long.wav": wav(10), "d/some.ogg": "OggS unknown"}
	rows := func(names ...string) (text string) {
		for _, n := range names {
			text += fmt.Sprintf("{\"audio\": {\"bytes\": null, \"path\": %q}}\n", n)
		}
		return text
	}
	tree["d/known.jsonl"] = rows("short.wav", "fine.wav", "file://d/long.wav")
	tree["d/unknown.jsonl"] = rows("some.ogg", "long.wav")
	for _, c := range []struct {
		path, id string
		max      float64
		want     []float64
		note     bool
	}{
		{"d/known.jsonl", "kensho/spgispeech", 3, []float64{2}, false},
		{"d/known.jsonl", "", 3, []float64{2}, false}, // found by its column
		{"d/known.jsonl", "kensho/spgispeech", 0, []float64{2, 10}, false},
		{"d/unknown.jsonl", "kensho/spgispeech", 3, []float64{0}, true},
	} {
		cfg := Config{Dataset: "hf", Path: c.path, Open: onDisk(tree), Speech: true, NoShuffle: true, HF: HF{Name: c.id, MinSeconds: 1, MaxSeconds: c.max}}
		got, notes := requests(t, cfg, nil, nil)
		var seconds []float64
		for _, r := range got {
			seconds = append(seconds, r.Prompt.Audio.Seconds)
		}
		if d := cmp.Diff(c.want, seconds); d != "" {
			t.Errorf("%s, at most %v s: %s", c.path, c.max, d)
		}
		if has := strings.Contains(fmt.Sprint(notes), "do not say how long they are"); has != c.note {
			t.Errorf("%s: notes %q", c.path, notes)
		}
	}
}

// TestVideos: a request has at most as many of each kind as it may.
func TestVideos(t *testing.T) {
	cfg := Config{Dataset: "random-mm", N: 20, Input: 3, Output: 2, Chat: true, Media: Media{Items: 3, Limit: 9, Videos: 1, Sizes: []media.Size{{Height: 8, Width: 8, Frames: 1, Share: 0.5}, {Height: 8, Width: 8, Frames: 2, Share: 0.5}}}}
	got, notes := requests(t, cfg, flat{1000}, nil)
	most := 0
	for _, r := range got {
		p := parts(r.Prompt.Messages)
		videos, images := strings.Count(p, "video_url data:video/x-msvideo;base64,"), strings.Count(p, "image_url data:image/jpeg")
		if videos+images != 3 || videos > 1 {
			t.Errorf("%d videos and %d images", videos, images)
		}
		most = max(most, videos)
	}
	if most != 1 || !strings.Contains(fmt.Sprint(notes), "Motion JPEG") {
		t.Errorf("at most %d videos; notes %q", most, notes)
	}
	cfg.Media.Sizes = []media.Size{{Height: 8, Width: 8, Frames: 2, Share: 1}}
	for _, r := range first(requests(t, cfg, flat{1000}, nil)) {
		if n := strings.Count(parts(r.Prompt.Messages), "video_url"); n != 1 {
			t.Errorf("%d videos where one is allowed", n)
		}
	}
}

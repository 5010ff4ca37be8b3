package workload

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"spate/internal/call"
	"spate/internal/load/media"
	"spate/internal/load/rows"
)

// hubMediaRules are the datasets vLLM has classes for that hold more than text.
var hubMediaRules = []hubRule{
	{
		name: "MultiModalConversation", ids: []string{"lmms-lab/LLaVA-OneVision-Data"}, output: FromData, check: usualLengths, media: true,
		read: func(r rows.Row, _ *HF) (candidate, bool, error) {
			turns := said(r["conversations"])
			if len(turns) < 2 {
				return candidate{}, false, nil
			}
			m, err := media.Column("image", r["image"])
			return candidate{prompt: turns[0], answer: turns[1], media: m}, true, err
		},
	},
	{
		name: "VisionArena", ids: []string{"lmarena-ai/VisionArena-Chat", "lmarena-ai/vision-arena-bench-v0.1"}, split: "train", output: 128, media: true,
		read: func(r rows.Row, _ *HF) (candidate, bool, error) {
			turns := firstSaid(r["conversation"])
			if len(turns) == 0 {
				turns = firstSaid(r["turns"])
			}
			if len(turns) == 0 {
				return candidate{}, false, errors.New(`neither "conversation" nor "turns"`)
			}
			m, err := media.Column("image", r["images"])
			if err == nil && len(m) == 0 {
				err = errors.New(`no image in "images"`)
			}
			return candidate{prompt: turns[0], media: m[:min(1, len(m))]}, true, err
		},
	},
	{
		name: "MMVU", ids: []string{"yale-nlp/MMVU"}, split: "validation", output: 128, media: true,
		read: func(r rows.Row, _ *HF) (candidate, bool, error) {
			m, err := media.Column("video", r["video"])
			return candidate{prompt: strings.TrimSpace(text(r, "question") + " " + choices(r["choices"])), media: m}, true, err
		},
	},
	{
		name: "MMStar", ids: []string{"Lin-Chen/MMStar"}, split: "val", output: 128, media: true,
		read: func(r rows.Row, _ *HF) (candidate, bool, error) {
			question, _, _ := strings.Cut(text(r, "question"), "Options:")
			m, err := media.Column("image", r["image"])
			return candidate{prompt: strings.TrimSpace(question), media: m}, true, err
		},
	},
	{
		name: "ASR", split: "train", output: 1024, media: true, sound: true, read: speechRow,
		ids: []string{
			"openslr/librispeech_asr", "facebook/voxpopuli", "LIUM/tedlium", "edinburghcstr/ami", "speechcolab/gigaspeech", "kensho/spgispeech",
			"distil-whisper/earnings22", "revdotcom/earnings22",
		},
	},
}

// firstSaid are the texts of a conversation whose turns are lists themselves.
func firstSaid(v any) []string {
	turns, _ := v.([]any)
	if len(turns) > 0 {
		if inner, ok := turns[0].([]any); ok {
			return said(inner)
		}
	}
	return said(turns)
}

// choices are the answers to choose from, in the order of their letters.
func choices(v any) string {
	m, _ := v.(map[string]any)
	var keys []string
	for k, x := range m {
		if s, ok := x.(string); ok && s != "" {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var out []string
	for _, k := range keys {
		out = append(out, fmt.Sprintf("%s.%s", k, m[k]))
	}
	return strings.Join(out, " ")
}

// speechRow is a recording to be written down, as long as was asked for.
func speechRow(r rows.Row, cfg *HF) (candidate, bool, error) {
	m, err := media.Column("audio", r["audio"])
	if err == nil && len(m) == 0 {
		err = errors.New(`no "audio"`)
	}
	if err != nil {
		return candidate{}, false, err
	}
	return candidate{media: m[:1]}, cfg.fits(&m[0]), nil
}

// fits reports whether a recording is as long as was asked for, or does not say how long it is.
func (cfg *HF) fits(m *media.Medium) bool {
	if cfg.MinSeconds <= 0 && cfg.MaxSeconds <= 0 {
		return true
	}
	s := cfg.seconds(m)
	return s <= 0 || s >= cfg.MinSeconds && (cfg.MaxSeconds <= 0 || s <= cfg.MaxSeconds)
}

// seconds is how long a recording plays, by the head of its file where it is one; 0 is told in a note.
func (h *hub) seconds(m *media.Medium) float64 {
	s := 0.0
	if m.Data != "" {
		s = media.Seconds([]byte(m.Data))
	} else if !m.Remote() {
		s = h.headSeconds(strings.TrimPrefix(m.Name, "file://"))
	}
	if s <= 0 {
		h.add("recordings that do not say how long they are (no WAV or FLAC file on this machine) are sent whatever --asr-min-audio-len-sec and --asr-max-audio-len-sec say")
	}
	return s
}

// soundHead is how much of a file is read to learn how long it plays.
const soundHead = 1 << 16

func (h *hub) headSeconds(name string) float64 {
	file, err := openMedia(&h.cfg, name)
	if err != nil {
		return 0 // told when it is sent
	}
	defer func() { _ = file.Close() }() // it was only read
	s, ok := file.(io.Seeker)
	if !ok {
		return 0
	}
	size, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return 0
	}
	head := make([]byte, min(size, soundHead))
	if _, err := file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return 0
	}
	return media.Length(head, size)
}

// attach puts a row's media into a request: into a chat message, or a sound as the file it is.
func (h *hub) attach(req *call.Request, c *candidate, prompt string) error {
	if h.cfg.Speech {
		m := &c.media[0]
		data, err := h.bytes(m)
		if err != nil {
			return err
		}
		kind := strings.TrimPrefix(media.Type(data), "audio/")
		if kind == "" {
			kind = "wav"
		}
		req.Prompt = call.Prompt{Text: prompt, Audio: &call.Audio{Name: "audio." + kind, Data: data, Seconds: media.Seconds(data)}}
		return nil
	}
	parts := []any{textPart(prompt)}
	for i := range c.media {
		part, err := h.part(&c.media[i])
		if err != nil {
			return err
		}
		parts = append(parts, part)
	}
	messages, err := rawJSON([]any{map[string]any{"role": "user", "content": parts}})
	req.Prompt = call.Prompt{Messages: messages}
	return err
}

// bytes are a medium's content.
func (h *hub) bytes(m *media.Medium) ([]byte, error) {
	if m.Data != "" {
		return []byte(m.Data), nil
	}
	if m.Remote() {
		return nil, fmt.Errorf("%.60s: spate downloads nothing, and a sound must go with the request", m.Name)
	}
	data, _, err := content(&h.cfg, strings.TrimPrefix(m.Name, "file://"), m.Kind)
	return data, err
}

// part is a medium as a part of a message: by its address where it has one, else by its content.
func (h *hub) part(m *media.Medium) (any, error) {
	put := map[string]func(string) any{"image": imagePart, "video": videoPart}[m.Kind]
	if put != nil && m.Data == "" && (strings.Contains(m.Name, "://") || strings.HasPrefix(m.Name, "data:")) {
		return put(m.Name), nil
	}
	data, err := h.bytes(m)
	if err != nil {
		return nil, err
	}
	kind := media.TypeAs(m.Kind, data)
	if kind == "" { // bytes that stood in the row itself
		kind = m.Kind + "/" + strings.TrimPrefix(path.Ext(m.Name), ".")
	}
	if put == nil {
		return audioPart(strings.TrimPrefix(kind, "audio/"), data), nil
	}
	return put(media.DataURL(kind, data)), nil
}

// Columns in which datasets without a rule of their own have media.
var mediaColumns = []struct{ name, kind string }{
	{"image", "image"}, {"images", "image"}, {"video", "video"}, {"videos", "video"}, {"audio", "audio"},
}

// withMedia adds the media of a row to what a rule finds in it, where the endpoint takes such.
func withMedia(rule hubRule, row rows.Row, cfg *Config) (hubRule, string) {
	for _, c := range mediaColumns {
		if m, err := media.Column(c.kind, row[c.name]); err != nil || len(m) == 0 {
			continue
		}
		if !cfg.Chat && !(cfg.Speech && c.kind == "audio") {
			return rule, fmt.Sprintf("column %q is left out: the endpoint takes text alone, --backend openai-chat takes %ss", c.name, c.kind)
		}
		read := rule.read
		rule.media, rule.sound = true, c.kind == "audio"
		rule.read = func(r rows.Row, hf *HF) (candidate, bool, error) {
			out, keep := candidate{}, true
			var err error
			if read != nil {
				out, keep, err = read(r, hf)
			}
			if err == nil && keep {
				out.media, err = media.Column(c.kind, r[c.name])
				keep = c.kind != "audio" || len(out.media) == 0 || hf.fits(&out.media[0])
			}
			return out, keep && (!cfg.Speech || len(out.media) > 0), err
		}
		return rule, fmt.Sprintf("column %q goes with each prompt", c.name)
	}
	return rule, ""
}

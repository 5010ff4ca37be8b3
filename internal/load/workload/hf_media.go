package workload

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"

	"spate/internal/call"
	"spate/internal/load/rows"
)

// medium is an image, a video or a sound that goes with a prompt: its bytes, or where they are.
type medium struct {
	kind string // image, video or audio
	data string
	name string // of its file, or its address
}

// hubMediaRules are the datasets vLLM has classes for that hold more than text.
var hubMediaRules = []hubRule{
	{
		name: "MultiModalConversation", ids: []string{"lmms-lab/LLaVA-OneVision-Data"}, output: FromData, check: usualLengths, media: true,
		read: func(r rows.Row, _ *HF) (candidate, bool, error) {
			turns := said(r["conversations"])
			if len(turns) < 2 {
				return candidate{}, false, nil
			}
			m, err := mediaOf("image", r["image"])
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
			m, err := mediaOf("image", r["images"])
			if err == nil && len(m) == 0 {
				err = errors.New(`no image in "images"`)
			}
			return candidate{prompt: turns[0], media: m[:min(1, len(m))]}, true, err
		},
	},
	{
		name: "MMVU", ids: []string{"yale-nlp/MMVU"}, split: "validation", output: 128, media: true,
		read: func(r rows.Row, _ *HF) (candidate, bool, error) {
			m, err := mediaOf("video", r["video"])
			return candidate{prompt: strings.TrimSpace(text(r, "question") + " " + choices(r["choices"])), media: m}, true, err
		},
	},
	{
		name: "MMStar", ids: []string{"Lin-Chen/MMStar"}, split: "val", output: 128, media: true,
		read: func(r rows.Row, _ *HF) (candidate, bool, error) {
			question, _, _ := strings.Cut(text(r, "question"), "Options:")
			m, err := mediaOf("image", r["image"])
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
	m, err := mediaOf("audio", r["audio"])
	if err == nil && len(m) == 0 {
		err = errors.New(`no "audio"`)
	}
	if err != nil {
		return candidate{}, false, err
	}
	return candidate{media: m[:1]}, cfg.fits(&m[0]), nil
}

// fits reports whether a recording is as long as was asked for, or does not say how long it is.
func (cfg *HF) fits(m *medium) bool {
	if cfg.MinSeconds <= 0 && cfg.MaxSeconds <= 0 {
		return true
	}
	s := cfg.seconds(m)
	return s <= 0 || s >= cfg.MinSeconds && (cfg.MaxSeconds <= 0 || s <= cfg.MaxSeconds)
}

// seconds is how long a recording plays, by the head of its file where it is one; 0 is told in a note.
func (h *hub) seconds(m *medium) float64 {
	s := 0.0
	if m.data != "" {
		s = soundSeconds([]byte(m.data))
	} else if !m.remote() {
		s = h.headSeconds(strings.TrimPrefix(m.name, "file://"))
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
	return soundLength(head, size)
}

// remote reports whether a medium is an address, or within one, and not a file.
func (m *medium) remote() bool {
	return strings.Contains(m.name, "://") && !strings.HasPrefix(m.name, "file://") || strings.HasPrefix(m.name, "data:")
}

// mediaOf reads a column of media, however it is written: bytes with a path as the Hugging Face library has it, bytes,
// base64, an address or a path, samples of a sound, or a list of such.
func mediaOf(kind string, v any) ([]medium, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []any:
		var out []medium
		for _, x := range v {
			m, err := mediaOf(kind, x)
			if err != nil {
				return nil, err
			}
			out = append(out, m...)
		}
		return out, nil
	case map[string]any:
		return structMedia(kind, v)
	case string:
		return textMedia(kind, v)
	}
	return nil, fmt.Errorf("%T is no %s", v, kind)
}

func structMedia(kind string, v map[string]any) ([]medium, error) {
	name, _ := v["path"].(string)
	if data, _ := v["bytes"].(string); data != "" {
		return []medium{{kind, data, name}}, nil
	}
	if samples, ok := v["array"].([]any); ok && len(samples) > 0 {
		rate, _ := v["sampling_rate"].(float64)
		if n, ok := v["sampling_rate"].(int64); ok {
			rate = float64(n)
		}
		if rate < 1 || rate > 1<<20 {
			return nil, errors.New("an array of audio samples without its sampling rate")
		}
		return []medium{{kind, string(samplesWAV(samples, int(rate))), "audio.wav"}}, nil
	}
	if name == "" {
		return nil, nil
	}
	return []medium{{kind: kind, name: name}}, nil
}

// longestPath is how long the path of a file may be; longer texts are the file.
const longestPath = 1024

func textMedia(kind, v string) ([]medium, error) {
	switch {
	case v == "":
		return nil, nil
	case strings.HasPrefix(v, "data:") || strings.HasPrefix(v, "http://") || strings.HasPrefix(v, "https://") || strings.HasPrefix(v, "file://"):
		return []medium{{kind: kind, name: v}}, nil
	case mediaType([]byte(v)) != "":
		return []medium{{kind: kind, data: v}}, nil
	}
	if data, err := base64.StdEncoding.DecodeString(v); err == nil && mediaType(data) != "" {
		return []medium{{kind: kind, data: string(data)}}, nil
	}
	if len(v) > longestPath {
		return nil, fmt.Errorf("a column of %d bytes is neither an %s of a known kind nor base64 of one", len(v), kind)
	}
	return []medium{{kind: kind, name: v}}, nil
}

// samplesWAV writes samples between -1 and 1 as a sound file.
func samplesWAV(samples []any, rate int) []byte {
	b := append([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, uint32(36+2*len(samples)))...)
	b = append(b, "WAVEfmt "...)
	b = binary.LittleEndian.AppendUint32(b, 16)
	b = words16(b, 1, 1)
	b = words32(b, uint32(rate), uint32(2*rate))
	b = words16(b, 2, 16)
	b = append(append(b, "data"...), binary.LittleEndian.AppendUint32(nil, uint32(2*len(samples)))...)
	for _, s := range samples {
		v, _ := s.(float64)
		b = binary.LittleEndian.AppendUint16(b, uint16(int16(math.Round(max(-1, min(1, v))*math.MaxInt16))))
	}
	return b
}

// mediaType tells the kind of a file by its first bytes; empty when it is none of those servers take.
func mediaType(b []byte) string {
	for _, k := range []struct {
		at         int
		mark, kind string
	}{
		{0, "\xff\xd8\xff", "image/jpeg"},
		{0, "\x89PNG\r\n", "image/png"},
		{0, "GIF8", "image/gif"},
		{8, "WEBP", "image/webp"},
		{0, "BM", "image/bmp"},
		{8, "WAVE", "audio/wav"},
		{0, "fLaC", "audio/flac"},
		{0, "OggS", "audio/ogg"},
		{0, "ID3", "audio/mp3"},
		{0, "\xff\xfb", "audio/mp3"},
		{0, "\xff\xf3", "audio/mp3"},
		{0, "\xff\xf2", "audio/mp3"},
		{0, "\xff\xfa", "audio/mp3"},
		{0, "II*\x00", "image/tiff"},
		{0, "MM\x00*", "image/tiff"},
		{4, "ftypavif", "image/avif"},
		{4, "ftyphei", "image/heic"},
		{4, "ftyp", "video/mp4"},
		{8, "AVI ", "video/x-msvideo"},
		{0, "\x1aE\xdf\xa3", "video/webm"},
	} {
		if len(b) >= k.at+len(k.mark) && bytes.HasPrefix(b[k.at:], []byte(k.mark)) {
			if k.kind == "image/bmp" && len(b) < 54 { // two letters are not proof
				continue
			}
			return k.kind
		}
	}
	return ""
}

// mediaAs is the type of a file that is said to be an image, a video or a sound; empty when it is not. Some kinds of
// files hold videos as well as sounds.
func mediaAs(kind string, b []byte) string {
	mime := mediaType(b)
	what, form, _ := strings.Cut(mime, "/")
	switch {
	case what == kind:
		return mime
	case kind == "audio" && (form == "mp4" || form == "webm"), kind == "video" && form == "ogg":
		return kind + "/" + form
	}
	return ""
}

// soundSeconds is how long a WAV or FLAC file plays; 0 where it does not say.
func soundSeconds(data []byte) float64 { return soundLength(data, int64(len(data))) }

// soundLength is the same for a file of so many bytes, by its first ones.
func soundLength(data []byte, total int64) float64 {
	if len(data) < 42 || string(data[:4]) != "fLaC" || data[4]&0x7f != 0 {
		return wavLength(data, total)
	}
	info := binary.BigEndian.Uint64(data[18:]) // rate 20 bits, channels 3, bits 5, samples 36
	rate, samples := info>>44, info&(1<<36-1)
	if rate == 0 {
		return 0
	}
	return float64(samples) / float64(rate)
}

// attach puts a row's media into a request: into a chat message, or a sound as the file it is.
func (h *hub) attach(req *call.Request, c *candidate, prompt string) error {
	if h.cfg.Speech {
		m := &c.media[0]
		data, err := h.bytes(m)
		if err != nil {
			return err
		}
		kind := strings.TrimPrefix(mediaType(data), "audio/")
		if kind == "" {
			kind = "wav"
		}
		req.Prompt = call.Prompt{Text: prompt, Audio: &call.Audio{Name: "audio." + kind, Data: data, Seconds: soundSeconds(data)}}
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
func (h *hub) bytes(m *medium) ([]byte, error) {
	if m.data != "" {
		return []byte(m.data), nil
	}
	if m.remote() {
		return nil, fmt.Errorf("%.60s: spate downloads nothing, and a sound must go with the request", m.name)
	}
	data, _, err := content(&h.cfg, strings.TrimPrefix(m.name, "file://"), m.kind)
	return data, err
}

// part is a medium as a part of a message: by its address where it has one, else by its content.
func (h *hub) part(m *medium) (any, error) {
	put := map[string]func(string) any{"image": imagePart, "video": videoPart}[m.kind]
	if put != nil && m.data == "" && (strings.Contains(m.name, "://") || strings.HasPrefix(m.name, "data:")) {
		return put(m.name), nil
	}
	data, err := h.bytes(m)
	if err != nil {
		return nil, err
	}
	kind := mediaAs(m.kind, data)
	if kind == "" { // bytes that stood in the row itself
		kind = m.kind + "/" + strings.TrimPrefix(path.Ext(m.name), ".")
	}
	if put == nil {
		return audioPart(strings.TrimPrefix(kind, "audio/"), data), nil
	}
	return put(dataURL(kind, data)), nil
}

// Columns in which datasets without a rule of their own have media.
var mediaColumns = []struct{ name, kind string }{
	{"image", "image"}, {"images", "image"}, {"video", "video"}, {"videos", "video"}, {"audio", "audio"},
}

// withMedia adds the media of a row to what a rule finds in it, where the endpoint takes such.
func withMedia(rule hubRule, row rows.Row, cfg *Config) (hubRule, string) {
	for _, c := range mediaColumns {
		if m, err := mediaOf(c.kind, row[c.name]); err != nil || len(m) == 0 {
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
				out.media, err = mediaOf(c.kind, r[c.name])
				keep = c.kind != "audio" || len(out.media) == 0 || hf.fits(&out.media[0])
			}
			return out, keep && (!cfg.Speech || len(out.media) > 0), err
		}
		return rule, fmt.Sprintf("column %q goes with each prompt", c.name)
	}
	return rule, ""
}

package media

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Medium is an image, a video or a sound that goes with a prompt: its bytes, or where they are.
type Medium struct {
	Kind string // image, video or audio
	Data string
	Name string // of its file, or its address
}

// Remote reports whether a medium is an address, or within one, and not a file.
func (m *Medium) Remote() bool {
	return strings.Contains(m.Name, "://") && !strings.HasPrefix(m.Name, "file://") || strings.HasPrefix(m.Name, "data:")
}

// Column reads a column of media, however it is written: bytes with a path as the Hugging Face library has it, bytes,
// base64, an address or a path, samples of a sound, or a list of such.
func Column(kind string, v any) ([]Medium, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []any:
		var out []Medium
		for _, x := range v {
			m, err := Column(kind, x)
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

func structMedia(kind string, v map[string]any) ([]Medium, error) {
	name, _ := v["path"].(string)
	if data, _ := v["bytes"].(string); data != "" {
		return []Medium{{kind, data, name}}, nil
	}
	if samples, ok := v["array"].([]any); ok && len(samples) > 0 {
		rate, _ := v["sampling_rate"].(float64)
		if n, ok := v["sampling_rate"].(int64); ok {
			rate = float64(n)
		}
		if rate < 1 || rate > 1<<20 {
			return nil, errors.New("an array of audio samples without its sampling rate")
		}
		return []Medium{{kind, string(WAV(samples, int(rate))), "audio.wav"}}, nil
	}
	if name == "" {
		return nil, nil
	}
	return []Medium{{Kind: kind, Name: name}}, nil
}

// longestPath is how long the path of a file may be; longer texts are the file.
const longestPath = 1024

func textMedia(kind, v string) ([]Medium, error) {
	switch {
	case v == "":
		return nil, nil
	case strings.HasPrefix(v, "data:") || strings.HasPrefix(v, "http://") || strings.HasPrefix(v, "https://") || strings.HasPrefix(v, "file://"):
		return []Medium{{Kind: kind, Name: v}}, nil
	case Type([]byte(v)) != "":
		return []Medium{{Kind: kind, Data: v}}, nil
	}
	if data, err := base64.StdEncoding.DecodeString(v); err == nil && Type(data) != "" {
		return []Medium{{Kind: kind, Data: string(data)}}, nil
	}
	if len(v) > longestPath {
		return nil, fmt.Errorf("a column of %d bytes is neither an %s of a known kind nor base64 of one", len(v), kind)
	}
	return []Medium{{Kind: kind, Name: v}}, nil
}

// DataURL is a file as an address that holds it.
func DataURL(kind string, data []byte) string {
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data)
}

// Type tells the kind of a file by its first bytes; empty when it is none of those servers take.
func Type(b []byte) string {
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

// TypeAs is the type of a file that is said to be an image, a video or a sound; empty when it is not. Some kinds of
// files hold videos as well as sounds.
func TypeAs(kind string, b []byte) string {
	mime := Type(b)
	what, form, _ := strings.Cut(mime, "/")
	switch {
	case what == kind:
		return mime
	case kind == "audio" && (form == "mp4" || form == "webm"), kind == "video" && form == "ogg":
		return kind + "/" + form
	}
	return ""
}

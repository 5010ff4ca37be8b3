package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"path"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

var audioProtocol = Protocol{
	Name: "openai-audio", About: "speech to text", Path: "/v1/audio/transcriptions", Port: 8000, Family: Audio,
	Manner: Manner{UsageEnds: true, Type: "multipart/form-data; boundary=" + boundary}, Codec: audio{},
}

// audio speaks /v1/audio/transcriptions and translations: a form with a sound file goes up, and text
// streams back as chat's does.
type audio struct{}

// boundary parts the fields of a form. It is fixed so that all requests share their headers.
const boundary = "spate-5b1f0c9e7d2a48f6"

// Encode implements Codec.
func (audio) Encode(dst []byte, s *Body, r *call.Request) ([]byte, error) {
	a := r.Prompt.Audio
	if a == nil {
		return dst, errors.New("openai-audio needs requests with audio: use a dataset that has some")
	}
	b := bytes.NewBuffer(dst)
	w := multipart.NewWriter(b)
	if err := w.SetBoundary(boundary); err != nil {
		return dst, fmt.Errorf("write form: %w", err)
	}
	file, err := sound(w, a)
	if err == nil {
		_, err = file.Write(a.Data)
	}
	fields, extraErr := formFields(&object{
		keys: []string{"model", "max_completion_tokens", "stream", "language", "stream_include_usage", "stream_continuous_usage_stats"},
		values: [][]byte{
			appendString(nil, model(s, r)), strconv.AppendInt(nil, int64(r.MaxOut), 10),
			[]byte(`"True"`), []byte(`"en"`), []byte(`"True"`), []byte(`"True"`),
		},
	}, s.Sampling, s.Extra, r.Extra)
	for _, f := range fields {
		err = errors.Join(err, w.WriteField(f[0], f[1]))
	}
	if err = errors.Join(err, extraErr, w.Close()); err != nil {
		return dst, fmt.Errorf("write form: %w", err)
	}
	return b.Bytes(), nil
}

// sound begins the part of the form that holds the file.
func sound(w *multipart.Writer, a *call.Audio) (io.Writer, error) {
	name := a.Name
	if name == "" {
		name = "audio.wav"
	}
	kind := strings.TrimPrefix(path.Ext(name), ".")
	if kind == "" || kind == "mp3" {
		kind = map[string]string{"": "wav", "mp3": "mpeg"}[kind]
	}
	h := textproto.MIMEHeader{}
	h.Set("Content-Disposition", multipart.FileContentDisposition("file", name))
	h.Set("Content-Type", "audio/"+kind)
	return w.CreatePart(h)
}

// formFields are the fields of an object, overridden by others, as a form has them: strings without
// their quotes.
func formFields(o *object, over ...json.RawMessage) ([][2]string, error) {
	for _, raw := range over {
		if err := o.merge(raw); err != nil {
			return nil, err
		}
	}
	var out [][2]string
	for i, key := range o.keys {
		text := string(o.values[i])
		var s string
		if json.Unmarshal(o.values[i], &s) == nil {
			text = s
		}
		out = append(out, [2]string{key, text})
	}
	return out, nil
}

// Decode implements Codec: vLLM's stream is chat's, OpenAI's own has events of its own.
func (audio) Decode(v *fastjson.Value, e *Event) {
	switch string(v.GetStringBytes("type")) {
	case "transcript.text.delta":
		e.Text = v.GetStringBytes("delta")
		e.markAll()
		return
	case "transcript.text.done":
		e.Ended, e.Finish = true, "stop"
		if u := v.Get("usage"); u != nil {
			e.Usage = &Usage{Prompt: number(u, "input_tokens"), Completion: number(u, "output_tokens")}
		}
		return
	}
	chat{}.Decode(v, e)
	if text := v.Get("text"); text != nil && text.Type() == fastjson.TypeString && !e.Choices && !e.Failed { // not streamed
		e.Choices, e.Text, e.Finish = true, text.GetStringBytes(), "stop"
		e.mark(e.Text, call.Visible)
	}
}

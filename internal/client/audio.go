package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime/multipart"
	"strconv"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// audio speaks /v1/audio/transcriptions and translations: a form with a sound file goes up, and text
// streams back as chat's does.
type audio struct{}

// boundary parts the fields of a form. It is fixed so that all requests share their headers.
const boundary = "spate-5b1f0c9e7d2a48f6"

// Manner implements Backend.
func (audio) Manner() Manner {
	return Manner{UsageEnds: true, Type: "multipart/form-data; boundary=" + boundary}
}

// Encode implements Backend.
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
	file, err := w.CreateFormFile("file", a.Name)
	if err == nil {
		_, err = file.Write(a.Data)
	}
	fields := [][2]string{
		{"model", model(s, r)},
		{"max_completion_tokens", strconv.Itoa(r.MaxOut)},
		{"stream", "True"},
		{"language", "en"},
		{"stream_include_usage", "True"},
		{"stream_continuous_usage_stats", "True"},
	}
	extra, extraErr := formFields(s.Sampling, s.Extra, r.Extra)
	for _, f := range append(fields, extra...) {
		err = errors.Join(err, w.WriteField(f[0], f[1]))
	}
	if err = errors.Join(err, extraErr, w.Close()); err != nil {
		return dst, fmt.Errorf("write form: %w", err)
	}
	return b.Bytes(), nil
}

// formFields are the fields of JSON objects as a form has them: strings without their quotes.
func formFields(raws ...json.RawMessage) ([][2]string, error) {
	var o object
	for _, raw := range raws {
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

// Decode implements Backend.
func (audio) Decode(v *fastjson.Value, e *event) {
	chat{}.Decode(v, e)
	if text := v.Get("text"); text != nil && text.Type() == fastjson.TypeString && !e.choices && !e.failed { // not streamed
		e.choices, e.text, e.finish = true, text.GetStringBytes(), "stop"
		e.mark(e.text, call.Visible)
	}
}

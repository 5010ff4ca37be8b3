package runs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"spate/internal/result"
	"spate/internal/result/harvest"
)

// exportVersion is the version of entries as Encode writes them. Decode reads every earlier one.
const exportVersion = 1

// written is an entry in a file. The first member marks it as one.
type written struct {
	Spate  int               `json:"spate_export"`
	ID     string            `json:"id"`
	Key    string            `json:"key"`
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	Folder string            `json:"folder,omitempty"` // where the run lies
	Result json.RawMessage   `json:"result"`
	Run    json.RawMessage   `json:"run,omitempty"`
}

// Encode writes an entry as one line of JSON from which Decode makes it again: every figure as it was
// printed and, for spate's own runs, everything but the records.
func Encode(e *Entry) ([]byte, error) {
	w := written{Spate: exportVersion, ID: e.ID, Key: Identity(e), Name: e.Name, Labels: e.Labels}
	var err error
	if w.Result, err = encode(e.Result); err != nil {
		return nil, fmt.Errorf("encode the result of %s: %w", e.ID, err)
	}
	if e.Run != nil {
		w.Folder = e.Run.Dir
		run := *e.Run
		run.Schema = max(run.Schema, result.Schema) // one that was never in a folder has none
		if w.Run, err = encode(&run); err != nil {
			return nil, fmt.Errorf("encode run %s: %w", e.ID, err)
		}
	}
	return encode(w)
}

// encode is JSON with <, > and & as they are.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// Decode reads what Encode wrote.
func Decode(data []byte) (Entry, error) {
	var w written
	if err := json.Unmarshal(data, &w); err != nil {
		return Entry{}, fmt.Errorf("decode entry: %w", err)
	}
	if w.Spate > exportVersion {
		return Entry{}, fmt.Errorf("entry %s is of version %d, and this spate reads up to %d: a newer spate wrote it", w.ID, w.Spate, exportVersion)
	}
	if w.Spate < 1 || w.Result == nil {
		return Entry{}, errors.New("decode entry: not an exported result")
	}
	e := Entry{ID: w.ID, Key: w.Key, Name: w.Name, Labels: w.Labels}
	var err error
	if e.Result, err = decodeResult(w.Result); err != nil {
		return Entry{}, fmt.Errorf("decode the result of %s: %w", w.ID, err)
	}
	if w.Run != nil {
		if e.Run, err = result.Decode(w.Run); err != nil {
			return Entry{}, fmt.Errorf("decode run %s: %w", w.ID, err)
		}
		e.Run.Dir = w.Folder
	}
	return e, nil
}

// Identity tells results apart by what they are: the same result read twice, from another place or out
// of an export, has the same one. It is 64 hexadecimal digits.
func Identity(e *Entry) string {
	if e.Key != "" {
		return e.Key
	}
	h := sha256.New()
	put := func(parts ...string) { _, _ = h.Write([]byte(strings.Join(parts, "\x00") + "\x01")) } // never fails
	if e.Run != nil {
		put("run", e.Run.ID, strconv.FormatInt(e.Run.Started.UnixNano(), 10))
		if e.Run.ID != "" {
			return hex.EncodeToString(h.Sum(nil))
		}
	}
	r := &e.Result
	put(r.Format, r.Error)
	for _, list := range []harvest.Figures{r.Metrics, r.Extra} {
		for _, f := range list {
			put(f.Name, f.Text)
		}
		put()
	}
	for _, f := range r.Context {
		if value, err := encode(f.Value); err == nil { // values came out of text: they encode
			put(f.Name, string(value))
		}
	}
	for _, s := range r.EngineLog {
		s.Line = 0
		if line, err := encode(s); err == nil {
			put(string(line))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Started is when the result was measured, as far as it says so itself. Zero: it does not.
func (e *Entry) Started() time.Time {
	if e.Run != nil {
		return e.Run.Started
	}
	for _, name := range []string{"date", "start_time"} {
		text := e.Result.Context.Text(name)
		for _, layout := range []string{"20060102-150405", time.RFC3339Nano, "2006-01-02T15:04:05.999999999", time.DateTime, time.DateOnly} {
			if at, err := time.Parse(layout, text); err == nil {
				return at
			}
		}
	}
	return time.Time{}
}

// decodeResult reads a result as harvest writes it.
func decodeResult(data []byte) (harvest.Result, error) {
	var in struct {
		Source     harvest.Source         `json:"source"`
		Format     string                 `json:"format"`
		Context    json.RawMessage        `json:"context"`
		Metrics    json.RawMessage        `json:"metrics"`
		Extra      json.RawMessage        `json:"extra"`
		EngineLog  []harvest.EngineSample `json:"engine_log"`
		Launch     *string                `json:"launch"`
		Error      string                 `json:"error"`
		Problems   []harvest.Problem      `json:"problems"`
		Provenance map[string]string      `json:"provenance"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return harvest.Result{}, err
	}
	r := harvest.Result{Source: in.Source, Format: in.Format, EngineLog: in.EngineLog, Launch: in.Launch, Error: in.Error, Problems: in.Problems}
	if r.EngineLog == nil {
		r.EngineLog = []harvest.EngineSample{} // harvest's own are never null
	}
	var err, bad error
	r.Context, err = decodeContext(in.Context)
	r.Metrics, bad = decodeFigures(in.Metrics, in.Provenance)
	err = errors.Join(err, bad)
	r.Extra, bad = decodeFigures(in.Extra, in.Provenance)
	return r, errors.Join(err, bad)
}

func decodeFigures(data []byte, from map[string]string) (harvest.Figures, error) {
	var out harvest.Figures
	err := members(data, func(name string, raw json.RawMessage) error {
		f := harvest.Figure{Name: name, Text: string(raw), From: from[name]}
		if raw[0] == '"' {
			f.Word = true
			if err := json.Unmarshal(raw, &f.Text); err != nil {
				return err
			}
		} else if strings.ContainsAny(f.Text[:1], "{[tfn") {
			return fmt.Errorf("%.40s is no figure", f.Text)
		}
		out = append(out, f)
		return nil
	})
	return out, err
}

func decodeContext(data []byte) (harvest.Context, error) {
	var out harvest.Context
	err := members(data, func(name string, raw json.RawMessage) error {
		var in struct {
			Value json.RawMessage `json:"value"`
			From  string          `json:"from"`
			Line  int             `json:"line"`
		}
		if err := json.Unmarshal(raw, &in); err != nil {
			return err
		}
		value, err := decodeValue(in.Value)
		if err != nil {
			return err
		}
		out = append(out, harvest.Fact{Name: name, Value: value, From: in.From, Line: in.Line})
		return nil
	})
	return out, err
}

// decodeValue reads a fact's value. Numbers keep their digits, and a list of texts is one, since that is
// what readers of headings and commands look for.
func decodeValue(data []byte) (any, error) {
	if len(data) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	list, _ := v.([]any)
	texts := make([]string, 0, len(list))
	for _, one := range list {
		if text, ok := one.(string); ok {
			texts = append(texts, text)
		}
	}
	if len(texts) > 0 && len(texts) == len(list) {
		return texts, nil
	}
	return v, nil
}

// members goes through a JSON object in its order; null and nothing are empty ones.
func members(data []byte, each func(name string, raw json.RawMessage) error) error {
	if len(data) == 0 || string(data) == "null" {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	open, err := dec.Token()
	if err != nil {
		return err
	}
	if open != json.Delim('{') {
		return fmt.Errorf("%.40s is no object", data)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string) // keys of objects are
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return err
		}
		if err := each(name, raw); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

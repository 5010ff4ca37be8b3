package result

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"spate/internal/host/enginelog"
)

// exportVersion is the version of entries as Encode writes them. DecodeEntry reads every earlier one.
const exportVersion = 1

// document is an entry in a file. The first member marks it as one.
type document struct {
	Spate  int               `json:"spate_export"`
	ID     string            `json:"id"`
	Key    string            `json:"key"`
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	Folder string            `json:"folder,omitempty"` // where the run lies
	Result *Entry            `json:"result"`
	Run    json.RawMessage   `json:"run,omitempty"`
}

// plain is an entry without its methods, and so as its fields say.
type plain Entry

// explained is an entry with how each figure was obtained that did not stand there under its name.
type explained struct {
	plain
	Provenance origins `json:"provenance,omitempty"`
}

// MarshalJSON writes all but the entry's names and its run.
func (e Entry) MarshalJSON() ([]byte, error) {
	out := explained{plain: plain(e)}
	for _, list := range []Figures{e.Metrics, e.Extra} {
		for _, f := range list {
			if f.From != "" {
				out.Provenance = append(out.Provenance, f)
			}
		}
	}
	return encode(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Entry) UnmarshalJSON(data []byte) error {
	var in explained
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	if in.EngineLog == nil {
		in.EngineLog = []enginelog.Sample{} // written as [], never as null
	}
	for _, from := range in.Provenance {
		for _, list := range []Figures{in.Metrics, in.Extra} {
			if i := slices.IndexFunc(list, func(f Figure) bool { return f.Name == from.Name }); i >= 0 {
				list[i].From = from.From
			}
		}
	}
	*e = Entry(in.plain)
	return nil
}

// origins are figures of which only the provenance is written.
type origins []Figure

func (o origins) MarshalJSON() ([]byte, error) {
	return object(len(o), func(i int) (string, any) { return o[i].Name, o[i].From })
}

func (o *origins) UnmarshalJSON(data []byte) error {
	return members(data, func(name string, raw json.RawMessage) error {
		f := Figure{Name: name}
		err := json.Unmarshal(raw, &f.From)
		*o = append(*o, f)
		return err
	})
}

// Encode writes an entry as one line of JSON from which DecodeEntry makes it again: every figure as it was
// printed and, for spate's own runs, everything but the records.
func Encode(e *Entry) ([]byte, error) {
	d := document{Spate: exportVersion, ID: e.ID, Key: Identity(e), Name: e.Name, Labels: e.Labels, Result: e}
	if e.Run != nil {
		d.Folder = e.Run.Dir
		run := *e.Run
		run.Schema = max(run.Schema, Schema) // one that was never in a folder has none
		var err error
		if d.Run, err = encode(&run); err != nil {
			return nil, fmt.Errorf("encode run %s: %w", e.ID, err)
		}
	}
	data, err := encode(d)
	if err != nil {
		return nil, fmt.Errorf("encode the result of %s: %w", e.ID, err)
	}
	return data, nil
}

// DecodeEntry reads what Encode wrote.
func DecodeEntry(data []byte) (Entry, error) {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return Entry{}, fmt.Errorf("decode entry: %w", err)
	}
	if d.Spate > exportVersion {
		return Entry{}, fmt.Errorf("entry %s has version %d, and this version of spate reads up to %d: a newer one wrote it", d.ID, d.Spate, exportVersion)
	}
	if d.Spate < 1 || d.Result == nil {
		return Entry{}, errors.New("decode entry: not an exported result")
	}
	e := *d.Result
	e.ID, e.Key, e.Name, e.Labels = d.ID, d.Key, d.Name, d.Labels
	if d.Run != nil {
		var err error
		if e.Run, err = Decode(d.Run); err != nil {
			return Entry{}, fmt.Errorf("decode run %s: %w", d.ID, err)
		}
		e.Run.Dir = d.Folder
		e.Metrics = e.Run.figures()
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
	put(e.Format, e.Error)
	for _, list := range []Figures{e.Metrics, e.Extra} {
		for _, f := range list {
			put(f.Name, f.String())
		}
		put()
	}
	for _, f := range e.Context {
		if value, err := encode(f.Value); err == nil { // values came out of text: they encode
			put(f.Name, string(value))
		}
	}
	for _, s := range e.EngineLog {
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
		text := e.Context.Text(name)
		for _, layout := range []string{"20060102-150405", time.RFC3339Nano, "2006-01-02T15:04:05.999999999", time.DateTime, time.DateOnly} {
			if at, err := time.Parse(layout, text); err == nil {
				return at
			}
		}
	}
	return time.Time{}
}

// UnmarshalJSON reads what MarshalJSON writes; numbers keep their digits.
func (fs *Figures) UnmarshalJSON(data []byte) error {
	return members(data, func(name string, raw json.RawMessage) error {
		f := NewPrinted(name, string(raw), "")
		switch raw[0] {
		case '"':
			if err := json.Unmarshal(raw, &f.Text); err != nil {
				return err
			}
		case '{', '[', 't', 'f', 'n':
			return fmt.Errorf("%.40s is no figure", raw)
		}
		*fs = append(*fs, f)
		return nil
	})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Context) UnmarshalJSON(data []byte) error {
	return members(data, func(name string, raw json.RawMessage) error {
		var in struct {
			Value json.RawMessage `json:"value"`
			From  string          `json:"from"`
			Line  int             `json:"line"`
		}
		if err := json.Unmarshal(raw, &in); err != nil {
			return err
		}
		value, err := decodeValue(in.Value)
		*c = append(*c, Fact{Name: name, Value: value, From: in.From, Line: in.Line})
		return err
	})
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

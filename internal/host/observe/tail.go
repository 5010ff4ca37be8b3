package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"spate/internal/host/enginelog"
	"spate/internal/safe/infile"
)

// tail follows a file that grows, as tail -F does: what is there at first is skipped, a file that was replaced or
// emptied is read from its beginning, one that is not there yet is waited for.
type tail struct {
	path  string
	file  *os.File
	at    int64
	carry []byte // the beginning of a line whose end is not written yet
}

const (
	maxTail  = 8 << 20  // read at most so much in one look; a log that grows faster is caught up with later
	maxCarry = 64 << 10 // a longer line is no stats line
)

// newTail starts at the end of what is written.
func newTail(path string) *tail {
	t := &tail{path: path}
	if t.open() == nil {
		if end, err := t.file.Seek(0, io.SeekEnd); err == nil {
			t.at = end
		}
	}
	return t
}

func (t *tail) open() error {
	f, err := infile.Open(t.path, infile.Unbounded)
	if err != nil {
		return fmt.Errorf("open server log: %w", err)
	}
	t.file, t.at, t.carry = f, 0, nil
	return nil
}

// lines calls each with every line finished since the last call.
func (t *tail) lines(each func(string)) error {
	if t.file == nil {
		if err := t.open(); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // not yet
			}
			return err
		}
	}
	if err := t.drain(each); err != nil {
		return err
	}
	return t.rotate(each)
}

// drain reads what is new in the open file.
func (t *tail) drain(each func(string)) error {
	info, err := t.file.Stat()
	if err != nil {
		return fmt.Errorf("look at server log: %w", err)
	}
	if info.Size() < t.at { // emptied in place
		t.at, t.carry = 0, nil
	}
	fresh, err := io.ReadAll(io.NewSectionReader(t.file, t.at, maxTail))
	if err != nil {
		return fmt.Errorf("read server log: %w", err)
	}
	t.at += int64(len(fresh))
	text := append(t.carry, fresh...)
	for {
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		if !ended {
			break
		}
		each(string(bytes.TrimSuffix(line, []byte("\r"))))
		text = rest
	}
	if len(text) > maxCarry {
		text = nil
	}
	t.carry = bytes.Clone(text)
	return nil
}

// rotate moves on to a file that took the place of the open one.
func (t *tail) rotate(each func(string)) error {
	now, err := os.Stat(t.path)
	if err != nil {
		return nil //nolint:nilerr // moved away, and its successor is not there yet
	}
	old, err := t.file.Stat()
	if err != nil || os.SameFile(old, now) {
		return nil //nolint:nilerr // the next look will tell
	}
	_ = t.file.Close()
	t.file = nil
	if err := t.open(); err != nil {
		return err
	}
	return t.drain(each)
}

func (t *tail) close() {
	if t.file != nil {
		_ = t.file.Close() // only read from
	}
}

// look reads the stats lines that an engine wrote since the last look.
func (t *tail) look(context.Context) ([]Sample, error) {
	var found []enginelog.Sample
	err := t.lines(func(text string) {
		if s, ok := enginelog.Parse(text, 0); ok {
			found = append(found, s)
		} else if s, ok := enginelog.ParseSGLang(text, 0); ok {
			found = append(found, s)
		} else if len(found) > 0 {
			enginelog.Complete(text, &found[len(found)-1])
		}
	})
	out := make([]Sample, 0, len(found))
	for i := range found {
		out = append(out, logSample(&found[i]))
	}
	return out, err
}

// logSample is a stats line as a sample. Engines of one server that log by themselves are sources of their own.
func logSample(s *enginelog.Sample) Sample {
	out := Sample{Source: Log, Values: map[string]float64{}}
	switch s.Engine {
	case "", "0", "00", "000", "TP0":
	default:
		out.Source = Log + ":" + s.Engine
	}
	for _, v := range []struct {
		name  string
		text  json.Number
		scale float64
	}{
		{"running", s.Running, 1},
		{"waiting", s.Waiting, 1},
		{"swapped", s.Swapped, 1},
		{"kv_usage", s.KVUsage, 0.01},
		{"prompt_rate", s.PromptTPS, 1},
		{"generation_rate", s.GenerationTPS, 1},
		{"prefix_hit_rate", s.PrefixHit, 0.01},
	} {
		if f, err := v.text.Float64(); err == nil {
			out.Values[v.name] = f * v.scale
		}
	}
	return out
}

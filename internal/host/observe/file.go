package observe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"
)

// line is a sample as the file has it.
type line struct {
	AtMS   float64            `json:"at_ms"`
	Source string             `json:"source"`
	Values map[string]float64 `json:"values"`
}

// encode is a sample's line, newline and all.
func encode(s Sample) ([]byte, error) {
	values := make(map[string]float64, len(s.Values))
	for name, v := range s.Values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) { // JSON has no word for them
			values[name] = v
		}
	}
	data, err := json.Marshal(line{AtMS: ms(s.At), Source: s.Source, Values: values})
	if err != nil {
		return nil, fmt.Errorf("encode sample: %w", err)
	}
	return append(data, '\n'), nil
}

// maxLine bounds one sample; a page of counters becomes about 700 bytes.
const maxLine = 1 << 20

// Decode reads samples. Lines that cannot be read are counted and skipped: a killed run leaves half of one.
func Decode(r io.Reader) (samples []Sample, bad int, err error) {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 64<<10), maxLine)
	for in.Scan() {
		text := bytes.TrimSpace(in.Bytes())
		if len(text) == 0 {
			continue
		}
		var l line
		at := 0.0
		if json.Unmarshal(text, &l) == nil {
			at = l.AtMS * 1e6
		}
		if l.Source == "" || len(l.Values) == 0 || math.Abs(at) > math.MaxInt64/2 {
			bad++
			continue
		}
		samples = append(samples, Sample{At: time.Duration(math.Round(at)), Source: l.Source, Values: l.Values})
	}
	if err := in.Err(); err != nil {
		return samples, bad, fmt.Errorf("read samples: %w", err)
	}
	return samples, bad, nil
}

// ReadSamples returns what the run in dir saw, nothing when it was not observed.
func ReadSamples(dir string) ([]Sample, error) {
	f, err := os.Open(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open series: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	samples, _, err := Decode(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return samples, nil
}

// Read returns the series of the run in dir, none when it was not observed. A run that was killed has those up
// to its end.
func Read(dir string) ([]Series, error) {
	samples, err := ReadSamples(dir)
	if err != nil {
		return nil, err
	}
	return Derive(samples), nil
}

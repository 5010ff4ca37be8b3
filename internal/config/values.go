package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
)

// Float is a float64 that may be infinite and still be written as JSON.
type Float float64

// Inf reports whether f is +Inf: no limit.
func (f Float) Inf() bool { return math.IsInf(float64(f), 1) }

// MarshalJSON writes non-finite values as strings, as vLLM does with an infinite request rate.
func (f Float) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(f), 0) || math.IsNaN(float64(f)) {
		return json.Marshal(strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(float64(f), 'g', -1, 64), "+")))
	}
	return json.Marshal(float64(f))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *Float) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("read number %q: %w", text, err)
	}
	*f = Float(v)
	return nil
}

// Redacted stands for a secret wherever settings are shown or saved.
const Redacted = "REDACTED"

// Secret is a string that does not print, log or marshal itself. Reveal gives it to the one place
// that sends it.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Redacted
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// MarshalText hides the secret from JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the secret from logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

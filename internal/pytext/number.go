package pytext

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Number is a float64 that may be infinite and still be written as JSON.
type Number float64

// Inf reports whether f is +Inf: no limit.
func (f Number) Inf() bool { return math.IsInf(float64(f), 1) }

// MarshalJSON writes non-finite values as strings, as vLLM does with an infinite request rate.
func (f Number) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(f), 0) || math.IsNaN(float64(f)) {
		return json.Marshal(strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(float64(f), 'g', -1, 64), "+")))
	}
	return json.Marshal(float64(f))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *Number) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("read number %q: %w", text, err)
	}
	*f = Number(v)
	return nil
}

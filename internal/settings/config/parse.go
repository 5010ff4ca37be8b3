package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"spate/internal/figure"
	"spate/internal/nearest"
)

// Forever is the grace period that waits for every request in flight.
const Forever time.Duration = -1

// ParseDuration reads 90, 90s, 1m30s or 1.5h; a number without a unit is in seconds, as users of
// other tools type it.
func ParseDuration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		return seconds(s)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("want a time such as 30s, 1m30s or a number of seconds")
	}
	if d < 0 {
		return 0, errors.New("a time cannot be negative")
	}
	return d, nil
}

func seconds(s float64) (time.Duration, error) {
	if math.IsNaN(s) || s < 0 {
		return 0, errors.New("a time cannot be negative")
	}
	if ns := s * float64(time.Second); ns < math.MaxInt64 {
		return time.Duration(math.Round(ns)), nil
	}
	return 0, errors.New("the time is too long")
}

// ParseLimit reads one goodput objective, such as ttft:200, on any figure that every request has one of.
func ParseLimit(text string) (Limit, error) {
	name, value, ok := strings.Cut(text, ":")
	if !ok {
		return Limit{}, errors.New("not NAME:MILLISECONDS, such as ttft:200")
	}
	if names := figure.PerRequest(); !slices.Contains(names, name) {
		return Limit{}, fmt.Errorf("%q is not one of %s%s", name, strings.Join(names, ", "), nearest.Hint(name, names))
	}
	ms, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(ms) || math.IsInf(ms, 0) {
		return Limit{}, fmt.Errorf("%q: %q is not a number of milliseconds", text, value)
	}
	if ms < 0 {
		return Limit{}, fmt.Errorf("%q: a bound cannot be negative", text)
	}
	return Limit{Metric: Metric(name), MS: ms}, nil
}

// ParseHeader reads KEY=VALUE, or curl's "Key: value".
func ParseHeader(text string) (Header, error) {
	at := strings.IndexAny(text, "=:")
	if at <= 0 {
		return Header{}, errors.New("want KEY=VALUE")
	}
	h := Header{Name: strings.TrimSpace(text[:at]), Value: text[at+1:]}
	if text[at] == ':' {
		h.Value = strings.TrimSpace(h.Value)
	}
	if !isToken(h.Name) {
		return Header{}, fmt.Errorf("%q is not a header name", h.Name)
	}
	if strings.ContainsAny(h.Value, "\r\n\x00") {
		return Header{}, fmt.Errorf("the value of header %q contains a line break", h.Name)
	}
	return h, nil
}

// isToken reports whether s may be a header name.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// ParseMetadata reads KEY=VALUE; the value may contain further equals signs.
func ParseMetadata(text string) (KeyValue, error) {
	k, v, ok := strings.Cut(text, "=")
	if !ok {
		return KeyValue{}, errors.New("want KEY=VALUE")
	}
	return KeyValue{Key: strings.TrimSpace(k), Value: strings.TrimSpace(v)}, nil
}

// ParsePercentiles reads 50,90,99.9.
func ParsePercentiles(text string) ([]float64, error) {
	var out []float64
	for part := range strings.SplitSeq(text, ",") {
		p, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(p >= 0 && p <= 100) {
			return nil, fmt.Errorf("%q is not a percentile between 0 and 100", part)
		}
		out = append(out, p)
	}
	return out, nil
}

// ParseMetrics reads ttft,tpot,itl,e2el.
func ParseMetrics(text string) ([]Metric, error) {
	var out []Metric
	for part := range strings.SplitSeq(text, ",") {
		name := strings.TrimSpace(part)
		if known := figure.Latencies(); !slices.Contains(known, name) {
			return nil, fmt.Errorf("%q is not one of %s%s", name, strings.Join(known, ", "), nearest.Hint(name, known))
		}
		out = append(out, Metric(name))
	}
	return out, nil
}

// ParseThresholds reads two times in milliseconds, such as 25,50.
func ParseThresholds(text string) ([2]float64, error) {
	var out [2]float64
	parts := strings.Split(text, ",")
	if len(parts) != 2 {
		return out, errors.New("want exactly two numbers, such as 25,50")
	}
	for i, part := range parts {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(v >= 0) || math.IsInf(v, 0) {
			return out, fmt.Errorf("%q is not a number of milliseconds", part)
		}
		out[i] = v
	}
	return out, nil
}

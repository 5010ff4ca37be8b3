package curve

import (
	"encoding/json"
	"strings"
	"time"

	"spate/internal/host/enginelog"
	"spate/internal/host/observe"
)

// engineTimes are the ways engines print the time of a line: none has all of year and zone.
var engineTimes = []string{"01-02 15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04:05"}

// EngineLog is what an engine's stats lines say, as series from the first of them on. Lines without a time that
// can be read are left out, and so is all of a log that has no two different times.
func EngineLog(lines []enginelog.Sample) []observe.Series {
	fields := []struct {
		name, unit string
		of         func(*enginelog.Sample) json.Number
	}{
		{"running", "requests", func(s *enginelog.Sample) json.Number { return s.Running }},
		{"waiting", "requests", func(s *enginelog.Sample) json.Number { return s.Waiting }},
		{"prompt_rate", "tokens/s", func(s *enginelog.Sample) json.Number { return s.PromptTPS }},
		{"generation_rate", "tokens/s", func(s *enginelog.Sample) json.Number { return s.GenerationTPS }},
		{"kv_usage", "share", func(s *enginelog.Sample) json.Number { return s.KVUsage }},
		{"prefix_hit_rate", "share", func(s *enginelog.Sample) json.Number { return s.PrefixHit }},
	}
	at, ok := engineClock(lines)
	if !ok {
		return nil
	}
	var out []observe.Series
	for _, f := range fields {
		s := observe.Series{Name: f.name, Unit: f.unit, Source: observe.Log}
		for i := range lines {
			v, err := f.of(&lines[i]).Float64()
			if err != nil || at[i] < 0 {
				continue
			}
			if f.unit == "share" {
				v /= 100
			}
			s.Points = append(s.Points, observe.Point{At: at[i], Value: v})
		}
		if len(s.Points) > 1 {
			out = append(out, s)
		}
	}
	return out
}

// engineClock is each line's time after the first; -1 where it cannot be told, or where the clock went back.
func engineClock(lines []enginelog.Sample) (at []time.Duration, ok bool) {
	var first, last time.Time
	for i := range lines {
		t, good := engineTime(lines[i].Time)
		switch {
		case !good || (!last.IsZero() && t.Before(last)):
			at = append(at, -1)
			continue
		case first.IsZero():
			first = t
		}
		last = t
		at = append(at, t.Sub(first))
	}
	return at, last.After(first)
}

func engineTime(text string) (time.Time, bool) {
	text, _, _ = strings.Cut(strings.ReplaceAll(text, ",", "."), ".")
	for _, layout := range engineTimes {
		if t, err := time.Parse(layout, text); err == nil {
			return t.AddDate(2000, 0, 0), true // no year at all would be a time that is zero
		}
	}
	return time.Time{}, false
}

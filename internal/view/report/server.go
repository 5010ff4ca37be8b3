package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"spate/internal/figure"
	"spate/internal/judge/metrics"
	"spate/internal/result"
)

// change is what report shows of the server's own counters; probe writes more.
type change struct {
	Reset         bool     `json:"reset"`
	PrefixRate    *float64 `json:"prefix_cache_hit_rate"`
	PrefixHits    *float64 `json:"prefix_cache_hits"`
	Preemptions   *float64 `json:"preemptions"`
	Requests      *float64 `json:"requests"`
	OutputTokens  *float64 `json:"generation_tokens"`
	RunningBefore *float64 `json:"running_before"`
	Times         map[string]struct {
		N       float64 `json:"n"`
		Seconds float64 `json:"mean_s"`
	} `json:"times"`
}

// server tells what the server says of itself: with each answer, and by its counters.
func server(s *sheet, run *result.Run) {
	perRequest(s, &run.Summary)
	cache(s, &run.Summary)
	if len(run.Server.Change) > 0 {
		counters(s, run.Server.Change)
	}
}

func perRequest(s *sheet, m *metrics.Summary) {
	if m.Server.N == 0 {
		return
	}
	s.section("Server's own times (ms)", latencyHeads...)
	s.dist("queue", &m.Server.Queue)
	s.dist("scheduled to first token", &m.Server.FirstToken)
	s.dist("first to last token", &m.Server.Generation)
	s.dist("mean ITL", &m.Server.MeanITL)
	s.dist("rest of TTFT: network, front end", &m.Server.TTFTRest)
}

func cache(s *sheet, m *metrics.Summary) {
	c := &m.Cache
	if c.Reported == 0 && c.Repeats == 0 {
		return
	}
	s.section("Prefix cache")
	if c.Reported > 0 {
		s.fact("prompt tokens from cache", fmt.Sprintf("%d (%s), in %d of %d requests", c.Cached, percent(c.Share), c.Hits, c.Reported))
	}
	if c.Repeats > 0 {
		s.fact("repeated prompts", fmt.Sprintf("%d; median TTFT %s ms, first time %s ms", c.Repeats, figure.Rounded(c.RepeatTTFT), figure.Rounded(c.FirstTTFT)))
	}
}

// counters are the server's, not the run's: other clients count too.
func counters(s *sheet, raw json.RawMessage) {
	var c change
	if err := json.Unmarshal(raw, &c); err != nil {
		s.section("Server's counters")
		s.fact("unreadable", err.Error())
		return
	}
	s.section("Server's counters over the run")
	if c.Reset {
		s.fact("void", "the server was restarted during the run")
		return
	}
	number := func(label string, v *float64) {
		if v != nil {
			s.fact(label, fmt.Sprintf("%.0f", *v))
		}
	}
	number("requests finished", c.Requests)
	number("tokens generated", c.OutputTokens)
	number("preemptions", c.Preemptions)
	if c.PrefixRate != nil {
		s.fact("prefix cache hit rate", percent(*c.PrefixRate))
	}
	if c.RunningBefore != nil && *c.RunningBefore > 0 {
		s.fact("others' requests before the run", fmt.Sprintf("%.0f running", *c.RunningBefore))
	}
	for _, what := range slices.Sorted(maps.Keys(c.Times)) {
		t := c.Times[what]
		s.fact("mean "+what, fmt.Sprintf("%s ms over %.0f", figure.Rounded(t.Seconds*1000), t.N))
	}
}

// Package explain says what limited a run, from its figures, the server's counters and the engine's log lines: one
// function per cause, each with the evidence it rests on and what to try next. input.go gathers what is known of a
// result, whoever made it; the command and every report print what Explain returns. It comes after observe, verdict
// and harvest.
//
// Read this file first, then causes.go.
package explain

import (
	"cmp"
	"slices"
)

// The causes.
const (
	ClientBound   = "client-bound"
	MaxNumSeqs    = "max-num-seqs"
	KVCacheFull   = "kv-cache-full"
	PrefillBound  = "prefill-bound"
	DecodeBound   = "decode-bound"
	PrefixCache   = "prefix-cache"
	Network       = "network"
	BelowCapacity = "below-capacity"
	CannotTell    = "cannot-tell"
)

// Kind sorts causes by what they mean for the figures.
type Kind string

// The kinds.
const (
	Limit      Kind = "limit"      // the server could do no more because of it
	Distortion Kind = "distortion" // the figures are not those of the server under this load
	Headroom   Kind = "headroom"   // nothing limited the run but its own settings
	Unknown    Kind = "unknown"
)

// Confidence is how far a cause is shown by what is known.
type Confidence string

// The confidences: High rests on direct evidence, Medium on figures that fit nothing else well, Low is one of several
// causes that fit.
const (
	High   Confidence = "high"
	Medium Confidence = "medium"
	Low    Confidence = "low"
)

// Cause is one thing that limited a run or made its figures wrong.
type Cause struct {
	Name       string     `json:"cause"`
	Kind       Kind       `json:"kind"`
	Confidence Confidence `json:"confidence,omitempty"`
	Share      float64    `json:"latency_share,omitempty"` // of the mean time from due to answered that it explains, 0 to 1
	Sentence   string     `json:"sentence"`
	Evidence   []Evidence `json:"evidence,omitempty"`
	Try        []string   `json:"try,omitempty"`   // flags and experiments, the most telling first
	Needs      []string   `json:"needs,omitempty"` // what would have to be known to be sure
}

// Evidence is one figure a cause rests on.
type Evidence struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	From  string  `json:"from"` // who says so: records, the server's counters, the engine's log ...
}

// rules are asked in this order, which is also that of causes that are equal otherwise: what makes other evidence
// worthless comes first.
var rules = []func(*Input) *Cause{clientBound, kvCacheFull, maxNumSeqs, prefillBound, decodeBound, network, prefixCache, belowCapacity}

// Explain says what limited the run: what is more than a possibility comes first, and of that what explains the larger
// share of latency. There is always at least one answer; when nothing can be told, it says what would be needed.
func Explain(in Input) []Cause {
	var out []Cause
	for _, rule := range rules {
		if c := rule(&in); c != nil {
			out = append(out, *c)
		}
	}
	slices.SortStableFunc(out, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(possible(a), possible(b)), cmp.Compare(weight(b), weight(a)), cmp.Compare(rank(a), rank(b)))
	})
	if !slices.ContainsFunc(out, settles) {
		out = append(out, cannotTell(&in))
	}
	return out
}

// settles reports whether a cause answers the question. A cache that was used does not, nor does a mere possibility.
func settles(c Cause) bool { return c.Confidence != Low && c.Name != PrefixCache }

// possible is 1 for a cause that is one of several that fit.
func possible(c Cause) int {
	if c.Confidence == Low {
		return 1
	}
	return 0
}

// minor is a share of latency below which causes are not ordered by it: half a millisecond of a client says less about
// a run than that the server had headroom.
const minor = 0.05

func weight(c Cause) float64 {
	if c.Share < minor {
		return 0
	}
	return c.Share
}

// rank puts the surest first.
func rank(c Cause) int {
	r := map[Confidence]int{High: 0, Medium: 2, Low: 4}[c.Confidence]
	if c.Kind == Headroom {
		r++ // a limit that is as sure is more telling
	}
	return r
}

// cannotTell lists what the input lacks.
func cannotTell(in *Input) Cause {
	c := Cause{Name: CannotTell, Kind: Unknown, Sentence: "The figures of this run do not show what limited it."}
	if in.RequestRate == 0 {
		c.Sentence = "There are no figures of finished requests, so there is nothing to explain."
		c.Needs = []string{"a run in which requests succeed"}
		return c
	}
	if in.Server == nil && len(in.Looks) == 0 {
		c.Needs = append(c.Needs,
			"the server's counters during the run: spate bench reads /metrics by itself; --server-metrics names another address",
			"or the engine's stats lines: --server-log FILE, or the log beside the result when importing")
	} else if in.Server == nil || in.Server.Queue == nil {
		c.Needs = append(c.Needs, "the server's own queue and prefill times, which vLLM's /metrics has")
	}
	if !in.Records {
		c.Needs = append(c.Needs, "records of single requests, which a summary does not have")
	}
	c.Try = []string{"run again at twice the concurrency or rate: what grows with it shows the limit (throughput: there was headroom; TTFT: a queue; TPOT: decoding)"}
	return c
}

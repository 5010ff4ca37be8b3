package dialect

import (
	"math"
	"time"

	"spate/internal/call"
	"spate/internal/judge/stats"
)

// figures are a run's numbers by one tool's definitions. Times are in seconds.
type figures struct {
	done, input, output, counted int // counted: tokens that came, where output is what was asked for
	text                         int // of the input
	duration                     float64
	ttft, tpot, itl, e2e         []float64
	speed                        []float64 // backprop: tokens over latency, of each request
	perToken                     []float64 // backprop: latency over tokens
	peakTokens                   int       // SGLang: events in the fullest second
	peakRequests                 int
}

// rules are what tools disagree on.
type rules struct {
	first func(*call.Record) time.Duration // the stamp that ends TTFT
	end   func(*call.Record) time.Duration // the stamp that ends a request
	gaps  func(*call.Record) []float64
	out   func(*call.Record) int // tokens of an answer
}

func (n Name) rules() rules {
	switch n {
	case LMDeploy:
		return rules{firstText, closed, filledGaps, askedOut}
	case SGLang:
		return rules{firstText, closed, tokenGaps, countedOut}
	case Backprop:
		return rules{firstChunk, closed, filledGaps, filledChunks}
	}
	return rules{firstText, closed, filledGaps, countedOut} // vLLM 0.6
}

// firstText is the first chunk with a text of any kind.
func firstText(r *call.Record) time.Duration { return r.FirstToken }

// firstChunk is the first message of the stream, be it only a role.
func firstChunk(r *call.Record) time.Duration {
	if len(r.Chunks) > 0 {
		return r.Chunks[0].At
	}
	return r.FirstToken
}

// closed is the end of the stream: these tools stamp its end mark too.
func closed(r *call.Record) time.Duration { return r.End }

// askedOut is what was asked for, whether it came or not; chat servers' own counts are believed.
func askedOut(r *call.Record) int {
	if r.Out.From == call.FromServer && r.AskedOut == 0 {
		return r.Out.N
	}
	return r.AskedOut
}

func countedOut(r *call.Record) int { return r.Out.N }

// filledChunks takes every message with a text for a token.
func filledChunks(r *call.Record) int {
	n := 0
	for _, c := range r.Chunks {
		if c.Kind != 0 {
			n++
		}
	}
	return n
}

// filledGaps are the times between messages with a text.
func filledGaps(r *call.Record) []float64 {
	var out []float64
	eachGap(r, func(gap float64, _ int) { out = append(out, gap) })
	return out
}

// tokenGaps share the time between two messages among the tokens of the second, where they are known.
func tokenGaps(r *call.Record) []float64 {
	var out []float64
	eachGap(r, func(gap float64, tokens int) {
		for range tokens {
			out = append(out, gap/float64(tokens))
		}
	})
	return out
}

// eachGap gives the times between messages with a text, in seconds, and the tokens of the later one.
func eachGap(r *call.Record, yield func(gap float64, tokens int)) {
	last := call.Unset
	for _, c := range r.Chunks {
		if c.Kind == 0 {
			continue
		}
		if last != call.Unset {
			yield(seconds(c.At-last), max(int(c.Tokens), 1))
		}
		last = c.At
	}
}

func seconds(d time.Duration) float64 { return float64(d) / 1e9 }

// figures computes a run's numbers as the tool would.
func (n Name) figures(run *Run) *figures {
	rule := n.rules()
	f := &figures{duration: run.Summary.DurationS}
	seen := newBuckets(run.Records)
	for i := range run.Records {
		r := &run.Records[i]
		if r.Phase != call.Measure || r.Retried || r.Outcome != call.OK {
			continue
		}
		first, end, out := rule.first(r), rule.end(r), rule.out(r)
		if run.Asked.Pools { // nothing is generated: the answer is all there is
			first = end
		}
		if first == call.Unset || end == call.Unset {
			continue
		}
		ttft, latency := seconds(first-r.Sent), seconds(end-r.Sent)
		f.done++
		f.text += r.Asked.N
		f.input += r.Asked.N
		if run.Asked.Pictures { // only the server knows what an image comes to
			f.input += max(0, r.In.N-r.Asked.N)
		}
		f.output += out
		f.counted += r.Out.N
		f.ttft, f.e2e = append(f.ttft, ttft), append(f.e2e, latency)
		f.itl = append(f.itl, rule.gaps(r)...)
		if out > 1 {
			f.tpot = append(f.tpot, (latency-ttft)/float64(out-1))
		}
		if out > 0 && latency > 0 {
			f.speed, f.perToken = append(f.speed, float64(out)/latency), append(f.perToken, latency/float64(out))
		}
		seen.add(r, end)
	}
	f.peakTokens, f.peakRequests = seen.peaks()
	return f
}

// buckets count what happens in each second of a run.
type buckets struct {
	start            time.Duration
	tokens, requests map[int]int
}

func newBuckets(recs []call.Record) *buckets {
	b := &buckets{start: math.MaxInt64, tokens: map[int]int{}, requests: map[int]int{}}
	for i := range recs {
		if recs[i].Sent >= 0 {
			b.start = min(b.start, recs[i].Sent)
		}
	}
	return b
}

// add counts messages as tokens and a request in every second it touches, as SGLang does.
func (b *buckets) add(r *call.Record, end time.Duration) {
	at := func(t time.Duration) int { return int((t - b.start) / time.Second) }
	for _, c := range r.Chunks {
		if c.Kind != 0 {
			b.tokens[at(c.At)]++
		}
	}
	for s := at(r.Sent); s <= at(end); s++ {
		b.requests[s]++
	}
}

func (b *buckets) peaks() (tokens, requests int) {
	for _, n := range b.tokens {
		tokens = max(tokens, n)
	}
	for _, n := range b.requests {
		requests = max(requests, n)
	}
	return tokens, requests
}

// per is a rate over the run.
func (f *figures) per(n int) float64 {
	if f.duration <= 0 {
		return 0
	}
	return float64(n) / f.duration
}

// ms are a sample's statistics in milliseconds; 0 of nothing.
func mean(xs []float64) float64 { return empty(xs, func() float64 { return 1000 * stats.Mean(xs) }) }

func median(xs []float64) float64 {
	return empty(xs, func() float64 { return 1000 * stats.Median(xs) })
}

func std(xs []float64) float64 { return empty(xs, func() float64 { return 1000 * stats.Std(xs) }) }

func pct(xs []float64, p float64) float64 {
	return empty(xs, func() float64 { return 1000 * stats.Percentile(xs, p) })
}
func highest(xs []float64) float64 { return pct(xs, 100) }
func empty(xs []float64, f func() float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	return f()
}

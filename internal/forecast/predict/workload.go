package predict

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"spate/internal/load/schedule"
	"spate/internal/rng"
	"spate/internal/sim/cluster"
	"spate/internal/sim/kv"
)

// Spreads of lengths where a row gives only their mean or total. They describe datasets, not servers.
const (
	answerSpread = 18   // tokens, standard deviation of answers that end by themselves below a cap
	sonnetSpread = 0.01 // of the prompt length: lines of a poem vary little
	chatInSigma  = 1.3  // log-normal spread of ShareGPT prompts ...
	chatOutSigma = 1.1  // ... and answers
	chatMin      = 4
	chatMaxIn    = 1024
	chatMaxTotal = 2048
	sleepDrift   = time.Millisecond
	freshStreams = 1 << 40 // streams nobody else uses
)

// Request is one request of a workload as the client counts it.
type Request struct {
	cluster.Call
	Uncounted int // tokens generated that the client does not count: an end-of-sequence
}

// Requests makes the requests of a row. Row number salt keeps prompts that nothing shares apart.
func (w *Workload) Requests(salt uint64) []Request {
	if len(w.Sent) > 0 {
		return w.replayed(salt)
	}
	n := w.Completed
	in, out := w.lengths()
	list := make([]Request, n)
	for i := range list {
		stream := freshStreams + salt<<24 + uint64(i)
		if w.repeats() {
			stream = uint64(i) + 1
		}
		prompt := []kv.Segment{{Stream: stream, Len: in[i]}}
		if shared := min(w.Prefix, in[i]-1); shared > 0 {
			prompt = []kv.Segment{{Stream: freshStreams - 1, Len: shared}, {Stream: stream, Len: in[i] - shared}}
		}
		list[i].Call = cluster.Call{Prompt: prompt, Out: out[i], MaxOut: max(out[i], w.Output, w.Cap)}
		if !w.IgnoreEOS && out[i] < max(w.Output, w.Cap) {
			list[i].Stops = true
		}
		if w.Cap > 0 && out[i] < w.Cap {
			list[i].Out++ // the step that ends the answer
			list[i].Uncounted = 1
		}
	}
	w.schedule(list)
	return list
}

// repeats reports whether prompts of equal index begin alike in all runs: vLLM's random dataset
// draws nothing but the offset of each prompt's counting sequence, with the same seed every time.
func (w *Workload) repeats() bool {
	return w.Dataset == "random" && strings.HasPrefix(w.Client, "vllm")
}

// schedule sets the times at which requests are due.
func (w *Workload) schedule(list []Request) {
	if w.Rate.Burst() {
		return
	}
	seed := uint32(0)
	if w.Seed != nil {
		seed = *w.Seed
	}
	shape := w.Shape
	if shape == 0 {
		shape = 1
	}
	plan, err := schedule.VLLM(len(list), float64(w.Rate), shape, seed)
	drift := time.Duration(0)
	if strings.Contains(w.Client, "0.6") || strings.Contains(w.Client, "gaps after each send") {
		plan, err = schedule.Slept(len(list), float64(w.Rate), shape, seed)
		drift = sleepDrift
	}
	if err != nil {
		return // a rate below zero was refused when the row was read
	}
	i := 0
	for due := range plan.Due {
		list[i].At = due + time.Duration(i)*drift
		i++
	}
}

// lengths are the prompt and answer lengths, with the totals the row states.
func (w *Workload) lengths() (in, out []int) {
	n := w.Completed
	draw := rng.New(0, "predict.lengths", uint64(n), uint64(w.In), uint64(w.Out))
	switch {
	case w.Dataset == "sharegpt":
		return w.chat(draw)
	case w.Cap > 0:
		in = normal(draw, n, w.In, min(5, 0.05*float64(w.Input)))
		out = normal(draw, n, w.Out, answerSpread)
		for i := range out {
			out[i] = min(max(out[i], 2), w.Cap)
		}
		return in, out
	case w.Dataset == "sonnet":
		return normal(draw, n, w.In, sonnetSpread*float64(w.Input)), spread(n, w.Out)
	}
	in = uniform(draw, n, w.In, w.Spread)
	if w.IgnoreEOS || w.Output == 0 || w.OutSpread > 0 {
		return in, uniform(draw, n, w.Out, w.OutSpread)
	}
	return in, w.stopped()
}

// replayed are the requests of a recorded run. What prompts have in common is not recorded; what the
// server said it had cached is taken as shared by all.
func (w *Workload) replayed(salt uint64) []Request {
	list := make([]Request, len(w.Sent))
	for i := range w.Sent {
		s := &w.Sent[i]
		own := freshStreams + salt<<24 + uint64(i)
		prompt := []kv.Segment{{Stream: own, Len: s.In}}
		if shared := min(s.Cached, s.In-1); shared > 0 {
			prompt = []kv.Segment{{Stream: 1, Len: shared}, {Stream: own, Len: s.In - shared}}
		}
		c := cluster.Call{Prompt: prompt, Out: s.Out, MaxOut: max(s.Out, s.Limit)}
		if w.Slots == 0 { // a closed loop sends when a place is free
			c.At = time.Duration(s.AtMS * 1e6)
		}
		list[i].Call = c
	}
	return list
}

// uniform are n whole numbers with a given total, spread evenly over a share of their mean to both
// sides, in random order.
func uniform(draw *rand.Rand, n, total int, share float64) []int {
	out := spread(n, total)
	if share <= 0 {
		return out
	}
	for i := range out {
		at := (float64(i)+0.5)/float64(n)*2 - 1
		out[i] = max(1, int(math.Round(float64(out[i])*(1+share*at))))
	}
	settle(out, total)
	draw.Shuffle(n, func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// spread divides a total evenly.
func spread(n, total int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = total/n + btoi(i < total%n)
	}
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// stopped are answers of full length but for those that ended early: as few as can make up what is
// missing from the total (vLLM's log lines of such runs show no more missing), spread over the run and
// as different in length as their total allows.
func (w *Workload) stopped() []int {
	n := w.Completed
	out := make([]int, n)
	for i := range out {
		out[i] = w.Output
	}
	missing, most := n*w.Output-w.Out, w.Output-1
	if missing <= 0 || most < 1 {
		return out
	}
	k := min((missing+most-1)/most, n)
	mean := missing / k
	for j := range k {
		cut := mean + (most-mean)*(2*j+1-k)/k
		if j < missing%k {
			cut++
		}
		out[(j*n+n/2)/k] -= min(cut, most)
	}
	return out
}

// normal are n whole numbers of a normal distribution with a given total, in random order.
func normal(draw *rand.Rand, n, total int, sd float64) []int {
	out := make([]int, n)
	mean := float64(total) / float64(n)
	for i := range out {
		out[i] = max(1, int(math.Round(mean+sd*quantile((float64(i)+0.5)/float64(n)))))
	}
	settle(out, total)
	draw.Shuffle(n, func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// settle changes numbers by little until they have a total.
func settle(xs []int, total int) {
	sum := 0
	for _, x := range xs {
		sum += x
	}
	for i := 0; sum != total; i = (i + 1) % len(xs) {
		d := (total - sum) / len(xs)
		if d == 0 {
			d = 1
			if sum > total {
				d = -1
			}
		}
		if xs[i]+d < 1 {
			d = 1 - xs[i]
			if d == 0 && slices.Max(xs) == 1 {
				return
			}
		}
		xs[i] += d
		sum += d
	}
}

func quantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// chat are prompt and answer lengths of ShareGPT conversations, as benchmark clients pick them.
func (w *Workload) chat(draw *rand.Rand) (in, out []int) {
	n := w.Completed
	in = logNormal(draw, n, w.In, chatMin, chatMaxIn, chatInSigma)
	out = logNormal(draw, n, w.Out, chatMin, chatMaxTotal-chatMin, chatOutSigma)
	for i := range out {
		out[i] = min(out[i], chatMaxTotal-in[i])
	}
	sum := 0
	for _, x := range out {
		sum += x
	}
	for i := 0; sum < w.Out; i = (i + 1) % n { // what the cap on both took
		if in[i]+out[i] < chatMaxTotal {
			out[i]++
			sum++
		}
	}
	return in, out
}

// logNormal are n whole numbers of a truncated log-normal distribution with a given total.
func logNormal(draw *rand.Rand, n, total int, low, high, sigma float64) []int {
	mean := float64(total) / float64(n)
	values := make([]float64, n)
	fill := func(mu float64) float64 {
		from := 0.5 * math.Erfc(-(math.Log(low)-mu)/sigma/math.Sqrt2)
		to := 0.5 * math.Erfc(-(math.Log(high)-mu)/sigma/math.Sqrt2)
		sum := 0.0
		for i := range values {
			p := from + (to-from)*(float64(i)+0.5)/float64(n)
			values[i] = min(max(math.Exp(mu+sigma*quantile(p)), low), high)
			sum += values[i]
		}
		return sum / float64(n)
	}
	from, to := math.Log(low)-3, math.Log(high)+3
	for range 50 {
		mid := (from + to) / 2
		if fill(mid) < mean {
			from = mid
		} else {
			to = mid
		}
	}
	out := make([]int, n)
	for i, v := range values {
		out[i] = int(math.Round(v))
	}
	settle(out, total)
	draw.Shuffle(n, func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

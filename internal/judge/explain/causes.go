package explain

import (
	"fmt"
	"math"
	"slices"

	"spate/internal/judge/verdict"
)

// clientBound takes the verdict's word: the checks on the client know its lags, its CPU and its schedule.
func clientBound(in *Input) *Cause {
	if len(in.Client) == 0 {
		return nil
	}
	c := &Cause{
		Name: ClientBound, Kind: Distortion, Confidence: Medium, Sentence: "The client itself affected the figures: " + in.Client[0].Sentence,
		Try: []string{
			"run the client on more or quieter cores, not on the server's machine",
			"spate calibrate-client: shows how exact the times measured on this host are",
			"a lower --request-rate or --max-concurrency, until the check passes",
		},
	}
	for _, f := range in.Client {
		if f.Level == verdict.Invalid {
			c.Confidence = High
		}
		c.Share = max(c.Share, in.clientShare(f))
		c.Evidence = append(c.Evidence, Evidence{What: "check " + f.Name, Value: f.Figure, Unit: f.Unit, From: "the client's verdict"})
	}
	return c
}

// clientShare is the share of a request's time that a finding on the client explains, at most: a lag beside the latency
// it is not part of, or the part of the run's time or work that was taken away.
func (in *Input) clientShare(f verdict.Finding) float64 {
	if f.Unit == "ms" {
		return over(f.Figure, f.Figure+in.E2EL.Mean)
	}
	return min(1, f.Figure)
}

// full is the used share of the cache from which on there is no room for another request.
const full = 0.95

// kvCacheFull needs to have been seen: requests waiting beside a full cache, or running ones that lost their blocks.
func kvCacheFull(in *Input) *Cause {
	n, waiting := 0, 0.0
	for _, l := range in.Looks {
		if l.KV >= full && l.Waiting > 0 {
			n++
			waiting += l.Waiting
		}
	}
	preempted := 0.0
	if in.Server != nil && in.Server.Preemptions != nil {
		preempted = *in.Server.Preemptions
	}
	share := over(float64(n), float64(len(in.Looks)))
	if len(in.Looks) == 0 && preempted == 0 {
		return kvByLittle(in)
	}
	if share < 0.1 && preempted == 0 {
		return nil
	}
	c := cacheFull("The KV cache was full: requests waited for memory that running ones held.")
	c.Share = in.queueShare()
	if n > 0 {
		c.say("moments with the cache above 95 % and requests waiting", share, "share", in.LooksFrom)
		c.say("requests waiting then, mean", waiting/float64(n), "requests", in.LooksFrom)
	}
	if preempted > 0 {
		c.say("preemptions", preempted, "preemptions", in.ServerFrom)
	}
	switch {
	case share >= 0.25 || share >= 0.1 && preempted > 0:
		c.Confidence = High
	case n == 0:
		c.Sentence = fmt.Sprintf("The KV cache ran full at times: %.0f running requests were preempted and computed again.", preempted)
	}
	return c
}

func cacheFull(sentence string) *Cause {
	return &Cause{
		Name: KVCacheFull, Kind: Limit, Confidence: Medium, Sentence: sentence,
		Try: []string{
			"more cache: --gpu-memory-utilization nearer to 0.95, --kv-cache-dtype fp8, --tensor-parallel-size up, quantized weights",
			"fewer at once: --max-num-seqs below the number that fits keeps running requests from being preempted",
			"spate plan: shows how many GPUs this load needs",
		},
	}
}

// manyTokens is a number of cached tokens that can fill a server; with less, a queue has other reasons.
const manyTokens = 50_000

// kvByLittle is the possibility that is left when requests queued, and fewer were decoded at once than engines allow.
func kvByLittle(in *Input) *Cause {
	decoded, waited := in.decoded()
	held := decoded * (in.MeanIn + in.MeanOut/2)
	if waited < 0.3 || !in.more(1.5*decoded) || held < manyTokens || maxSeqsByLittle(in) != nil || in.MeanOut < 16 {
		return nil
	}
	c := cacheFull(fmt.Sprintf("Requests queued while %.0f were decoded at once, fewer than engines allow by default: the KV cache may have been full.", decoded))
	c.Confidence, c.Share = Low, waited
	c.say("decoded at once, by Little's law", decoded, "requests", in.Source)
	c.say("cache they hold", held, "tokens", in.Source)
	c.say("share of E2EL before the first token", waited, "share", in.Source)
	c.Needs = []string{"the used share of the cache during the run, from /metrics or the engine's log"}
	return c
}

// decoded is how many requests were decoded at once, by Little's law, and the share of its time that a request waited
// for its first token.
func (in *Input) decoded() (requests, waited float64) {
	return in.RequestRate * (in.E2EL.Mean - in.TTFT.Mean) / 1000, over(in.TTFT.Mean, in.E2EL.Mean)
}

// queueShare is the share of its time that a request waited in the server's queue; where the server does not tell, all
// of the time before the first token.
func (in *Input) queueShare() float64 {
	if in.Server != nil && in.Server.Queue != nil && in.E2EL.Mean > 0 {
		return min(1, in.Server.Queue.MeanMS/in.E2EL.Mean)
	}
	_, waited := in.decoded()
	return min(1, waited)
}

// usual are the numbers of sequences that engines take at most when nobody says otherwise, or that people choose.
var usual = []float64{64, 128, 256, 512, 1024}

// plateau is what the moments with a queue say about how many requests ran.
type plateau struct {
	queued  float64 // share of moments with requests waiting and room in the cache
	n       int     // of them
	most    float64 // running
	at      float64 // share of them with as good as the most running
	waiting float64 // mean
}

func (in *Input) plateau() plateau {
	var p plateau
	for _, l := range in.Looks {
		if l.Waiting >= 1 && l.KV < full {
			p.n++
			p.waiting += l.Waiting
			p.most = max(p.most, l.Running)
		}
	}
	if p.n == 0 {
		return p
	}
	at := 0
	for _, l := range in.Looks {
		if l.Waiting >= 1 && l.KV < full && l.Running >= 0.97*p.most {
			at++
		}
	}
	p.queued, p.at, p.waiting = over(float64(p.n), float64(len(in.Looks))), float64(at)/float64(p.n), p.waiting/float64(p.n)
	return p
}

// maxNumSeqs looks for a queue while the number that runs stands still below a full cache.
func maxNumSeqs(in *Input) *Cause {
	if len(in.Looks) == 0 {
		return maxSeqsByLittle(in)
	}
	p := in.plateau()
	if p.queued < 0.2 || p.most < 2 {
		return nil
	}
	known := in.MaxSeqs > 0 && p.most >= 0.97*float64(in.MaxSeqs)
	c := atMaxSeqs(p.most)
	c.Share = in.queueShare()
	switch {
	case known, isUsual(p.most) && p.at >= 0.5 && p.n >= 3:
		c.Confidence = High
	case in.MaxSeqs > 0:
		return nil // told, and not reached
	case isUsual(p.most) && p.at >= 0.5, p.at >= 0.7 && p.n >= 5 && in.chosen(p.most):
		c.Confidence = Medium
	default:
		return nil
	}
	c.say("running while others wait, at most", p.most, "requests", in.LooksFrom)
	c.say("moments with a queue at that number", p.at, "share", in.LooksFrom)
	c.say("waiting then, mean", p.waiting, "requests", in.LooksFrom)
	if in.MaxSeqs > 0 {
		c.say("--max-num-seqs", float64(in.MaxSeqs), "requests", "the server's command line")
	}
	in.sayQueue(c)
	return c
}

// chosen reports whether a number that running requests stand still at looks like somebody's setting. An engine that
// is busy with long prompts also runs a steady number, a small one of no particular roundness; but then those that run
// spend their time on prompts, too.
func (in *Input) chosen(n float64) bool {
	decoding := in.clocks() && in.Server.Prefill.MeanMS < 0.25*in.Server.Decode.MeanMS
	return decoding || in.MeanIn < 4*in.MeanOut || n >= 8 && math.Mod(n, 8) == 0
}

func atMaxSeqs(n float64) *Cause {
	return &Cause{
		Name: MaxNumSeqs, Kind: Limit,
		Sentence: fmt.Sprintf("Requests queued at the number of sequences the server runs at once, which is %.0f; the cache had room for more.", n),
		Try: []string{
			fmt.Sprintf("--max-num-seqs above %.0f, as far as the cache goes: throughput grows until decoding is bound by compute", n),
			"a lower rate or --max-concurrency, if TTFT matters more than throughput",
			"another replica (--data-parallel-size)",
		},
	}
}

func isUsual(n float64) bool { return slices.Contains(usual, n) }

// maxSeqsByLittle guesses from figures alone: by Little's law, rate times time in decoding is how many were decoded at
// once. When requests spent most of their time before that, and that number is one that servers are limited to, the
// limit is likely.
func maxSeqsByLittle(in *Input) *Cause {
	decoded, waited := in.decoded()
	if waited < 0.5 || decoded <= 0 || !in.more(1.5*decoded) {
		return nil
	}
	limits := []float64{256, 1024} // vLLM's defaults
	if in.MaxSeqs > 0 {
		limits = []float64{float64(in.MaxSeqs)}
	}
	i := slices.IndexFunc(limits, func(n float64) bool { return decoded >= 0.88*n && decoded <= 1.02*n })
	if i < 0 {
		return nil
	}
	c := atMaxSeqs(limits[i])
	c.Confidence, c.Share = Medium, min(1, waited)
	c.Sentence = fmt.Sprintf("Requests queued while %.0f were decoded at once, which is a usual limit of sequences (--max-num-seqs).", limits[i])
	c.say("decoded at once, by Little's law", decoded, "requests", in.Source)
	c.say("share of E2EL before the first token", waited, "share", in.Source)
	c.Needs = []string{"running and waiting requests during the run, from /metrics or the engine's log, to be sure"}
	return c
}

// more reports whether the client offered more than so many requests at once.
func (in *Input) more(than float64) bool {
	switch {
	case in.Cap > 0:
		return float64(in.Cap) > than
	case in.Burst:
		return float64(in.Prompts) > than
	}
	return in.InFlight > than
}

// parts is where the time of a request goes. Without the server's clocks the queue is part of first.
func (in *Input) parts() (queue, first, decode float64, from string) {
	if s := in.Server; in.clocks() {
		return s.Queue.MeanMS, s.Prefill.MeanMS, s.Decode.MeanMS, in.ServerFrom
	}
	return 0, in.TTFT.Mean, max(0, in.E2EL.Mean-in.TTFT.Mean), in.Source
}

// held reports whether requests were kept out by another limit than the engine's speed.
func held(in *Input) bool {
	for _, c := range []*Cause{kvCacheFull(in), maxNumSeqs(in)} {
		if c != nil && c.Confidence != Low {
			return true
		}
	}
	return false
}

// prefillBound: prompts are where the engine's time goes, so that requests wait for their first token although there is
// a place and memory for them, and those that are answered wait between tokens for others' prompts.
func prefillBound(in *Input) *Cause {
	queue, first, decode, from := in.parts()
	total := queue + first + decode
	if total <= 0 || held(in) {
		return nil
	}
	share := (queue + first) / total
	sure := in.prefillShown(share, queue/total)
	if sure == "" {
		return nil
	}
	c := &Cause{
		Name: PrefillBound, Kind: Limit, Confidence: sure, Share: share,
		Sentence: fmt.Sprintf("%.0f %% of a request's time passed before its first token, in the queue or while its prompt was computed, although there was room for more requests.", 100*share),
		Try: []string{
			"--max-num-batched-tokens 8192 or more for throughput; chunked prefill (--enable-chunked-prefill) with a smaller one for ITL",
			"prefix caching, if prompts begin alike in production",
			"more compute per prompt: --tensor-parallel-size, fp8 weights; or separate prefill instances",
		},
	}
	if !in.clocks() {
		c.Sentence = fmt.Sprintf("Requests spent %.0f %% of their time before the first token: computing prompts, or something else before the first token, was the limit.", 100*share)
		c.Needs = []string{"the server's own queue and prefill times, which vLLM's /metrics has"}
	}
	c.say("share of a request's time before its first token", share, "share", from)
	if in.MeanOut > 0 {
		c.say("prompt tokens per output token", in.MeanIn/in.MeanOut, "", in.Source)
	}
	if in.ITL.Median > 0 {
		c.say("p99 ITL over its median: tokens that waited for a prompt", in.ITL.P99/in.ITL.Median, "", in.Source)
	}
	in.sayQueue(c)
	in.soften(c, "TTFT is mostly prompts being computed, but the load was below what the server can take.")
	return c
}

// clocks reports whether the server told where its time went.
func (in *Input) clocks() bool {
	return in.Server != nil && in.Server.Queue != nil && in.Server.Prefill != nil && in.Server.Decode != nil
}

// prefillShown is how far the shares of a request's time before its first token, and in the queue, show that prompts
// bound the server; empty when they do not.
func (in *Input) prefillShown(before, queue float64) Confidence {
	waits := in.ITL.Median > 0 && in.ITL.P99 >= 4*in.ITL.Median
	long := in.MeanOut > 0 && in.MeanIn >= 4*in.MeanOut
	alone := in.InFlight > 0 && in.InFlight < 1.2 // nobody to wait for
	switch clocks := in.clocks(); {
	case clocks && before >= 0.5 && (queue >= 0.2 || long):
		return High
	case before >= 0.5 && (clocks || alone || long && waits):
		return Medium
	case before >= 0.3 && (clocks || long) && waits:
		return Medium
	case before >= 0.3 && long:
		return Low
	}
	return ""
}

// fewRunning is the number of requests in a step below which reading the weights takes longer than computing with them,
// on any GPU sold for inference so far: they compute 150 to 600 operations in the time they read a byte.
const fewRunning = 100

// decodeBound: requests run at once, and their time goes into one token after the other. What bounds those steps is
// how fast the weights and the cache can be read.
func decodeBound(in *Input) *Cause {
	queue, first, decode, from := in.parts()
	total := queue + first + decode
	share := over(decode, total)
	if share < 0.6 || held(in) || in.waits() {
		return nil
	}
	c := &Cause{
		Name: DecodeBound, Kind: Limit, Confidence: Medium, Share: share,
		Sentence: fmt.Sprintf("Requests spent %.0f %% of their time in decoding, one token each %.1f ms.", 100*share, in.TPOT.Mean),
		Try: []string{
			"less to read per token: fp8 or int4 weights, --kv-cache-dtype fp8",
			"more GPUs that read at once: --tensor-parallel-size",
			"several tokens per step: speculative decoding (--speculative-config)",
		},
	}
	running := in.running()
	if running >= 1 && running < fewRunning {
		c.Sentence += fmt.Sprintf(" With %.0f running, a step reads all weights to make few tokens: memory bandwidth is the likely bound, or the link between GPUs that share a layer.", running)
		c.Try = append(c.Try, "more requests at once: throughput grows nearly with their number until steps are bound by compute")
	}
	if share >= 0.8 && (len(in.Looks) > 0 || in.clocks()) {
		c.Confidence = High
	}
	c.say("share of a request's time in decoding", share, "share", from)
	c.say("mean TPOT", in.TPOT.Mean, "ms", in.Source)
	if running > 0 {
		c.say("running, mean", running, "requests", in.runningFrom())
	}
	if in.Bandwidth != nil {
		c.say("memory bandwidth in use", *in.Bandwidth, "share", "the GPUs")
	} else {
		c.Needs = []string{"the GPUs' memory bandwidth in use, from a DCGM exporter with profiling fields (--gpu-metrics URL), to see the bound itself"}
	}
	in.soften(c, "Latency is mostly decoding, but the load was below what the server can take.")
	return c
}

// soften turns a limit into an account of latency where the load was below capacity.
func (in *Input) soften(c *Cause, sentence string) {
	if b := belowCapacity(in); b != nil && b.Confidence != Low && in.Rate > 0 {
		c.Confidence, c.Sentence = Low, sentence
	}
}

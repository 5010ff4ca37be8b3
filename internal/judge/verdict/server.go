package verdict

import (
	"fmt"
	"math"
	"strings"

	"spate/internal/judge/stats"
)

// Above these shares of prompt tokens a prefix cache bends, and makes, the result. Some hits are
// normal: a chat template puts the same words before every prompt.
const (
	cacheBends = 0.10
	cacheMakes = 0.50
)

// fastRepeat is the ratio of TTFT below which a repeated prompt was hardly computed again.
const fastRepeat = 0.5

// minRepeats is the number of repeats that make their median worth a sentence.
const minRepeats = 5

// prefixCache looks for prompts the server had seen before, by the best sign there is: its own
// counters, cached tokens in its answers, or else TTFT of repeats and of an earlier run.
func prefixCache(in *Input) Finding {
	c := in.Summary.Cache
	const hint = "--salt auto makes the prompts of each run its own; or use another --seed, or reset the server's prefix cache between runs"
	cached := func(share float64, by string) Finding {
		if in.Settings.SharedPrefix {
			f := graded(share, "share", 1, 0, "", "", "")
			f.Sentence = percent(share) + " of prompt tokens came from the prefix cache, by " + by + "; this workload shares prefixes on purpose."
			return f
		}
		return graded(share, "share", cacheBends, cacheMakes,
			percent(share)+" of prompt tokens came from the prefix cache, by "+by+".",
			percent(share)+" of prompt tokens came from the server's prefix cache, by "+by+", so TTFT and throughput are better than for new prompts.",
			hint)
	}
	switch {
	case in.Server != nil && in.Server.PrefixQueries > 0:
		return cached(part(in.Server.PrefixHits, in.Server.PrefixQueries), "the server's counters")
	case c.Reported > 0:
		return cached(c.Share, "the usage in its answers")
	case in.Settings.SharedPrefix:
		return unmeasured("This workload shares prefixes on purpose.")
	case c.Repeats >= minRepeats && c.FirstTTFT > 0:
		return fasterBy(c.RepeatTTFT/c.FirstTTFT, c.RepeatTTFT, c.FirstTTFT, "repeated prompts", "new ones", hint)
	case in.Earlier != nil && in.Earlier.MedianTTFT > 0 && in.Summary.TTFT.N > 0:
		now := in.Summary.TTFT.Median
		return fasterBy(now/in.Earlier.MedianTTFT, now, in.Earlier.MedianTTFT, "these prompts", "the same ones in an earlier run", hint)
	}
	return unmeasured("It is not known whether the prefix cache was used: there are no server counters, no cached tokens and no repeated prompts.")
}

// fasterBy judges how much faster the first token came than it should have. The figure is how far
// the ratio lies below one.
func fasterBy(ratio, got, want float64, these, those, hint string) Finding {
	return graded(math.Max(0, 1-ratio), "faster", 1-fastRepeat, 0,
		fmt.Sprintf("Median TTFT of %s is %.2f ms, of %s %.2f ms: no sign of a cache.", these, got, those, want),
		fmt.Sprintf("median TTFT of %s is %.2f ms, of %s %.2f ms: they probably came from a cache.", these, got, those, want),
		hint)
}

// outputLengths judges whether the server wrote what it was asked to write in full.
func outputLengths(in *Input) Finding {
	m := in.Summary.Lengths.OutMatch
	if m.N == 0 {
		return unmeasured("Output lengths received are not known.")
	}
	if !in.Settings.IgnoreEOS {
		f := graded(1-m.Honoured, "share", 1, 0, "", "", "")
		f.Sentence = fmt.Sprintf("Answers were allowed to end early; they have %s of the tokens allowed.", percent(m.MeanRatio))
		return f
	}
	off := 1 - m.Honoured
	return graded(off, "share", 0.01, 0.10,
		"The server wrote the lengths asked for in "+percent(m.Honoured)+" of answers.",
		fmt.Sprintf("%d of %d answers had another length than asked for (%d shorter, %d longer), so throughput is not comparable.", m.N-m.Exact, m.N, m.Short, m.Long),
		"the server may ignore ignore_eos: check that it is supported, and the model's maximum length")
}

// finishReasons judges whether answers can be told from ones that broke off: by a finish reason, or by
// having all the tokens asked for.
func finishReasons(in *Input) Finding {
	l := &in.Summary.Lengths
	all := 0
	for _, n := range l.Finish {
		all += n
	}
	if all == 0 {
		return unmeasured("No answer was generated, so none had to say why it ended.")
	}
	good := "Every answer said why it ended."
	if n := l.Finish["none"]; n > 0 {
		good = fmt.Sprintf("%d of %d answers named no finish reason; %d of them are shorter than asked for.", n, all, l.Unexplained)
	}
	return graded(part(float64(l.Unexplained), float64(all)), "share", 0.01, 0, good,
		fmt.Sprintf("%d of %d answers named no finish reason and are shorter than asked for, so they may be incomplete.", l.Unexplained, all),
		"the server ends streams with [DONE] alone: ask for fixed lengths (--ignore-eos), or read some answers (--save-detailed)")
}

// templateTokens is how many tokens a chat template may put around a prompt: a system message of one sentence, and the
// marks between turns.
const templateTokens = 40

// inputLengths judges whether the server counted the prompt lengths meant to be sent.
func inputLengths(in *Input) Finding {
	m := in.Summary.Lengths.InputMatch
	if m.N == 0 {
		return unmeasured("The server did not report prompt lengths.")
	}
	off := math.Abs(1 - m.MeanRatio)
	if counted := part(float64(in.Summary.TotalInput), float64(in.Summary.Completed)); m.MeanRatio > 1 && counted > 0 && counted*(1-1/m.MeanRatio) <= templateTokens {
		f := graded(off, "share", math.Max(off, 0.10), 0, "", "", "")
		f.Sentence = "The server counted " + percent(m.MeanRatio) + " of the prompt tokens meant to be sent; a chat template's tokens explain that."
		return f
	}
	bound := 0.10
	if in.Settings.Guessed { // the plan says that lengths are estimates; only a bad one is news
		bound = 0.25
	}
	return graded(off, "share", bound, 0,
		"The server counted "+percent(m.MeanRatio)+" of the prompt tokens meant to be sent.",
		"the server counted "+percent(m.MeanRatio)+" of the prompt tokens meant to be sent.",
		"use the served model's own tokenizer (--tokenizer); a chat template adds tokens of its own")
}

// tokenCounts judges whether the server's output counts fit the answers they came with.
func tokenCounts(in *Input) Finding {
	l := in.Summary.Lengths
	if in.Summary.Completed == 0 {
		return unmeasured("No answer came, so there are no token counts to check.")
	}
	return graded(part(float64(l.Contradicted), float64(in.Summary.Completed)), "share", 0, 0,
		"The server's token counts fit its answers.",
		fmt.Sprintf("%d answers came with token counts of up to %d, which neither their bytes nor the tokens asked for allow; they are left out.", l.Contradicted, l.MaxClaimed),
		"their tokens are counted here instead, by the tokenizer or by chunks: name the served model's with --tokenizer")
}

// firstChunk judges whether the first chunk, which ends the compatible TTFT, had anything in it: some
// servers send a chat's role as soon as a request is accepted.
func firstChunk(in *Input) Finding {
	ttft, token := in.Summary.TTFT.Median, in.Summary.Clocks.FirstToken.Median
	if in.Summary.Clocks.FirstToken.N == 0 || token <= 0 {
		return unmeasured("No answer had a first token separate from the rest.")
	}
	return graded(math.Max(0, 1-ttft/token), "share", 0.10, 0,
		"First chunks had content, so TTFT is the time to a token.",
		fmt.Sprintf("first chunks were empty: median TTFT is %.2f ms, and the first token came after %.2f ms, so TTFT is too short and TPOT too long.", ttft, token),
		"read the time to the first token of any kind instead (clocks.first_token_ms in result.json)")
}

// chunkTokens judges whether chunks can stand for tokens, as the compatible ITL takes them to.
func chunkTokens(in *Input) Finding {
	s := in.Summary.Streaming
	if s.Chunks == 0 || s.TokensPerChunk == 0 {
		return unmeasured("No answer came in chunks.")
	}
	return graded(s.TokensPerChunk, "tokens/chunk", 1.05, 0,
		fmt.Sprintf("A chunk is a token (%.2f on average), so ITL is per token.", s.TokensPerChunk),
		fmt.Sprintf("chunks carry %.2f tokens on average, so ITL is per chunk; per token it is %.2f ms.", s.TokensPerChunk, s.TokenITL.Mean),
		"read the token-true ITL, or TPOT")
}

// sampleSize judges whether the percentiles the user named have enough samples under them.
func sampleSize(in *Input) Finding {
	if len(in.Settings.Percentiles) == 0 {
		return unmeasured("No percentile was asked for by name; those below their sample floor are marked.")
	}
	if in.Summary.Completed == 0 {
		return unmeasured("No answer came, so there are no percentiles.")
	}
	n := in.Summary.TTFT.N
	var short []string
	need := 0
	for _, p := range in.Settings.Percentiles {
		if floor := stats.Floor(p, 0.95); n < floor {
			short = append(short, stats.PercentileName(p))
			need = max(need, floor)
		}
	}
	return graded(float64(len(short)), "percentiles", 0, 0,
		fmt.Sprintf("%d requests are enough for the percentiles asked for.", n),
		fmt.Sprintf("%d requests are too few for %s: %d would bound it with 95 %% confidence.", n, strings.Join(short, ", "), need),
		fmt.Sprintf("send at least %d requests, or read a lower percentile", need))
}

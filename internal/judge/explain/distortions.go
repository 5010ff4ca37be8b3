package explain

import "fmt"

// network: first tokens took longer than the server's own queue and prefill, by what is on the way.
func network(in *Input) *Cause {
	c := &Cause{Name: Network, Kind: Distortion, Confidence: Medium}
	switch {
	case in.TTFT.Mean <= 0:
		return nil
	case in.Rest != nil && *in.Rest >= max(5, 0.3*in.TTFT.Mean):
		if *in.Rest >= 0.5*in.TTFT.Mean {
			c.Confidence = High
		}
		c.Share = min(1, over(*in.Rest, in.E2EL.Mean))
		c.Sentence = fmt.Sprintf("%.1f ms of the mean TTFT of %.1f ms are neither the server's queue nor its prefill: the network, or its front end.", *in.Rest, in.TTFT.Mean)
		c.say("TTFT less the server's queue and prefill", *in.Rest, "ms", in.ServerFrom)
	case in.Rest == nil && in.RTT >= max(5, 0.3*in.TTFT.Mean):
		c.Share = min(1, over(in.RTT, in.E2EL.Mean))
		c.Sentence = fmt.Sprintf("The round trip to the server takes %.1f ms, a large part of the mean TTFT of %.1f ms.", in.RTT, in.TTFT.Mean)
	default:
		return nil
	}
	c.say("mean TTFT", in.TTFT.Mean, "ms", in.Source)
	if in.RTT > 0 {
		c.say("round trip", in.RTT, "ms", "connections opened before the run")
	}
	if in.Rest != nil && in.RTT > 0 && in.RTT < 0.3**in.Rest {
		c.Sentence += " The network is fast, so it is more likely the front end: HTTP, templates, tokenizing, a gateway."
		c.Try = append(c.Try, "more front ends (--api-server-count); check proxies and gateways in between")
	}
	c.Try = append(c.Try,
		"run the client beside the server, and compare",
		"--connect ahead and reused connections; a round trip more shows where handshakes fall into the latency")
	return c
}

// hits is the share of cached prompt tokens that chat templates do not explain.
const hits = 0.10

// prefixCache: prompts the server had seen before make prefill look faster than it is.
func prefixCache(in *Input) *Cause {
	if in.CachedRate == nil || *in.CachedRate < hits || in.SharedPrefix {
		return nil
	}
	c := &Cause{
		Name: PrefixCache, Kind: Distortion, Confidence: Medium,
		Sentence: fmt.Sprintf("%.0f %% of prompt tokens came from the prefix cache, though the workload does not share prefixes on purpose: TTFT and throughput look better than for new prompts.", 100**in.CachedRate),
		Try: []string{
			"another --seed, or a --salt, for each run",
			"--reset-prefix-cache before it, or a server without the cache (--no-enable-prefix-caching)",
		},
	}
	if in.CachedFrom != "" && in.Records && *in.CachedRate >= 0.3 {
		c.Confidence = High // counted during this very run
	}
	c.say("prompt tokens from the cache", *in.CachedRate, "share", in.CachedFrom)
	if !in.Records {
		c.Needs = []string{"the counters before and after this run: what a log prints covers earlier runs too"}
	}
	return c
}

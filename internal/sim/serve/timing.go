package serve

import "time"

// TimetableConfig is what all requests share.
type TimetableConfig struct {
	TTFT        time.Duration // from arrival (or from leaving the queue) to the first output
	ITL         time.Duration // between one output and the next
	ChunkTokens int           // tokens per output; 0 means 1
	Jitter      float64       // each TTFT and gap is multiplied by a factor uniform in [1-Jitter, 1+Jitter]
	TTFTSpread  time.Duration // added to each TTFT, uniform in [0, TTFTSpread): takes streams out of step
	Prefill     time.Duration // added to TTFT per 1,000 prompt tokens not found in the prefix cache
	OutputLen   int           // tokens after which an answer ends by itself; 0 means never; ignore_eos overrides it
	OutputVary  float64       // makes OutputLen uniform in [1-OutputVary, 1+OutputVary] times itself
	MaxRunning  int           // requests served at a time, the rest waits in order; 0 means all
	Reasoning   int           // first tokens of each chat answer that are reasoning
	ToolTokens  int           // last tokens of each chat answer that are a tool call
	PrefixCache bool          // remember prompts by block
	CacheBlocks int           // blocks remembered; 0 means 65,536
	BlockSize   int           // tokens per block; 0 means 16
	Seed        uint64
}

// Timing overrides the timetable for one request. A zero field leaves the timetable's value.
type Timing struct {
	TTFT    *time.Duration
	ITL     []time.Duration // gap before output 1, 2, ...; the last one repeats
	Chunks  []int           // tokens of output 0, 1, ...; the last one repeats
	Output  int             // tokens to answer with
	Finish  Finish          // how it ends, with Output
	StallAt int             // output before which to pause
	Stall   time.Duration   // how long; negative means for ever, zero means no pause
}

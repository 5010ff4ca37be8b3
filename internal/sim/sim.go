// Package sim is a serving engine as a state machine: requests go in, batches are planned, and
// committing a batch gives tokens. It has no goroutine and no clock; a driver (sim/cluster in virtual
// time, sim/serve on the wall clock) decides when things happen and asks sim/latency how long a step
// takes. Memory is kept by sim/kv. Start with Engine; the policies are in v1.go and v0.go.
//
// The life of a request: Submit puts it in a queue, Plan gives it blocks and tokens to compute,
// Commit ends the step and hands out what was sampled. A request that loses its blocks goes back to
// the front of the queue and computes its prompt and its output again.
package sim

import (
	"errors"
	"fmt"
	"time"

	"spate/internal/sim/kv"
	"spate/internal/sim/latency"
)

// Policy is the way an engine forms batches.
type Policy string

// The policies.
const (
	V1        Policy = "vllm-v1"         // running first, then waiting, one token budget
	V0        Policy = "vllm-v0"         // whole prompts first, decodes only when none fits
	V0Chunked Policy = "vllm-v0-chunked" // decodes first, prompts in chunks fill the budget
	SGLang    Policy = "sglang"          // prompts first, in chunks, admitted against expected growth
	LMDeploy  Policy = "lmdeploy"        // decodes always, prompts beside them under a budget of their own
)

// Config is everything that shapes scheduling. The zero value of an option is the option turned off.
type Config struct {
	Policy        Policy  `json:"policy"`
	MaxSeqs       int     `json:"max_num_seqs"`
	MaxTokens     int     `json:"max_num_batched_tokens"`
	MaxModelLen   int     `json:"max_model_len,omitempty"` // 0: only the cache limits a request
	BlockSize     int     `json:"block_size"`
	Blocks        int     `json:"num_gpu_blocks"` // as the engine logs it
	WholePrompts  bool    `json:"whole_prompts,omitempty"`
	LongPrefill   int     `json:"long_prefill_token_threshold,omitempty"`
	PrefixCaching bool    `json:"enable_prefix_caching,omitempty"`
	ReserveFull   bool    `json:"scheduler_reserve_full_isl,omitempty"` // admit only what fits with its whole prompt
	Watermark     float64 `json:"watermark,omitempty"`                  // share of blocks kept free at admission
	DelayFactor   float64 `json:"scheduler_delay_factor,omitempty"`
	Pipeline      int     `json:"pipeline_parallel_size,omitempty"`
	Async         bool    `json:"async_scheduling,omitempty"`
	UnhashedFirst bool    `json:"reuse_unhashed_first,omitempty"`
	NullBlock     bool    `json:"null_block,omitempty"`    // one block is never used
	CountRetries  bool    `json:"count_retries,omitempty"` // prefix statistics as before vLLM 0.11: every attempt to admit counts
	Window        int     `json:"sliding_window,omitempty"`
	WindowGroups  int     `json:"window_groups,omitempty"` // block groups beside the full one that hold only the window
	Drafts        int     `json:"num_speculative_tokens,omitempty"`
	Acceptance    float64 `json:"acceptance_rate,omitempty"` // chance that a draft is accepted, given the one before was
	LoRASlots     int     `json:"max_loras,omitempty"`
	Steps         int     `json:"num_scheduler_steps,omitempty"`  // first scheduler: decode steps per decision
	SwapBlocks    int     `json:"num_cpu_blocks,omitempty"`       // first scheduler: room for blocks in the host's memory
	Swap          bool    `json:"preemption_mode_swap,omitempty"` // ... used for every request, not only for those with several answers
	ReserveRatio  float64 `json:"new_token_ratio,omitempty"`      // SGLang: share of the allowed output that admission sets aside
	Seed          uint64  `json:"seed,omitempty"`
}

// ErrConfig marks settings that no engine would start with.
var ErrConfig = errors.New("engine settings do not fit together")

// ErrTooLong marks a request that the engine could never finish.
var ErrTooLong = errors.New("request does not fit the engine")

// Check reports why an engine with these settings would not start.
func (c *Config) Check() error {
	switch c.Policy {
	case V1, V0, V0Chunked, SGLang, LMDeploy:
	default:
		return fmt.Errorf("%w: unknown policy %q", ErrConfig, c.Policy)
	}
	switch {
	case c.MaxSeqs < 1 || c.BlockSize < 1 || c.MaxTokens < 1:
		return fmt.Errorf("%w: max_num_seqs %d, block_size %d and max_num_batched_tokens %d must be positive",
			ErrConfig, c.MaxSeqs, c.BlockSize, c.MaxTokens)
	case c.Policy != LMDeploy && c.MaxTokens < c.MaxSeqs:
		return fmt.Errorf("%w: max_num_batched_tokens %d is below max_num_seqs %d", ErrConfig, c.MaxTokens, c.MaxSeqs)
	case c.whole() && c.MaxModelLen > c.MaxTokens:
		return fmt.Errorf("%w: max_num_batched_tokens %d is below max_model_len %d and prompts are not cut",
			ErrConfig, c.MaxTokens, c.MaxModelLen)
	case c.laneBlocks() < 1 || c.MaxModelLen > c.laneBlocks()*c.BlockSize:
		return fmt.Errorf("%w: %d blocks of %d tokens hold no request of max_model_len %d",
			ErrConfig, c.laneBlocks(), c.BlockSize, c.MaxModelLen)
	}
	return nil
}

// whole reports whether prompts are computed in one piece.
func (c *Config) whole() bool { return c.Policy == V0 || c.WholePrompts }

// lanes is the number of schedulers: the old engine has one per pipeline stage.
func (c *Config) lanes() int {
	if c.Policy == V0 || c.Policy == V0Chunked {
		return max(1, c.Pipeline)
	}
	return 1
}

func (c *Config) laneBlocks() int {
	n := c.Blocks / c.lanes()
	if c.NullBlock {
		n--
	}
	return n
}

// Depth is the number of batches that may be under way at once.
func (c *Config) Depth() int {
	d := max(1, c.Pipeline)
	if c.Async {
		d++
	}
	return d
}

// Request is one prompt to answer.
type Request struct {
	ID        int           // unique among the requests in the engine
	Arrive    time.Duration // when it reached the engine
	Prompt    []kv.Segment
	Out       int    // tokens it will generate
	Stops     bool   // ends there by itself (EOS) rather than at its limit
	MaxOut    int    // tokens it may generate, for policies that reserve room; 0: Out
	OutStream uint64 // identity of the generated tokens; 0: shared with nobody
	Adapter   int    // LoRA adapter, 0 for none
	Remote    bool   // its prompt was computed elsewhere and has to be received
	Group     uint64 // requests that are several answers to one prompt, which is computed once; 0: alone
}

// Item is one request's part in a batch.
type Item struct {
	ID      int
	Tokens  int  // tokens computed
	Context int  // tokens before them
	Decode  bool // one generated token, or a few speculated ones
	Sample  bool // ends with a new token
	Receive bool // its tokens arrive from another engine instead of being computed
}

// Admission is a request that left the queue.
type Admission struct {
	ID     int
	Cached int  // tokens found in the prefix cache
	Again  bool // it had been preempted
}

// Batch is a planned step. Items are valid until the next call of a method that plans.
type Batch struct {
	Index     int64 // counts planned steps
	Lane      int   // scheduler that planned it
	Shape     latency.Batch
	Items     []Item
	Receive   int // prompt tokens to be received before the step can run (blocking transfers)
	Admitted  []Admission
	Preempted []int // requests that lost their blocks
	Moved     int   // blocks moved to or from the host's memory before the step can run
	Repeat    int   // times the same items can be run in a row, each with one token more context
}

// Reason says why a request ended.
type Reason uint8

// Reasons to end.
const (
	Running Reason = iota
	Length         // reached its number of tokens
	Stop           // ended by itself
)

// Output is what one or more committed steps gave one request.
type Output struct {
	ID     int
	Tokens int  // tokens sampled, equally many in each step
	First  bool // the first of them is the request's first token
	Reason Reason
}

// Outputs is what a commit gave. It is valid until the next commit.
type Outputs struct {
	Steps int
	List  []Output
}

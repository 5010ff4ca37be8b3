package engineconf

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"spate/internal/sim"
	"spate/internal/sim/catalog"
)

const gib = 1 << 30

// StartLines is what the engine prints about its memory when it starts, without time and level.
func (c *Conf) StartLines() []string {
	b := &c.Budget
	lines := append(c.identity(), fmt.Sprintf("Model loading took %.4f GiB", b.Weights/gib))
	conc := fmt.Sprintf("Maximum concurrency for %s tokens per request: %.2fx", commas(c.MaxModelLen), b.Concurrency)
	cpu := c.hostBlocks()
	switch c.Engine.StartLog {
	case "blocks", "cuda-blocks":
		name := "GPU"
		if c.Engine.StartLog == "cuda-blocks" {
			name = "cuda"
		}
		lines = append(lines, fmt.Sprintf("# %s blocks: %d, # CPU blocks: %d", name, b.Blocks, cpu))
		if c.Engine.StartConc {
			lines = append(lines, strings.ReplaceAll(conc, ",", ""))
		}
	case "sglang":
		return []string{
			fmt.Sprintf("Load weight end. type=%s, avail mem=%.2f GB, mem usage=%.2f GB.", c.Model.Type, (b.Total-b.Weights)/gib, b.Weights/gib),
			fmt.Sprintf("KV Cache is allocated. #tokens: %d, KV size: %.2f GB", b.Tokens, b.KV/gib),
			fmt.Sprintf("max_total_num_tokens=%d, chunked_prefill_size=%d, max_prefill_tokens=16384, max_running_requests=%d, context_len=%d",
				b.Tokens, c.Tokens, c.Seqs, c.MaxModelLen),
		}
	default:
		if c.Engine.StartMemory {
			lines = append(lines, fmt.Sprintf("Available KV cache memory: %.2f GiB", b.KV/gib))
		}
		lines = append(lines, "GPU KV cache size: "+commas(b.Tokens)+" tokens", conc)
	}
	return lines
}

// identity is how vLLM says what it is and was asked for.
func (c *Conf) identity() []string {
	if c.Engine.Name != "vllm" {
		return nil
	}
	args := "non-default args: {" + strings.Join(c.Settings.nonDefault("'%s': %s"), ", ") + "}"
	if c.Engine.Family == catalog.V0 {
		args = "args: Namespace(" + strings.Join(c.Settings.nonDefault("%s=%s"), ", ") + ")"
	}
	return []string{"vLLM API server version " + c.Engine.Version, args}
}

// nonDefault lists the settings that were given, as Python writes them.
func (s *Settings) nonDefault(format string) []string {
	var out []string
	add := func(name, value string) { out = append(out, fmt.Sprintf(format, name, value)) }
	count := func(name string, v, usual int) {
		if v != usual && v != 0 {
			add(name, strconv.Itoa(v))
		}
	}
	truth := func(name string, v *bool) {
		if v != nil {
			add(name, map[bool]string{true: "True", false: "False"}[*v])
		}
	}
	if s.Model != "" {
		add("model", "'"+strings.ReplaceAll(s.Model, "'", `\'`)+"'")
	}
	count("max_model_len", s.MaxModelLen, 0)
	count("tensor_parallel_size", s.TP, 1)
	count("pipeline_parallel_size", s.PP, 1)
	count("data_parallel_size", s.DP, 1)
	if s.Util > 0 {
		add("gpu_memory_utilization", strconv.FormatFloat(s.Util, 'g', -1, 64))
	}
	count("block_size", s.Block, 0)
	truth("enable_prefix_caching", s.Prefix)
	count("num_gpu_blocks_override", s.Blocks, 0)
	count("max_num_batched_tokens", s.MaxTokens, 0)
	count("max_num_seqs", s.MaxSeqs, 0)
	truth("enable_chunked_prefill", s.Chunked)
	count("num_scheduler_steps", s.Steps, 1)
	truth("async_scheduling", s.Async)
	return out
}

// IterationLine words one step as --enable-logging-iteration-details does.
func IterationLine(b *sim.Batch, elapsed time.Duration, usage float64) string {
	s := &b.Shape
	return fmt.Sprintf("Iteration(%d): %d context requests, %d context tokens, %d generation requests, %d generation tokens, "+
		"iteration elapsed time: %.2f ms, GPU KV cache usage: %.1f%%",
		b.Index, s.Prompts, s.Prefill, s.Decode, s.Decode+s.Drafts, float64(elapsed)/1e6, 100*usage)
}

// Prefix is what the engine puts before a line of its log.
func (c *Conf) Prefix(at time.Time, pid int, source string) string {
	p := "INFO " + at.Format("01-02 15:04:05") + " "
	if c.Engine.LogProcess {
		p = fmt.Sprintf("(APIServer pid=%d) %s", pid, p)
	}
	if source != "" {
		p += source + " "
	}
	return p
}

// StatsLine words what happened between two snapshots, elapsed apart, as the engine's periodic line
// does: one snapshot per replica. The prompt rate counts computed tokens only.
func (c *Conf) StatsLine(before, after []sim.State, elapsed time.Duration) string {
	var d, now sim.State
	var queries, hits float64
	for i, a := range after {
		d.Stats.PromptTokens += a.Stats.PromptTokens - before[i].Stats.PromptTokens
		d.Stats.Tokens += a.Stats.Tokens - before[i].Stats.Tokens
		now.Running += a.Running
		now.Waiting += a.Waiting - a.Deferred
		now.Deferred += a.Deferred
		now.Swapped += a.Swapped
		now.Host += a.Host
		now.HostTotal += a.HostTotal
		now.Free += a.Free
		now.Total += a.Total
		queries++
		hits += a.HitRecent
	}
	rates := fmt.Sprintf("Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, ",
		rate(d.Stats.PromptTokens, elapsed), rate(d.Stats.Tokens, elapsed))
	usage := 100 * now.Usage()
	if c.Engine.Log == "v0" {
		return rates + fmt.Sprintf("Running: %d reqs, Swapped: %d reqs, Pending: %d reqs, GPU KV cache usage: %.1f%%, CPU KV cache usage: %.1f%%.",
			now.Running, now.Swapped, now.Waiting, usage, 100*float64(now.Host)/float64(max(1, now.HostTotal)))
	}
	head := "Engine 000: "
	if len(after) > 1 {
		head = fmt.Sprintf("%d Engines Aggregated: ", len(after))
	}
	line := head + rates + fmt.Sprintf("Running: %d reqs, Waiting: %d reqs, ", now.Running, now.Waiting)
	if now.Deferred > 0 {
		line += fmt.Sprintf("Deferred: %d reqs, ", now.Deferred)
	}
	return line + fmt.Sprintf("GPU KV cache usage: %.1f%%, Prefix cache hit rate: %.1f%%", usage, 100*hits/max(queries, 1))
}

// PrefixLine is the old engine's separate line about its prefix cache; empty for others.
func (c *Conf) PrefixLine(after []sim.State) string {
	if c.Engine.Log != "v0" || !c.PrefixOn || len(after) == 0 {
		return ""
	}
	return fmt.Sprintf("Prefix cache hit rate: GPU: %.2f%%, CPU: 0.00%%", 100*after[0].HitRecent)
}

// SpecLine words the speculative decoding figures of an interval; empty without drafts.
func (c *Conf) SpecLine(drafts, accepted, steps int64, elapsed time.Duration) string {
	if c.Sim.Drafts == 0 || drafts == 0 || steps == 0 {
		return ""
	}
	return fmt.Sprintf("SpecDecoding metrics: Mean acceptance length: %.2f, Accepted throughput: %.2f tokens/s, Drafted throughput: %.2f tokens/s, "+
		"Accepted: %d tokens, Drafted: %d tokens, Avg Draft acceptance rate: %.1f%%", 1+float64(accepted)/float64(steps),
		rate(accepted, elapsed), rate(drafts, elapsed), accepted, drafts, 100*float64(accepted)/float64(drafts))
}

// LogEvery is the time between two periodic lines; 0 for engines that print none.
func (c *Conf) LogEvery() time.Duration {
	return time.Duration(c.Engine.LogSeconds * float64(time.Second))
}

func rate(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// commas writes a number with a comma before every third digit.
func commas(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Describe says in one line what is simulated and how far to trust it.
func (c *Conf) Describe() string {
	s := fmt.Sprintf("%s %s, %s on %d x %s", c.Engine.Name, c.Engine.Version, c.Model.Name, c.TP*c.PP*c.DP, c.GPU.Name)
	if c.GPU.Low {
		s += " (" + c.GPU.Note + ")"
	}
	return s
}

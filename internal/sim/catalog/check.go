package catalog

import (
	"fmt"
	"strings"
)

// StartError is a refusal to start, in the form the engine prints it.
type StartError struct {
	Type    string // exception class
	Message string
}

// Error returns the last line of the traceback.
func (e *StartError) Error() string { return e.Type + ": " + e.Message }

func valueError(format string, args ...any) error {
	return &StartError{Type: "ValueError", Message: fmt.Sprintf(format, args...)}
}

// Check returns the error the engine would stop with before loading anything: settings that
// contradict each other or the model.
func (d *Deployment) Check() error {
	m := d.Model
	switch {
	case d.MaxModelLen > m.MaxLen:
		return valueError("User-specified max_model_len (%d) is greater than the derived max_model_len "+
			"(max_position_embeddings=%d or model_max_length=None in model's config.json). This may lead to incorrect model outputs "+
			"or CUDA errors. To allow overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1", d.MaxModelLen, m.MaxLen)
	case d.Util <= 0 || d.Util > 1:
		return valueError("GPU memory utilization must be less than 1.0. Got %v.", d.Util)
	case m.Heads%d.TP != 0:
		return valueError("Total number of attention heads (%d) must be divisible by tensor parallel size (%d).", m.Heads, d.TP)
	case !d.Chunked && d.Tokens < d.MaxModelLen:
		return valueError("max_num_batched_tokens (%d) is smaller than max_model_len (%d). This effectively limits the maximum "+
			"sequence length to max_num_batched_tokens and makes vLLM reject longer sequences. Please increase "+
			"max_num_batched_tokens or decrease max_model_len.", d.Tokens, d.MaxModelLen)
	case d.Tokens < d.Seqs:
		return valueError("max_num_batched_tokens (%d) must be greater than or equal to max_num_seqs (%d).", d.Tokens, d.Seqs)
	case d.Block < 1 || (d.Engine.Name == "vllm" && d.Block&(d.Block-1) != 0):
		return valueError("Block size must be a power of two, got %d.", d.Block)
	}
	return nil
}

// CheckMemory returns the error the engine would stop with once it has looked at the memory.
func (d *Deployment) CheckMemory(b *Budget) error {
	if b.Weights+b.Other > b.Total {
		free := max(b.Total-b.Other, 0)
		return &StartError{Type: "torch.OutOfMemoryError", Message: fmt.Sprintf(
			"CUDA out of memory. Tried to allocate %.2f MiB. GPU 0 has a total capacity of %.2f GiB of which %.2f MiB is free. "+
				"Including non-PyTorch memory, this process has %.2f GiB memory in use.",
			d.Model.ffnMiB(d.TP), b.Total/gib, 0.0, free/gib)}
	}
	if b.KV <= 0 || b.Blocks < 1 {
		return valueError("No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.")
	}
	need := d.requestBlocks(b.Groups, d.MaxModelLen)
	if need <= b.Blocks {
		return nil
	}
	if d.Engine.Family == V0 {
		return valueError("The model's max seq len (%d) is larger than the maximum number of tokens that can be stored in KV cache (%d). "+
			"Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.", d.MaxModelLen, b.Blocks*d.Block)
	}
	return valueError("To serve at least one request with the models's max seq len (%d), (%.2f GiB KV cache is needed, which is larger "+
		"than the available KV cache memory (%.2f GiB). Based on the available memory, the estimated maximum model length is %d. "+
		"Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
		d.MaxModelLen, float64(need)*float64(b.BlockBytes)/gib, b.KV/gib, d.longest(b))
}

// ffnMiB is the size of the allocation that usually fails first when weights do not fit.
func (m *Model) ffnMiB(tp int) float64 {
	ffn := m.FFN
	if m.MoE() {
		ffn = m.ExpertFFN * m.Experts
	}
	return 2 * float64(m.Hidden) * float64(ffn) * m.Quant.bits(m.Group) / 8 / float64(tp) / (1 << 20)
}

// UnknownFlag is what an engine's command line says about arguments it does not know.
func UnknownFlag(args []string) error {
	return &StartError{
		Type:    "vllm serve: error",
		Message: "unrecognized arguments: " + strings.Join(args, " "),
	}
}

package interop

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
)

// PyTorchEnv is the environment variable that asks vLLM for the PyTorch variant of its result.
const PyTorchEnv = "SAVE_TO_PYTORCH_BENCHMARK_FORMAT"

// pytorchIgnored are the result fields too big for a benchmark record.
var pytorchIgnored = []string{"ttfts", "itls", "generated_texts", "errors"}

// EncodePyTorch writes the result as PyTorch's benchmark dashboard takes it: one record per metric.
// args are the command's settings in order; model is --model as given.
func (v *VLLM) EncodePyTorch(args Object, model string) ([]byte, error) {
	result, err := v.Object()
	if err != nil {
		return nil, err
	}
	names := pytorchMetrics()
	var extra Object
	for _, f := range result {
		if !slices.Contains(names, f.Key) && !slices.Contains(pytorchIgnored, f.Key) {
			extra = append(extra, f)
		}
	}
	args = liftTensorParallel(args, extra)
	records := []any{}
	for _, name := range names {
		value, ok := result.Get(name)
		if !ok {
			continue
		}
		records = append(records, Object{
			{"benchmark", Object{{"name", "vLLM benchmark"}, {"extra_info", benchmarkInfo(args, extra)}}},
			{"model", Object{{"name", orNone(model)}}},
			{"metric", Object{{"name", name}, {"benchmark_values", []any{value}}, {"extra_info", extra}}},
		})
	}
	return AppendPython(nil, clearInf(records))
}

// PyTorchFileName is where the variant goes: beside the result.
func PyTorchFileName(result string) string {
	return strings.TrimSuffix(result, filepath.Ext(result)) + ".pytorch.json"
}

func pytorchMetrics() []string {
	var names []string
	for _, m := range []string{"ttft", "tpot", "itl"} {
		for _, s := range []string{"median", "mean", "std", "p99"} {
			names = append(names, s+"_"+m+"_ms")
		}
	}
	return names
}

// liftTensorParallel copies tensor_parallel_size from the metadata, where a client knows it from.
func liftTensorParallel(args, extra Object) Object {
	args = slices.Clone(args)
	if have, _ := args.Get("tensor_parallel_size"); have == nil {
		if tp, ok := extra.Get("tensor_parallel_size"); ok {
			args.Set("tensor_parallel_size", tp)
		}
	}
	return args
}

func benchmarkInfo(args, extra Object) Object {
	mode, _ := extra.Get("compilation_config.mode")
	level, _ := extra.Get("optimization_level")
	return Object{
		{"args", args},
		{"compilation_config.mode", mode},
		{"optimization_level", level},
		{"use_compile", mode != "0" && !mentionsEager(args)},
	}
}

func mentionsEager(args Object) bool {
	for _, key := range []string{"output_json", "result_filename"} {
		if name, ok := args.Get(key); ok {
			if s, ok := name.(string); ok && strings.Contains(s, "eager") {
				return true
			}
		}
	}
	return false
}

// clearInf replaces infinities by the string "inf", as the dashboard's reader wants strict JSON.
func clearInf(v any) any {
	switch v := v.(type) {
	case float64:
		if math.IsInf(v, 0) {
			return "inf"
		}
	case Object:
		out := make(Object, len(v))
		for i, f := range v {
			out[i] = Field{f.Key, clearInf(f.Value)}
		}
		return out
	case []any:
		return clearList(v)
	case []float64:
		return clearList(v)
	case [][]float64:
		return clearList(v)
	case []Object:
		return clearList(v)
	}
	return v
}

func clearList[T any](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = clearInf(v)
	}
	return out
}

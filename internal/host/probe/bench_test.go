package probe

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkParseCounters reads a page of the size that vLLM's has.
func BenchmarkParseCounters(b *testing.B) {
	var page strings.Builder
	for i := range 40 {
		name := fmt.Sprintf("vllm:histogram_%d_seconds", i)
		fmt.Fprintf(&page, "# HELP %s Some time.\n# TYPE %s histogram\n", name, name)
		for le := range 22 {
			fmt.Fprintf(&page, "%s_bucket{engine=\"0\",le=\"%d\",model_name=\"org/some-model-name\"} %d\n", name, le, le*100)
		}
		fmt.Fprintf(&page, "%s_bucket{engine=\"0\",le=\"+Inf\",model_name=\"org/some-model-name\"} 2200\n", name)
		fmt.Fprintf(&page, "%s_sum{engine=\"0\",model_name=\"org/some-model-name\"} 12.5\n%s_count{engine=\"0\",model_name=\"org/some-model-name\"} 2200\n", name, name)
		fmt.Fprintf(&page, "# TYPE vllm:gauge_%d gauge\nvllm:gauge_%d{engine=\"0\",model_name=\"org/some-model-name\"} 1\n", i, i)
	}
	b.SetBytes(int64(page.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseCounters(strings.NewReader(page.String())); err != nil {
			b.Fatal(err)
		}
	}
}

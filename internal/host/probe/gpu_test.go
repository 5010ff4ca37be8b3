package probe

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSMI(t *testing.T) {
	got, err := ParseSMI("3, 612.50, 98, 55, 70000, 61, 1980")
	want := GPU{Index: "3", Values: map[string]float64{
		"power": 612.5, "utilization": 0.98, "memory_utilization": 0.55, "memory_used": 70000 << 20, "temperature": 61, "clock": 1980,
	}}
	near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })
	if d := cmp.Diff(want, got, near); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	got, err = ParseSMI("0, [N/A], [Not Supported], 0, 1, 2, 3")
	if _, has := got.Values["power"]; err != nil || has || len(got.Values) != 4 {
		t.Errorf("%+v, %v, want what is known", got, err)
	}
	for _, bad := range []string{"", "No devices were found", "x, 1, 2, 3, 4, 5, 6", "0, 1", `0,"`} {
		if g, err := ParseSMI(bad); err == nil {
			t.Errorf("%q gave %+v", bad, g)
		}
	}
	if n := strings.Count(SMIQuery(), ","); n != len(smiColumns) {
		t.Errorf("asks for %s", SMIQuery())
	}
}

const dcgmPage = `# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",Hostname="n1"} 412.5
DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-b",Hostname="n1"} 70
# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-a",Hostname="n1"} 5000
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",GPU_I_ID="1",Hostname="n1"} 0.7
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",GPU_I_ID="2",Hostname="n1"} 0.2
other 1
`

func TestParseDCGM(t *testing.T) {
	got, err := ParseDCGM(strings.NewReader(dcgmPage))
	want := []GPU{
		{Index: "0", Values: map[string]float64{"power": 412.5, "energy": 5, "memory_bandwidth": 0.7}},
		{Index: "1", Values: map[string]float64{"power": 70}},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	two := strings.ReplaceAll(dcgmPage, `"GPU-b",Hostname="n1"`, `"GPU-b",Hostname="n2"`)
	if got, err = ParseDCGM(strings.NewReader(two)); err != nil || got[0].Index != "n1/0" || got[1].Index != "n2/1" {
		t.Errorf("two hosts: %+v, %v", got, err)
	}
	if _, err := ParseDCGM(strings.NewReader("vllm:num_requests_running 1\n")); err == nil || !strings.Contains(err.Error(), "exporter") {
		t.Errorf("another page: %v", err)
	}
}

func FuzzParseGPU(f *testing.F) {
	f.Add("3, 612.50, 98, 55, 70000, 61, 1980")
	f.Add(dcgmPage)
	f.Fuzz(func(t *testing.T, text string) {
		if g, err := ParseSMI(text); err == nil && g.Index == "" {
			t.Fatalf("%q is a GPU without a number", text)
		}
		gpus, err := ParseDCGM(strings.NewReader(text))
		if (err == nil) != (len(gpus) > 0) {
			t.Fatalf("%d GPUs with error %v", len(gpus), err)
		}
	})
}

func TestLevels(t *testing.T) {
	cases := []struct {
		name, page string
		want       map[string]float64
	}{
		{
			"vLLM, two engines",
			`vllm:num_requests_running{engine="0"} 3
vllm:num_requests_running{engine="1"} 5
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.7
# TYPE vllm:request_queue_time_seconds histogram
vllm:request_queue_time_seconds_bucket{le="0.3"} 1
vllm:request_queue_time_seconds_bucket{le="+Inf"} 2
vllm:request_queue_time_seconds_sum 1.5
vllm:request_queue_time_seconds_count 2
`,
			map[string]float64{"running": 8, "kv_usage": 0.6, "queue_sum": 1.5, "queue_count": 2},
		},
		{
			"SGLang", "sglang:num_running_reqs 2\nsglang:num_queue_reqs 1\nsglang:token_usage 0.25\nsglang:num_retracted_reqs_total 3\n",
			map[string]float64{"running": 2, "waiting": 1, "kv_usage": 0.25, "preemptions": 3},
		},
		{
			"TGI", "tgi_batch_current_size 4\ntgi_queue_size 2\ntgi_request_generated_tokens_sum 100\ntgi_request_generated_tokens_count 2\n",
			map[string]float64{"running": 4, "waiting": 2, "generation_tokens": 100},
		},
		{
			"llama.cpp", "llamacpp:requests_processing 1\nllamacpp:requests_deferred 6\nllamacpp:kv_cache_usage_ratio 0.1\nllamacpp:tokens_predicted_total 9\n",
			map[string]float64{"running": 1, "waiting": 6, "kv_usage": 0.1, "generation_tokens": 9},
		},
	}
	near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })
	for _, c := range cases {
		got, err := ParseCounters(strings.NewReader(c.page))
		if d := cmp.Diff(c.want, got.Levels(), near); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", c.name, err, d)
		}
	}
}

// The first look comes too early to tell how busy the cores are.
func TestPulse(t *testing.T) {
	p := NewPulse()
	p.at = p.at.Add(shortPulse) // as if it had begun a moment later
	if v := p.Look(); v["goroutines"] < 1 {
		t.Errorf("first look %v", v)
	}
	p.at = p.at.Add(-10 * shortPulse)
	if v, has := p.Look()["cpu_own"]; !has || v < 0 {
		t.Errorf("cores used %v %v", v, has)
	}
}

package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"testing"

	"spate/internal/sim"
	"spate/internal/sim/kv"
	"spate/internal/sim/latency"
)

var shortTotals = map[int][]int{1024: {1, 223, 260, 793, 1586, 2354, 2354}, 4096: {8, 336, 552, 552, 552, 552, 552}, 7168: {1, 20, 271, 271, 271, 271, 271}}
var eo = func() float64 { f := 0.6; fmt.Sscan(os.Getenv("EO"), &f); return f }()
var ranges = []int{0, 10, 50, 100, 200, 500, 1000, 2000}

func short(nominal, j int) int {
	t := shortTotals[nominal]
	for r := 0; r+1 < len(ranges); r++ {
		if j >= ranges[r] && j < ranges[r+1] {
			def := t[r]
			if r > 0 {
				def -= t[r-1]
			}
			if def == 0 {
				return 0
			}
			k := (def + 59) / 60
			at := j - ranges[r]
			if at >= k {
				return 0
			}
			n := def / k
			if at < def%k {
				n++
			}
			return n
		}
	}
	return 0
}

func TestExplore(t *testing.T) {
	data, _ := os.ReadFile("/work/shared/corpus/rows.json")
	var f struct {
		Engines map[string]struct {
			KV int `json:"kv_tokens"`
		}
		Rows []struct {
			ID, Group, Process string
			Order              int
			Workload           struct {
				N  int `json:"num_prompts"`
				I  int `json:"input_len"`
				O  int `json:"output_len"`
				TI int `json:"total_input_tokens"`
				TO int `json:"total_output_tokens"`
				C  int `json:"completed"`
			}
			Log []struct {
				R   int     `json:"running"`
				W   int     `json:"waiting"`
				KV  float64 `json:"kv_usage_pct"`
				Hit float64 `json:"prefix_hit_pct"`
			} `json:"engine_log"`
		}
	}
	for i := range f.Rows {
		_ = i
	}
	// rate/dataset of other groups differ in type: decode only 000
	var raw struct {
		Engines json.RawMessage
		Rows    []json.RawMessage
	}
	json.Unmarshal(data, &raw)
	json.Unmarshal(raw.Engines, &f.Engines)
	for _, r := range raw.Rows {
		var h struct{ Group string }
		json.Unmarshal(r, &h)
		if len(h.Group) > 3 && h.Group[:3] == "000" {
			f.Rows = append(f.Rows, struct {
				ID, Group, Process string
				Order              int
				Workload           struct {
					N  int `json:"num_prompts"`
					I  int `json:"input_len"`
					O  int `json:"output_len"`
					TI int `json:"total_input_tokens"`
					TO int `json:"total_output_tokens"`
					C  int `json:"completed"`
				}
				Log []struct {
					R   int     `json:"running"`
					W   int     `json:"waiting"`
					KV  float64 `json:"kv_usage_pct"`
					Hit float64 `json:"prefix_hit_pct"`
				} `json:"engine_log"`
			}{})
			if err := json.Unmarshal(r, &f.Rows[len(f.Rows)-1]); err != nil {
				fmt.Println(err)
			}
		}
	}
	procs := map[string][]int{}
	for i, r := range f.Rows {
		procs[r.Process] = append(procs[r.Process], i)
	}
	names := []string{"000-test1", "000-test2a", "000-test2", "000-test3"}
	if os.Getenv("JOIN") != "" {
		procs["000-test2"] = append(procs["000-test2"], procs["000-test2a"]...)
		names = []string{"000-test2"}
	}
	for _, p := range names {
		ids := procs[p]
		sort.Slice(ids, func(a, b int) bool { return f.Rows[ids[a]].Order < f.Rows[ids[b]].Order })
		g := f.Rows[ids[0]].Group
		cfg := sim.Config{Policy: sim.V1, MaxSeqs: 256, MaxTokens: 2048, BlockSize: 16, Blocks: f.Engines[g].KV / 16, PrefixCaching: true, NullBlock: os.Getenv("NULL") != "", CountRetries: os.Getenv("RETRY") != ""}
		c, err := New(Config{Engines: []Engine{{Sim: cfg, Model: &latency.Reference{StepNS: 10.5e6, PrefillNS: 8e4, DecodeNS: 1.1e5, KVNS: 21}}}})
		if err != nil {
			t.Fatal(err)
		}
		for k, i := range ids {
			r := f.Rows[i]
			w := r.Workload
			var list []Call
			def := w.C*w.O - w.TO
			early := 0
			if def > 0 {
				early = max(1, int(float64(def)/(eo*float64(w.O))+0.5))
			}
			for j := range w.N {
				in := w.I - short(w.I, j)
				out := w.O
				if early > 0 && j < early {
					out -= def / early
				}
				list = append(list, Call{Prompt: []kv.Segment{{Stream: uint64(j + 1), Len: in}}, Out: max(1, out), Stops: true})
			}
			reps := 1
			if (k == 0 && os.Getenv("NOREP") == "") || r.ID == os.Getenv("REP") {
				reps = 2
			}
			var res *Result
			if k == 0 && p == "000-test2" {
				c.Run(Load{Calls: Calls(list[:1])})
			}
			if k == 0 && p == "000-test3" {
				c.Run(Load{Calls: Calls(list[:1])})
				c.Run(Load{Calls: Calls(list[:100])})
			}
			for range reps {
				c.Run(Load{Calls: Calls(list[:1])})
				res, err = c.Run(Load{Calls: Calls(list)})
				if err != nil {
					t.Fatal(err)
				}
			}
			st := c.Engine(0).State()
			fmt.Printf("%s %s n=%d %d/%d hit=%.2f pre=%d dur=%v\n", r.Process, r.ID, w.N, w.I, w.O, 100*st.HitRecent, st.Stats.Preemptions, res.Duration)
			for _, l := range r.Log {
				fmt.Println("     log", l)
			}
			if len(r.Log) > 0 {
				for _, s := range res.Samples {
					fmt.Printf("      %v run %d wait %d kv %.1f hit %.2f\n", s.At, s.Running, s.Waiting, 100*s.KVUsage, 100*s.HitRate)
				}
			}
		}
	}
}

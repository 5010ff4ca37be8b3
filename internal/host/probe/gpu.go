package probe

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// GPU is one look at one accelerator. What it does not tell is not in Values.
type GPU struct {
	Index string
	// Values are power in W, energy in J since the driver started, utilization and memory_utilization as shares,
	// memory_used in bytes, temperature in degrees Celsius and clock in MHz.
	Values map[string]float64
}

const mebi = 1 << 20

// smiColumns are what nvidia-smi is asked for, after the index.
var smiColumns = []struct {
	ask, name string
	scale     float64
}{
	{"power.draw", "power", 1},
	{"utilization.gpu", "utilization", 0.01},
	{"utilization.memory", "memory_utilization", 0.01},
	{"memory.used", "memory_used", mebi},
	{"temperature.gpu", "temperature", 1},
	{"clocks.sm", "clock", 1},
}

// SMIQuery is the --query-gpu list whose lines ParseSMI reads, with --format=csv,noheader,nounits.
func SMIQuery() string {
	asks := []string{"index"}
	for _, c := range smiColumns {
		asks = append(asks, c.ask)
	}
	return strings.Join(asks, ",")
}

// ParseSMI reads one line of nvidia-smi's answer. A figure a GPU does not have stands there as [N/A].
func ParseSMI(text string) (GPU, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.TrimLeadingSpace = true
	fields, err := r.Read()
	if err != nil {
		return GPU{}, fmt.Errorf("reading nvidia-smi: %w", err)
	}
	if len(fields) != len(smiColumns)+1 {
		return GPU{}, fmt.Errorf("reading nvidia-smi: %d columns instead of %d: %q", len(fields), len(smiColumns)+1, text)
	}
	g := GPU{Index: strings.TrimSpace(fields[0]), Values: map[string]float64{}}
	if _, err := strconv.Atoi(g.Index); err != nil {
		return GPU{}, fmt.Errorf("reading nvidia-smi: %q is not the number of a GPU", g.Index)
	}
	for i, c := range smiColumns {
		if v, err := strconv.ParseFloat(strings.TrimSpace(fields[i+1]), 64); err == nil && plausible(v) {
			g.Values[c.name] = v * c.scale
		}
	}
	return g, nil
}

// dcgmFields are the fields of NVIDIA's exporter that are used.
var dcgmFields = map[string]struct {
	name  string
	scale float64
}{
	"DCGM_FI_DEV_POWER_USAGE":              {"power", 1},
	"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": {"energy", 0.001},
	"DCGM_FI_DEV_GPU_UTIL":                 {"utilization", 0.01},
	"DCGM_FI_DEV_MEM_COPY_UTIL":            {"memory_utilization", 0.01},
	"DCGM_FI_DEV_FB_USED":                  {"memory_used", mebi},
	"DCGM_FI_DEV_GPU_TEMP":                 {"temperature", 1},
	"DCGM_FI_DEV_SM_CLOCK":                 {"clock", 1},
	"DCGM_FI_PROF_DRAM_ACTIVE":             {"memory_bandwidth", 1},
	"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE":      {"tensor_active", 1},
}

// ParseDCGM reads the page of NVIDIA's DCGM exporter. GPUs are named by host and number where there are several
// hosts; the parts of a divided GPU count as the GPU they are of.
func ParseDCGM(page io.Reader) ([]GPU, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(page)
	if err != nil {
		return nil, fmt.Errorf("parsing GPU metrics: %w", err)
	}
	found := map[[2]string]map[string]float64{} // by host and number
	hosts := map[string]bool{}
	for name, field := range dcgmFields {
		for _, m := range families[name].GetMetric() {
			id := [2]string{label(m, "Hostname"), label(m, "gpu")}
			v := (m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()) * field.scale
			if id[1] == "" || !plausible(v) || v < 0 {
				continue
			}
			hosts[id[0]] = true
			if found[id] == nil {
				found[id] = map[string]float64{}
			}
			found[id][field.name] = max(found[id][field.name], v) // parts of one GPU repeat its figures
		}
	}
	if len(found) == 0 {
		return nil, errors.New("parsing GPU metrics: the page has none of DCGM's; is this the exporter's address?")
	}
	out := make([]GPU, 0, len(found))
	for id, values := range found {
		index := id[1]
		if len(hosts) > 1 {
			index = id[0] + "/" + id[1]
		}
		out = append(out, GPU{Index: index, Values: values})
	}
	slices.SortFunc(out, func(a, b GPU) int { return strings.Compare(a.Index, b.Index) })
	return out, nil
}

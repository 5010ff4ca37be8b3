package catalog

import (
	_ "embed" // the data files
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"spate/internal/nearest"
)

//go:embed data/gpus.json
var gpuData []byte

//go:embed data/links.json
var linkData []byte

// GPU is one accelerator by its datasheet: dense rates, one direction of a link.
type GPU struct {
	Name      string   `json:"name"`
	Aliases   []string `json:"aliases"`
	Vendor    string   `json:"vendor"`
	BF16      float64  `json:"bf16_tflops"`
	FP8       float64  `json:"fp8_tflops"` // 0: no such units
	Bandwidth float64  `json:"bandwidth_gbs"`
	MemoryGiB float64  `json:"memory_gib"` // what the framework reports as total
	Link      string   `json:"link"`       // to its neighbours in the node
	NodeGPUs  int      `json:"node_gpus"`
	Low       bool     `json:"low_confidence"` // figures from secondary sources
	Note      string   `json:"note"`
}

// Class is the group of GPUs that share an engine's defaults.
type Class int

// Classes by memory, as engines draw the lines.
const (
	Small Class = iota
	Large       // 70 GiB and more
	Huge        // 160 GiB and more
)

// Class returns the GPU's class. a100Small puts every A100 into the small one.
func (g *GPU) Class(a100Small bool) Class {
	switch {
	case a100Small && strings.Contains(g.Name, "A100"), g.MemoryGiB < 70:
		return Small
	case g.MemoryGiB < 160:
		return Large
	default:
		return Huge
	}
}

var gpus = sync.OnceValues(func() ([]GPU, error) {
	var list []GPU
	if err := json.Unmarshal(gpuData, &list); err != nil {
		return nil, fmt.Errorf("embedded GPUs: %w", err)
	}
	return list, nil
})

// FindGPU returns a GPU by its name or by the name its driver reports. There is no lookup by
// memory: one size of memory fits several boards of very different speed.
func FindGPU(name string) (*GPU, error) {
	list, err := gpus()
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range list {
		for _, n := range append([]string{list[i].Name}, list[i].Aliases...) {
			if strings.EqualFold(plain(n), plain(name)) {
				g := list[i]
				return &g, nil
			}
			names = append(names, n)
		}
	}
	return nil, fmt.Errorf("GPU %q is not in the catalog%s", name, nearest.Hint(name, names))
}

// plain drops what spellings of one board's name differ in.
func plain(name string) string {
	return strings.NewReplacer(" ", "", "-", "", "_", "").Replace(name)
}

// GPUNames lists the GPUs in catalog order.
func GPUNames() []string {
	list, err := gpus()
	if err != nil {
		return nil
	}
	out := make([]string, len(list))
	for i, g := range list {
		out[i] = g.Name
	}
	return out
}

// Link is a way between two GPUs or two nodes.
type Link struct {
	Name       string  `json:"name"`
	Kind       string  `json:"kind"` // gpu, rdma, tcp
	Bandwidth  float64 `json:"bandwidth_gbs"`
	Setup      float64 `json:"setup_us"`      // before the first byte of a KV transfer
	Descriptor float64 `json:"descriptor_us"` // per block and layer of a KV transfer
	AllReduce  float64 `json:"allreduce_us"`  // one all-reduce of no size
	Note       string  `json:"note"`
}

// linkAliases are the names users give kinds of links.
var linkAliases = map[string]string{
	"nvlink": "nvlink4", "rdma": "rdma-100", "rdma1": "rdma-100", "rdma2": "rdma-100x2", "tcp": "tcp-25", "pcie": "pcie4",
}

var links = sync.OnceValues(func() ([]Link, error) {
	var list []Link
	if err := json.Unmarshal(linkData, &list); err != nil {
		return nil, fmt.Errorf("embedded links: %w", err)
	}
	return list, nil
})

// FindLink returns a link by name; nvlink, rdma, rdma2 and tcp stand for common ones.
func FindLink(name string) (*Link, error) {
	list, err := links()
	if err != nil {
		return nil, err
	}
	want := strings.ToLower(name)
	if a, ok := linkAliases[want]; ok {
		want = a
	}
	var names []string
	for i := range list {
		if list[i].Name == want {
			l := list[i]
			return &l, nil
		}
		names = append(names, list[i].Name)
	}
	return nil, fmt.Errorf("link %q is not in the catalog%s", name, nearest.Hint(name, names))
}

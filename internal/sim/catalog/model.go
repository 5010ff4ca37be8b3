package catalog

import (
	"bytes"
	_ "embed" // the data files
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"spate/internal/nearest"
)

//go:embed data/models.json
var modelData []byte

// Model is a decoder's geometry.
type Model struct {
	Name string // as asked for; the first of its names in the catalog
	Type string // model_type of config.json

	Layers, Hidden, FFN     int
	Heads, KVHeads, HeadDim int
	Vocab                   int
	Tied                    bool // input and output embeddings are one matrix
	MaxLen                  int  // max_position_embeddings

	Experts, TopK int // routed experts per MoE layer, and how many a token uses; 0 for dense models
	ExpertFFN     int // width of one routed expert
	SharedFFN     int // width of what every token uses beside the routed experts
	DenseLayers   int // layers of an MoE model that have an ordinary FFN

	Window       int // sliding window in tokens, 0 for none
	WindowLayers int // layers that have it

	// Multi-head latent attention: KV is one compressed vector per layer.
	LatentRank, RopeDim, NopeDim, ValueDim, QueryRank int

	AttnBias bool // q, k, v (and where the family has it, o) carry biases
	QKNorm   bool

	DType Format // of what is not quantised
	Quant Format // of the quantised matrices; equal to DType when none are
	Group int    // quantisation group of GPTQ and AWQ
}

// Format is how a number is stored.
type Format string

// Formats.
const (
	BF16  Format = "bf16"
	FP16  Format = "fp16"
	FP32  Format = "fp32"
	FP8   Format = "fp8"
	INT8  Format = "int8"
	GPTQ4 Format = "gptq-int4"
	AWQ4  Format = "awq-int4"
	MXFP4 Format = "mxfp4"
)

// bits returns the stored bits per weight, scales and zero points included.
func (f Format) bits(group int) float64 {
	switch f {
	case FP32:
		return 32
	case FP8, INT8:
		return 8
	case MXFP4:
		return 4 + 8.0/32 // one 8-bit scale for 32 values
	case GPTQ4, AWQ4:
		if group <= 0 {
			group = 128
		}
		return 4 + 20/float64(group) // a 16-bit scale and a 4-bit zero point per group
	default:
		return 16
	}
}

// MoE reports whether the model has routed experts.
func (m *Model) MoE() bool { return m.Experts > 0 }

// hfConfig is the part of a config.json that decides sizes.
type hfConfig struct {
	ModelType   string    `json:"model_type"`
	Hidden      int       `json:"hidden_size"`
	FFN         int       `json:"intermediate_size"`
	Layers      int       `json:"num_hidden_layers"`
	Heads       int       `json:"num_attention_heads"`
	KVHeads     int       `json:"num_key_value_heads"`
	HeadDim     int       `json:"head_dim"`
	Vocab       int       `json:"vocab_size"`
	MaxLen      int       `json:"max_position_embeddings"`
	Tied        *bool     `json:"tie_word_embeddings"`
	DType       string    `json:"torch_dtype"`
	NewDType    string    `json:"dtype"`
	LocalExp    int       `json:"num_local_experts"`
	Exp         int       `json:"num_experts"`
	RoutedExp   int       `json:"n_routed_experts"`
	SharedExp   int       `json:"n_shared_experts"`
	SharedFFN   int       `json:"shared_expert_intermediate_size"`
	TopK        int       `json:"num_experts_per_tok"`
	MoeFFN      int       `json:"moe_intermediate_size"`
	FirstDense  int       `json:"first_k_dense_replace"`
	Sliding     *int      `json:"sliding_window"`
	UseSliding  *bool     `json:"use_sliding_window"`
	LayerTypes  []string  `json:"layer_types"`
	KVRank      int       `json:"kv_lora_rank"`
	QRank       int       `json:"q_lora_rank"`
	RopeDim     int       `json:"qk_rope_head_dim"`
	NopeDim     int       `json:"qk_nope_head_dim"`
	ValueDim    int       `json:"v_head_dim"`
	AttnBias    bool      `json:"attention_bias"`
	Quant       *hfQuant  `json:"quantization_config"`
	TextConfig  *hfConfig `json:"text_config"`
	RopeScaling *struct {
		Factor   float64 `json:"factor"`
		Original int     `json:"original_max_position_embeddings"`
		Type     string  `json:"rope_type"`
		OldType  string  `json:"type"`
	} `json:"rope_scaling"`
}

type hfQuant struct {
	Method string `json:"quant_method"`
	Bits   int    `json:"bits"`
	Group  int    `json:"group_size"`
}

// ParseConfig reads a Hugging Face config.json.
func ParseConfig(name string, data []byte) (*Model, error) {
	var c hfConfig
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("config.json of %s: %w", name, err)
	}
	if c.TextConfig != nil && c.Layers == 0 { // multimodal models keep the decoder one level down
		quant := c.Quant
		c = *c.TextConfig
		if c.Quant == nil {
			c.Quant = quant
		}
	}
	m := c.model(name)
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("config.json of %s: %w", name, err)
	}
	return m, nil
}

func (c *hfConfig) model(name string) *Model {
	m := &Model{
		Name: name, Type: c.ModelType, Layers: c.Layers, Hidden: c.Hidden, FFN: c.FFN,
		Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Vocab: c.Vocab, MaxLen: c.MaxLen,
		Tied: c.Tied == nil || *c.Tied, TopK: c.TopK, Experts: max(c.LocalExp, c.Exp, c.RoutedExp),
		LatentRank: c.KVRank, QueryRank: c.QRank, RopeDim: c.RopeDim, NopeDim: c.NopeDim, ValueDim: c.ValueDim,
		AttnBias: c.AttnBias, DType: BF16,
	}
	if m.KVHeads == 0 {
		m.KVHeads = m.Heads
	}
	if m.HeadDim == 0 && m.Heads > 0 {
		m.HeadDim = m.Hidden / m.Heads
	}
	m.AttnBias = m.AttnBias || m.Type == "qwen2" || m.Type == "qwen2_moe"
	m.QKNorm = m.Type == "qwen3" || m.Type == "qwen3_moe"
	c.experts(m)
	c.window(m)
	c.formats(m)
	if r := c.RopeScaling; r != nil && (r.OldType == "yarn" || r.Type == "yarn") && r.Factor > 1 && r.Original > 0 {
		m.MaxLen = max(m.MaxLen, int(r.Factor*float64(r.Original)))
	}
	return m
}

func (c *hfConfig) experts(m *Model) {
	if m.Experts == 0 {
		m.TopK = 0
		return
	}
	m.ExpertFFN = c.MoeFFN
	if m.ExpertFFN == 0 {
		m.ExpertFFN = c.FFN
	}
	m.SharedFFN = max(c.SharedFFN, c.SharedExp*m.ExpertFFN)
	m.DenseLayers = c.FirstDense
}

func (c *hfConfig) window(m *Model) {
	if c.Sliding == nil || *c.Sliding <= 0 || (c.UseSliding != nil && !*c.UseSliding) {
		return
	}
	n := m.Layers
	if len(c.LayerTypes) > 0 {
		n = 0
		for _, t := range c.LayerTypes {
			if t == "sliding_attention" {
				n++
			}
		}
	}
	if n > 0 {
		m.Window, m.WindowLayers = *c.Sliding, min(n, m.Layers)
	}
}

func (c *hfConfig) formats(m *Model) {
	switch d := c.DType + c.NewDType; {
	case strings.HasPrefix(d, "float16"):
		m.DType = FP16
	case strings.HasPrefix(d, "float32"):
		m.DType = BF16 // engines cast float32 checkpoints down unless told otherwise
	}
	m.Quant = m.DType
	if c.Quant == nil {
		return
	}
	m.Group = c.Quant.Group
	switch c.Quant.Method {
	case "fp8", "fbgemm_fp8":
		m.Quant = FP8
	case "gptq":
		m.Quant = GPTQ4
	case "awq":
		m.Quant = AWQ4
	case "mxfp4":
		m.Quant = MXFP4
	case "compressed-tensors":
		m.Quant = FP8
	}
	if c.Quant.Bits == 8 && m.Quant != FP8 {
		m.Quant = INT8
	}
}

// maxDim bounds every figure of a config.json, so that products of them stay finite.
const maxDim = 1 << 24

func (m *Model) check() error {
	for _, f := range []struct {
		name string
		v    int
	}{
		{"num_hidden_layers", m.Layers},
		{"hidden_size", m.Hidden},
		{"num_attention_heads", m.Heads},
		{"num_key_value_heads", m.KVHeads},
		{"head_dim", m.HeadDim},
		{"vocab_size", m.Vocab},
		{"max_position_embeddings", m.MaxLen},
	} {
		if f.v <= 0 || f.v > maxDim {
			return fmt.Errorf("%s is missing or out of range (%d)", f.name, f.v)
		}
	}
	if m.FFN <= 0 && m.ExpertFFN <= 0 {
		return fmt.Errorf("intermediate_size is missing")
	}
	for _, v := range []int{
		m.FFN, m.ExpertFFN, m.SharedFFN, m.Experts, m.TopK, m.DenseLayers, m.Window, m.LatentRank, m.RopeDim,
		m.NopeDim, m.ValueDim, m.QueryRank, m.Group,
	} {
		if v < 0 || v > maxDim {
			return fmt.Errorf("a size of %d is not possible", v)
		}
	}
	if m.MoE() && (m.TopK < 1 || m.TopK > m.Experts) {
		return fmt.Errorf("num_experts_per_tok is %d of %d experts", m.TopK, m.Experts)
	}
	if m.DenseLayers > m.Layers {
		return fmt.Errorf("first_k_dense_replace is %d of %d layers", m.DenseLayers, m.Layers)
	}
	return nil
}

// entry is one model of the data file.
type entry struct {
	Names  []string        `json:"names"`
	Config json.RawMessage `json:"config"`
}

var models = sync.OnceValues(func() ([]entry, error) {
	var list []entry
	dec := json.NewDecoder(bytes.NewReader(modelData))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&list); err != nil {
		return nil, fmt.Errorf("embedded models: %w", err)
	}
	return list, nil
})

// FindModel returns a model of the catalog by its name: with its organisation or without, in any
// case. Unknown names come back with the nearest known ones.
func FindModel(name string) (*Model, error) {
	list, err := models()
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		for _, n := range e.Names {
			if strings.EqualFold(n, name) || strings.EqualFold(short(n), short(name)) {
				return ParseConfig(n, e.Config)
			}
		}
	}
	return nil, fmt.Errorf("model %q is not in the catalog%s", name, nearest.Hint(short(name), shortNames(list)))
}

func short(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

func shortNames(list []entry) []string {
	var out []string
	for _, e := range list {
		for _, n := range e.Names {
			if s := short(n); !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

package engineconf

import (
	"fmt"
	"strings"

	"spate/internal/sim"
	"spate/internal/sim/catalog"
)

// defaultVersion is the engine version an empty --engine-version means.
const defaultVersion = catalog.LatestVLLM

// Conf is a deployment with every setting decided.
type Conf struct {
	catalog.Deployment

	Settings Settings
	Budget   catalog.Budget
	Sim      sim.Config
	Served   []string
	Adapters []string // names of LoRA adapters
	NodeLink *catalog.Link
	GPULink  *catalog.Link
	Nodes    int
	Warnings []string
	PrefixOn bool
	AsyncOn  bool
}

// Resolve decides everything the flags left open and checks the whole as the engine does at start.
// A refusal is a *catalog.StartError; other errors are mistakes in the flags themselves.
func (s *Settings) Resolve() (*Conf, error) {
	c := &Conf{Settings: *s, Nodes: max(s.Nodes, 1)}
	if err := c.parts(); err != nil {
		return nil, err
	}
	drafts, err := parseSpec(s.Spec)
	if err != nil {
		return nil, err
	}
	if err := c.flagsKnown(); err != nil {
		return nil, err
	}
	c.parallel()
	c.limits(drafts.Tokens)
	if err := c.Check(); err != nil {
		return nil, err
	}
	c.Budget = c.Deployment.Budget()
	if err := c.CheckMemory(&c.Budget); err != nil {
		return nil, err
	}
	c.schedule(drafts.Tokens)
	if err := c.Sim.Check(); err != nil {
		return nil, err
	}
	return c, c.names()
}

// parts looks up what the deployment is made of.
func (c *Conf) parts() error {
	s := &c.Settings
	var err error
	if c.Engine, err = catalog.FindEngine(s.Engine, s.Version); err != nil {
		return err
	}
	if s.Model == "" {
		return fmt.Errorf("no model: name one, such as Qwen/Qwen3-8B")
	}
	if len(s.Config) > 0 {
		c.Model, err = catalog.ParseConfig(s.Model, s.Config)
	} else {
		c.Model, err = catalog.FindModel(s.Model)
	}
	if err != nil {
		return err
	}
	if s.GPU == "" {
		return noGPU(s.Model)
	}
	if c.GPU, err = catalog.FindGPU(s.GPU); err != nil {
		return err
	}
	if c.GPULink, err = catalog.FindLink(c.GPU.Link); err != nil {
		return err
	}
	if c.NodeLink, err = catalog.FindLink(orText(s.Link, "rdma-400")); err != nil {
		return err
	}
	return c.formats()
}

// noGPU says what to type: the model is known, and any GPU of the catalog will do.
func noGPU(model string) error {
	return fmt.Errorf("no GPU for %s: add --gpu H100, or another of %s", model, strings.Join(catalog.GPUNames(), ", "))
}

// formats applies dtype, quantization and kv-cache-dtype.
func (c *Conf) formats() error {
	s := &c.Settings
	dtypes := map[string]catalog.Format{
		"": "", "auto": "", "bfloat16": catalog.BF16, "float16": catalog.FP16, "half": catalog.FP16,
		"float32": catalog.FP32, "float": catalog.FP32,
	}
	d, ok := dtypes[s.DType]
	if !ok {
		return fmt.Errorf("dtype %q is not one of auto, bfloat16, float16, half, float32", s.DType)
	}
	if d != "" {
		if c.Model.Quant == c.Model.DType {
			c.Model.Quant = d
		}
		c.Model.DType = d
	}
	quants := map[string]catalog.Format{
		"": "", "fp8": catalog.FP8, "gptq": catalog.GPTQ4, "gptq_marlin": catalog.GPTQ4, "awq": catalog.AWQ4,
		"awq_marlin": catalog.AWQ4, "mxfp4": catalog.MXFP4, "compressed-tensors": catalog.FP8, "int8": catalog.INT8,
	}
	q, ok := quants[s.Quant]
	if !ok {
		return fmt.Errorf("quantization %q is not one of fp8, gptq, awq, mxfp4, int8", s.Quant)
	}
	if q != "" {
		c.Model.Quant = q
	}
	switch {
	case strings.HasPrefix(s.KVDType, "fp8"):
		c.KVWidth = 1
	case s.KVDType == "" || s.KVDType == "auto" || strings.HasSuffix(s.KVDType, "float16"):
		c.KVWidth = 2
	default:
		return fmt.Errorf("kv-cache-dtype %q is not one of auto, fp8, fp8_e4m3, fp8_e5m2, bfloat16, float16", s.KVDType)
	}
	return nil
}

// flagsKnown refuses flags this version does not have, and follows those that bring another
// scheduler.
func (c *Conf) flagsKnown() error {
	s, e := &c.Settings, c.Engine
	if e.Name != "vllm" {
		return nil
	}
	var unknown []string
	if s.Delay > 0 && !e.DelayFlag {
		unknown = append(unknown, "--scheduler-delay-factor", fmt.Sprint(s.Delay))
	}
	if s.Steps > 1 && !e.StepsFlag {
		unknown = append(unknown, "--num-scheduler-steps", fmt.Sprint(s.Steps))
	}
	if s.Async != nil && !e.AsyncFlag {
		unknown = append(unknown, "--async-scheduling")
	}
	if s.Watermark > 0 && !e.WatermarkFlag {
		unknown = append(unknown, "--watermark", fmt.Sprint(s.Watermark))
	}
	if len(unknown) > 0 {
		return catalog.UnknownFlag(unknown)
	}
	old := s.Delay > 0 || s.Steps > 1 || (s.UseV1 != nil && !*s.UseV1)
	var err error
	switch {
	case old && e.V0Back:
		c.warn("the flags given are not supported by the V1 engine, falling back to V0")
		c.Engine, err = e.WithV0()
	case s.UseV1 != nil && *s.UseV1 && e.V1OptIn && e.Family == catalog.V0:
		c.Engine, err = e.WithV1()
	}
	return err
}

func (c *Conf) parallel() {
	s := &c.Settings
	c.TP, c.PP, c.DP, c.ExpertParallel = max(s.TP, 1), max(s.PP, 1), max(s.DP, 1), s.EP
	if need := c.TP * c.PP * c.DP; need > c.Nodes*c.GPU.NodeGPUs {
		c.warn("%d GPUs are more than the %d a node has: set --nnodes", need, c.GPU.NodeGPUs)
	}
}

// limits fills in the sizes of a step.
func (c *Conf) limits(drafts int) {
	s, e := &c.Settings, c.Engine
	class := c.GPU.Class(e.A100)
	c.MaxModelLen = orInt(s.MaxModelLen, c.Model.MaxLen)
	c.Chunked = e.Chunked
	if e.Above > 0 && e.Family == catalog.V0 && c.MaxModelLen > e.Above && c.Model.Window == 0 && !s.LoRA && drafts == 0 {
		c.Chunked = true
	}
	if s.Chunked != nil {
		c.Chunked = *s.Chunked
	}
	c.Tokens = orInt(s.MaxTokens, c.tokenDefault(class))
	c.Seqs = orInt(s.MaxSeqs, e.Seqs.For(class))
	if s.MaxSeqs == 0 && e.Within {
		c.Seqs = min(c.Seqs, c.Tokens)
	}
	if s.MaxTokens == 0 && e.Family != catalog.LMDeploy {
		c.Tokens = max(c.Tokens, c.Seqs)
	}
	c.Util = orFloat(s.Util, e.Util)
	c.Block = orInt(s.Block, e.Block)
	c.Eager = s.Eager
	c.BlocksOverride, c.KVOverride = s.Blocks, float64(s.KVMemory)
	if s.LoRA {
		rank := float64(max(s.LoRARank, 1) * max(s.MaxLoRAs, 1) * c.Model.Layers)
		c.LoraBytes = 2 * rank * float64(10*c.Model.Hidden+3*max(c.Model.FFN, c.Model.ExpertFFN)) / float64(c.TP)
	}
}

// tokenDefault is max_num_batched_tokens when it was not given.
func (c *Conf) tokenDefault(class catalog.Class) int {
	e := c.Engine
	n := e.Tokens.For(class)
	switch {
	case e.Family == catalog.V0 && c.Chunked:
		return e.Chunk
	case e.Cover || !c.Chunked:
		return max(n, c.MaxModelLen)
	default:
		return n
	}
}

// schedule translates the settings for the engine core.
func (c *Conf) schedule(drafts int) {
	s, e := &c.Settings, c.Engine
	c.PrefixOn, c.AsyncOn = e.Prefix, e.Async && (c.PP == 1 || e.AsyncPP)
	if s.Prefix != nil {
		c.PrefixOn = *s.Prefix
	}
	if s.Async != nil {
		c.AsyncOn = *s.Async
	}
	c.Sim = sim.Config{
		Policy: c.policy(), MaxSeqs: c.Seqs, MaxTokens: c.Tokens, MaxModelLen: c.MaxModelLen, BlockSize: c.Block, Blocks: c.Budget.Blocks,
		WholePrompts: e.Family == catalog.V1 && !c.Chunked, LongPrefill: s.LongPrefill, PrefixCaching: c.PrefixOn,
		ReserveFull: e.FullISL, Watermark: e.Reserve, DelayFactor: s.Delay, Pipeline: c.PP, Async: c.AsyncOn,
		UnhashedFirst: e.Family == catalog.V1, NullBlock: e.Family == catalog.V1 && c.Budget.Blocks > 1,
		Drafts: drafts, Acceptance: s.Acceptance, Seed: s.Seed,
	}
	if e.Family == catalog.V0 {
		c.Sim.Steps = s.Steps
		c.Sim.SwapBlocks, c.Sim.Swap = c.hostBlocks(), s.Preemption == "swap"
	}
	if s.FullISL != nil {
		c.Sim.ReserveFull = *s.FullISL
	}
	if s.Watermark >= 0 && e.WatermarkFlag {
		c.Sim.Watermark = s.Watermark
	}
	if s.LoRA {
		c.Sim.LoRASlots = max(s.MaxLoRAs, 1)
	}
	if e.Family == catalog.SGLang {
		c.Sim.ReserveRatio = 0.7
	}
	c.Sim.Window = c.Model.Window
	for _, g := range c.Budget.Groups[1:] {
		if g.Window > 0 {
			c.Sim.WindowGroups++
		}
	}
	if room := (c.Sim.Blocks - 1) * c.Block; c.Sim.NullBlock && c.MaxModelLen > room && c.Sim.WindowGroups == 0 {
		c.Sim.NullBlock = false // a plan this tight has no block to spare, and the engine starts all the same
	}
}

// hostBlocks is the number of KV blocks the swap space holds on every rank.
func (c *Conf) hostBlocks() int {
	return int(c.Settings.SwapGiB * gib / float64(max(1, c.Budget.BlockBytes)))
}

func (c *Conf) policy() sim.Policy {
	switch c.Engine.Family {
	case catalog.V0:
		if c.Chunked {
			return sim.V0Chunked
		}
		return sim.V0
	case catalog.SGLang:
		return sim.SGLang
	case catalog.LMDeploy:
		return sim.LMDeploy
	default:
		return sim.V1
	}
}

// names lists what the server answers to.
func (c *Conf) names() error {
	c.Served = c.Settings.Served
	if len(c.Served) == 0 {
		c.Served = []string{c.Settings.Model}
		if full := c.Model.Name; full != c.Settings.Model {
			c.Served = append(c.Served, full) // Qwen3-8B is Qwen/Qwen3-8B: clients use either
		}
	}
	for _, m := range c.Settings.LoRAModules {
		name, err := adapterName(m)
		if err != nil {
			return err
		}
		c.Adapters = append(c.Adapters, name)
	}
	return nil
}

func (c *Conf) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
}

func orInt(v, def int) int {
	if v == 0 {
		return def
	}
	return v
}

func orFloat(v, def float64) float64 {
	if v == 0 {
		return def
	}
	return v
}

func orText(v, def string) string {
	if v == "" {
		return def
	}
	return v
}

// FitContext shortens the context to what the KV cache holds when it was not given: a profile by name
// should start.
func (s *Settings) FitContext() error {
	c := &Conf{Settings: *s, Nodes: max(s.Nodes, 1)}
	if err := c.parts(); err != nil {
		return err
	}
	for n := c.Model.MaxLen; n >= 1024; n /= 2 {
		try := *s
		try.MaxModelLen = n
		if r, err := try.Resolve(); err == nil && r.Budget.Concurrency >= 2 {
			s.MaxModelLen = n
			return nil
		}
	}
	return nil // Resolve will say what is wrong
}

package calibrate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"spate/internal/call"
	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/host/enginelog"
	"spate/internal/result"
	"spate/internal/sim/catalog"
	"spate/internal/sim/engineconf"
)

// recorded is the workload of one of spate's own runs: every request as it was sent.
func recorded(e *result.Entry, recs []call.Record) (*predict.Workload, error) {
	sent, err := predict.Recorded(recs)
	if err != nil {
		return nil, err
	}
	w := &predict.Workload{Prompts: len(sent), Dataset: "recorded", Client: "spate", Sent: sent}
	if e.Run.Plan.MaxConcurrency != nil {
		w.Slots = *e.Run.Plan.MaxConcurrency
	}
	w.Rate = predict.Rate(e.Run.Plan.Rate())
	return w, nil
}

var image = regexp.MustCompile(`(vllm/vllm-openai|lmsysorg/sglang|openmmlab/lmdeploy):v?(\d+\.\d+[\w.]*)`)

// server is what a result's own text says about its server, then what the one log that fits it says.
func (c *collector) server(e *result.Entry) enginelog.Start {
	s := stated(e)
	var fit []*Log
	for _, l := range c.logs {
		if fits(&s, &l.Server) {
			fit = append(fit, l)
		}
	}
	if len(fit) > 1 {
		fit = slices.DeleteFunc(fit, func(l *Log) bool { return l.Name != e.Source.File })
	}
	if len(fit) == 1 {
		s.Merge(&fit[0].Server)
	}
	return s
}

// stated is what the text around a result says about its server.
func stated(e *result.Entry) enginelog.Start {
	ctx := e.Context
	s := enginelog.Start{Version: ctx.Text("engine_version"), Flags: map[string]string{}}
	s.KVTokens = enginelog.Whole(ctx.Text("kv_cache_tokens"))
	s.KVGiB = enginelog.Float(ctx.Text("kv_cache_memory_gib"))
	if f, ok := ctx.Get("server_arguments"); ok {
		args, _ := f.Value.(map[string]any)
		for k, v := range args {
			s.Flags[strings.ReplaceAll(k, "_", "-")] = fmt.Sprint(v)
		}
	}
	launch := ctx.Text("server_command")
	if m := image.FindStringSubmatch(launch); m != nil {
		s.Version = m[2]
	}
	words := strings.Fields(launch)
	if i := slices.Index(words, "serve"); i >= 0 && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") && s.Flags["model"] == "" {
		s.Flags["model"] = words[i+1]
	}
	for _, engine := range []string{"vllm", "sglang", "lmdeploy"} {
		if strings.Contains(launch, engine) || ctx.Text("backend") == engine {
			s.Engine = engine
			break
		}
	}
	if m := ctx.Text("model"); m != "" && s.Flags["model"] == "" {
		s.Flags["model"] = m
	}
	if run := e.Run; run != nil {
		s.Version = cmp.Or(s.Version, run.Server.Version)
		s.Engine = cmp.Or(run.Server.Kind, s.Engine)
		if run.Server.Model != "" {
			s.Flags["model"] = run.Server.Model
		}
	}
	return s
}

// fits reports whether two descriptions can be of one server: they contradict each other nowhere.
func fits(a, b *enginelog.Start) bool {
	same := func(x, y string) bool { return x == "" || y == "" || strings.EqualFold(x, y) }
	if !same(a.Engine, b.Engine) || !same(a.Version, b.Version) || !same(path.Base(a.Flags["model"]), path.Base(b.Flags["model"])) &&
		a.Flags["model"] != "" && b.Flags["model"] != "" {
		return false
	}
	for _, f := range []string{"tensor-parallel-size", "max-num-seqs", "max-num-batched-tokens", "max-model-len"} {
		if !same(a.Flags[f], b.Flags[f]) {
			return false
		}
	}
	return a.KVTokens == 0 || b.KVTokens == 0 || a.KVTokens == b.KVTokens
}

// foreign are flags of other engines for what vLLM's say.
var foreign = map[string]string{
	"model-path": "model", "tp-size": "tensor-parallel-size", "mem-fraction-static": "gpu-memory-utilization",
	"max-running-requests": "max-num-seqs", "chunked-prefill-size": "max-num-batched-tokens", "context-length": "max-model-len",
	"max-batch-size": "max-num-seqs", "session-len": "max-model-len",
}

// settings reads the flags of a server as the engine would. Flags nobody knows change nothing here.
func settings(s *enginelog.Start) engineconf.Settings {
	var out engineconf.Settings
	f := pflag.NewFlagSet("server", pflag.ContinueOnError)
	out.Bind(f)
	engineconf.BindIgnored(f)
	f.SetNormalizeFunc(engineconf.Normalize)
	for _, name := range slices.Sorted(maps.Keys(s.Flags)) {
		value := s.Flags[name]
		if to, ok := foreign[name]; ok {
			name = to
		}
		if f.Lookup(name) != nil && f.Set(name, value) != nil {
			continue // such as an empty list: the engine's own default
		}
	}
	return out
}

// facts decide what a server is. What is missing is an error that names the flag.
func (c *collector) facts(s *enginelog.Start) (profile.Facts, error) {
	set := settings(s)
	g := &c.given.Server
	f := profile.Facts{
		Engine: cmp.Or(g.Engine, s.Engine), Version: cmp.Or(g.Version, cutBuild(s.Version)), GPU: g.GPU, Model: cmp.Or(g.Model, set.Model),
		Nodes: max(g.Nodes, set.Nodes, 1), TP: pick(g.TP, set.TP), MaxSeqs: pick(g.MaxSeqs, set.MaxSeqs),
		MaxTokens: pick(g.MaxTokens, set.MaxTokens), MaxModelLen: pick(g.MaxModelLen, set.MaxModelLen, s.Length),
		Chunked: set.Chunked, PrefixCaching: set.Prefix, Note: g.Note,
	}
	if g.PrefixCaching != nil {
		f.PrefixCaching = g.PrefixCaching
	}
	f.TP = max(f.TP, 1)
	f.GPUs = f.TP
	if g.Model != "" && set.Model != "" && !strings.EqualFold(path.Base(g.Model), path.Base(set.Model)) {
		c.note("the model is %s, as --model says; the text calls it %s", g.Model, set.Model)
	}
	if err := plainServer(&set); err != nil {
		return f, err
	}
	if err := c.complete(&f); err != nil {
		return f, err
	}
	f.KVTokens = g.KVTokens
	return f, c.cache(&f, s, &set)
}

func pick(list ...int) int {
	for _, v := range list {
		if v > 0 {
			return v
		}
	}
	return 0
}

// cutBuild takes the build off a version: 0.10.1.dev3+g1234 is what 0.10.1 is for a scheduler.
func cutBuild(v string) string {
	v, _, _ = strings.Cut(v, "+")
	v, _, _ = strings.Cut(v, ".dev")
	v, _, _ = strings.Cut(v, "rc")
	return strings.TrimPrefix(v, "v")
}

// plainServer refuses what profiles cannot hold.
func plainServer(set *engineconf.Settings) error {
	switch {
	case set.PP > 1:
		return fmt.Errorf("its server has pipeline parallelism, which profiles do not have yet")
	case set.DP > 1:
		return fmt.Errorf("its server has %d replicas, and a profile is of one", set.DP)
	case set.Spec != "":
		return fmt.Errorf("its server uses speculative decoding, which profiles do not have yet")
	}
	return nil
}

// unknown is how the user says that nobody knows.
const unknown = "unknown"

// complete asks for what a server cannot do without.
func (c *collector) complete(f *profile.Facts) error {
	var missing []error
	miss := func(is bool, text string) {
		if is {
			missing = append(missing, errors.New(text))
		}
	}
	miss(f.Engine == "", "its engine is not in the text: give --engine ("+strings.Join(catalog.EngineNames(), ", ")+")")
	if strings.EqualFold(f.GPU, unknown) || strings.EqualFold(f.Model, unknown) {
		f.GPU, f.Model, f.GPUs = "", "", 0
		f.Note = cmp.Or(f.Note, "model or GPU unknown: fitted without physics")
		return joined(missing...)
	}
	miss(f.Model == "", "its model is not in the text: give --model (or --model unknown to fit without physics)")
	miss(f.GPU == "", "its GPU is not in the text: give --gpu (or --gpu unknown to fit without physics)")
	miss(f.Version == "" && f.Engine == "vllm", "the engine's version is not in the text, and its scheduler depends on it: give --engine-version")
	if err := joined(missing...); err != nil {
		return err
	}
	m, err := catalog.FindModel(f.Model)
	if err != nil {
		return fmt.Errorf("its model: %w; give --model", err)
	}
	gpu, err := catalog.FindGPU(f.GPU)
	if err != nil {
		return fmt.Errorf("its GPU: %w; give --gpu", err)
	}
	f.Model, f.GPU, f.DType = m.Name, gpu.Name, string(m.Quant)
	return nil
}

// cache decides the size of the KV cache from what was told, if anything was; else it is left to the fit.
func (c *collector) cache(f *profile.Facts, s *enginelog.Start, set *engineconf.Settings) error {
	block := max(set.Block, 16)
	switch {
	case f.KVTokens > 0:
		return nil
	case s.KVTokens > 0:
		f.KVTokens = s.KVTokens
		return nil
	case pick(s.Blocks, set.Blocks) > 0:
		f.KVTokens = pick(s.Blocks, set.Blocks) * block
		return nil
	case s.Length > 0 && s.Requests > 0:
		f.KVTokens = int(float64(s.Length) * s.Requests)
		return nil
	case !f.Known() || s.KVGiB == 0 && set.Util == 0:
		return nil
	}
	try := f.Settings()
	try.Util = set.Util
	conf, err := try.Resolve()
	if err != nil {
		return fmt.Errorf("its server would not start: %w", err)
	}
	f.KVTokens = conf.Budget.Tokens
	if s.KVGiB > 0 && conf.Budget.KV > 0 {
		f.KVTokens = int(float64(conf.Budget.Tokens) * s.KVGiB * (1 << 30) / conf.Budget.KV)
		return nil
	}
	c.note("the KV cache of %s is computed from --gpu-memory-utilization %g: %d tokens", f.Model, set.Util, f.KVTokens)
	return nil
}

// group is the name of a server, the same for the same facts.
func (c *collector) group(f profile.Facts) string {
	plain := f
	plain.Chunked, plain.PrefixCaching = nil, nil // pointers, which differ where values do not
	key := fmt.Sprintf("%+v %s %s", plain, switched(f.Chunked), switched(f.PrefixCaching))
	if name, ok := c.groups[key]; ok {
		return name
	}
	name := cmp.Or(c.given.Name, groupName(&f))
	for n := 2; ; n++ {
		if _, taken := c.found.File.Engines[name]; !taken {
			break
		}
		name = cmp.Or(c.given.Name, groupName(&f)) + "-" + strconv.Itoa(n)
	}
	c.groups[key] = name
	c.found.File.Engines[name] = f
	return name
}

func switched(b *bool) string {
	if b == nil {
		return "default"
	}
	return strconv.FormatBool(*b)
}

// groupName describes a server in a word that can be a file's name.
func groupName(f *profile.Facts) string {
	parts := []string{path.Base(f.Model), f.GPU}
	if !f.Known() {
		parts = []string{"server"}
	}
	if f.TP > 1 {
		parts = append(parts, "tp"+strconv.Itoa(f.TP))
	}
	if f.Nodes > 1 {
		parts = append(parts, strconv.Itoa(f.Nodes)+"nodes")
	}
	parts = append(parts, f.Engine+"-"+cmp.Or(f.Version, "any"))
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, strings.Join(parts, "_"))
}

// rest gives steps that engines logged to their groups, and makes groups of servers that only logged.
func (c *collector) rest() {
	for _, l := range c.logs {
		if len(l.Steps) == 0 {
			continue
		}
		facts, err := c.facts(&l.Server)
		if err != nil {
			c.found.Left = append(c.found.Left, Left{fmt.Sprintf("%s:%d", l.Name, l.Line), "steps of an engine: " + err.Error()})
			continue
		}
		name := c.home(facts)
		c.found.Steps[name] = append(c.found.Steps[name], l.Steps...)
		if l.Cut > 0 {
			c.note("%s: %d lines of iteration details could not be read", l.Name, l.Cut)
		}
	}
}

// home is the group a log belongs to: the one of the same facts, or the only one it does not contradict.
func (c *collector) home(facts profile.Facts) string {
	var fit []string
	for _, name := range c.names() {
		f := c.found.File.Engines[name]
		if f.Model == facts.Model && f.GPU == facts.GPU && f.Version == facts.Version && f.TP == facts.TP && f.KVTokens == facts.KVTokens {
			fit = append(fit, name)
		}
	}
	if len(fit) == 1 {
		return fit[0]
	}
	return c.group(facts)
}

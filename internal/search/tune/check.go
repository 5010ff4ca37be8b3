package tune

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"spate/internal/host/launch"
	"spate/internal/search/suggest"
	"spate/internal/sim/catalog"
	"spate/internal/sim/engineconf"
)

// RuleError is a start that need not be tried.
type RuleError struct{ Line string }

// Error is what the server would say.
func (e *RuleError) Error() string { return e.Line }

// Forbidden says why a server would not start with some settings, with the server's own message where it is known; nil
// when it would start. The default is never forbidden, since the others are compared with it.
func (f *File) Forbidden(set suggest.Settings) error {
	if f.isDefault(set) {
		return nil
	}
	if f.vllm() {
		if err := f.resolvable(set); err != nil {
			return err
		}
	}
	return f.generic(set)
}

func (f *File) vllm() bool { return engineOf(f.Server.Kind) == "vllm" }

// room is what the memory plan of a real server may be better than the computed one.
const room = 1.05

// resolvable asks the engine's own start-up rules, where model and GPU are known.
func (f *File) resolvable(set suggest.Settings) error {
	s, err := f.Settings(set)
	if err != nil {
		return &RuleError{err.Error()}
	}
	if s.Model == "" || s.GPU == "" {
		return nil
	}
	_, err = s.Resolve()
	var refusal *catalog.StartError
	if err == nil {
		return nil
	}
	if !errors.As(err, &refusal) {
		_, model := catalog.FindModel(s.Model)
		_, gpu := catalog.FindGPU(s.GPU)
		if model != nil || gpu != nil {
			return nil
		}
		return &RuleError{err.Error()}
	}
	kind := launch.Classify(refusal.Error()).Kind
	if f.Server.Kind != "sim" && (kind == launch.Memory || kind == launch.KVSmall) { // arithmetic about memory is not exact
		s.Util = min(0.99, max(s.Util, 0.9)*room)
		if _, again := s.Resolve(); again == nil {
			return nil
		}
	}
	return &RuleError{refusal.Error()}
}

// Settings are the flags of a server as the simulator reads them. Flags it knows nothing of are left out.
func (f *File) Settings(set suggest.Settings) (*engineconf.Settings, error) {
	s := &engineconf.Settings{}
	fs := pflag.NewFlagSet("server", pflag.ContinueOnError)
	fs.SetNormalizeFunc(engineconf.Normalize)
	s.Bind(fs)
	var args []string
	list := f.Flags(set)
	for i := 0; i < len(list); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(list[i], "-"), "=")
		known := fs.Lookup(string(engineconf.Normalize(fs, name)))
		takes := !joined && i+1 < len(list) && !strings.HasPrefix(list[i+1], "--")
		if known != nil {
			args = append(args, list[i])
		}
		if takes {
			i++
			if known != nil {
				args = append(args, list[i])
			}
		}
	}
	if err := fs.Parse(args); err != nil {
		return nil, fmt.Errorf("flags of the server: %w", err)
	}
	s.Model, s.GPU, s.Version, s.Seed = f.Model, f.GPU, f.Version, f.Seed
	return s, nil
}

// generic holds settings against the rules of the engine's data file.
func (f *File) generic(set suggest.Settings) error {
	value := func(name string) string {
		for _, x := range f.Fixed {
			if x.Name == name {
				return x.Value
			}
		}
		return set[name]
	}
	for i := range f.rules {
		if err := f.rules[i].check(value); err != nil {
			return err
		}
	}
	return nil
}

// check holds values against a rule: "a >= b", "a % b == 0", each with an optional "unless c". A rule about
// a flag nobody set says nothing.
func (r *ruleText) check(value func(string) string) error {
	rule, unless, _ := strings.Cut(r.Rule, " unless ")
	if unless != "" && value(strings.TrimSpace(unless)) != "false" {
		return nil
	}
	w := strings.Fields(rule)
	if len(w) < 3 {
		return nil
	}
	a, errA := strconv.ParseFloat(value(w[0]), 64)
	b, errB := strconv.ParseFloat(value(w[2]), 64)
	if errA != nil || errB != nil {
		return nil
	}
	ok := true
	switch w[1] {
	case ">=":
		ok = a >= b
	case "<=":
		ok = a <= b
	case "%":
		ok = b == 0 || int(a)%int(b) == 0
	}
	if ok {
		return nil
	}
	return &RuleError{strings.NewReplacer("{a}", value(w[0]), "{b}", value(w[2])).Replace(r.Error)}
}

// settleDefaults takes the defaults that depend on GPU and version from the engine's own tables.
func (f *File) settleDefaults(_ []knownFlag) {
	if !f.vllm() {
		return
	}
	bare := *f
	bare.Knobs = nil
	s, err := bare.Settings(nil)
	if err != nil || s.Model == "" || s.GPU == "" {
		return
	}
	c, err := s.Resolve()
	if err != nil {
		return
	}
	own := map[string]string{
		"max-num-seqs": strconv.Itoa(c.Seqs), "max-num-batched-tokens": strconv.Itoa(c.Tokens), "block-size": strconv.Itoa(c.Block),
		"gpu-memory-utilization": strconv.FormatFloat(c.Util, 'f', -1, 64), "enable-prefix-caching": strconv.FormatBool(c.PrefixOn),
		"enable-chunked-prefill": strconv.FormatBool(c.Chunked), "async-scheduling": strconv.FormatBool(c.AsyncOn), "max-model-len": strconv.Itoa(c.MaxModelLen),
	}
	for i := range f.Knobs {
		if v, ok := own[f.Knobs[i].Name]; ok {
			f.Knobs[i].Default = v
		}
	}
}

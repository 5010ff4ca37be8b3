package flags

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spate/internal/nearest"
	"spate/internal/safe/secret"
	"spate/internal/settings/config"
)

// Options is what parsing needs from outside.
type Options struct {
	Env      func(name string) (string, bool)  // nil: an empty environment
	ReadFile func(name string) ([]byte, error) // for --config
	IDPrefix string                            // the request id prefix when none is given
	Single   string                            // what fills in flags for one workload, so that a list of tenants is refused
}

// Result is a command line understood.
type Result struct {
	Bench     *config.Bench
	Namespace string   // vLLM's first line
	Notes     []string // choices made that a user may not expect
	Help      bool     // help was asked for, and nothing else is filled
	Topic     string   // --help=TOPIC
}

// Parse reads the arguments after `spate bench [serve]`, the config file they name and the
// environment, and returns resolved and validated settings. The error is a *Error or
// config.Problems, both of them the user's mistake, or says what could not be read.
func Parse(args []string, opt Options) (*Result, error) {
	b, defs := fresh()
	p := &parser{bench: b, defs: defs, ix: newIndex(defs), opt: opt}
	line, err := scan(p.ix, args)
	if err != nil {
		return nil, err
	}
	if line.help {
		return &Result{Help: true, Topic: line.topic}, nil
	}
	if err := p.applyEnv(); err != nil {
		return nil, err
	}
	var mix *mix
	if name := cmp.Or(line.config, p.env("SPATE_CONFIG")); name != "" {
		if mix, err = p.applyFile(name, args); err != nil {
			return nil, err
		}
	}
	if err := p.apply(config.FromArgs, line.settings); err != nil {
		return nil, err
	}
	if mix != nil {
		return mix.finish(p)
	}
	return p.finish()
}

// parser carries one Parse.
type parser struct {
	bench *config.Bench
	defs  []*Def
	ix    *index
	opt   Options
}

func (p *parser) env(name string) string {
	if p.opt.Env == nil {
		return ""
	}
	v, _ := p.opt.Env(name)
	return v
}

// EnvName is the environment variable that sets a flag.
func EnvName(flag string) string {
	return "SPATE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// applyEnv sets what the environment says, the weakest source.
func (p *parser) applyEnv() error {
	var found []setting
	for _, d := range p.defs {
		v := p.env(EnvName(d.Name))
		if v == "" || d.Group == GroupGeneral {
			continue
		}
		set := setting{entry: entry{spelling: d.Name, def: d}, where: "environment " + EnvName(d.Name), words: []string{v}}
		if d.value.arity == many {
			set.words = strings.Fields(v)
		}
		found = append(found, set)
	}
	return p.apply(config.FromEnv, found)
}

// applyFile sets what a file says of the run, and returns what it says of tenants, if it names any.
func (p *parser) applyFile(name string, args []string) (*mix, error) {
	if p.opt.ReadFile == nil {
		return nil, mistake("--config: files cannot be read here")
	}
	data, err := p.opt.ReadFile(name)
	if err != nil {
		return nil, mistake("--config: read %s: %v", name, err)
	}
	found, err := readFile(name, data, p.ix)
	if err != nil {
		return nil, err
	}
	if found.tenants != nil && p.opt.Single != "" {
		bad := mistake("config file %s lists tenants, and %s has flags of its own for one workload, which would take the place of every tenant's", name, p.opt.Single)
		bad.Hint = "spate bench runs the file without it, or with --compat vllm"
		return nil, bad
	}
	if err := p.apply(config.FromFile, found.settings); err != nil || found.tenants == nil {
		return nil, err
	}
	return &mix{file: name, data: data, args: args, tenants: found.tenants}, nil
}

// apply writes the settings of one source, which replaces the lists of weaker ones. Dotted keys come
// last: they change single fields of an object given whole.
func (p *parser) apply(src config.Source, settings []setting) error {
	slices.SortStableFunc(settings, func(a, b setting) int { return cmp.Compare(min(len(a.keys), 1), min(len(b.keys), 1)) })
	begun := map[*Def]bool{}
	for _, set := range settings {
		targets, err := set.targets()
		if err != nil {
			return err
		}
		if len(targets) == 0 {
			p.begin(src, set.def, begun)
		}
		for _, t := range targets {
			d := p.ix.exact[t.flag].def
			p.begin(src, d, begun)
			if err := p.write(set, d, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin notes who set a flag, and empties its list the first time this source does.
func (p *parser) begin(src config.Source, d *Def, begun map[*Def]bool) {
	if d.value.arity == many && !begun[d] {
		d.value.reset()
	}
	begun[d] = true
	p.bench.Given[d.Name] = src
}

// targets says which flags a setting's words go to.
func (set *setting) targets() ([]target, error) {
	name := set.def.Name
	if set.def.value.arity == none || set.def.value.arity == tri {
		word := "true"
		if len(set.words) > 0 {
			word = set.words[0]
		}
		if on, err := readBool(word); err == nil && set.off {
			word = strconv.FormatBool(!on)
		}
		return []target{{flag: name, word: word}}, nil
	}
	var out []target
	for _, w := range set.words {
		if set.alias == nil || set.alias.To == nil {
			out = append(out, target{flag: name, keys: set.keys, word: w})
			continue
		}
		to, err := set.alias.To(w)
		if err != nil {
			return nil, mistake("%s: %q %v", set.where, w, err)
		}
		out = append(out, to...)
	}
	return out, nil
}

// write checks a word against the table and sets it.
func (p *parser) write(set setting, d *Def, t target) error {
	if t.keys != nil {
		if d.value.path == nil {
			return mistake("%s takes no dotted keys", set.where)
		}
		if err := d.value.path(t.keys, t.word, set.list); err != nil {
			return mistake("%s: %v", set.where, err)
		}
		return available(set.where, d)
	}
	if w, ok := d.Words[t.word]; ok {
		t.word = w
	}
	if err := d.checkChoice(set.where, t.word); err != nil {
		return err
	}
	if err := d.value.Set(t.word); err != nil {
		return d.badValue(set.where, t.word, err)
	}
	return available(set.where, d)
}

// badValue names the flag, the value and what was wanted, without repeating a secret.
func (d *Def) badValue(where, word string, err error) *Error {
	shown := secret.Args([]string{"--" + d.Name, word})[1]
	text := err.Error()
	if strings.HasPrefix(text, "is ") {
		return mistake("%s: %q %s", where, shown, text)
	}
	return mistake("%s: %q: %s", where, shown, text)
}

// checkChoice refuses a word that is none of the flag's choices.
func (d *Def) checkChoice(where, word string) error {
	if len(d.Choices) == 0 || slices.Contains(d.Choices, word) {
		return nil
	}
	have := strings.Join(d.Choices, ", ")
	for _, l := range d.Later {
		if fold(l) == fold(word) {
			return mistake("%s: spate does not support %q; it takes %s", where, word, have)
		}
	}
	e := mistake("%s: %q is not one of %s", where, word, have)
	if best := nearest.Word(word, append(slices.Clone(d.Choices), d.Later...)); best != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", best)
	}
	return e
}

// available refuses a flag whose capability spate lacks, unless it is at its default.
func available(where string, d *Def) error {
	if d.Needs == "" || d.value.text() == d.initial {
		return nil
	}
	if strings.HasPrefix(d.Needs, "spate ") {
		return mistake("%s is not a flag of bench: %s", where, d.Needs)
	}
	return mistake("%s: spate does not support it (%s)", where, d.Needs)
}

// finish applies the rules that need every flag, then resolves and validates.
func (p *parser) finish() (*Result, error) {
	r, err := p.resolve()
	if err != nil {
		return nil, err
	}
	if err := r.Bench.Validate(); err != nil {
		return nil, err
	}
	return r, nil
}

// resolve is finish without the validation.
func (p *parser) resolve() (*Result, error) {
	b := p.bench
	if err := p.endpointType(); err != nil {
		return nil, err
	}
	if b.Target.APIKey == "" && b.Target.Backend == "anthropic" { // nobody else's key goes there when it has its own
		b.Target.APIKey = secret.Value(p.env("ANTHROPIC_API_KEY"))
	}
	if b.Target.APIKey == "" {
		b.Target.APIKey = secret.Value(p.env("OPENAI_API_KEY"))
	}
	if b.Load.RequestIDPrefix == "" {
		b.Load.RequestIDPrefix = p.opt.IDPrefix
	}
	b.Output.PyTorchBenchmarks = p.env("SAVE_TO_PYTORCH_BENCHMARK_FORMAT") != ""
	r := &Result{Bench: b, Namespace: Namespace(b)}
	r.Notes = b.Resolve()
	return r, nil
}

// endpointType lets older scripts' flag choose the protocol: there, --backend did not.
func (p *parser) endpointType() error {
	d := p.ix.exact["endpoint-type"].def
	src, ok := p.bench.Given[d.Name]
	if !ok {
		return nil
	}
	to, err := backendKind(d.value.text())
	if err != nil {
		return err
	}
	set := setting{entry: p.ix.exact["backend"], where: "--endpoint-type", words: []string{to[0].word}}
	return p.apply(src, []setting{set})
}

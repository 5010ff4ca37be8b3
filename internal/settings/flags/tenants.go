package flags

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"spate/internal/nearest"
	"spate/internal/settings/config"
)

// tenantsKey is the key of a config file that lists tenants. There is no flag of this name: a tenant is
// more than one word.
const tenantsKey = "tenants"

// tenantForm is what a list of tenants looks like, for error texts.
const tenantForm = "want a list of tenants, each with a name and flags of its own, such as - {name: chat, request-rate: 2}"

// tenant is what a config file says of one tenant.
type tenant struct {
	name     string
	settings []setting
	unset    []*Def // given as null: the run's default does not hold for it
}

// ofRun are flags that belong to the whole run though others of their group may differ from one tenant
// to the next; ofTenant are the other way round.
var (
	ofRun    = []string{"skip-tokenizer-init", "probe-request-rate", "request-id-prefix"}
	ofTenant = []string{"header", "api-key", "goodput", "slo"}
)

// PerTenant reports whether a flag may differ between the tenants of a run.
func (d *Def) PerTenant() bool {
	switch d.Group {
	case GroupModel, GroupDataset, GroupLoad, GroupBody:
		return !slices.Contains(ofRun, d.Name)
	}
	return slices.Contains(ofTenant, d.Name)
}

// tenantName is a name that can stand in a request id, a label and a table.
var tenantName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// wholeRow is the row of a report that is no tenant's.
const wholeRow = "all"

// readTenants reads the list.
func readTenants(file, at string, list *yaml.Node, ix *index) ([]tenant, error) {
	list = resolved(list)
	if list.Kind != yaml.SequenceNode {
		return nil, mistake("%s: %s: %s", at, tenantsKey, tenantForm)
	}
	if len(list.Content) == 0 {
		return nil, mistake("%s: %s: the list is empty; leave it out for a run of one workload", at, tenantsKey)
	}
	out := make([]tenant, 0, len(list.Content))
	lines := map[string]int{}
	for i, n := range list.Content {
		n = resolved(n)
		here := fmt.Sprintf("config file %s line %d", file, n.Line)
		if n.Kind != yaml.MappingNode {
			return nil, mistake("%s: tenant %d is no set of flags: %s", here, i+1, tenantForm)
		}
		name, err := nameOf(here, i, n)
		if err != nil {
			return nil, err
		}
		if line, again := lines[name]; again {
			return nil, mistake("%s: there is a tenant %q already, on line %d", here, name, line)
		}
		lines[name] = n.Line
		t, err := readTenant(file, name, n, ix)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

func resolved(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// nameOf finds and checks a tenant's name.
func nameOf(at string, i int, n *yaml.Node) (string, error) {
	for k := 0; k+1 < len(n.Content); k += 2 {
		if fold(n.Content[k].Value) != "name" {
			continue
		}
		val := resolved(n.Content[k+1])
		switch {
		case val.Kind != yaml.ScalarNode || val.Tag == "!!null" || val.Value == "":
			return "", mistake("%s: tenant %d: the name is empty; give it a word, such as chat", at, i+1)
		case strings.EqualFold(val.Value, wholeRow):
			return "", mistake("%s: tenant %d: %q is the row of all tenants together; give it another name", at, i+1, val.Value)
		case !tenantName.MatchString(val.Value):
			return "", mistake("%s: tenant %d: %q is no name: want up to 64 letters, digits, dots, dashes and underscores", at, i+1, val.Value)
		}
		return val.Value, nil
	}
	return "", mistake("%s: tenant %d has no name: %s", at, i+1, tenantForm)
}

// readTenant reads the flags of one tenant.
func readTenant(file, name string, n *yaml.Node, ix *index) (tenant, error) {
	t := tenant{name: name}
	place := func(line int) string { return fmt.Sprintf("config file %s line %d: tenant %s", file, line, name) }
	err := eachKey(n, place, func(at, key string, val *yaml.Node) error {
		if fold(key) == "name" {
			return nil
		}
		set, skip, err := tenantSetting(at, key, val, ix)
		switch {
		case err != nil:
			return err
		case skip:
			t.unset = append(t.unset, set.def)
		default:
			t.settings = append(t.settings, set)
		}
		return nil
	})
	return t, err
}

func tenantSetting(at, key string, val *yaml.Node, ix *index) (setting, bool, error) {
	name, _, _ := strings.Cut(strings.TrimPrefix(key, "--"), ".")
	e, ok := ix.exact[fold(name)]
	switch {
	case !ok:
		bad := mistake("%s: unknown key %q", at, name)
		if best := nearest.Word(name, append([]string{"name"}, ix.names()...)); best != "" {
			bad.Hint = fmt.Sprintf("did you mean %q?", best)
		}
		return setting{}, false, bad
	case !e.def.PerTenant():
		bad := mistake("%s: %s is of the whole run, not of one tenant", at, name)
		bad.Hint = "give it at the top of the file or on the command line"
		return setting{}, false, bad
	}
	return fileSetting(at, key, val, ix)
}

// mix is a file of several tenants, read once for the run and once for each of them: every tenant's
// settings are those of a run of its own, from the same environment, file and command line.
type mix struct {
	file    string
	data    []byte
	args    []string
	tenants []tenant
}

// finish resolves the run and its tenants. Each tenant is validated with the run's settings, so that
// what is wrong with these shows there; said by all tenants alike, it is said once.
func (m *mix) finish(p *parser) (*Result, error) {
	r, err := p.resolve()
	if err != nil {
		return nil, err
	}
	notes, problems := &sayings{of: len(m.tenants)}, &sayings{of: len(m.tenants)}
	flags := map[string][]string{}
	for i := range m.tenants {
		one, replaced, err := m.tenant(p, i)
		if err != nil {
			return nil, err
		}
		name := m.tenants[i].name
		for _, n := range one.Notes {
			notes.add(name, n)
		}
		for _, f := range replaced {
			notes.add(name, fmt.Sprintf("--%s on the command line takes the place of what the file says", f))
		}
		var wrong config.Problems
		if err := one.Bench.Validate(); errors.As(err, &wrong) {
			for _, w := range wrong {
				problems.add(name, w.Text)
				flags[w.Text] = w.Flags
			}
		}
		r.Bench.AddTenant(name, one.Bench)
	}
	if len(problems.texts) > 0 {
		var all config.Problems
		problems.each(func(text, shown string) { all = append(all, config.Problem{Flags: flags[text], Text: shown}) })
		return nil, all
	}
	r.Notes = nil // those of the run are among those of its tenants
	notes.each(func(_, shown string) { r.Notes = append(r.Notes, shown) })
	r.Bench.JoinTenants()
	return r, nil
}

// tenant reads the settings of the i-th tenant, weakest first: environment, the file's own, the tenant's,
// the command line's. replaced are the tenant's flags that the command line gives too.
func (m *mix) tenant(p *parser, i int) (r *Result, replaced []string, err error) {
	b, defs := fresh()
	q := &parser{bench: b, defs: defs, ix: newIndex(defs), opt: p.opt}
	line, err := scan(q.ix, m.args)
	if err != nil {
		return nil, nil, err
	}
	found, err := readFile(m.file, m.data, q.ix)
	if err != nil {
		return nil, nil, err
	}
	t := found.tenants[i]
	general := slices.DeleteFunc(found.settings, func(s setting) bool { return slices.Contains(t.unset, s.def) })
	if err := q.applyEnv(); err != nil {
		return nil, nil, err
	}
	for _, source := range []struct {
		src      config.Source
		settings []setting
	}{{config.FromFile, general}, {config.FromFile, t.settings}, {config.FromArgs, line.settings}} {
		if err := q.apply(source.src, source.settings); err != nil {
			return nil, nil, err
		}
	}
	gives := func(list []setting, d *Def) bool {
		return slices.ContainsFunc(list, func(s setting) bool { return s.def == d })
	}
	seeded := false
	for _, s := range t.settings {
		if gives(line.settings, s.def) {
			replaced = append(replaced, s.def.Name)
			continue
		}
		seeded = seeded || s.def.Name == "seed"
	}
	if !seeded {
		b.Load.Seed = config.TenantSeed(b.Load.Seed, t.name)
	}
	r, err = q.resolve()
	return r, replaced, err
}

// sayings are texts about tenants, in the order they came.
type sayings struct {
	of    int // tenants there are
	texts []string
	who   map[string][]string
}

func (s *sayings) add(tenant, text string) {
	if s.who == nil {
		s.who = map[string][]string{}
	}
	if len(s.who[text]) == 0 {
		s.texts = append(s.texts, text)
	}
	if !slices.Contains(s.who[text], tenant) {
		s.who[text] = append(s.who[text], tenant)
	}
}

// each gives every text, with the tenants it is about unless it is about all of them.
func (s *sayings) each(visit func(text, shown string)) {
	for _, text := range s.texts {
		shown := text
		switch who := s.who[text]; {
		case len(who) == 1:
			shown = "tenant " + who[0] + ": " + text
		case len(who) < s.of:
			shown = "tenants " + strings.Join(who, ", ") + ": " + text
		}
		visit(text, shown)
	}
}

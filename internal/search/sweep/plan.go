package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"spate/internal/rng"
	"spate/internal/safe/secret"
	"spate/internal/settings/config"
	"spate/internal/trial"
)

// planSchema is the version of plan files.
const planSchema = 1

// Plan is a sweep with everything decided; it is what a folder is made for.
type Plan struct {
	Schema   int           `json:"schema"`
	ID       string        `json:"id"` // of this sweep, part of its runs' names
	Name     string        `json:"name,omitempty"`
	Repeat   int           `json:"repeat"`
	Order    Order         `json:"order"`
	Seed     uint64        `json:"seed,omitempty"`
	Cache    trial.Cache   `json:"cache"`
	Predict  string        `json:"predict,omitempty"`
	Cooldown time.Duration `json:"cooldown_ns,omitempty"` // may change between sittings
	Bench    []Setting     `json:"bench,omitempty"`
	Servers  []Server      `json:"servers,omitempty"`
	Points   []Point       `json:"points"`
}

// Point is one thing to measure.
type Point struct {
	Key      string    `json:"key"` // names its run folders
	Server   string    `json:"server,omitempty"`
	Settings []Setting `json:"settings"` // what makes it this point
	Digest   string    `json:"digest"`   // of the settings all flags, files and the environment amount to
}

// String is the point for people.
func (p *Point) String() string {
	text := describe(p.Settings)
	if p.Server == "" {
		return text
	}
	return strings.TrimSpace(p.Server + " " + text)
}

// Resolve turns arguments of bench into settings, or says what is wrong with them.
type Resolve func(args []string) (*config.Bench, error)

// NewPlan lists the points of a suite, each checked by resolve. id tells this sweep from others.
func NewPlan(s *Suite, id string, resolve Resolve) (*Plan, error) {
	p := &Plan{
		Schema: planSchema, ID: id, Name: s.Name, Repeat: s.Repeat, Order: s.Order, Seed: s.Seed, Cache: s.Cache, Predict: s.Predict,
		Cooldown: s.Cooldown, Bench: s.Bench, Servers: s.Servers,
	}
	if p.Repeat < 1 {
		return nil, wrong("a point is measured at least once: repeat is %d", p.Repeat)
	}
	p.simulate(s.Sim)
	servers := p.Servers
	if len(servers) == 0 {
		servers = []Server{{}}
	}
	for i := range servers {
		shape := s.Shape
		if servers[i].Shape != nil {
			shape = *servers[i].Shape
		}
		settings, err := shape.expand()
		if err != nil {
			return nil, err
		}
		for _, set := range settings {
			p.add(servers[i].Name, set)
		}
	}
	if len(p.Points) > maxPoints {
		return nil, wrong("%d points are more than %d", len(p.Points), maxPoints)
	}
	return p, p.check(s.file, resolve)
}

// simulate names what --sim without a name stands for, unless a timetable is described.
func (p *Plan) simulate(profile string) {
	bare := slices.IndexFunc(p.Bench, func(s Setting) bool { return s.Flag == "sim" && len(s.Words) == 0 })
	if bare < 0 || slices.ContainsFunc(p.Bench, func(s Setting) bool { return strings.HasPrefix(s.Flag, "sim-") }) {
		return
	}
	p.Bench, p.Servers = slices.Clone(p.Bench), slices.Clone(p.Servers)
	if profile != "" {
		p.Bench[bare].Words = []string{profile}
	}
	for i := range p.Servers {
		if sv := &p.Servers[i]; sv.Sim != "" {
			sv.Bench = overlay(sv.Bench, []Setting{{Flag: "sim", Words: []string{sv.Sim}}})
		}
	}
}

// add appends a point unless it is there already, as when a flag on the command line replaced what
// told two points apart.
func (p *Plan) add(server string, set []Setting) {
	for i := range p.Points {
		if p.Points[i].Server == server && same(p.Points[i].Settings, set) {
			return
		}
	}
	words := []string{fmt.Sprintf("%03d", len(p.Points)+1)}
	if server != "" {
		words = append(words, server)
	}
	for _, s := range set {
		words = append(words, s.String())
	}
	p.Points = append(p.Points, Point{Key: slug(strings.Join(words, "-")), Server: server, Settings: set})
}

// slug makes a name for a folder.
func slug(text string) string {
	const most = 100
	text = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_', r == '=':
			return r
		}
		return '_'
	}, text)
	return strings.Trim(text[:min(len(text), most)], ".")
}

// expand lists the combinations, the last axis changing fastest.
func (sh Shape) expand() ([][]Setting, error) {
	lists := sh.Points
	if len(lists) == 0 {
		lists = [][]Axis{nil}
	}
	var out [][]Setting
	for _, axes := range lists {
		axes = slices.Clone(axes)
		for _, g := range sh.Grid {
			if !slices.ContainsFunc(axes, func(a Axis) bool { return canonical(a.Flag) == canonical(g.Flag) }) {
				axes = append(axes, g)
			}
		}
		n := 1
		for _, a := range axes {
			if n *= len(a.Values); n > maxPoints {
				return nil, wrong("the grid has more than %d points", maxPoints)
			}
		}
		out = append(out, product(axes)...)
	}
	return out, nil
}

func product(axes []Axis) [][]Setting {
	out := [][]Setting{nil}
	for _, a := range axes {
		var next [][]Setting
		for _, at := range out {
			for _, v := range a.Values {
				next = append(next, append(slices.Clone(at), Setting{Flag: a.Flag, Words: v, line: a.line}))
			}
		}
		out = next
	}
	return out
}

// Check reads the flags of every point of a plan that was loaded, and notes what they amount to now.
func (p *Plan) Check(resolve Resolve) error { return p.check("", resolve) }

// check reads every point's flags, and notes what they amount to.
func (p *Plan) check(file string, resolve Resolve) error {
	for i := range p.Points {
		pt := &p.Points[i]
		cfg, err := resolve(p.Args(pt))
		if err != nil {
			return fmt.Errorf("%s%w", p.where(file, pt, err), err)
		}
		pt.Digest = trial.Digest(cfg)
	}
	return nil
}

// where names the place of a mistake in a point's flags.
func (p *Plan) where(file string, pt *Point, err error) string {
	all := append(slices.Clone(p.Bench), pt.Settings...)
	if s := p.Server(pt.Server); s != nil {
		all = append(all, s.Bench...)
	}
	for _, s := range all {
		if s.line > 0 && strings.Contains(err.Error(), "--"+canonical(s.Flag)) {
			return fmt.Sprintf("%s line %d: ", file, s.line)
		}
	}
	if text := pt.String(); text != "" {
		return "point " + text + ": "
	}
	return ""
}

// Server finds a server by name, nil when the sweep has none.
func (p *Plan) Server(name string) *Server {
	for i := range p.Servers {
		if p.Servers[i].Name == name {
			return &p.Servers[i]
		}
	}
	return nil
}

// Args are the arguments of bench at a point.
func (p *Plan) Args(pt *Point) []string {
	all := p.Bench
	if s := p.Server(pt.Server); s != nil {
		all = overlay(all, s.Bench)
	}
	var args []string
	for _, s := range overlay(all, pt.Settings) {
		args = append(args, s.args()...)
	}
	return args
}

// Axes are the flags that make the points, in the order in which they first appear.
func (p *Plan) Axes() []string {
	var out []string
	for i := range p.Points {
		for _, s := range p.Points[i].Settings {
			if !slices.Contains(out, s.Flag) {
				out = append(out, s.Flag)
			}
		}
	}
	return out
}

// Step is one measurement of a point.
type Step struct {
	Point  *Point
	Repeat int // from 1
}

// Key names the step's run folder, and the run: no other sweep has it.
func (p *Plan) Key(s Step) string { return fmt.Sprintf("%s-%s-r%d", p.ID, s.Point.Key, s.Repeat) }

// Steps lists the measurements in the order they are made, in groups of one server start each. All
// servers that run already are one group.
func (p *Plan) Steps() [][]Step {
	var groups [][]*Point
	index := map[string]int{}
	for i := range p.Points {
		pt := &p.Points[i]
		group := ""
		if s := p.Server(pt.Server); s != nil && s.Launch != nil {
			group = s.Name
		}
		at, ok := index[group]
		if !ok {
			at = len(groups)
			index[group] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], pt)
	}
	out := make([][]Step, len(groups))
	for g, points := range groups {
		for round := 1; round <= p.Repeat; round++ {
			points := slices.Clone(points)
			if p.Order == Random {
				rng.New(p.Seed, "sweep.points", uint64(g), uint64(round)).Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
			}
			for _, pt := range points {
				out[g] = append(out[g], Step{Point: pt, Repeat: round})
			}
		}
	}
	if p.Order == Random {
		rng.New(p.Seed, "sweep.groups").Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	return out
}

// told are settings that every run tells of itself; a label would say them twice.
var told = []string{
	"backend", "model", "dataset-name", "input-len", "random-input-len", "sonnet-input-len", "output-len", "random-output-len",
	"sonnet-output-len", "num-prompts", "max-concurrency", "request-rate", "label",
}

// Labels are what a run of the step carries beside what it tells of itself.
func (p *Plan) Labels(s Step) []config.KeyValue {
	var out []config.KeyValue
	add := func(k, v string) {
		if v != "" {
			out = append(out, config.KeyValue{Key: k, Value: v})
		}
	}
	add("sweep", cmp.Or(p.Name, p.ID))
	if p.Repeat > 1 {
		add("repeat", fmt.Sprint(s.Repeat))
	}
	if sv := p.Server(s.Point.Server); sv != nil {
		for _, k := range sortedKeys(sv.Labels) {
			add(k, sv.Labels[k])
		}
	}
	for _, set := range s.Point.Settings {
		if !slices.Contains(told, canonical(set.Flag)) {
			add(set.Flag, set.Text())
		}
	}
	return out
}

func sortedKeys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// Expected is how long the sweep takes at least, as far as its settings tell; open counts the
// measurements that end only when their requests are done.
func (p *Plan) Expected(resolve Resolve) (least time.Duration, open int, err error) {
	for i := range p.Points {
		cfg, err := resolve(p.Args(&p.Points[i]))
		if err != nil {
			return 0, 0, err
		}
		d, known := Lasts(cfg)
		least += time.Duration(p.Repeat) * (d + p.Cooldown)
		if !known {
			open += p.Repeat
		}
	}
	return max(0, least-p.Cooldown), open, nil
}

// Lasts is how long sending takes; false when that depends on the server.
func Lasts(cfg *config.Bench) (time.Duration, bool) {
	d, known := cfg.Arrivals(cfg.Load.NumPrompts, nil).Lasts()
	return cfg.Load.WarmupDuration + d, known
}

// public is the plan without secrets.
func (p *Plan) public() *Plan {
	q := *p
	q.Bench = redact(p.Bench)
	q.Servers = slices.Clone(p.Servers)
	for i := range q.Servers {
		q.Servers[i].Bench = redact(q.Servers[i].Bench)
		q.Servers[i].Launch = q.Servers[i].Launch.public()
	}
	q.Points = slices.Clone(p.Points)
	for i := range q.Points {
		q.Points[i].Settings = redact(q.Points[i].Settings)
	}
	return &q
}

// public is how a server is started, with references in the place of secrets: it is to be started again.
func (l *Launch) public() *Launch {
	if l == nil {
		return nil
	}
	q := *l
	q.Command, q.Stop, q.URL = secret.Refer(l.Command), secret.Refer(l.Stop), secret.Text(l.URL)
	q.Env = map[string]string{}
	for k, v := range l.Env {
		_, q.Env[k], _ = strings.Cut(secret.ReferEnv([]string{k + "=" + v})[0], "=")
	}
	return &q
}

// Unset are the variables that launches refer to for a secret and that are not set.
func (p *Plan) Unset(lookup func(string) (string, bool)) []string {
	var out []string
	for i := range p.Servers {
		if l := p.Servers[i].Launch; l != nil {
			words := slices.Concat(l.Command, l.Stop)
			for _, k := range sortedKeys(l.Env) {
				words = append(words, l.Env[k])
			}
			out = append(out, secret.Missing(words, lookup)...)
		}
	}
	return slices.Compact(out)
}

// redact hides secrets among settings.
func redact(list []Setting) []Setting {
	out := slices.Clone(list)
	for i := range out {
		words := slices.Clone(out[i].Words)
		for j, w := range words {
			words[j] = secret.Args([]string{"--" + canonical(out[i].Flag), w})[1]
		}
		out[i].Words = words
	}
	return out
}

// Secret lists the flags whose values a folder does not keep: they have to be given again.
func (p *Plan) Secret() []string {
	var out []string
	all := slices.Clone(p.Bench)
	for i := range p.Points {
		all = append(all, p.Points[i].Settings...)
	}
	for _, s := range all {
		if !slices.Contains(out, s.Flag) && slices.ContainsFunc(s.Words, func(w string) bool { return strings.Contains(w, secret.Redacted) }) {
			out = append(out, s.Flag)
		}
	}
	return out
}

// Supply gives settings that a folder's plan lacks because they are secret.
func (p *Plan) Supply(list []Setting) { p.Bench = overlay(p.Bench, list) }

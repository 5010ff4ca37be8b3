package tune

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"spate/internal/figure"
	"spate/internal/host/launch"
	"spate/internal/nearest"
	"spate/internal/search/suggest"
	"spate/internal/settings/config"
)

// File is what a user wants tuned, with every default in place. As JSON it is what a journal is begun with.
type File struct {
	Name      string     `json:"name,omitempty"`
	Server    Server     `json:"server"`
	Model     string     `json:"model,omitempty"`
	GPU       string     `json:"gpu,omitempty"`
	Version   string     `json:"version,omitempty"`
	Profile   string     `json:"profile,omitempty"` // of the simulator that stands for the server
	Fixed     []Flag     `json:"fixed,omitempty"`
	Knobs     []Knob     `json:"space"`
	Workloads []Workload `json:"workloads"`
	Held      *Workload  `json:"holdout,omitempty"`
	Objective Objective  `json:"objective"`
	Limits    []string   `json:"constraints,omitempty"`
	MemoryGiB float64    `json:"gpu_memory_gib,omitempty"` // bound on what a GPU may use
	Price     float64    `json:"price_per_gpu_hour,omitempty"`
	Rate      float64    `json:"rate,omitempty"`    // requests per second; 0: the knee, or what the workload says
	AtKnee    bool       `json:"at_knee,omitempty"` // the rate is found first
	Around    float64    `json:"around,omitempty"`  // times the knee at which trials are made
	Trials    int        `json:"trials"`
	Time      float64    `json:"time_s,omitempty"`
	Strategy  string     `json:"strategy"`
	Seed      uint64     `json:"seed"`
	Repeats   int        `json:"repeats"`
	Finalists int        `json:"finalists"`
	DriftOver int        `json:"drift_every"`
	Shares    []float64  `json:"shares,omitempty"`
	Places    int        `json:"grid_places,omitempty"`
	Margin    float64    `json:"margin"`
	limits    []figure.Objective
	rules     []ruleText // of the engine
}

// Server is how one is started.
type Server struct {
	Kind    string   `json:"kind,omitempty"`
	Command []string `json:"command"` // {model}, {flags} and {port} are filled in
	Env     []Flag   `json:"env,omitempty"`
	URL     string   `json:"url,omitempty"`
	ReadyS  float64  `json:"ready_s,omitempty"`
	GraceS  float64  `json:"grace_s,omitempty"`
	Stop    []string `json:"stop,omitempty"` // run when it has ended: ends what runs elsewhere
}

// Flag is a flag or variable with its value. The values of a switch are true and false.
type Flag struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Workload is what is sent: flags of bench.
type Workload struct {
	Name   string   `json:"name"`
	Weight float64  `json:"weight,omitempty"`
	Args   []string `json:"bench"`
}

// Objective is the figure that is optimized.
type Objective struct {
	Metric  string `json:"metric"` // a figure's vLLM name, or cost
	PerGPU  bool   `json:"per_gpu,omitempty"`
	Smaller bool   `json:"smaller_is_better,omitempty"`
}

// objectives are the short names.
var objectives = map[string]string{
	"goodput": "request_goodput", "throughput": "output_throughput", "requests": "request_throughput", "tokens": "total_token_throughput", "cost": "cost",
}

// value is the objective's figure, and whether smaller ones are better.
func (o *Objective) value(figures map[string]float64, gpus int, price float64) (v float64, smaller bool) {
	if o.Metric == "cost" { // per million tokens of answers
		return price * float64(gpus) / 3600 / figures["output_throughput"] * 1e6, true
	}
	v, ok := figures[o.Metric]
	if !ok {
		v = math.NaN()
	}
	if o.PerGPU && gpus > 0 {
		v /= float64(gpus)
	}
	return v, o.Smaller
}

// Title is the objective for people.
func (o *Objective) Title() string {
	switch {
	case o.Metric == "cost":
		return "USD per million output tokens"
	case o.PerGPU:
		return o.Metric + " per GPU"
	}
	return o.Metric
}

// GPUs is how many a setting uses.
func (f *File) GPUs(set suggest.Settings) int {
	n := 1
	for _, name := range []string{"tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "tp", "dp", "tp-size", "dp-size"} {
		text, ok := set[name]
		if !ok {
			for _, x := range f.Fixed {
				if x.Name == name {
					text = x.Value
				}
			}
		}
		if v, err := strconv.Atoi(text); err == nil && v > 1 {
			n *= v
		}
	}
	return n
}

// raw is a file as it is written.
type raw struct {
	Name       string    `yaml:"name"`
	About      string    `yaml:"about"`
	Server     yaml.Node `yaml:"server"`
	Model      string    `yaml:"model"`
	GPU        string    `yaml:"gpu"`
	Version    string    `yaml:"version"`
	Profile    string    `yaml:"profile"`
	Fixed      yaml.Node `yaml:"fixed"`
	Space      yaml.Node `yaml:"space"`
	Workload   yaml.Node `yaml:"workload"`
	Workloads  yaml.Node `yaml:"workloads"`
	Holdout    yaml.Node `yaml:"holdout"`
	Objective  string    `yaml:"objective"`
	PerGPU     bool      `yaml:"per_gpu"`
	Limits     []string  `yaml:"constraints"`
	Price      float64   `yaml:"price_per_gpu_hour"`
	Rate       string    `yaml:"rate"`
	Around     float64   `yaml:"around"`
	Budget     rawBudget `yaml:"budget"`
	Strategy   string    `yaml:"strategy"`
	Seed       uint64    `yaml:"seed"`
	Repeats    *int      `yaml:"repeats"`
	Finalists  *int      `yaml:"finalists"`
	DriftEvery *int      `yaml:"drift_every"`
	Shares     []float64 `yaml:"shares"`
	Places     int       `yaml:"grid_places"`
	Margin     string    `yaml:"margin"`
}

type rawBudget struct {
	Trials int    `yaml:"trials"`
	Time   string `yaml:"time"`
}

var topKeys = []string{
	"name", "about", "server", "model", "gpu", "version", "profile", "fixed", "space", "workload", "workloads", "holdout", "objective", "per_gpu",
	"constraints", "price_per_gpu_hour", "rate", "around", "budget", "strategy", "seed", "repeats", "finalists", "drift_every", "shares", "grid_places", "margin",
}

// Strategies are the names a file may give.
var Strategies = []string{"auto", "tpe", "halving", "random", "grid"}

// Parse reads a file; name is its own, for messages.
func Parse(name string, data []byte) (*File, error) {
	var doc yaml.Node
	if err := yaml.NewDecoder(strings.NewReader(string(data))).Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: the file is empty", name)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := onlyKeys(doc.Content[0], "a tune file", topKeys); err != nil {
		return nil, fmt.Errorf("%s %w", name, err)
	}
	var r raw
	if err := doc.Content[0].Decode(&r); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f, err := r.file()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// onlyKeys refuses keys that mean nothing, with the nearest that does.
func onlyKeys(n *yaml.Node, what string, keys []string) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: %s: write key: value, one on each line", n.Line, what)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := n.Content[i]; !slices.Contains(keys, k.Value) {
			hint := nearest.Hint(k.Value, keys)
			if hint == "" {
				hint = ": it has " + strings.Join(keys, ", ")
			}
			return fmt.Errorf("line %d: %s has no key %q%s", k.Line, what, k.Value, hint)
		}
	}
	return nil
}

// file checks what was written and fills in the rest.
func (r *raw) file() (*File, error) {
	f := &File{
		Name: r.Name, Model: r.Model, GPU: r.GPU, Version: r.Version, Profile: r.Profile, Limits: r.Limits, Price: r.Price,
		Around: r.Around, Trials: r.Budget.Trials, Strategy: r.Strategy, Seed: r.Seed, Repeats: 3, Finalists: 2, DriftOver: 10,
		Shares: r.Shares, Places: r.Places, Margin: 0.02,
	}
	for to, from := range map[*int]*int{&f.Repeats: r.Repeats, &f.Finalists: r.Finalists, &f.DriftOver: r.DriftEvery} {
		if from != nil {
			*to = *from
		}
	}
	for _, step := range []func(*raw) error{f.readServer, f.readSpace, f.readWorkloads, f.readGoal, f.readBudget} {
		if err := step(r); err != nil {
			return nil, err
		}
	}
	return f, f.Check()
}

func (f *File) readServer(r *raw) error {
	var err error
	if f.Fixed, err = pairs(&r.Fixed); err != nil {
		return fmt.Errorf("fixed: %w", err)
	}
	switch r.Server.Kind {
	case 0:
		f.Server.Kind = "vllm"
	case yaml.ScalarNode:
		f.Server.Kind = r.Server.Value
	default:
		if err := f.serverMapping(&r.Server); err != nil {
			return fmt.Errorf("server: %w", err)
		}
	}
	if len(f.Server.Command) == 0 {
		text, ok := templates[f.Server.Kind]
		if !ok {
			return fmt.Errorf("server %q is not one of %s%s; or give a command", f.Server.Kind, strings.Join(Kinds(), ", "), nearest.Hint(f.Server.Kind, Kinds()))
		}
		f.Server.Command = strings.Fields(text)
	}
	if !slices.ContainsFunc(f.Server.Command, func(w string) bool { return strings.Contains(w, "{flags}") }) {
		return errors.New("the server's command has no {flags}: put it where the flags that are tried belong")
	}
	return nil
}

func (f *File) serverMapping(n *yaml.Node) error {
	var s struct {
		Kind    string    `yaml:"kind"`
		Command yaml.Node `yaml:"command"`
		Env     yaml.Node `yaml:"env"`
		URL     string    `yaml:"url"`
		Ready   string    `yaml:"ready"`
		Grace   string    `yaml:"grace"`
		Stop    yaml.Node `yaml:"stop"`
	}
	if err := onlyKeys(n, "server", []string{"kind", "command", "env", "url", "ready", "grace", "stop"}); err != nil {
		return err
	}
	if err := n.Decode(&s); err != nil {
		return err
	}
	var err error
	f.Server.Kind, f.Server.URL = s.Kind, s.URL
	if f.Server.Command, err = commandWords(&s.Command); err != nil {
		return fmt.Errorf("command: %w", err)
	}
	if f.Server.Stop, err = commandWords(&s.Stop); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	if f.Server.Env, err = pairs(&s.Env); err != nil {
		return fmt.Errorf("env: %w", err)
	}
	for _, d := range []struct {
		text string
		to   *float64
	}{{s.Ready, &f.Server.ReadyS}, {s.Grace, &f.Server.GraceS}} {
		if d.text == "" {
			continue
		}
		v, err := config.ParseDuration(d.text)
		if err != nil || v <= 0 {
			return fmt.Errorf("%q is not a time such as 10m", d.text)
		}
		*d.to = v.Seconds()
	}
	if f.Server.Kind == "" {
		f.Server.Kind = guessKind(f.Server.Command)
	}
	return nil
}

// commandWords reads a command, as one line or as a list of words.
func commandWords(n *yaml.Node) (words []string, err error) {
	switch n.Kind {
	case 0:
		return nil, nil
	case yaml.ScalarNode:
		return launch.Split(n.Value)
	}
	err = n.Decode(&words)
	return words, err
}

// pairs reads name: value lines in their order.
func pairs(n *yaml.Node) ([]Flag, error) {
	if n.Kind == 0 {
		return nil, nil
	}
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: write name: value, one on each line", n.Line)
	}
	var out []Flag
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if v.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: %s: give a single value", v.Line, k.Value)
		}
		out = append(out, Flag{Name: flagName(k.Value), Value: v.Value})
	}
	return out, nil
}

func flagName(text string) string {
	text = strings.TrimLeft(text, "-")
	if strings.ToUpper(text) == text || strings.HasPrefix(text, envPrefix) {
		return text
	}
	return strings.ReplaceAll(text, "_", "-")
}

func (f *File) readWorkloads(r *raw) error {
	if r.Workload.Kind != 0 && r.Workloads.Kind != 0 {
		return errors.New("either workload or workloads, not both")
	}
	if r.Workload.Kind != 0 {
		args, err := benchArgs(&r.Workload)
		if err != nil {
			return fmt.Errorf("workload: %w", err)
		}
		f.Workloads = []Workload{{Name: "workload", Args: args}}
	}
	for _, n := range r.Workloads.Content {
		var w struct {
			Name   string    `yaml:"name"`
			Weight float64   `yaml:"weight"`
			Bench  yaml.Node `yaml:"bench"`
		}
		if err := onlyKeys(n, "a workload", []string{"name", "weight", "bench"}); err != nil {
			return err
		}
		if err := n.Decode(&w); err != nil {
			return err
		}
		args, err := benchArgs(&w.Bench)
		if err != nil {
			return fmt.Errorf("workload %s: %w", w.Name, err)
		}
		f.Workloads = append(f.Workloads, Workload{Name: w.Name, Weight: w.Weight, Args: args})
	}
	if len(f.Workloads) == 0 {
		return errors.New("no workload: what should be sent? as in workload: {random-input-len: 512, num-prompts: 200}")
	}
	if r.Holdout.Kind != 0 {
		args, err := benchArgs(&r.Holdout)
		if err != nil {
			return fmt.Errorf("holdout: %w", err)
		}
		f.Held = &Workload{Name: "holdout", Args: args}
	}
	return nil
}

// benchArgs turns flags of bench into words.
func benchArgs(n *yaml.Node) ([]string, error) {
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: write flags of bench, one on each line, such as num-prompts: 200", n.Line)
	}
	var out []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		name := "--" + strings.ReplaceAll(strings.TrimLeft(k.Value, "-"), "_", "-")
		switch {
		case v.Kind == yaml.SequenceNode:
			out = append(out, name)
			for _, item := range v.Content {
				out = append(out, item.Value)
			}
		case v.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("line %d: %s: give a single value or a list", v.Line, k.Value)
		case v.Tag == "!!bool" && v.Value == "true":
			out = append(out, name)
		case v.Tag == "!!bool":
		default:
			out = append(out, name, v.Value)
		}
	}
	return out, nil
}

func (f *File) readGoal(r *raw) error {
	if r.Objective == "" {
		return errors.New("no objective: what should be best? goodput, throughput, requests, cost, or a latency such as p99_ttft_ms")
	}
	f.Objective = Objective{Metric: r.Objective, PerGPU: r.PerGPU}
	if long, ok := objectives[r.Objective]; ok {
		f.Objective.Metric = long
	} else {
		o, err := figure.Find(r.Objective)
		if err != nil || o.Unit != figure.Milliseconds && !slices.Contains(slices.Collect(maps.Values(objectives)), o.Key()) {
			return fmt.Errorf("objective %q is not one of goodput, throughput, requests, tokens, cost, or a latency such as p99_ttft_ms", r.Objective)
		}
		f.Objective.Metric, f.Objective.Smaller = o.Key(), o.Better == figure.Lower
	}
	if f.Objective.Metric == "cost" {
		f.Objective.Smaller = true
		if f.Price <= 0 {
			return errors.New("the objective cost needs price_per_gpu_hour")
		}
	}
	return nil
}

func (f *File) readBudget(r *raw) error {
	if r.Budget.Time != "" {
		d, err := config.ParseDuration(r.Budget.Time)
		if err != nil || d <= 0 {
			return fmt.Errorf("budget: %q is not a time such as 2h", r.Budget.Time)
		}
		f.Time = d.Seconds()
	}
	switch r.Rate {
	case "", "knee":
		f.AtKnee = r.Rate == "knee" || !slices.ContainsFunc(f.Workloads, func(w Workload) bool { return paced(w.Args) })
	default:
		v, err := strconv.ParseFloat(r.Rate, 64)
		if err != nil || v <= 0 {
			return fmt.Errorf("rate %q is neither knee nor a number of requests per second", r.Rate)
		}
		f.Rate = v
	}
	if r.Margin != "" {
		v, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(r.Margin, "%")), 64)
		if err != nil || v < 0 || v >= 100 {
			return fmt.Errorf("margin %q is not a share such as 2%%", r.Margin)
		}
		f.Margin = v / 100
	}
	return nil
}

// paced reports whether flags of bench say how fast requests are sent.
func paced(args []string) bool {
	return slices.ContainsFunc(args, func(w string) bool {
		name, _, _ := strings.Cut(w, "=")
		return slices.Contains([]string{"--request-rate", "--max-concurrency", "--stages", "--ramp-up-strategy"}, name)
	})
}

// Check says what is wrong with a file and settles what follows from the rest.
func (f *File) Check() error {
	f.limits = nil
	f.MemoryGiB = 0
	errorsSaid := false
	for _, text := range f.Limits {
		if v, ok := strings.CutPrefix(strings.ReplaceAll(text, " ", ""), "gpu_memory<"); ok {
			gib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimPrefix(v, "="), "GiB"), 64)
			if err != nil || gib <= 0 {
				return fmt.Errorf("constraint %q is not of the form gpu_memory<40GiB", text)
			}
			f.MemoryGiB = gib
			continue
		}
		list, err := figure.ParseObjectives(text)
		if err != nil {
			return fmt.Errorf("constraints: %w", err)
		}
		for _, o := range list {
			errorsSaid = errorsSaid || o.Metric == "error_rate"
			f.limits = append(f.limits, o)
		}
	}
	if !errorsSaid { // a server that refuses half its requests could look fast
		o, err := figure.ParseObjective("error_rate<1%")
		if err != nil {
			return err
		}
		f.limits = append(f.limits, o)
	}
	if f.Strategy == "" {
		f.Strategy = "auto"
	}
	if !slices.Contains(Strategies, f.Strategy) {
		return fmt.Errorf("strategy %q is not one of %s%s", f.Strategy, strings.Join(Strategies, ", "), nearest.Hint(f.Strategy, Strategies))
	}
	if f.Trials <= 0 {
		f.Trials = 30
	}
	if f.Around == 0 {
		f.Around = 1.15
		if f.Objective.Smaller && f.Objective.Metric != "cost" {
			f.Around = 0.9
		}
	}
	if len(f.Shares) == 0 {
		f.Shares = []float64{0.25, 1}
	}
	if !slices.IsSorted(f.Shares) || f.Shares[0] <= 0 || f.Shares[len(f.Shares)-1] != 1 {
		return errors.New("shares rise from above 0 to 1, such as [0.25, 1]")
	}
	if f.Places <= 1 {
		f.Places = 4
	}
	if f.Repeats < 0 || f.Finalists < 0 || f.DriftOver < 0 || f.Around <= 0 {
		return errors.New("repeats, finalists, drift_every and around are not negative")
	}
	return f.space().Validate()
}

// SetRate makes trials at a rate instead of at the knee.
func (f *File) SetRate(rate float64) { f.Rate, f.AtKnee = rate, false }

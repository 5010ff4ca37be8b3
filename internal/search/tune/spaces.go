package tune

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"spate/internal/nearest"
	"spate/internal/search/suggest"
)

// Knob is one thing that may be set, and how it is written on a command line.
type Knob struct {
	suggest.Param
	Off string `json:"Off,omitempty"` // what is written for a switch that is off; nothing when empty
}

// envPrefix marks a knob that is a variable of the environment.
const envPrefix = "env."

func (k *Knob) env() bool { return strings.HasPrefix(k.Name, envPrefix) }

//go:embed data/*.yaml
var dataFiles embed.FS

// spaceFile is the search space of an engine, over its versions.
type spaceFile struct {
	Engine string     `yaml:"engine"`
	Latest string     `yaml:"latest"`
	Flags  yaml.Node  `yaml:"flags"`
	Rules  []ruleText `yaml:"rules"`
}

type ruleText struct {
	Rule  string `yaml:"rule"`
	Error string `yaml:"error"`
}

// knownFlag is a flag with the versions that have it.
type knownFlag struct {
	Knob
	since, until string
	hidden       bool // known, and in no space unless a file names it
}

// Engines are those with a ready space.
func Engines() []string { return []string{"llama.cpp", "lmdeploy", "sglang", "vllm"} }

// engineOf is the engine whose flags a kind of server takes.
func engineOf(kind string) string {
	if kind == "sim" {
		return "vllm"
	}
	return kind
}

// engineSpace reads an engine's data file for a version.
func engineSpace(engine, version string) (flags []knownFlag, rules []ruleText, err error) {
	if !slices.Contains(Engines(), engine) {
		return nil, nil, fmt.Errorf("no space for engine %q: there are %s%s", engine, strings.Join(Engines(), ", "), nearest.Hint(engine, Engines()))
	}
	data, err := dataFiles.ReadFile("data/" + engine + ".yaml")
	if err != nil {
		return nil, nil, fmt.Errorf("read the space of %s: %w", engine, err)
	}
	var sf spaceFile
	if err := yaml.Unmarshal(data, &sf); err != nil {
		return nil, nil, fmt.Errorf("read the space of %s: %w", engine, err)
	}
	if version == "" {
		version = sf.Latest
	}
	for i := 0; i+1 < len(sf.Flags.Content); i += 2 {
		f, err := readKnown(sf.Flags.Content[i].Value, sf.Flags.Content[i+1], version)
		if err != nil {
			return nil, nil, fmt.Errorf("the space of %s: %w", engine, err)
		}
		flags = append(flags, f)
	}
	return flags, sf.Rules, nil
}

// readKnown reads a flag of an engine, with its default in a version.
func readKnown(name string, n *yaml.Node, version string) (knownFlag, error) {
	var more struct {
		Since    string `yaml:"since"`
		Until    string `yaml:"until"`
		Hidden   bool   `yaml:"hidden"`
		Defaults []struct {
			Since   string   `yaml:"since"`
			Default string   `yaml:"default"`
			Off     string   `yaml:"off"`
			Choice  []string `yaml:"choice"`
		} `yaml:"defaults"`
	}
	if err := n.Decode(&more); err != nil {
		return knownFlag{}, err
	}
	k, err := readKnob(name, n)
	if err != nil {
		return knownFlag{}, err
	}
	for _, d := range more.Defaults {
		if older(version, d.Since) {
			continue
		}
		k.Default, k.Off = cmp.Or(d.Default, k.Default), cmp.Or(d.Off, k.Off)
		if d.Choice != nil {
			k.Values = d.Choice
		}
	}
	return knownFlag{Knob: k, since: more.Since, until: more.Until, hidden: more.Hidden}, nil
}

// existed reports whether a version has the flag.
func (k *knownFlag) existed(version string) bool {
	return version == "" && k.until == "" || version != "" && !older(version, k.since) && (k.until == "" || older(version, k.until))
}

// older reports whether version a comes before b, number by number.
func older(a, b string) bool {
	x, y := strings.Split(strings.TrimPrefix(a, "v"), "."), strings.Split(strings.TrimPrefix(b, "v"), ".")
	for i := range max(len(x), len(y)) {
		if u, v := number(x, i), number(y, i); u != v {
			return u < v
		}
	}
	return false
}

func number(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	digits := strings.IndexFunc(parts[i]+"x", func(r rune) bool { return r < '0' || r > '9' })
	n, err := strconv.Atoi(parts[i][:digits])
	if err != nil {
		return 0
	}
	return n
}

// readSpace reads what may be set: the name of an engine, or knobs, or both.
func (f *File) readSpace(r *raw) error {
	n := &r.Space
	known, rules, knownErr := engineSpace(engineOf(f.Server.Kind), f.Version)
	f.rules = rules // none for an engine nobody wrote any for
	switch n.Kind {
	case 0:
		return errors.New("no space: what may be set? the name of an engine, or flags with their values")
	case yaml.ScalarNode:
		var err error
		if known, _, err = engineSpace(n.Value, f.Version); err != nil {
			return err
		}
		f.use(known, nil, nil)
	case yaml.MappingNode:
		if err := f.spaceMapping(n, known); err != nil {
			return fmt.Errorf("space: %w", err)
		}
	default:
		return fmt.Errorf("line %d: space is the name of an engine, or flags with their values", n.Line)
	}
	if knownErr == nil {
		if err := f.checkLifetimes(known); err != nil {
			return err
		}
	}
	f.settleDefaults(known)
	f.Knobs = slices.DeleteFunc(f.Knobs, func(k Knob) bool { return f.fixed(k.Name) })
	if len(f.Knobs) == 0 {
		return errors.New("the space has no flag that is not fixed")
	}
	return nil
}

// use takes the flags of an engine that the version has.
func (f *File) use(known []knownFlag, only, without []string) {
	for i := range known {
		k := &known[i]
		named := slices.Contains(only, k.Name)
		if !k.existed(f.Version) || slices.Contains(without, k.Name) || len(only) > 0 && !named || k.hidden && !named {
			continue
		}
		f.Knobs = append(f.Knobs, k.Knob)
	}
}

func (f *File) spaceMapping(n *yaml.Node, known []knownFlag) error {
	var only, without []string
	engine := ""
	var own []Knob
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		var err error
		switch k.Value {
		case "use":
			engine = v.Value
		case "only":
			err = v.Decode(&only)
		case "without":
			err = v.Decode(&without)
		default:
			var knob Knob
			if knob, err = readKnob(k.Value, v); err == nil {
				own = append(own, knob)
			}
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", k.Line, err)
		}
	}
	if engine != "" {
		flags, _, err := engineSpace(engine, f.Version)
		if err != nil {
			return err
		}
		for _, name := range slices.Concat(only, without) {
			if !slices.ContainsFunc(flags, func(k knownFlag) bool { return k.Name == name }) {
				return fmt.Errorf("the space of %s has no flag %q%s", engine, name, nearest.Hint(name, namesOf(flags)))
			}
		}
		f.use(flags, only, without)
		known = flags
	}
	for _, k := range own {
		f.addOwn(k, known)
	}
	return nil
}

func namesOf(list []knownFlag) []string {
	var out []string
	for i := range list {
		out = append(out, list[i].Name)
	}
	return out
}

// addOwn adds a knob of the file, or puts it in the place of the engine's. What the file leaves open is
// the engine's.
func (f *File) addOwn(k Knob, known []knownFlag) {
	for i := range known {
		if e := &known[i]; e.Name == k.Name && e.Kind == k.Kind {
			if k.Default == "" {
				k.Default = e.Default
			}
			if k.Off == "" {
				k.Off = e.Off
			}
			if k.Memory == 0 && !k.Neutral {
				k.Memory, k.Neutral = e.Memory, e.Neutral
			}
		}
	}
	if i := slices.IndexFunc(f.Knobs, func(x Knob) bool { return x.Name == k.Name }); i >= 0 {
		f.Knobs[i] = k
		return
	}
	f.Knobs = append(f.Knobs, k)
}

// checkLifetimes refuses flags that the version does not have: no start with them could go well.
func (f *File) checkLifetimes(known []knownFlag) error {
	if f.Version == "" {
		return nil
	}
	for i := range known {
		k := &known[i]
		if k.existed(f.Version) || !f.fixed(k.Name) && !slices.ContainsFunc(f.Knobs, func(x Knob) bool { return x.Name == k.Name }) {
			continue
		}
		when := "came with " + k.since
		if !older(f.Version, k.since) {
			when = "was removed in " + k.until
		}
		return fmt.Errorf("%s %s has no flag --%s: it %s", engineOf(f.Server.Kind), f.Version, k.Name, when)
	}
	return nil
}

// readKnob reads one knob.
func readKnob(name string, n *yaml.Node) (Knob, error) {
	k := Knob{Param: suggest.Param{Name: flagName(name)}}
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Value != "switch" {
			return k, fmt.Errorf("%s: %q is not a space: switch, a list of values, or {int: [1, 8]}", name, n.Value)
		}
		k.Kind = suggest.Switch
		return k, nil
	case yaml.SequenceNode:
		k.Kind = suggest.Choice
		return k, n.Decode(&k.Values)
	}
	if err := onlyKeys(n, name, []string{"int", "float", "choice", "switch", "log", "step", "default", "if", "memory", "off", "since", "until", "defaults", "hidden", "about"}); err != nil {
		return k, err
	}
	var r struct {
		Int     []float64 `yaml:"int"`
		Float   []float64 `yaml:"float"`
		Choice  []string  `yaml:"choice"`
		Switch  *bool     `yaml:"switch"`
		Log     bool      `yaml:"log"`
		Step    float64   `yaml:"step"`
		Default string    `yaml:"default"`
		If      yaml.Node `yaml:"if"`
		Memory  *int      `yaml:"memory"`
		Off     string    `yaml:"off"`
	}
	if err := n.Decode(&r); err != nil {
		return k, fmt.Errorf("%s: %w", name, err)
	}
	k.Log, k.Step, k.Default, k.Off = r.Log, r.Step, r.Default, r.Off
	if r.Memory != nil {
		k.Memory, k.Neutral = *r.Memory, *r.Memory == 0
	}
	ends := r.Int
	switch {
	case r.Int != nil:
		k.Kind = suggest.Int
	case r.Float != nil:
		k.Kind, ends = suggest.Float, r.Float
	case r.Choice != nil:
		k.Kind, k.Values = suggest.Choice, r.Choice
	case r.Switch != nil:
		k.Kind = suggest.Switch
	default:
		return k, fmt.Errorf("%s: one of int, float, choice or switch is wanted", name)
	}
	if ends != nil {
		if len(ends) != 2 || math.IsInf(ends[0], 0) || math.IsInf(ends[1], 0) {
			return k, fmt.Errorf("%s: a range has two ends, such as [64, 1024]", name)
		}
		k.Low, k.High = ends[0], ends[1]
	}
	return k, readIf(&k, &r.If)
}

func readIf(k *Knob, n *yaml.Node) error {
	if n.Kind == 0 {
		return nil
	}
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 {
		return fmt.Errorf("%s: a condition is one flag with its values, such as if: {enable-chunked-prefill: true}", k.Name)
	}
	c := &suggest.If{Name: flagName(n.Content[0].Value)}
	if v := n.Content[1]; v.Kind == yaml.ScalarNode {
		c.Is = []string{v.Value}
	} else if err := v.Decode(&c.Is); err != nil {
		return fmt.Errorf("%s: %w", k.Name, err)
	}
	k.If = c
	return nil
}

// space is what is searched, without rules.
func (f *File) space() *suggest.Space {
	s := &suggest.Space{}
	for i := range f.Knobs {
		s.Params = append(s.Params, f.Knobs[i].Param)
	}
	return s
}

// Space is what is searched, with the rules that forbid a start.
func (f *File) Space() *suggest.Space {
	s := f.space()
	s.Allow = f.Forbidden
	return s
}

// Defaults are the default settings.
func (f *File) Defaults() suggest.Settings { return f.space().Defaults() }

package serve

import (
	"errors"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// The types below are the script as it is written; script.go has what it means.

type scriptFile struct {
	Rules   []ruleFile   `yaml:"rules"`
	Outages []outageFile `yaml:"outages"`
}

type ruleFile struct {
	Index       oneOrMore[string] `yaml:"index"`
	Every       int               `yaml:"every"`
	ID          string            `yaml:"id"`
	Prompt      string            `yaml:"prompt"`
	Endpoint    string            `yaml:"endpoint"`
	Probability *float64          `yaml:"probability"`

	TTFT   *span           `yaml:"ttft"`
	ITL    oneOrMore[span] `yaml:"itl"`
	Chunks oneOrMore[int]  `yaml:"chunks"`
	Output int             `yaml:"output"`
	Finish string          `yaml:"finish"`

	Fault  *faultFile  `yaml:"fault"`
	Faults []faultFile `yaml:"faults"`
}

type faultFile struct {
	Kind       string `yaml:"kind"`
	At         string `yaml:"at"`
	For        span   `yaml:"for"`
	Code       int    `yaml:"code"`
	RetryAfter int    `yaml:"retry_after"`
	Text       string `yaml:"text"`
	Where      string `yaml:"where"`
	Reset      bool   `yaml:"reset"`
	Bytes      int    `yaml:"bytes"`
	Every      int    `yaml:"every"`
}

type outageFile struct {
	At   span `yaml:"at"`
	For  span `yaml:"for"`
	Kill bool `yaml:"kill"`
}

// span is a duration: 10ms, forever, or milliseconds.
type span time.Duration

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *span) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: expected a time", n.Line)
	}
	d, err := parseDur(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*s = span(d)
	return nil
}

// oneOrMore takes a single value where a list may stand.
type oneOrMore[T any] []T

// UnmarshalYAML implements yaml.Unmarshaler.
func (o *oneOrMore[T]) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		var list []T
		if err := n.Decode(&list); err != nil {
			return err
		}
		*o = list
		return nil
	}
	var one T
	if err := n.Decode(&one); err != nil {
		return err
	}
	*o = []T{one}
	return nil
}

func (sc *Script) addRule(f ruleFile) error {
	r := Rule{Every: f.Every, ID: f.ID, Prompt: f.Prompt, Endpoint: f.Endpoint, Probability: 1}
	if f.Probability != nil {
		r.Probability = *f.Probability
	}
	for _, s := range f.Index {
		if err := r.Index.add(s); err != nil {
			return err
		}
	}
	var err error
	if r.Timing, err = f.timing(); err != nil {
		return err
	}
	all := f.Faults
	if f.Fault != nil {
		all = append([]faultFile{*f.Fault}, all...)
	}
	for _, ff := range all {
		ft, err := ff.fault()
		if err != nil {
			return err
		}
		r.Faults = append(r.Faults, ft)
	}
	if err := r.check(); err != nil {
		return err
	}
	sc.Rules = append(sc.Rules, r)
	return nil
}

// timing returns nil when the rule sets none.
func (f *ruleFile) timing() (*Timing, error) {
	if f.TTFT == nil && f.ITL == nil && f.Chunks == nil && f.Output == 0 && f.Finish == "" {
		return nil, nil
	}
	t := &Timing{Chunks: f.Chunks, Output: f.Output}
	if f.TTFT != nil {
		d := time.Duration(*f.TTFT)
		if d < 0 {
			return nil, errors.New("ttft cannot be forever: use the fault stall")
		}
		t.TTFT = &d
	}
	for _, d := range f.ITL {
		if d < 0 {
			return nil, errors.New("itl cannot be forever: use the fault stall")
		}
		t.ITL = append(t.ITL, time.Duration(d))
	}
	for _, c := range f.Chunks {
		if c < 1 {
			return nil, fmt.Errorf("chunks: %d is not a number of tokens", c)
		}
	}
	switch {
	case f.Output < 0:
		return nil, fmt.Errorf("output: %d is not a number of tokens", f.Output)
	case f.Finish != "" && f.Output == 0:
		return nil, errors.New("finish needs output")
	case f.Finish == "length":
		t.Finish = FinishLength
	case f.Finish == "stop" || f.Finish == "":
		t.Finish = FinishStop
	default:
		return nil, fmt.Errorf("finish is stop or length, not %q", f.Finish)
	}
	return t, nil
}

func (f *faultFile) fault() (Fault, error) {
	ft := Fault{
		Kind: FaultKind(f.Kind), For: time.Duration(f.For), Code: f.Code, RetryAfter: f.RetryAfter,
		Text: f.Text, Where: f.Where, Reset: f.Reset, Bytes: f.Bytes, Every: f.Every,
	}
	if f.At != "" {
		at, err := parseAt(f.At)
		if err != nil {
			return Fault{}, fmt.Errorf("fault %s: at is an event's number or headers, not %q", f.Kind, f.At)
		}
		ft.At = at
	}
	return ft, nil
}

func (sc *Script) addOutage(f outageFile) error {
	if f.At < 0 {
		return errors.New("an outage needs a time to start at")
	}
	o := Outage{At: time.Duration(f.At), For: orDur(time.Duration(f.For), Forever), Kill: f.Kill}
	sc.Outages = append(sc.Outages, o)
	return nil
}

package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"spate/internal/rng"
)

// Script says how single requests differ from the timetable, and when the whole server is away.
type Script struct {
	Rules   []Rule
	Outages []Outage
}

// Outage closes the listener for a while, so that connections are refused.
type Outage struct {
	At   time.Duration // since the server's start
	For  time.Duration // Forever means until the end
	Kill bool          // also reset every open connection: the server died
}

// Rule gives the requests it matches other timings and faults. All matching rules apply, in order.
// The zero match fits every request.
type Rule struct {
	Index       Ranges // order of arrival, from 0 (of connections for refuse)
	Every       int    // only indexes that are a multiple of this
	ID          string // x-request-id, with * and ? as in file names
	Prompt      string // part of the prompt's text
	Endpoint    string // "chat" or "completions"
	Probability float64
	Timing      *Timing
	Faults      []Fault
}

// Ranges is a set of numbers; empty means all.
type Ranges [][2]int

// Has reports whether n is in the set.
func (r Ranges) Has(n int) bool {
	for _, p := range r {
		if p[0] <= n && n <= p[1] {
			return true
		}
	}
	return len(r) == 0
}

// subject is what rules are matched against.
type subject struct {
	index  int
	id     string
	prompt func() string // only asked for when a rule looks at it
	chat   bool
}

func (r *Rule) fits(k, seed uint64, s subject) bool {
	if !r.Index.Has(s.index) || (r.Every > 1 && s.index%r.Every != 0) {
		return false
	}
	if r.ID != "" {
		if ok, err := path.Match(r.ID, s.id); err != nil || !ok {
			return false
		}
	}
	if r.Prompt != "" && !strings.Contains(s.prompt(), r.Prompt) {
		return false
	}
	if r.Endpoint != "" && (r.Endpoint == "chat") != s.chat {
		return false
	}
	return r.Probability >= 1 || rng.New(seed, "sim/fault", k, uint64(s.index)).Float64() < r.Probability
}

// judge merges what the rules hold for one request.
func (sc *Script) judge(seed uint64, s subject) fate {
	var f fate
	for k := range sc.Rules {
		r := &sc.Rules[k]
		if r.refuses() || !r.fits(uint64(k), seed, s) {
			continue
		}
		if r.Timing != nil {
			f.ownTiming()
			f.timing.merge(r.Timing)
		}
		for _, ft := range r.Faults {
			f.add(ft)
		}
	}
	return f
}

// refuse reports whether connection number n is to be reset when it is accepted.
func (sc *Script) refuse(seed uint64, n int) bool {
	for k := range sc.Rules {
		r := &sc.Rules[k]
		if r.refuses() && r.fits(uint64(k), seed, subject{index: n}) {
			return true
		}
	}
	return false
}

func (r *Rule) refuses() bool {
	return len(r.Faults) > 0 && r.Faults[0].Kind == FaultRefuse
}

func (t *Timing) merge(o *Timing) {
	if o.TTFT != nil {
		t.TTFT = o.TTFT
	}
	if len(o.ITL) > 0 {
		t.ITL = o.ITL
	}
	if len(o.Chunks) > 0 {
		t.Chunks = o.Chunks
	}
	if o.Output > 0 {
		t.Output, t.Finish = o.Output, o.Finish
	}
	if o.Stall != 0 {
		t.StallAt, t.Stall = o.StallAt, o.Stall
	}
}

// ParseFault reads the flag form of a rule with one fault: its kind, then settings, such as
// "cut,at=5,reset=true,p=0.1,index=3-7". p is the probability, index the requests it may hit.
func ParseFault(s string) (Rule, error) {
	parts := strings.Split(s, ",")
	r := Rule{Probability: 1}
	ft := Fault{Kind: FaultKind(strings.TrimSpace(parts[0]))}
	for _, p := range parts[1:] {
		key, value, ok := strings.Cut(strings.TrimSpace(p), "=")
		if !ok {
			return Rule{}, fmt.Errorf("fault %q: %q is not of the form key=value", s, p)
		}
		var err error
		switch key {
		case "p":
			r.Probability, err = strconv.ParseFloat(value, 64)
		case "index":
			err = r.Index.add(value)
		default:
			err = ft.set(key, value)
		}
		if err != nil {
			return Rule{}, fmt.Errorf("fault %q: %w", s, err)
		}
	}
	r.Faults = []Fault{ft}
	if err := r.check(); err != nil {
		return Rule{}, err
	}
	return r, nil
}

// add puts "3" or "3-7" into the set.
func (r *Ranges) add(s string) error {
	lo, hi, span := strings.Cut(s, "-")
	a, err := strconv.Atoi(lo)
	b := a
	if err == nil && span {
		b, err = strconv.Atoi(hi)
	}
	if err != nil || a < 0 || b < a {
		return fmt.Errorf("index %q is neither a number nor a range such as 3-7", s)
	}
	*r = append(*r, [2]int{a, b})
	return nil
}

func (r *Rule) check() error {
	if !(r.Probability >= 0 && r.Probability <= 1) {
		return fmt.Errorf("probability %v is not within 0 and 1", r.Probability)
	}
	if _, err := path.Match(r.ID, ""); err != nil {
		return fmt.Errorf("id %q is not a pattern", r.ID)
	}
	if !slices.Contains([]string{"", "chat", "completions"}, r.Endpoint) {
		return fmt.Errorf("endpoint is chat or completions, not %q", r.Endpoint)
	}
	for i := range r.Faults {
		if err := r.Faults[i].check(); err != nil {
			return err
		}
		if r.Faults[i].Kind == FaultRefuse && (len(r.Faults) > 1 || r.ID != "" || r.Prompt != "" || r.Endpoint != "" || r.Timing != nil) {
			return errors.New("refuse strikes connections: it stands alone in its rule, matched by index, every and probability")
		}
	}
	return nil
}

// ParseScript reads a script: YAML with the keys rules and outages, or JSON lines with one rule or
// outage each. docs/sim.md describes both.
func ParseScript(data []byte) (*Script, error) {
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '{' {
		return parseLines(trimmed)
	}
	var f scriptFile
	if err := strict(data, &f); err != nil {
		return nil, fmt.Errorf("reading the script: %w", err)
	}
	sc := &Script{}
	for i, r := range f.Rules {
		if err := sc.addRule(r); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	for i, o := range f.Outages {
		if err := sc.addOutage(o); err != nil {
			return nil, fmt.Errorf("outage %d: %w", i+1, err)
		}
	}
	return sc, nil
}

func parseLines(data []byte) (*Script, error) {
	sc := &Script{}
	for i, line := range bytes.Split(data, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var l struct {
			ruleFile   `yaml:",inline"`
			OutageLine *outageFile `yaml:"outage"`
		}
		err := strict(line, &l)
		switch {
		case err != nil:
		case l.OutageLine != nil:
			err = sc.addOutage(*l.OutageLine)
		default:
			err = sc.addRule(l.ruleFile)
		}
		if err != nil {
			return nil, fmt.Errorf("script line %d: %w", i+1, err)
		}
	}
	return sc, nil
}

// strict decodes one YAML document and refuses unknown keys.
func strict(data []byte, into any) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// ReadScript joins a script file and faults given as flags.
func ReadScript(read func(name string) ([]byte, error), file string, faults []string) (*Script, error) {
	script := &Script{}
	if file != "" {
		data, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("read fault script: %w", err)
		}
		if script, err = ParseScript(data); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	for _, f := range faults {
		rule, err := ParseFault(f)
		if err != nil {
			return nil, err
		}
		script.Rules = append(script.Rules, rule)
	}
	return script, nil
}

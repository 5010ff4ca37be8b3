package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/settings/config"
	"spate/internal/settings/flags"
)

// resolve reads flags without an environment.
func resolve(args []string) (*config.Bench, error) {
	r, err := flags.Parse(args, flags.Options{ReadFile: os.ReadFile, IDPrefix: "test-"})
	if err != nil {
		return nil, err
	}
	if r.Help {
		return nil, fmt.Errorf("help")
	}
	return r.Bench, nil
}

// planned is the plan of a suite, with flags over it.
func planned(t testing.TB, suite string, args ...string) *Plan {
	t.Helper()
	s := New()
	if suite != "" {
		var err error
		if s, err = Parse("suite.yaml", []byte(suite)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Args(args); err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(s, "abc123", resolve)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func texts(p *Plan) []string {
	var out []string
	for i := range p.Points {
		out = append(out, p.Points[i].String())
	}
	return out
}

func TestPointsOfSuites(t *testing.T) {
	cases := []struct {
		name  string
		suite string
		args  []string
		want  []string
	}{
		{name: "flags alone", args: []string{"--request-rate", "2,4", "--random-input-len=256,512", "--num-prompts", "5"}, want: []string{
			"request-rate=2 random-input-len=256", "request-rate=2 random-input-len=512",
			"request-rate=4 random-input-len=256", "request-rate=4 random-input-len=512",
		}},
		{name: "one point", args: []string{"--num-prompts", "5"}, want: []string{""}},
		{name: "commas that belong to a value", args: []string{"--metric-percentiles", "50,90", "--slo", "p99_ttft<1s,error_rate<1%", "--isl", "1,2"}, want: []string{"isl=1", "isl=2"}},
		{name: "a grid", suite: "grid: {request-rate: [1, inf], num-prompts: 3}", want: []string{"request-rate=1 num-prompts=3", "request-rate=inf num-prompts=3"}},
		{name: "a list of grids", suite: "points:\n- {num-prompts: [1, 2], isl: 8}\n- {isl: 9}", want: []string{"num-prompts=1 isl=8", "num-prompts=2 isl=8", "isl=9"}},
		{name: "both are crossed", suite: "grid: {request-rate: [1, 2]}\npoints: [{isl: 8}, {request-rate: 7}]", want: []string{"isl=8 request-rate=1", "isl=8 request-rate=2", "request-rate=7"}},
		{name: "the command line replaces an axis", suite: "grid: {request-rate: [1, 2], isl: [8, 9]}", args: []string{"--request_rate", "5"}, want: []string{"isl=8", "isl=9"}},
		{name: "and adds one", suite: "grid: {isl: [8, 9]}", args: []string{"--output-len", "1,2"}, want: []string{"isl=8 output-len=1", "isl=8 output-len=2", "isl=9 output-len=1", "isl=9 output-len=2"}},
		{name: "under whatever name", suite: "grid: {isl: [8, 9]}", args: []string{"--input-len", "1,2"}, want: []string{"input-len=1", "input-len=2"}},
		{name: "points that become the same are one", suite: "points: [{num-prompts: 1}, {num-prompts: 2}]", args: []string{"--num-prompts", "3"}, want: []string{""}},
		{name: "servers", suite: "grid: {isl: [8]}\nservers:\n- {name: a}\n- {name: b, points: [{isl: 1}, {isl: 2}]}", want: []string{"a isl=8", "b isl=1", "b isl=2"}},
		{name: "values that are lists", suite: "grid: {goodput: [[ttft:1, tpot:2], [ttft:3]]}", want: []string{"goodput=ttft:1 tpot:2", "goodput=ttft:3"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, texts(planned(t, c.suite, c.args...))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLaterSettingsWin(t *testing.T) {
	p := planned(t, `
bench: {num-prompts: 10, isl: 5, metadata: {a: b}, goodput: {ttft: 200}, metric-percentiles: [50, 90], extra-body: {top_k: 5}, base-url: [http://x:1, http://y:2]}
grid: {request-rate: [4]}
servers: [{name: s, labels: {gpu: h100}, bench: {isl: 6, num_prompts: 20}}]`, "--random-output-len", "7")
	cfg, err := resolve(p.Args(&p.Points[0]))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(cfg.Load.NumPrompts, cfg.Dataset.Random.InputLen, cfg.Dataset.Random.OutputLen, float64(cfg.Load.RequestRate), cfg.Output.Metadata,
		cfg.Check.Goodput, cfg.Output.Percentiles, string(cfg.Body.Extra), cfg.Target.BaseURLs)
	if want := `20 6 7 4 [{a b}] [{ttft 200}] [50 90] {"top_k":5} [http://x:1 http://y:2]` + "\n"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := fmt.Sprint(p.Labels(Step{&p.Points[0], 1})); got != "[{sweep abc123} {gpu h100}]" {
		t.Errorf("labels %s", got)
	}
}

func TestMistakesInSuites(t *testing.T) {
	cases := []struct{ name, suite, want string }{
		{"empty", "", "the file is empty"},
		{"no mapping", "- 1", "suite.yaml line 1: a suite: write key: value"},
		{"unknown key", "repeet: 3", `line 1: a suite has no key "repeet": did you mean "repeat"?`},
		{"flag at the top", "request-rate: 3", "it is a flag of bench, which stand under bench:, grid: or points:"},
		{"unknown flag", "grid:\n  reqest-rate: [1]", `line 2: bench has no flag "reqest-rate": did you mean "request-rate"?`},
		{"unknown key of a server", "servers: [{nam: x}]", `a server has no key "nam": did you mean "name"?`},
		{"unknown key of a launch", "servers: [{name: x, launch: {comand: y}}]", `launch has no key "comand": did you mean "command"?`},
		{"twice", "repeat: 1\nrepeat: 2", "line 2: repeat is given twice"},
		{"twice under two names", "bench: {isl: 1, input-len: 2}", "is given twice"},
		{"order", "order: randm", `"randm" is not one of given, random: did you mean "random"?`},
		{"cache", "cache: flush", `is not one of salt, reset, keep`},
		{"repeat", "repeat: -1", "not a whole number"},
		{"no value", "grid: {isl: []}", "isl has no value"},
		{"server without a name", "servers: [{labels: {a: b}}]", "a server has no name"},
		{"two servers of a name", "servers: [{name: a}, {name: a}]", `two servers are called "a"`},
		{"no GPU", "servers: [{name: x, launch: {command: y, gpus: two}}]", `gpus: "two" is not a GPU`},
		{"empty launch", "servers: [{name: a, launch: ''}]", "launch has no command"},
		{"folder of a point", "bench: {output-dir: x}", "a sweep says it once for all of them"},
		{"points that are no list", "points: {isl: 1}", "points is a list"},
		{"cool-down", "cooldown: never", "line 1:"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("suite.yaml", []byte(c.suite))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want ...%s...", err, c.want)
			}
		})
	}
	t.Run("a value bench refuses", func(t *testing.T) {
		s, err := Parse("suite.yaml", []byte("grid:\n  isl: [3]\n  request-rate: [2, fast]"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = NewPlan(s, "x", resolve)
		if err == nil || !strings.Contains(err.Error(), "suite.yaml line 3: --request-rate") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("too many", func(t *testing.T) {
		s := New()
		if err := s.Args([]string{"--seed", strings.Repeat("1,2,", 60) + "3", "--isl", strings.Repeat("1,", 99) + "2"}); err != nil {
			t.Fatal(err)
		}
		if _, err := NewPlan(s, "x", resolve); err == nil || !strings.Contains(err.Error(), "more than 10000 points") {
			t.Errorf("got %v", err)
		}
	})
}

// FuzzParse holds that no file panics, and that what is accepted has points with names of their own
// that survive being written to a folder and read back.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../../../examples/suites/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("examples: %v, %v", files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	for _, s := range []string{"grid: {isl: [1, 2]}", "a: &x [*x]", "bench: {sim: }", "points: [{goodput: [[a:1]]}]", "servers: [{name: a, launch: [x, y]}]", "grid: {request-rate: [.inf, 1e3]}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("f", []byte(text))
		if err != nil {
			return
		}
		n := 0
		p, err := NewPlan(s, "id", func(args []string) (*config.Bench, error) {
			if n++; n == 1 {
				return resolve(args)
			}
			return &config.Bench{}, nil // reading flags is fuzzed where they are read
		})
		if err != nil {
			return
		}
		keys := map[string]bool{}
		for _, group := range p.Steps() {
			for _, st := range group {
				key := p.Key(st)
				if keys[key] || strings.ContainsAny(key, "/\\ \x00") {
					t.Fatalf("key %q", key)
				}
				keys[key] = true
			}
		}
		if changes := p.Changes(p.public()); len(changes) > 0 && len(p.public().Secret()) == 0 {
			t.Fatalf("a plan differs from itself: %v", changes)
		}
	})
}

func TestOrders(t *testing.T) {
	list := func(p *Plan) []string {
		var out []string
		for _, g := range p.Steps() {
			for _, s := range g {
				out = append(out, fmt.Sprintf("%s r%d", s.Point, s.Repeat))
			}
		}
		return out
	}
	given := planned(t, "repeat: 2\ngrid: {isl: [1, 2, 3]}")
	if diff := cmp.Diff([]string{"isl=1 r1", "isl=2 r1", "isl=3 r1", "isl=1 r2", "isl=2 r2", "isl=3 r2"}, list(given)); diff != "" {
		t.Error(diff)
	}
	const random = "order: random\nseed: 7\nrepeat: 3\ngrid: {isl: [1, 2, 3, 4, 5, 6, 7, 8]}\nservers: [{name: a, launch: x}, {name: b, launch: y}, {name: c}, {name: d}]"
	one, two := list(planned(t, random)), list(planned(t, random))
	if diff := cmp.Diff(one, two); diff != "" {
		t.Errorf("the same seed gives another order: %s", diff)
	}
	other := list(planned(t, strings.Replace(random, "seed: 7", "seed: 8", 1)))
	if slices.Equal(one, other) {
		t.Error("another seed gives the same order")
	}
	slices.Sort(one)
	slices.Sort(other)
	if !slices.Equal(one, other) || len(one) != 4*8*3 {
		t.Errorf("orders are not of the same %d measurements", len(one))
	}
	for _, g := range planned(t, random).Steps() {
		for i, s := range g {
			if s.Repeat != 1+i*3/len(g) {
				t.Fatalf("measurement %d of a group is repeat %d: rounds are mixed", i, s.Repeat)
			}
		}
	}
}

func TestChangesAreNamed(t *testing.T) {
	const base = "repeat: 2\nbench: {num-prompts: 9, api-key: k1}\ngrid: {isl: [1, 2]}\nservers: [{name: a, labels: {x: y}, launch: run it, bench: {osl: 3}}]"
	cases := []struct {
		name, suite string
		want        []string
	}{
		{"nothing", base, nil},
		{"another key", strings.Replace(base, "k1", "k2", 1), nil},
		{"cool-down", base + "\ncooldown: 3s", nil},
		{"repeat", strings.Replace(base, "repeat: 2", "repeat: 3", 1), []string{"repeat was 2 and is 3"}},
		{"a flag", strings.Replace(base, "num-prompts: 9", "num-prompts: 8", 1), []string{"--num-prompts was 9 and is 8"}},
		{"a point", strings.Replace(base, "[1, 2]", "[1, 3]", 1), []string{"point a isl=2 is gone", "point a isl=3 is new"}},
		{"order of points", strings.Replace(base, "[1, 2]", "[2, 1]", 1), []string{"point a isl=1 has another place", "point a isl=2 has another place"}},
		{"launch", strings.Replace(base, "run it", "run that", 1), []string{"server a is launched differently"}},
		{"labels", strings.Replace(base, "x: y", "x: z", 1), []string{"server a has other labels"}},
		{"a server's flag", strings.Replace(base, "osl: 3", "osl: 4", 1), []string{"server a: --osl was 3 and is 4"}},
		{"cache", base + "\ncache: keep", []string{"cache was salt and is keep"}},
		{"order", base + "\norder: random\nseed: 1", []string{"order was given and is random", "order seed was 0 and is 1"}},
	}
	was := planned(t, base).public()
	if was.Secret() == nil {
		t.Error("a key is kept")
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := was.Changes(planned(t, c.suite).public())
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("a config file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "c.yaml")
		write := func(text string) *Plan {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return planned(t, "", "--config", file, "--isl", "1,2")
		}
		got := write("num-prompts: 3").Changes(write("num-prompts: 4"))
		if len(got) != 1 || !strings.Contains(got[0], "a file, the environment or a default of spate has changed") {
			t.Errorf("got %v", got)
		}
	})
}

func TestPlanTellsTheTime(t *testing.T) {
	p := planned(t, "repeat: 2\ncooldown: 1s\nbench: {num-prompts: 100}\ngrid: {request-rate: [10, inf]}\nservers: [{name: s, launch: vllm serve x}]")
	least, open, err := p.Expected(resolve)
	if err != nil || least != 23*time.Second || open != 2 {
		t.Errorf("at least %v, %d open, %v", least, open, err)
	}
	var b strings.Builder
	if err := p.WritePlan(&b, resolve); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 points, each 2 times", "start s: vllm serve x", "s request-rate=10 (1 of 2)  10s and the time of the last requests", "until its requests are done", "at least 23s, plus the time of 2 measurements"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the plan does not say %q:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := planned(t, "sim: '002'\ngrid: {isl: [1]}\nservers: [{name: s, launch: vllm serve x, sim: 000-test2}]", "--sim").WritePlan(&b, resolve); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "start s") {
		t.Errorf("a simulated server is to be started:\n%s", b.String())
	}
}

func TestSimStandsForServers(t *testing.T) {
	const suite = "sim: '002'\nservers: [{name: a, sim: 000-test2}, {name: b}]"
	cases := []struct {
		name string
		args []string
		want string
	}{
		{"without a name", []string{"--sim"}, "000-test2 002"},
		{"with a name", []string{"--sim", "001-tcp"}, "001-tcp 001-tcp"},
		{"a timetable", []string{"--sim", "--sim-ttft", "1ms"}, " "},
		{"not at all", nil, " "},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := planned(t, suite, c.args...)
			var got []string
			for i := range p.Points {
				cfg, err := resolve(p.Args(&p.Points[i]))
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, cfg.Sim.Profile)
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("profiles %q, want %q", s, c.want)
			}
		})
	}
}

// TestShippedSuites holds that every example is a suite of the points it is said to have.
func TestShippedSuites(t *testing.T) {
	want := map[string]int{"prompts-by-length": 16, "qps-servers": 20, "doubling-ladder": 23, "four-workloads": 24, "closed-loop": 4}
	files, err := filepath.Glob("../../../examples/suites/*.yaml")
	if err != nil || len(files) != len(want) {
		t.Fatalf("found %v, %v", files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(filepath.Base(name), ".yaml")
		for _, args := range [][]string{nil, {"--sim"}} {
			p := planned(t, string(data), args...)
			if len(p.Points) != want[base] || p.Name != base {
				t.Errorf("%s %v: %d points called %q, want %d", name, args, len(p.Points), p.Name, want[base])
			}
			for i := range p.Points {
				if cfg, err := resolve(p.Args(&p.Points[i])); err != nil || cfg.Sim.Enabled != (args != nil) || args != nil && cfg.Sim.Profile == "" {
					t.Errorf("%s %v: point %s: %v", name, args, p.Points[i].String(), err)
				}
			}
		}
		if !strings.Contains(string(data), "spate sweep examples/suites/"+base+".yaml --sim") {
			t.Errorf("%s does not say how to try it", name)
		}
	}
}

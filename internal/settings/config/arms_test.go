package config

import (
	"slices"
	"strings"
	"testing"
)

func TestParseArms(t *testing.T) {
	type arms = []Arm
	for name, c := range map[string]struct {
		in   string
		want arms
		err  string
	}{
		"two servers":        {"A=http://a:8000,B=http://b:8000", arms{{Name: "A", URL: "http://a:8000"}, {Name: "B", URL: "http://b:8000"}}, ""},
		"the same twice":     {"A=,B=", arms{{Name: "A"}, {Name: "B"}}, ""},
		"flags":              {"A=--max-concurrency 8,B=--max-concurrency 16", arms{{Name: "A", Flags: []string{"--max-concurrency", "8"}}, {Name: "B", Flags: []string{"--max-concurrency", "16"}}}, ""},
		"quoted flags":       {"A=,B='--max-concurrency 16'", arms{{Name: "A"}, {Name: "B", Flags: []string{"--max-concurrency", "16"}}}, ""},
		"server and flags":   {"old=http://a --seed 3, new=https://b/x --seed 4", arms{{"old", "http://a", []string{"--seed", "3"}}, {"new", "https://b/x", []string{"--seed", "4"}}}, ""},
		"commas in a value":  {"A=--metric-percentiles 50,99,B=--seed 1", arms{{Name: "A", Flags: []string{"--metric-percentiles", "50,99"}}, {Name: "B", Flags: []string{"--seed", "1"}}}, ""},
		"equals in a value":  {"A=--metadata x=1,y=2,B=", arms{{Name: "A", Flags: []string{"--metadata", "x=1,y=2"}}, {Name: "B"}}, ""},
		"quotes in a value":  {`A=--header "X-A: b,C=--d"`, arms{{Name: "A", Flags: []string{"--header", "X-A: b,C=--d"}}}, ""},
		"no name":            {"http://a:8000", nil, "does not begin with a name"},
		"neither":            {"A=nonsense", nil, "neither a URL"},
		"open quote":         {"A='--seed 1", nil, "open '"},
		"nothing":            {" ", nil, "names no arm"},
		"words after a URL":  {"A=http://a b", nil, "is not a flag"},
		"secret is not told": {"A=http://u:hunter22@a:80 x", nil, "not a flag"},
	} {
		got, err := ParseArms(c.in)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "hunter22") {
				t.Errorf("%s: %v, want %q", name, err, c.err)
			}
			continue
		}
		if err != nil || !slices.EqualFunc(got, c.want, func(a, b Arm) bool {
			return a.Name == b.Name && a.URL == b.URL && slices.Equal(a.Flags, b.Flags)
		}) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

func TestRepeatEqual(t *testing.T) {
	for in, want := range map[string]bool{
		"A=,B=": true, "A=http://a,B=http://a": true, "A=http://a,B=http://b": false, "A=,B=--seed 1": false, "A=": false,
	} {
		arms, err := ParseArms(in)
		if err != nil {
			t.Fatal(err)
		}
		r := Repeat{Arms: arms}
		if r.Equal() != want || !r.Series() {
			t.Errorf("%q: equal %v, want %v", in, r.Equal(), want)
		}
	}
	if (&Repeat{Times: 1}).Series() || !(&Repeat{Times: 2}).Series() {
		t.Error("one run is a series, or two are none")
	}
}

// What was read is written so that it reads the same again.
func FuzzParseArms(f *testing.F) {
	for _, seed := range []string{
		"A=http://a:8000,B=http://b:8000", "A=,B=", "A=--x 'a b',B=\"--y\"", `A=--h "x,C=--d"`, "A=--a b\\ c", "=", ",", "A='", "A=-\\",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		arms, err := ParseArms(text)
		if err != nil {
			return
		}
		var parts []string
		for _, a := range arms {
			parts = append(parts, a.String())
		}
		again, err := ParseArms(strings.Join(parts, ","))
		if err != nil {
			t.Fatalf("%q was read as %q, which cannot be read: %v", text, parts, err)
		}
		if !slices.EqualFunc(arms, again, func(a, b Arm) bool {
			return a.Name == b.Name && a.URL == b.URL && slices.Equal(a.Flags, b.Flags)
		}) {
			t.Errorf("%q: %+v became %+v by way of %q", text, arms, again, parts)
		}
	})
}

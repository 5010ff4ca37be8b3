package flags

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// joinedForm rewrites a command line so that every word is joined to its flag: --k v as --k=v.
func joinedForm(line scanned) []string {
	var out []string
	for _, set := range line.settings {
		name := "--" + set.spelling
		if set.keys != nil {
			name += "." + strings.Join(set.keys, ".")
		}
		if set.list {
			name += "+"
		}
		if len(set.words) == 0 {
			out = append(out, name)
		}
		for _, w := range set.words {
			out = append(out, name+"="+w)
		}
	}
	return out
}

// FuzzParse holds that no command line panics, that --k v means what --k=v means, and that what is
// accepted is valid and stays so when resolved again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"--backend vllm --port 8081 --endpoint=/v1/completions --model Q --num-prompts 10",
		"--goodput ttft:200 tpot:50 --extra-body.top_k 5 --extra-body.x+ a,b",
		`--random-range-ratio {"input":0.1,"output":0.2} --header A=b C:d`,
		"--num-p 5 --burstiness inf --request-rate -1", "--stages 3s@1 --slo p99_ttft<5", "-- x", "- -", "--=", "--.=", "--extra-body.=1",
		"--no-self-timed --self-timed=false", "--warmup 3 --isl 5 --extra-inputs a:b c:1", "-m x -u 5", "--help=x", "--dataset a/b --endpoint-type chat",
	} {
		f.Add(strings.ReplaceAll(s, " ", "\n"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		args := strings.Split(text, "\n")
		r, err := Parse(args, Options{ReadFile: noFile})
		if err != nil || r.Help {
			return
		}
		_, defs := fresh()
		line, err := scan(newIndex(defs), args)
		if err != nil {
			t.Fatalf("parsed, but does not scan: %v", err)
		}
		again, err := Parse(joinedForm(line), Options{ReadFile: noFile})
		if err != nil {
			t.Fatalf("%q parses and %q does not: %v", args, joinedForm(line), err)
		}
		if diff := cmp.Diff(r.Bench, again.Bench); diff != "" {
			t.Fatalf("%q and %q differ: %s", args, joinedForm(line), diff)
		}
		again.Bench.Resolve()
		if err := again.Bench.Validate(); err != nil {
			t.Fatalf("resolved twice it is not valid: %v", err)
		}
		if diff := cmp.Diff(r.Bench, again.Bench); diff != "" {
			t.Fatalf("resolving twice changes: %s", diff)
		}
	})
}

// FuzzConfigFile holds that no config file panics.
func FuzzConfigFile(f *testing.F) {
	for _, s := range []string{
		"model: x\nport: 1", "goodput: {ttft: 5}", "extra-body: {a: [1, {b: c}]}", "a: &x 1\nport: *x", "- 1", "port: [1,2]", "~", "{}", "metadata: [a=b]", "? [a]\n: b", "&a [*a]",
		"tenants:\n  - name: a\n    seed: 1\n  - {name: b, goodput: null}", "tenants: [{name: a, extra-body: {x: 1}, extra-body.y: 2}]", "t: &t {name: a}\ntenants: [*t, *t]", "tenants: &x [*x]",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse([]string{"--config=f"}, fileOptions(text))
		if (r == nil) == (err == nil) {
			t.Fatalf("result %v, error %v", r, err)
		}
	})
}

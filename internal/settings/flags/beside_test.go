package flags

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestDivide(t *testing.T) {
	for line, want := range map[string]struct {
		bench, lists, own string
	}{
		"--num-prompts 3 --json --seqs 4":         {bench: "--num-prompts 3", own: "json=true seqs=4"},
		"--name=a --num-prompts=3 -o x":           {bench: "--num-prompts=3", own: "name=a output=x"},
		"--request-rate 1,2 --seqs 4,8 --json":    {lists: "request-rate=1 2;seqs=4 8", own: "json=true"},
		"--request_rate=1,2 --old b":              {lists: "request-rate=1 2", own: "name=b"},
		"--request-rate 1 --seqs=4":               {bench: "--request-rate 1", own: "seqs=4"},
		"word --header a=b --json=false":          {bench: "word --header a=b", own: "json=false"},
		"--name --json":                           {own: "name=--json"},
		"--predict=x --burstiness 1 --predict=-y": {bench: "--burstiness 1", own: "predict=-y"},
	} {
		own := pflag.NewFlagSet("test", pflag.ContinueOnError)
		own.Bool("json", false, "")
		own.StringP("output", "o", "", "")
		own.String("name", "", "")
		own.String("predict", "", "")
		own.Int("seqs", 0, "")
		Rename(own, map[string]string{"old": "name"})
		got, err := Divide(own, strings.Fields(line), "request-rate")
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		var lists, set []string
		for _, name := range []string{"request-rate", "seqs"} {
			if l, ok := got.Lists[name]; ok {
				lists = append(lists, name+"="+strings.Join(l, " "))
			}
		}
		own.Visit(func(f *pflag.Flag) { set = append(set, f.Name+"="+f.Value.String()) })
		if d := cmp.Diff([]string{want.bench, want.lists, want.own}, []string{strings.Join(got.Bench, " "), strings.Join(lists, ";"), strings.Join(set, " ")}); d != "" {
			t.Errorf("%s: %s", line, d)
		}
	}
}

func TestDivideMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"--name":                         "--name needs a value",
		"-o":                             "--output needs a value",
		"--request-rate":                 "--request-rate needs a value",
		"--predict --sim qwen":           "say --predict=qwen",
		"--predict --sim=qwen":           "say --predict=qwen",
		"--predict --num-prompts 3":      "not --num-prompts: say --predict=PROFILE",
		"--seqs many":                    `invalid argument "many"`,
		"--json=perhaps --num-prompts 2": `invalid argument "perhaps"`,
	} {
		own := pflag.NewFlagSet("test", pflag.ContinueOnError)
		own.Bool("json", false, "")
		own.StringP("output", "o", "", "")
		own.String("name", "", "")
		own.String("predict", "", "")
		own.Int("seqs", 0, "")
		if _, err := Divide(own, strings.Fields(line), "request-rate"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

package engineconf

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// server reads a command line as `spate sim` does; words are parted by spaces, which JSON here has none of.
func server(t *testing.T, line string) (*Settings, *pflag.FlagSet) {
	t.Helper()
	args, err := Args(strings.Fields(line))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	var s Settings
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.SetOutput(discard{})
	f.SetNormalizeFunc(Normalize)
	s.Bind(f)
	BindIgnored(f)
	if err := f.Parse(args); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	s.Model = f.Arg(0)
	return &s, f
}

func TestArgs(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"m --served-model-name a b --port 1", "m --served-model-name=a --served-model-name=b --port 1"},
		{"--served_model_name a m", "--served-model-name=a --served-model-name=m"}, // as argparse does
		{"--lora-modules a=/x b=/y -tp 2", "--lora-modules=a=/x --lora-modules=b=/y --tensor-parallel-size 2"},
		{`--lora-modules {"name":"a","path":"/x"} b=/y`, `--lora-modules={"name":"a","path":"/x"} --lora-modules=b=/y`},
		{"-tp=2 -pp 2 -dp 4 -ep -dcp 2 -q fp8", "--tensor-parallel-size=2 --pipeline-parallel-size 2 --data-parallel-size 4 --enable-expert-parallel --decode-context-parallel-size 2 --quantization fp8"},
		{"-O3 -O 2 -O=1", "--optimization-level=3 --optimization-level 2 --optimization-level=1"},
		{`-O={"level":3}`, `--compilation-config={"level":3}`},
		{"-O.level=3 --tp 2", `--tensor-parallel-size 2 --compilation-config={"level":3}`},
		{"-sc.num_speculative_tokens 3 -sc.method=eagle", `--speculative-config={"method":"eagle","num_speculative_tokens":3}`},
		{`--speculative-config {"method":"ngram"} --speculative-config.num_speculative_tokens=3`, `--speculative-config={"method":"ngram","num_speculative_tokens":3}`},
		{"--compilation-config.pass_config.enable_fusion true --compilation-config.sizes+ 1 --compilation-config.sizes+ 2", `--compilation-config={"pass_config":{"enable_fusion":true},"sizes":[1,2]}`},
		{"--cuda-graph-sizes 1 2 4 --seed -1", "--cuda-graph-sizes=1 --cuda-graph-sizes=2 --cuda-graph-sizes=4 --seed -1"},
		{"-h --port 1 -- -tp", "-h --port 1 -- -tp"},
		{"--served-model-name", "--served-model-name="},
	} {
		got, err := Args(strings.Fields(c.line))
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s:\n%s", c.line, diff)
		}
	}
	for line, want := range map[string]string{
		"--speculative-config.": "needs a value", "--speculative-config. 1": "key after the dot is empty",
		"--speculative-config.a 1 --speculative-config.a.b 2":       "is a value already",
		"--speculative-config.a 1 --speculative-config notanobject": "--speculative-config:",
	} {
		if _, err := Args(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to say %s", line, err, want)
		}
	}
}

func TestServerFlagsAreFollowed(t *testing.T) {
	s, f := server(t, `Qwen3-8B --gpu H100 --served-model-name fast slow --enable-lora --lora-modules a=/x {"name":"b","path":"/y"} -tp 2 -sc.method=ngram -sc.num_speculative_tokens=3 --no-enable-eplb`)
	c, err := s.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	if !cmp.Equal(c.Served, []string{"fast", "slow"}) || !cmp.Equal(c.Adapters, []string{"a", "b"}) || c.TP != 2 || c.Sim.Drafts != 3 {
		t.Errorf("served as %q with adapters %q on %d GPUs, %d drafts", c.Served, c.Adapters, c.TP, c.Sim.Drafts)
	}
	if notes := Unsimulated(f); len(notes) != 0 {
		t.Errorf("notes %q where everything is followed", notes)
	}
	bad, _ := server(t, `Qwen3-8B --gpu H100 --lora-modules {"path":"/y"}`)
	if _, err := bad.Resolve(); err == nil || !strings.Contains(err.Error(), "has no name") {
		t.Errorf("an adapter without a name: %v", err)
	}
}

// TestServerFlagsThatAreNotFollowed: a flag that would change a real engine's speed is accepted with a note,
// unless its value leaves the engine as it is.
func TestServerFlagsThatAreNotFollowed(t *testing.T) {
	_, f := server(t, `m --kv-transfer-config {"kv_role":"kv_both"} --enable-eplb --decode-context-parallel-size 2 --allowed-origins ["*"] --stream-interval 1 --cpu-offload-gb 0`)
	notes := strings.Join(Unsimulated(f), "\n")
	for _, want := range []string{"--kv-transfer-config changes", "--prefill-engines", "--enable-eplb changes", "--decode-context-parallel-size changes"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note says %q:\n%s", want, notes)
		}
	}
	for _, not := range []string{"allowed-origins", "stream-interval", "cpu-offload-gb"} {
		if strings.Contains(notes, not) {
			t.Errorf("a note on %s, which changes nothing:\n%s", not, notes)
		}
	}
}

// FuzzArgs: whatever is typed, what comes out is read the same when it goes in again.
func FuzzArgs(f *testing.F) {
	for _, line := range []string{
		"m --served-model-name a b -tp 2", "-O.level=3 -O3", "--speculative-config.a.b+ 1 --speculative-config {}", "-- -x", "--lora-modules", "-sc.x", "--a.", "-q= -", "--=x",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		once, err := Args(strings.Fields(line))
		if err != nil {
			return
		}
		twice, err := Args(once)
		if err != nil || !cmp.Equal(once, twice) {
			t.Errorf("%q becomes %q, and that %q, %v", line, once, twice, err)
		}
	})
}

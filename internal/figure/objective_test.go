package figure

import (
	"math"
	"strings"
	"testing"
)

func TestParseObjective(t *testing.T) {
	cases := map[string]struct {
		key   string
		op    string
		bound float64
		unit  string
	}{
		"p99_ttft<500ms":         {"p99_ttft_ms", "<", 500, "ms"},
		"p99_ttft_ms<=500":       {"p99_ttft_ms", "<=", 500, "ms"},
		"P99.9-TTFT < 0.5s":      {"p99.9_ttft_ms", "<", 500, "ms"},
		"mean_tpot<50":           {"mean_tpot_ms", "<", 50, "ms"},
		"median_e2el<=2s":        {"median_e2el_ms", "<=", 2000, "ms"},
		"max_itl<900us":          {"max_itl_ms", "<", 0.9, "ms"},
		"rps>10":                 {"request_throughput", ">", 10, "req/s"},
		"output_throughput>=1e3": {"output_throughput", ">=", 1000, "tok/s"},
		"p99.90_ttft<1s":         {"p99.9_ttft_ms", "<", 1000, "ms"},
		"p99_first_token<1s":     {"p99_first_token_ms", "<", 1000, "ms"},
		"p5_user_tokens_per_s>9": {"p5_user_tokens_per_s", ">", 9, "tok/s"},
		"duration<1500ms":        {"duration", "<", 1.5, "s"},
		"completed>=100":         {"completed", ">=", 100, ""},
		"error_rate<1%":          {"error_rate", "<", 0.01, "ratio"},
		"goodput_ratio>=0.99":    {"goodput_ratio", ">=", 0.99, "ratio"},
	}
	for text, want := range cases {
		t.Run(text, func(t *testing.T) {
			o, err := ParseObjective(text)
			if err != nil {
				t.Fatal(err)
			}
			if o.Key() != want.key || o.Op != want.op || math.Abs(o.Bound-want.bound) > 1e-9 || o.Unit != want.unit {
				t.Errorf("got %s %s %v %s, want %+v", o.Key(), o.Op, o.Bound, o.Unit, want)
			}
		})
	}
}

func TestParseObjectiveMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"p99_ttft":         "no < or >",
		"p99_tftt<5":       `did you mean "p99_ttft"`,
		"q99_ttft<5":       "unknown statistic",
		"p101_ttft<5":      "unknown statistic",
		"p99_ttft<fast":    "not a bound in ms",
		"p99_ttft<-5":      "not a bound",
		"throughputt>5":    `did you mean "throughput"`,
		"p99_ttft<nan":     "not a bound",
		"p99_ttft==5<":     "unknown metric",
		"error_rate<1ms":   "not a bound in ratio",
		"completed<few":    "not a bound in whole numbers",
		"pinf_ttft<5":      "unknown statistic",
		"request_rate_<10": "unknown metric",
	} {
		if o, err := ParseObjective(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseObjective(%q) = %+v, %v, want %q", text, o, err, want)
		}
	}
	if _, err := ParseObjectives(" , "); err == nil {
		t.Error("an empty list is accepted")
	}
}

func TestObjectiveMet(t *testing.T) {
	for op, want := range map[string][3]bool{ // below, at, above the bound
		"<": {true, false, false}, "<=": {true, true, false}, ">": {false, false, true}, ">=": {false, true, true},
	} {
		o := Objective{Op: op, Bound: 5}
		if got := [3]bool{o.Met(4), o.Met(5), o.Met(6)}; got != want {
			t.Errorf("%s: %v, want %v", op, got, want)
		}
		if o.Met(math.NaN()) {
			t.Errorf("%s: NaN is met", op)
		}
	}
}

func FuzzParseObjectives(f *testing.F) {
	for _, s := range []string{"p99_ttft<500ms", "rps>10,error_rate<1%", "p99.9_itl<=.5s", ",", "<", "p_ttft<1", "mean_ttft<1e999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseObjectives(text)
		if err != nil {
			return
		}
		for _, o := range list {
			if o.Metric == "" || o.Unit == "" || !(o.Bound >= 0) {
				t.Fatalf("%q gave %+v", text, o)
			}
			again, err := ParseObjective(o.Text)
			if err != nil || again != o {
				t.Fatalf("%q does not read back: %+v, %v", o.Text, again, err)
			}
			if o.Met(o.Bound-1) == o.Met(o.Bound+1) && !math.IsInf(o.Bound, 0) && o.Bound < 1e15 {
				t.Fatalf("%q does not tell values apart", o.Text)
			}
		}
	})
}

package series

import (
	"strings"
	"testing"

	"spate/internal/settings/config"
)

func TestTurnsMirrorEveryOtherRound(t *testing.T) {
	var got []string
	for _, turn := range turns(&config.Repeat{Times: 3, Arms: []config.Arm{{Name: "A"}, {Name: "B"}, {Name: "C"}}}) {
		got = append(got, turn.name())
	}
	if want := "A-1 B-1 C-1 C-2 B-2 A-2 A-3 B-3 C-3"; strings.Join(got, " ") != want {
		t.Errorf("order %v, want %s", got, want)
	}
}

func TestDropSeries(t *testing.T) {
	for in, want := range map[string]string{
		"--repeat 3 --seed 1":                       "--seed 1",
		"--seed 1 --interleave A=x B=y --model m":   "--seed 1 --model m",
		"--interleave=A=,B= --seed 1":               "--seed 1",
		"--num_runs 2 --inter A=,B= --repetition 1": "--repetition 1",
		"--request-rate 2 --num-prompts 3":          "--request-rate 2 --num-prompts 3",
	} {
		if got := strings.Join(dropSeries(strings.Fields(in)), " "); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

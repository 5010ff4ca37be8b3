package schedule

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseStages(t *testing.T) {
	cases := []struct {
		text string
		want Stages
	}{
		{"30s@2", Stages{{30 * time.Second, 2, 2}}},
		{"30s@2,60s@8", Stages{{30 * time.Second, 2, 2}, {time.Minute, 8, 8}}},
		{" 1m30s @ 2-8 , 500ms@0.5 ", Stages{{90 * time.Second, 2, 8}, {500 * time.Millisecond, 0.5, 0.5}}},
		{"30@8-2", Stages{{30 * time.Second, 8, 2}}},
		{"5s@0,5s@1", Stages{{5 * time.Second, 0, 0}, {5 * time.Second, 1, 1}}},
	}
	for _, c := range cases {
		got, err := ParseStages(c.text)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, %v, want %v", c.text, got, err, c.want)
		}
	}
}

func TestParseStagesErrors(t *testing.T) {
	cases := []struct{ text, want string }{
		{"", "stage 1 of \"\": empty"},
		{"30s@2,", "stage 2"},
		{"30s", "no @"},
		{"30s:2", "no @"},
		{"30x@2", `"30x" is not a duration`},
		{"@2", "is not a duration"},
		{"-3s@2", "must be above 0"},
		{"0s@2", "must be above 0"},
		{"9000h@2", "longer than a year"},
		{"8000h@2,8000h@2", "more than a year"},
		{"30s@", `"" is not a rate`},
		{"30s@fast", `"fast" is not a rate`},
		{"30s@2-", `"" is not a rate`},
		{"30s@-2", `"" is not a rate`},
		{"30s@1e3", "is not a rate"},
		{"30s@inf", "cannot send at rate inf"},
		{"30s@2-8-3", "is not a rate"},
		{"30s@99999999999", "above 1000000000"},
		{"30s@0", "send nothing"},
	}
	for _, c := range cases {
		if _, err := ParseStages(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.text, err, c.want)
		}
	}
}

// What parses must print as something that parses to the same, and plan only times that keep the laws.
func FuzzParseStages(f *testing.F) {
	for _, s := range []string{"30s@2,60s@8", "30s@2-8", "1m@0,1s@0.25-7", "5@1", "1ns@1000000000", "1h@0-0.0001,3s@2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ss, err := ParseStages(text)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Fatalf("error of %d bytes", len(err.Error()))
			}
			return
		}
		again, err := ParseStages(ss.String())
		if err != nil || !slices.Equal(again, ss) {
			t.Fatalf("%q prints as %q, which is %v, %v", text, ss.String(), again, err)
		}
		p, err := ss.Plan(1, 0)
		if err != nil {
			t.Fatal(err)
		}
		prev := time.Duration(0)
		for at := range p.First(200).Due {
			if at < prev || at >= ss.Length() {
				t.Fatalf("%q: due at %v after %v, end %v", text, at, prev, ss.Length())
			}
			prev = at
		}
	})
}

// Evenly spaced arrivals fill each stage with exactly rate times length requests, from its first instant on.
func TestStageBoundaries(t *testing.T) {
	ss, err := ParseStages("30s@2,10s@0,60s@8")
	if err != nil {
		t.Fatal(err)
	}
	due := times(t)(ss.Plan(math.Inf(1), 0))
	if len(due) != 540 || ss.Requests() != 540 || ss.Length() != 100*time.Second {
		t.Fatalf("%d requests, %v expected, %v long", len(due), ss.Requests(), ss.Length())
	}
	count := func(from, to time.Duration) (n int) {
		for _, at := range due {
			if at >= from && at < to {
				n++
			}
		}
		return n
	}
	s := time.Second
	if a, b, c := count(0, 30*s), count(30*s, 40*s), count(40*s, 100*s); a != 60 || b != 0 || c != 480 {
		t.Errorf("stages hold %d, %d, %d requests", a, b, c)
	}
	if due[0] != 0 || due[59] != 29500*time.Millisecond || due[60] != 40*s || due[539] != 99875*time.Millisecond {
		t.Errorf("boundaries at %v, %v, %v, %v", due[0], due[59], due[60], due[539])
	}
}

// A ramp from 0 to 8 over 4 s has t^2 requests by time t, so the k-th (from 0) is due at sqrt(k).
func TestStageRampByHand(t *testing.T) {
	due := times(t)(Stages{{4 * time.Second, 0, 8}}.Plan(math.Inf(1), 0))
	if len(due) != 16 {
		t.Fatalf("%d requests, want 16", len(due))
	}
	for k, at := range due {
		if want := math.Sqrt(float64(k)); math.Abs(at.Seconds()-want) > 1e-9 {
			t.Errorf("request %d at %v, want %v s", k, at, want)
		}
	}
	// Falling, it is the mirror image: 16 - (4-t)^2 requests by t.
	down := times(t)(Stages{{4 * time.Second, 8, 0}}.Plan(math.Inf(1), 0))
	for k, at := range down {
		if want := 4 - math.Sqrt(16-float64(k)); math.Abs(at.Seconds()-want) > 1e-9 {
			t.Errorf("falling: request %d at %v, want %v s", k, at, want)
		}
	}
}

// Random arrivals follow the stages on average: counts within four standard deviations of a Poisson count.
func TestStagesFollowRate(t *testing.T) {
	ss, err := ParseStages("100s@20-60,50s@10")
	if err != nil {
		t.Fatal(err)
	}
	bins := make([]float64, 3)
	for _, at := range times(t)(ss.Plan(1, 5)) {
		bins[at/(50*time.Second)]++
	}
	for i, want := range []float64{1500, 2500, 500} {
		if math.Abs(bins[i]-want) > 4*math.Sqrt(want) {
			t.Errorf("50 s bin %d holds %v requests, want about %v", i, bins[i], want)
		}
	}
}

package accuracy

import (
	"strings"
	"testing"
	"time"
)

func at(streams int, spate, bare []Row) Level {
	return Level{Load: Timetable(streams, 1), Spate: spate, Bare: bare}
}

// TestGoalsPairRuns holds that goals compare a run with the bare reader's run next to it, and judge
// by the median.
func TestGoalsPairRuns(t *testing.T) {
	bare := []Row{{TTFTError: 1, ITLError: 1, CPUPerEvent: 10}, {TTFTError: 9, ITLError: 5, CPUPerEvent: 20}, {TTFTError: 2, ITLError: 0, CPUPerEvent: 10}}
	spate := []Row{{TTFTError: 2, ITLError: 3, CPUPerEvent: 12}, {TTFTError: 10, ITLError: 7, CPUPerEvent: 40}, {TTFTError: 9, ITLError: 0, CPUPerEvent: 15}}
	r := &Report{
		Levels:  []Level{at(100, spate, bare), at(5000, spate, bare)},
		Flood:   &Level{Spate: []Row{{PerCore: 40}}, Bare: []Row{{PerCore: 100}}},
		Slow:    &Level{Spate: []Row{{RSS: 2e9}}},
		Paced:   &Level{Spate: []Row{{SendLag: Dist{P99: 0.5}}}},
		Startup: []Startup{{Args: []string{"version"}, Median: 20}},
	}
	want := []struct {
		what string
		got  float64
		met  bool
	}{
		{"mean TTFT error above the bare reader's at 100 streams", 1, true}, // 1 1 7
		{"p99 ITL error above the bare reader's at 100 streams", 2, false},  // 2 2 0
		{"CPU per event, times the bare reader's at 100 streams", 1.5, true},
		{"events per core-second of a flood, share of the bare reader's", 0.4, false},
		{"memory at 10,000 slow streams", 2000, false},
		{"start-up of spate version", 20, true},
		{"p99 send lag at 2,000 requests/s", 0.5, true},
	}
	goals := r.judge()
	if len(goals) != len(want) {
		t.Fatalf("%d goals, want %d: %+v", len(goals), len(want), goals)
	}
	for i, w := range want {
		if g := goals[i]; g.What != w.what || g.Got != w.got || g.Met != w.met {
			t.Errorf("goal %d: %s %v %v, want %s %v %v", i, g.What, g.Got, g.Met, w.what, w.got, w.met)
		}
	}
	r.Goals = goals
	var s strings.Builder
	if err := r.Markdown(&s); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"| p99 ITL error above the bare reader's at 100 streams | at most 1 ms | 2.00 ms [0.00 .. 2.00] | FAIL |",
		"| CPU per event, times the bare reader's at 100 streams | at most 1.5 x | 1.50 x [1.20 .. 2.00] | PASS |",
	} {
		if !strings.Contains(s.String(), line) {
			t.Errorf("the tables lack %q:\n%s", line, s.String())
		}
	}
}

func TestNothingMeasuredMeetsNoGoal(t *testing.T) {
	if g := atMost("x", nil, 1, "ms"); g.Met {
		t.Error("a goal without a run is met")
	}
	if g := atLeast("x", nil, 0, "x"); g.Met {
		t.Error("a goal without a run is met")
	}
}

func TestAdvice(t *testing.T) {
	good := []Row{{TTFTError: 1.9, ITLError: 0.4, EventRate: 49000.4}}
	slow := []Row{{TTFTError: 5.1, ITLError: 0.4}}
	shaky := []Row{{TTFTError: 1, ITLError: -1.1, ServerLateP99: 35}}
	cases := []struct {
		name    string
		levels  []Level
		trusted int
		want    []string
	}{
		{"all good", []Level{at(1, good, nil), at(500, good, nil)}, 500, []string{
			"at 1 stream: ", "at 500 streams: TTFT is reported 1.90 ms too high on average, p99 ITL 0.40 ms too high", "49,000 events/s",
			"up to at least 500 concurrent streams", "mean TTFT within 5ms and p99 ITL within 1ms",
		}},
		{"TTFT goes first", []Level{at(100, good, nil), at(500, slow, nil)}, 100, []string{"up to 100 concurrent streams"}},
		{"too low is wrong too", []Level{at(100, good, nil), at(1500, shaky, nil)}, 100, []string{
			"at 1,500 streams:", "p99 ITL 1.10 ms too low", "fell 35 ms behind its timetable", "up to 100 concurrent streams",
		}},
		{"a good level above a bad one does not count", []Level{at(1, good, nil), at(10, slow, nil), at(100, good, nil)}, 1, []string{"up to 1 concurrent stream:"}},
		{"a busy machine", []Level{at(10, good, nil)}, 10, []string{"not quiet: its load average was 9.0"}},
		{"none", []Level{at(10, slow, nil)}, 0, []string{"Do not trust this host: not even at 10 streams"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := &Report{Levels: c.levels}
			r.Host.Cores = 2
			if c.name == "a busy machine" {
				r.Host.Load[0] = 9
			}
			b := Bounds{TTFT: 5 * time.Millisecond, ITL: time.Millisecond}
			if got := r.Trusted(b); got != c.trusted {
				t.Errorf("trusted up to %d, want %d", got, c.trusted)
			}
			var s strings.Builder
			if err := r.Advice(&s, b); err != nil {
				t.Fatal(err)
			}
			for _, w := range c.want {
				if !strings.Contains(s.String(), w) {
					t.Errorf("the advice lacks %q:\n%s", w, s.String())
				}
			}
		})
	}
}

func TestTextSpeed(t *testing.T) {
	made, texts, err := makePrompts(t.Context(), nil, 20)
	if err != nil {
		t.Fatal(err)
	}
	if len(texts) != 20 || made.Speed <= 0 || made.Tokens <= 0 || made.MB < 20*textTokens*3/1e6 {
		t.Errorf("%d prompts, %+v", len(texts), made)
	}
}

package suggest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// report is the space of a published tuning session with its rule: without chunked prefill the token
// budget must hold the longest request, and it must always hold the sequences.
func report() *Space {
	return &Space{
		Params: []Param{
			{Name: "max-num-seqs", Kind: Int, Low: 1, High: 8192, Log: true, Default: "256", Memory: 1},
			{Name: "max-num-batched-tokens", Kind: Int, Low: 64, High: 32768, Log: true, Default: "2048", Memory: 1},
			{Name: "block-size", Kind: Choice, Values: []string{"8", "16", "32"}, Default: "16"},
			{Name: "delay", Kind: Float, Low: 0, High: 2, Default: "0"},
			{Name: "chunked", Kind: Switch},
			{Name: "caching", Kind: Switch},
			{Name: "no-all-reduce", Kind: Switch},
			{Name: "v2", Kind: Switch},
		},
		Allow: func(s Settings) error {
			seqs, tokens := num(s, "max-num-seqs"), num(s, "max-num-batched-tokens")
			if tokens < seqs || s["chunked"] != "true" && tokens < 32768 {
				return errors.New("the engine refuses it")
			}
			return nil
		},
	}
}

func num(s Settings, name string) float64 {
	v, err := strconv.ParseFloat(s[name], 64)
	if err != nil {
		panic(err)
	}
	return v
}

// throughput has one summit: 200 sequences, 2,000 tokens, blocks of 16, no delay, prefix caching.
func throughput(s Settings) float64 {
	v := 100.0
	v -= 6 * math.Pow(math.Log(num(s, "max-num-seqs")/200), 2)
	v -= 5 * math.Pow(math.Log(num(s, "max-num-batched-tokens")/2000), 2)
	v -= 8 * num(s, "delay")
	if s["caching"] != "true" {
		v -= 15
	}
	if s["block-size"] != "16" {
		v -= 3
	}
	return v
}

func run(s Strategy, n int, measure func(Settings) Trial) []Trial {
	var history []Trial
	for range n {
		p, ok := s.Next(history)
		if !ok {
			break
		}
		t := measure(p.Settings)
		t.Settings, t.Share = p.Settings, p.Share
		history = append(history, t)
	}
	return history
}

func score(s Settings) Trial { return Trial{Score: throughput(s)} }

func TestStrategiesProposeOnlyNewAllowedSettings(t *testing.T) {
	space := report()
	for name, s := range map[string]Strategy{
		"random": Random(space, 3), "tpe": TPE(space, 3), "grid": Grid(space, 4), "first": First(space, []Settings{space.Defaults()}, TPE(space, 3)),
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[string]bool{}
			for i, trial := range run(s, 60, score) {
				if err := space.Allowed(trial.Settings); err != nil {
					t.Errorf("trial %d: %v: %v", i, trial.Settings, err)
				}
				if key := space.Key(trial.Settings); seen[key] {
					t.Errorf("trial %d repeats %v", i, trial.Settings)
				} else {
					seen[key] = true
				}
			}
			if len(seen) < 60 {
				t.Errorf("%d proposals, want 60", len(seen))
			}
		})
	}
}

func TestSameHistorySameProposal(t *testing.T) {
	space := report()
	history := run(TPE(space, 9), 25, score)
	for n := range history {
		p, _ := TPE(report(), 9).Next(history[:n])
		if space.Key(p.Settings) != space.Key(history[n].Settings) {
			t.Fatalf("after %d trials a new search proposes %v, the first one proposed %v", n, p.Settings, history[n].Settings)
		}
	}
	if p, _ := TPE(space, 10).Next(nil); space.Key(p.Settings) == space.Key(history[0].Settings) {
		t.Error("another seed begins alike")
	}
}

// needed is after how many trials the score is within two per cent of the summit.
func needed(s Strategy, limit int) int {
	var history []Trial
	for range limit {
		p, _ := s.Next(history)
		history = append(history, Trial{Settings: p.Settings, Score: throughput(p.Settings)})
		if history[len(history)-1].Score >= 98 {
			break
		}
	}
	return len(history)
}

func TestTPENeedsFarFewerTrialsThanRandom(t *testing.T) {
	if testing.Short() {
		t.Skip("short: searches for hundreds of trials, several times")
	}
	const seeds, limit = 5, 250
	var model, chance []int
	for seed := range uint64(seeds) {
		model = append(model, needed(TPE(report(), seed), limit))
		chance = append(chance, needed(Random(report(), seed), limit))
	}
	slices.Sort(model)
	slices.Sort(chance)
	t.Logf("trials to within 2 %%: TPE %v, random %v", model, chance)
	if 4*model[seeds/2] > chance[seeds/2] {
		t.Errorf("the median search needs %d trials, random search %d: want at most a quarter", model[seeds/2], chance[seeds/2])
	}
}

// TestTPEGoesOnWhereChanceFindsNothing has a space of which only what is near the defaults is allowed, which no draw
// from all of it hits: the turns that look far away must not end the search.
func TestTPEGoesOnWhereChanceFindsNothing(t *testing.T) {
	on := func(s Settings) (n int) {
		for _, v := range s {
			if v == "true" {
				n++
			}
		}
		return n
	}
	space := &Space{Allow: func(s Settings) error {
		if on(s) > 3 {
			return errors.New("too many at once")
		}
		return nil
	}}
	for i := range 40 {
		space.Params = append(space.Params, Param{Name: fmt.Sprintf("s%02d", i), Kind: Switch})
	}
	var given []Settings
	for i := range space.Params[:12] {
		s := space.Defaults()
		s[space.Params[i].Name] = "true"
		given = append(given, s)
	}
	got := run(First(space, given, TPE(space, 1)), 24, func(s Settings) Trial { return Trial{Score: -float64(on(s))} })
	if len(got) != 24 {
		t.Errorf("%d trials, want 24", len(got))
	}
}

func TestGridHasEveryCombinationOnce(t *testing.T) {
	space := &Space{Params: []Param{
		{Name: "a", Kind: Choice, Values: []string{"x", "y"}},
		{Name: "b", Kind: Int, Low: 1, High: 3, If: &If{"a", []string{"y"}}},
		{Name: "c", Kind: Switch},
	}}
	got := map[string]bool{}
	for _, trial := range run(Grid(space, 3), 100, func(Settings) Trial { return Trial{} }) {
		got[fmt.Sprintf("%s%s%s", trial.Settings["a"], trial.Settings["b"], trial.Settings["c"])] = true
	}
	want := []string{"xfalse", "xtrue", "y1false", "y1true", "y2false", "y2true", "y3false", "y3true"}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	for _, w := range want {
		if !got[w] {
			t.Errorf("%s is missing in %v", w, got)
		}
	}
}

func TestHalvingMeasuresOnlyTheBestForLong(t *testing.T) {
	space := report()
	h := Halving(space, Random(space, 1), []float64{0.1, 0.3, 1}, 3)
	history := run(h, 130, score)
	count := map[float64]int{}
	for i, trial := range history {
		count[trial.Share]++
		if trial.Share == 0.1 {
			continue
		}
		before := history[:i]
		worse, all := 0, 0
		for _, o := range before {
			if o.Share == 0.1 {
				all++
				if o.Score <= trial.Score {
					worse++
				}
			}
		}
		if 3*(all-worse) > all {
			t.Errorf("trial %d goes on although %d of %d shorter ones were better", i, all-worse, all)
		}
	}
	if count[1] < 5 || count[1] > count[0.3]/2 || count[0.3] > count[0.1]/2 {
		t.Errorf("lengths %v", count)
	}
	if best := Best(history); best < 0 || history[best].Share != 1 {
		t.Error("the best trial is not one of full length")
	}
}

func TestFailuresTeachRegions(t *testing.T) {
	space := report()
	for i := range space.Params {
		space.Params[i].Neutral = space.Params[i].Name == "delay"
	}
	base := Settings{"max-num-seqs": "100", "max-num-batched-tokens": "4096", "block-size": "16", "delay": "0", "chunked": "true", "caching": "true", "no-all-reduce": "false", "v2": "false"}
	with := func(pairs ...string) Settings {
		out := Settings{}
		for k, v := range base {
			out[k] = v
		}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = pairs[i+1]
		}
		return out
	}
	memory := Trial{Settings: base, Failed: true, Memory: true}
	flag := func(seqs string) Trial {
		return Trial{Settings: with("v2", "true", "max-num-seqs", seqs), Failed: true}
	}
	ran := Trial{Settings: with("max-num-seqs", "10"), Score: 1}
	for name, c := range map[string]struct {
		history []Trial
		try     Settings
		allowed bool
	}{
		"the same":                    {[]Trial{memory}, base, false},
		"more of both":                {[]Trial{memory}, with("max-num-seqs", "200", "max-num-batched-tokens", "8192"), false},
		"less of one":                 {[]Trial{memory}, with("max-num-seqs", "50"), true},
		"another, and no matter":      {[]Trial{memory}, with("delay", "1.5", "max-num-seqs", "200"), false},
		"another that may be smaller": {[]Trial{memory}, with("block-size", "8"), true},
		"an accident":                 {[]Trial{{Settings: base, Failed: true, Memory: true, Transient: true}}, base, true},
		"a switch that never starts":  {[]Trial{ran, flag("10"), flag("20"), flag("30")}, with("v2", "true"), false},
		"twice is no rule":            {[]Trial{ran, flag("10"), flag("20")}, with("v2", "true"), true},
		"nothing ever started":        {[]Trial{flag("10"), flag("20"), flag("30")}, with("v2", "true"), true},
		"rules stay":                  {nil, with("chunked", "false"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Learn(space, c.history).Allowed(c.try); (err == nil) != c.allowed {
				t.Errorf("allowed: %v, want %v", err, c.allowed)
			}
		})
	}
}

func TestBetter(t *testing.T) {
	order := []Trial{{Score: 9}, {Score: 5}, {Score: 50, Violation: 0.1}, {Score: 99, Violation: 0.5}, {Failed: true}}
	for i := range order {
		for j := range order {
			if got := Better(&order[i], &order[j]); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("trial %d against %d: %d", i, j, got)
			}
		}
	}
}

func TestImportanceFindsWhatMatters(t *testing.T) {
	space := report()
	weights := Importance(space, run(Random(space, 5), 150, score), 1)
	if weights[0].Name != "max-num-seqs" && weights[0].Name != "max-num-batched-tokens" {
		t.Errorf("the heaviest is %+v", weights[0])
	}
	for _, w := range weights {
		if (w.Name == "v2" || w.Name == "no-all-reduce") && w.Share > 0.1 {
			t.Errorf("%s does nothing and weighs %v", w.Name, w.Share)
		}
		if w.Name == "caching" && w.Best != "true" {
			t.Errorf("best caching: %q", w.Best)
		}
		if w.Low > w.Share+0.2 || w.High < w.Share-1e-9 {
			t.Errorf("%+v is outside its interval", w)
		}
	}
	if Importance(space, run(Random(space, 5), 4, score), 1) != nil {
		t.Error("four trials show nothing")
	}
	// A search by halves: most trials ran with a third of the requests, and these are what is weighed.
	halves := run(Random(space, 5), 150, score)
	for i := range halves {
		if i >= EnoughToWeigh-1 {
			halves[i].Share = 1.0 / 3
		}
	}
	if alike, share := Alike(halves); share != 1.0/3 || len(alike)+EnoughToWeigh-1 > 150 || Importance(space, halves, 1) == nil {
		t.Errorf("weighed by %d trials with %v of the requests", len(alike), share)
	}
	halves[EnoughToWeigh-1].Share = 0 // as a whole run is told, too
	if alike, share := Alike(halves[:EnoughToWeigh]); share != 1 || len(alike) > EnoughToWeigh {
		t.Errorf("weighed by %d trials with %v of the requests", len(alike), share)
	}
}

// TestScoresOfOneLength: a short trial has another score than a whole one with the same settings, which says nothing
// about its settings.
func TestScoresOfOneLength(t *testing.T) {
	var list []Trial
	for i := range 20 {
		list = append(list, Trial{Score: float64(i), Share: []float64{1, 0.25}[i%2]})
	}
	list[0].Failed, list[4].Failed, list[8].Failed = true, true, true // 7 whole ones are too few
	if alike, share := Alike(list); len(alike) != 10 || share != 0.25 {
		t.Errorf("%d trials of %v", len(alike), share)
	}
	list[0].Failed = false
	if alike, share := Alike(list); len(alike) != 8 || share != 1 {
		t.Errorf("%d trials of %v", len(alike), share)
	}
}

func TestPlacesAndSettingsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(0.01, 100).Draw(t, "low")
		p := Param{
			Name: "p", Kind: rapid.SampledFrom([]Kind{Int, Float}).Draw(t, "kind"), Low: low, High: low * rapid.Float64Range(1, 1000).Draw(t, "ratio"),
			Log: rapid.Bool().Draw(t, "log"), Step: rapid.SampledFrom([]float64{0, 0.5, 8}).Draw(t, "step"),
		}
		if p.Kind == Int {
			p.Low, p.High = math.Ceil(p.Low), math.Ceil(p.High)
		}
		space := &Space{Params: []Param{p}}
		if err := space.Validate(); err != nil {
			t.Fatal(err)
		}
		set := space.Settings([]float64{rapid.Float64Range(0, 1).Draw(t, "at")})
		v := num(set, "p")
		if v < p.Low-1e-3*p.Low || v > p.High*(1+1e-3) {
			t.Fatalf("%v is outside %v to %v", v, p.Low, p.High)
		}
		if again := space.Settings(space.place(set)); space.Key(again) != space.Key(set) {
			t.Fatalf("%v comes back as %v", set, again)
		}
	})
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	for name, p := range map[string]Param{
		"kind": {Name: "a", Kind: "number"}, "range": {Name: "a", Kind: Int, Low: 3, High: 1}, "log": {Name: "a", Kind: Float, High: 1, Log: true},
		"choice": {Name: "a", Kind: Choice}, "condition": {Name: "a", Kind: Switch, If: &If{Name: "b"}}, "step": {Name: "a", Kind: Int, High: 9, Step: -1},
	} {
		if err := (&Space{Params: []Param{p}}).Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if (&Space{}).Validate() == nil {
		t.Error("an empty space is accepted")
	}
}

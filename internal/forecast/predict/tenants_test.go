package predict

import (
	"slices"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/figure"
	"spate/internal/result"
	"spate/internal/settings/config"
)

// mixed are the settings of tenants that were resolved one by one, as flags does it.
func mixed(tenants map[string]*config.Bench) *config.Bench {
	c := settings(func(*config.Bench) {})
	names := make([]string, 0, len(tenants))
	for name := range tenants {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		c.AddTenant(name, tenants[name])
	}
	c.JoinTenants()
	return c
}

// predicted predicts settings as the command does.
func predicted(t *testing.T, c *config.Bench) (*Own, *result.Run, []call.Record) {
	t.Helper()
	l, err := (Local{Getenv: func(string) string { return "" }}).Load(c)
	if err != nil {
		t.Fatal(err)
	}
	own, err := l.Run(toy(), 0, false)
	if err != nil {
		t.Fatal(err)
	}
	run := NewRun(toy(), l, c, "test", nil)
	return own, run, Fill(run, own)
}

// TestOneTenantIsAPlainRun: a list of one tenant is predicted as a plain run of the same settings.
func TestOneTenantIsAPlainRun(t *testing.T) {
	one := settings(func(c *config.Bench) { c.Load.RequestRate = 4 })
	plain, _, _ := predicted(t, one)
	mix, run, _ := predicted(t, mixed(map[string]*config.Bench{"only": one}))
	for name, want := range plain.Metrics {
		if got := mix.Metrics[name]; got != want {
			t.Errorf("%s: %v as a tenant, %v alone", name, got, want)
		}
	}
	row := FromSummary(&run.Tenants[0].Summary)
	for _, name := range []string{"completed", "duration", "mean_ttft_ms", "p99_itl_ms", "output_throughput"} {
		if d := row[name]/plain.Metrics[name] - 1; d > 1e-9 || d < -1e-9 {
			t.Errorf("the row has %s %v, the run %v", name, row[name], plain.Metrics[name])
		}
	}
}

// TestTenantsArePredicted: a paced tenant and two closed loops, one of which ends by time. Each sends what it would
// send alone, keeps its own cap, and has its own row; prompts of one are not cached for another.
func TestTenantsArePredicted(t *testing.T) {
	two, three := 2, 3
	c := mixed(map[string]*config.Bench{
		"chat": settings(func(c *config.Bench) {
			c.Load.RequestRate, c.Check.SLO = 4, []figure.Objective{mean(t, "mean_ttft<1us")}
		}),
		"batch": settings(func(c *config.Bench) { c.Load.MaxConcurrency = &two }),
		"steady": settings(func(c *config.Bench) {
			c.Load.NumPrompts, c.Load.MaxConcurrency, c.Load.Duration, c.Load.GracePeriod = 0, &three, 60*time.Second, 0
		}),
	})
	own, run, recs := predicted(t, c)
	var names []string
	total, ids := 0, map[int]bool{}
	for i := range run.Tenants {
		row := &run.Tenants[i]
		names = append(names, row.Name)
		total += row.Summary.Completed
		if row.Summary.TTFT.N == 0 || row.Plan.End <= 0 || row.Plan.End > own.Result.Duration {
			t.Errorf("%s: %d first tokens until %v of %v", row.Name, row.Summary.TTFT.N, row.Plan.End, own.Result.Duration)
		}
	}
	if !slices.Equal(names, []string{"batch", "chat", "steady"}) || total != run.Summary.Completed || float64(total) != own.Metrics["completed"] {
		t.Errorf("%v, %d of %d completed", names, total, run.Summary.Completed)
	}
	for _, r := range own.Result.Requests {
		if r.Cached > 0 {
			t.Fatalf("request %d of client %d has %d tokens of somebody else", r.Index, r.Client, r.Cached)
		}
	}
	for i := range recs {
		if ids[recs[i].ID] {
			t.Fatalf("two records have the number %d", recs[i].ID)
		}
		ids[recs[i].ID] = true
	}
	chat, steady := &run.Tenants[1], &run.Tenants[2]
	if chat.Summary.Completed != 30 || run.Tenants[0].Summary.Completed != 30 || steady.Summary.Completed < firstGuess*three {
		t.Errorf("%d, %d and %d completed", chat.Summary.Completed, run.Tenants[0].Summary.Completed, steady.Summary.Completed)
	}
	if met, judged := chat.Meets(); met || !judged {
		t.Errorf("an objective that cannot be met: %+v", chat.Checks)
	}
}

func mean(t *testing.T, text string) figure.Objective {
	t.Helper()
	o, err := figure.ParseObjective(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

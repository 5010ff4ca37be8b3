package result

import (
	"maps"
	"slices"

	"spate/internal/call"
	"spate/internal/figure"
	"spate/internal/judge/metrics"
	"spate/internal/pytext"
)

// TenantLabel is the label of a record that names its tenant, in a run of several.
const TenantLabel = "tenant"

// Tenant is one of several workloads of a run. Its figures have the names and definitions of the run's,
// over its own records and its own measured part.
type Tenant struct {
	Name    string          `json:"name"`
	Model   string          `json:"model,omitempty"`
	Dataset string          `json:"dataset,omitempty"`
	Plan    Plan            `json:"plan"`
	SLO     []string        `json:"slo,omitempty"` // objectives over the run, as asked for
	Tally   call.Tally      `json:"tally"`
	Summary metrics.Summary `json:"summary,omitzero"`
	Checks  []Check         `json:"slo_checks,omitempty"` // of each objective
	Errors  []string        `json:"errors,omitempty"`
}

// Check is how one objective over a run came out.
type Check struct {
	Text  string        `json:"objective"`
	Key   string        `json:"metric"` // as vLLM's result JSON spells it
	Value pytext.Number `json:"value"`  // nan when there is no such figure
	Met   bool          `json:"met"`
}

// Meets reports whether a tenant met its objectives; judged is false when it has none.
func (t *Tenant) Meets() (met, judged bool) {
	return len(t.Missed()) == 0, len(t.Checks) > 0
}

// Missed are the objectives that were not met.
func (t *Tenant) Missed() []Check {
	return slices.DeleteFunc(slices.Clone(t.Checks), func(c Check) bool { return c.Met })
}

// Lack says why a check has no figure; empty when it has one.
func (t *Tenant) Lack(c Check) string {
	o, err := figure.ParseObjective(c.Text)
	if err != nil {
		return "" // it came from a valid one
	}
	return o.Lack(&t.Summary)
}

// Owns reports whether a record is this tenant's.
func (t *Tenant) Owns(r *call.Record) bool { return r.Labels[TenantLabel] == t.Name }

// Of are the tenant's records among those of the run.
func (t *Tenant) Of(all call.Set) call.Set { return call.Part(all, t.Owns) }

// compute fills in what follows from the tenant's records.
func (t *Tenant) compute(recs call.Set) {
	t.Summary = metrics.SummarizeSet(recs, t.Plan.Metrics())
	t.Tally = t.Summary.Tally
	t.Errors = metrics.FirstErrors(recs, maxErrors)
	t.Checks = nil
	for _, text := range t.SLO {
		if o, err := figure.ParseObjective(text); err == nil { // it came from a valid one
			v := o.Of(&t.Summary)
			t.Checks = append(t.Checks, Check{Text: text, Key: o.Key(), Value: pytext.Number(v), Met: o.Met(v)})
		}
	}
}

// computeTenants fills in the rows of the tenants, and what of the whole run only they tell.
func (r *Run) computeTenants(recs call.Set) {
	for i := range r.Tenants {
		t := &r.Tenants[i]
		t.compute(t.Of(recs))
	}
	if g := r.joinedGoodput(); g != nil { // objectives are the tenants' own: the run has none
		r.Summary.Goodput, r.Summary.RequestGoodput = g, &g.PerSecond
	}
}

// Rows are what tables of tenants show: each of them, and all together in the last one, which has a check for each
// tenant that has objectives. A plain run has none.
func (r *Run) Rows() []Tenant {
	if len(r.Tenants) == 0 {
		return nil
	}
	all := Tenant{Name: "all", Plan: r.Plan, Summary: r.Summary}
	all.Plan.Text = "" // the tenants' own rows have theirs
	for i := range r.Tenants {
		t := &r.Tenants[i]
		if met, judged := t.Meets(); judged {
			all.Checks = append(all.Checks, Check{Text: t.Name, Met: met})
		}
	}
	return append(slices.Clone(r.Tenants), all)
}

// joinedGoodput counts the requests that met the bounds of their own tenant, among those of tenants that
// have some.
func (r *Run) joinedGoodput() *metrics.Goodput {
	var out *metrics.Goodput
	judged := 0
	for i := range r.Tenants {
		s := &r.Tenants[i].Summary
		if s.Goodput == nil {
			continue
		}
		if out == nil {
			out = &metrics.Goodput{}
		}
		out.Good += s.Goodput.Good
		judged += s.Completed + s.ErrorAdjusted.Failures
	}
	if out == nil {
		return nil
	}
	if judged > 0 {
		out.Share = float64(out.Good) / float64(judged)
	}
	if r.Summary.DurationS > 0 {
		out.PerSecond = float64(out.Good) / r.Summary.DurationS
	}
	return out
}

// boundTenants takes the measured part of each tenant from its records, for a run that was killed.
func (r *Run) boundTenants(recs call.Set) {
	for i := range r.Tenants {
		t := &r.Tenants[i]
		t.Plan.Due = 0
		t.Plan.bound(t.Of(recs))
	}
}

// Tenant is one tenant as a run of its own, for views that show and compare runs; nil when there is none
// of that name. Its records are those that Of picks; its settings are still those of the whole run: config.OfTenant has its own.
func (r *Run) Tenant(name string) *Run {
	i := slices.IndexFunc(r.Tenants, func(t Tenant) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	t, one := &r.Tenants[i], *r
	one.ID = r.ID + "/" + t.Name
	one.Labels = maps.Clone(r.Labels)
	if one.Labels == nil {
		one.Labels = map[string]string{}
	}
	one.Labels[TenantLabel] = t.Name
	one.Plan, one.Summary, one.Tally, one.Errors = t.Plan, t.Summary, t.Tally, t.Errors
	one.Tenants, one.Observed, one.Spec, one.Notes = nil, nil, nil, nil
	if t.Model != "" {
		one.Server.Model = t.Model
	}
	return &one
}

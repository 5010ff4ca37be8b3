package view

import (
	"cmp"

	"spate/internal/result"
	"spate/internal/settings/config"
	"spate/internal/view/report"
	"spate/internal/view/table"
)

// withTenants gives every tenant of a run a row above that of the run. The rows stay in this order unless
// another is asked for.
func withTenants(set []result.Entry, opt table.Options) ([]result.Entry, table.Options) {
	var out []result.Entry
	for _, e := range set {
		if e.Run == nil || len(e.Run.Tenants) == 0 {
			out = append(out, e)
			continue
		}
		whole := *e.Run
		e.Labels = labelled(e.Labels, "all")
		whole.Labels = labelled(whole.Labels, "all")
		for i, t := range e.Run.Tenants {
			one := e.Run.Tenant(t.Name)
			one.Config = config.OfTenant(one.Config, i)
			out = append(out, result.FromRun(one))
		}
		e.Run = &whole
		out = append(out, e)
		opt.GroupBy = cmp.Or(opt.GroupBy, "none")
	}
	return out, opt
}

// says is what results say in sentences, that of their tenants included.
func says(set []result.Entry, opt table.Options) []string {
	out := table.Says(set, opt)
	for i := range set {
		if set[i].Run == nil {
			continue
		}
		for _, sentence := range report.TenantFindings(set[i].Run) {
			if len(set) > 1 {
				sentence = set[i].ID + ": " + sentence
			}
			out = append(out, sentence)
		}
	}
	return out
}

func labelled(labels map[string]string, name string) map[string]string {
	out := map[string]string{result.TenantLabel: name}
	for k, v := range labels {
		if k != result.TenantLabel {
			out[k] = v
		}
	}
	return out
}

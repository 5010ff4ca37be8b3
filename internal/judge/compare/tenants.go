package compare

import (
	"spate/internal/call"
	"spate/internal/result"
)

// tenants are the pairs of the tenants that both groups of a pair have. Each is compared as a run of its own: what
// keeps runs from being compared was asked of the whole runs.
func (j *job) tenants(p *pair) []pair {
	if p.a[0].entry.Run == nil {
		return nil
	}
	var out []pair
	for i := range p.a[0].entry.Run.Tenants {
		name := p.a[0].entry.Run.Tenants[i].Name
		one := pair{setting: p.setting, nameA: p.nameA + "/" + name, nameB: p.nameB + "/" + name}
		if one.a, one.b = j.ofTenant(p.a, name), j.ofTenant(p.b, name); one.a != nil && one.b != nil {
			out = append(out, one)
		}
	}
	return out
}

// ofTenant is a group of runs as far as one tenant goes; nil where a run has none of that name.
func (j *job) ofTenant(group []*measured, name string) []*measured {
	var out []*measured
	for _, m := range group {
		if m.entry.Run == nil {
			return nil
		}
		run := m.entry.Run.Tenant(name)
		if run == nil {
			return nil
		}
		all, _ := m.sample.read() // why there are none was said of the whole run
		own := []call.Record{}    // not nil, which would have them read again
		for i := range all {
			if all[i].Labels[result.TenantLabel] == name {
				own = append(own, all[i])
			}
		}
		out = append(out, take(&Sample{Entry: result.FromRun(run), Records: own}, j.defs))
	}
	return out
}

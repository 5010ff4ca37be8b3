package harvest

import (
	"path"
	"path/filepath"

	"spate/internal/result"
)

// Combine joins results that one run left in several files: EvalScope writes its percentiles beside its
// summary.
func Combine(results []result.Entry) []result.Entry {
	folder := func(r *result.Entry) string { return path.Dir(filepath.ToSlash(r.Source.File)) }
	count := map[[2]string]int{}
	summary := map[string]int{}
	for i := range results {
		r := &results[i]
		if r.ID != "" {
			continue // out of an export, where they are joined already
		}
		count[[2]string{r.Format, folder(r)}]++
		if r.Format == result.FormatEvalScope {
			summary[folder(r)] = i
		}
	}
	var out []result.Entry
	drop := map[int]bool{}
	for i := range results {
		r := &results[i]
		dir := folder(r)
		at, ok := summary[dir]
		if r.ID != "" || r.Format != result.FormatEvalScopeRank || !ok || count[[2]string{result.FormatEvalScope, dir}] != 1 || count[[2]string{result.FormatEvalScopeRank, dir}] != 1 {
			continue
		}
		drop[i] = true
		addRanks(&results[at], r)
	}
	for i := range results {
		if !drop[i] {
			out = append(out, results[i])
		}
	}
	return out
}

func addRanks(into, ranks *result.Entry) {
	base := path.Base(filepath.ToSlash(ranks.Source.File))
	for _, f := range ranks.Metrics {
		f.From = base + ": " + f.From
		into.Metrics.Set(f)
	}
	for _, f := range ranks.Extra {
		into.Extra.Set(f)
	}
	for _, f := range ranks.Context {
		if f.Name != "percentile" {
			f.From = base + ": " + f.From
			into.Context.Propose(f)
		}
	}
	into.Problems = append(into.Problems, ranks.Problems...)
}

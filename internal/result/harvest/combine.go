package harvest

import (
	"path"
	"path/filepath"
)

// Combine joins results that one run left in several files: EvalScope writes its percentiles beside its
// summary.
func Combine(results []Result) []Result {
	folder := func(r *Result) string { return path.Dir(filepath.ToSlash(r.Source.File)) }
	count := map[[2]string]int{}
	summary := map[string]int{}
	for i := range results {
		r := &results[i]
		count[[2]string{r.Format, folder(r)}]++
		if r.Format == FormatEvalScope {
			summary[folder(r)] = i
		}
	}
	var out []Result
	drop := map[int]bool{}
	for i := range results {
		r := &results[i]
		dir := folder(r)
		at, ok := summary[dir]
		if r.Format != FormatEvalScopeRank || !ok || count[[2]string{FormatEvalScope, dir}] != 1 || count[[2]string{FormatEvalScopeRank, dir}] != 1 {
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

func addRanks(into, ranks *Result) {
	base := path.Base(filepath.ToSlash(ranks.Source.File))
	for _, f := range ranks.Metrics {
		f.From = base + ": " + f.From
		into.Metrics.set(f)
	}
	for _, f := range ranks.Extra {
		into.Extra.set(f)
	}
	for _, f := range ranks.Context {
		if f.Name != "percentile" {
			f.From = base + ": " + f.From
			into.Context.propose(f)
		}
	}
	into.Problems = append(into.Problems, ranks.Problems...)
}

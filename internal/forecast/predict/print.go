package predict

import (
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"spate/internal/figure"
	"spate/internal/forecast/profile"
	"spate/internal/result"
	"spate/internal/safe/escape"
)

// shownFigures are the figures of a prediction's interval and of a grid.
var shownFigures = figure.List("output_throughput", "mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "mean_itl_ms", "p99_itl_ms")

// WriteIntervals prints between what the figures lie over all parameter vectors; others is how many there are beside the
// best.
func (own *Own) WriteIntervals(w io.Writer, others int) {
	if others == 0 {
		return
	}
	escape.Print(w, "\nrange over %d parameter vectors within noise\n", others+1)
	for _, f := range shownFigures {
		escape.Print(w, "%-40s %s to %s\n", f.ShortUnit()+":", Digits(own.Low[f.Key()]), Digits(own.High[f.Key()]))
	}
}

// Digits is a figure with four digits, or all before the point.
func Digits(v float64) string {
	if math.Abs(v) >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// Prediction is one predicted run for programs.
type Prediction struct {
	Predicted bool              `json:"predicted_not_measured"`
	Profile   string            `json:"profile"`
	Load      string            `json:"load"`
	Settings  map[string]string `json:"settings,omitempty"`
	Figures   Metrics           `json:"predicted"`
	Low       Metrics           `json:"predicted_low,omitempty"`
	High      Metrics           `json:"predicted_high,omitempty"`
	Tenants   []TenantFigures   `json:"tenants,omitempty"`
}

// TenantFigures are the predicted figures of one of several tenants.
type TenantFigures struct {
	Name    string         `json:"name"`
	Load    string         `json:"load"`
	Figures Metrics        `json:"predicted"`
	Checks  []result.Check `json:"slo_checks,omitempty"`
}

// with adds the rows of tenants.
func (p Prediction) with(rows []result.Tenant) Prediction {
	for i := range rows {
		t := &rows[i]
		p.Tenants = append(p.Tenants, TenantFigures{Name: t.Name, Load: t.Plan.Text, Figures: FromSummary(&t.Summary), Checks: t.Checks})
	}
	return p
}

// NewPrediction is a run predicted with a profile.
func NewPrediction(prof *profile.Profile, l *Load, own *Own) Prediction {
	return Prediction{Predicted: true, Profile: prof.Name, Load: l.Text, Figures: own.Metrics, Low: own.Low, High: own.High}
}

// At is one combination of the values given in lists.
type At []struct{ Name, Value string }

// Combinations lists all of them, the last flag changing fastest.
func Combinations(grid map[string][]string) []At {
	out := []At{nil}
	for _, n := range slices.Sorted(maps.Keys(grid)) {
		var next []At
		for _, at := range out {
			for _, v := range grid[n] {
				next = append(next, append(slices.Clone(at), struct{ Name, Value string }{n, strings.TrimSpace(v)}))
			}
		}
		out = next
	}
	return out
}

// WriteGrid prints a table with a row for each combination.
func WriteGrid(w io.Writer, points []At, list []Prediction) {
	for _, s := range points[0] {
		escape.Print(w, "%*s ", max(12, len(s.Name)), s.Name)
	}
	for _, f := range shownFigures {
		escape.Print(w, "%13s", f.ShortUnit())
	}
	escape.Print(w, "\n")
	for i, at := range points {
		for _, s := range at {
			escape.Print(w, "%*s ", max(12, len(s.Name)), s.Value)
		}
		for _, f := range shownFigures {
			escape.Print(w, "%13s", Digits(list[i].Figures[f.Key()]))
		}
		escape.Print(w, "\n")
	}
}

// Write prints the comparison as a table, and what may be the reason of a gap.
func (c *Comparison) Write(w io.Writer, name string) {
	escape.Print(w, "%-22s %12s %12s %8s   range of the prediction\n", "profile "+name, "predicted", "measured", "error")
	for _, f := range c.Figures {
		escape.Print(w, "%-22s %12s %12s %+7.1f%%   %s to %s\n", f.Name, Digits(f.Predicted), Digits(f.Measured), f.ErrorPct, Digits(f.Low), Digits(f.High))
	}
	for _, s := range c.Reasons {
		escape.Print(w, "%s\n", s)
	}
}

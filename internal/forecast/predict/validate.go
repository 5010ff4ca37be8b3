package predict

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"spate/internal/forecast/profile"
)

// Judged is one row predicted, beside what was measured.
type Judged struct {
	ID        string             `json:"id"`
	Group     string             `json:"group"`
	Predicted Metrics            `json:"predicted"`
	Low       Metrics            `json:"predicted_low,omitempty"`  // of the parameter vectors within noise
	High      Metrics            `json:"predicted_high,omitempty"` //
	Measured  Metrics            `json:"measured"`
	ErrorPct  map[string]float64 `json:"error_pct"`
}

// Validate predicts every row of a file with the profile of its group. With intervals, every vector
// of a profile's set is replayed too.
func Validate(f *File, profiles []*profile.Profile, seed uint64, intervals bool) ([]Judged, error) {
	procs := Processes(f)
	type task struct {
		proc *Process
		prof *profile.Profile
		cost *profile.Cost
		got  map[string]Metrics
		err  error
	}
	var tasks []*task
	for _, p := range procs {
		prof, err := profile.Find(profiles, p.Group)
		if err != nil {
			return nil, fmt.Errorf("predicting %s: %w; make one with spate calibrate", p.Group, err)
		}
		if err := p.Recall(prof); err != nil {
			return nil, err
		}
		tasks = append(tasks, &task{proc: p, prof: prof, cost: &prof.Cost})
		for i := range prof.Set {
			if intervals {
				tasks = append(tasks, &task{proc: p, prof: prof, cost: &prof.Set[i]})
			}
		}
	}
	gate := make(chan struct{}, max(1, runtime.GOMAXPROCS(0)))
	var wait sync.WaitGroup
	for _, t := range tasks {
		wait.Add(1)
		gate <- struct{}{}
		go func() {
			defer wait.Done()
			t.got, t.err = t.proc.Replay(t.prof, t.cost, seed)
			<-gate
		}()
	}
	wait.Wait()
	byRow := map[string][]Metrics{}
	for _, t := range tasks {
		if t.err != nil {
			return nil, t.err
		}
		for id, m := range t.got {
			byRow[id] = append(byRow[id], m)
		}
	}
	var out []Judged
	for i := range f.Rows {
		out = append(out, judge(&f.Rows[i], byRow[f.Rows[i].ID]))
	}
	return out, nil
}

// judge puts a row's predictions beside its figures; the first is the best one.
func judge(r *Row, all []Metrics) Judged {
	j := Judged{ID: r.ID, Group: r.Group, Predicted: all[0].rounded(), Measured: r.Metrics, ErrorPct: map[string]float64{}}
	for _, name := range j.Predicted.names() {
		if pct, ok := errorPct(all[0][name], r.Metrics[name]); ok {
			j.ErrorPct[name] = round(pct, 2)
		}
	}
	if len(all) > 1 {
		j.Low, j.High = bounds(all)
	}
	return j
}

func bounds(all []Metrics) (low, high Metrics) {
	low, high = Metrics{}, Metrics{}
	for name := range all[0] {
		low[name], high[name] = all[0][name], all[0][name]
		for _, m := range all[1:] {
			low[name], high[name] = min(low[name], m[name]), max(high[name], m[name])
		}
	}
	return low.rounded(), high.rounded()
}

// rounded keeps what is worth printing.
func (m Metrics) rounded() Metrics {
	out := make(Metrics, len(m))
	for k, v := range m {
		out[k] = round(v, 4)
	}
	return out
}

func round(v float64, digits int) float64 {
	f := math.Pow10(digits)
	return math.Round(v*f) / f
}

// WriteJSON writes judged rows as an array.
func WriteJSON(w io.Writer, list []Judged) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(list)
}

// column is one figure of the table.
var columns = []struct{ name, head string }{
	{"output_throughput", "out tok/s"},
	{"mean_ttft_ms", "TTFT ms"},
	{"p99_ttft_ms", "P99 TTFT"},
	{"mean_tpot_ms", "TPOT ms"},
	{"mean_itl_ms", "ITL ms"},
	{"p99_itl_ms", "P99 ITL"},
}

// WriteTable writes judged rows for people: predicted, measured and signed error of each figure, the
// mean absolute errors of each group and of all.
func WriteTable(w io.Writer, list []Judged) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s %-20s", "row", "group")
	for _, c := range columns {
		fmt.Fprintf(&b, " | %10s %10s %7s", c.head, "measured", "error")
	}
	b.WriteByte('\n')
	var groups []string
	for i := range list {
		j := &list[i]
		if !slices.Contains(groups, j.Group) {
			groups = append(groups, j.Group)
		}
		fmt.Fprintf(&b, "%-8s %-20s", j.ID, j.Group)
		for _, c := range columns {
			b.WriteString(cell(j, c.name))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "\nmean absolute error, %%\n%-29s", "")
	for _, c := range columns {
		fmt.Fprintf(&b, " %10s", c.head)
	}
	b.WriteString("  rows\n")
	for _, g := range groups {
		writeMean(&b, g, list, func(j *Judged) bool { return j.Group == g })
	}
	writeMean(&b, "all", list, func(*Judged) bool { return true })
	_, err := io.WriteString(w, b.String())
	return err
}

func cell(j *Judged, name string) string {
	measured, pct := "", ""
	if e, ok := j.ErrorPct[name]; ok {
		measured, pct = short(j.Measured[name]), fmt.Sprintf("%+.1f%%", e)
	}
	return fmt.Sprintf(" | %10s %10s %7s", short(j.Predicted[name]), measured, pct)
}

func short(v float64) string {
	if math.Abs(v) >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func writeMean(b *strings.Builder, name string, list []Judged, in func(*Judged) bool) {
	fmt.Fprintf(b, "%-29s", name)
	rows := 0
	for i := range list {
		if in(&list[i]) && list[i].Measured != nil {
			rows++
		}
	}
	for _, c := range columns {
		sum, n := 0.0, 0
		for i := range list {
			if e, ok := list[i].ErrorPct[c.name]; ok && in(&list[i]) {
				sum += math.Abs(e)
				n++
			}
		}
		if n == 0 {
			fmt.Fprintf(b, " %10s", "-")
			continue
		}
		fmt.Fprintf(b, " %10.2f", sum/float64(n))
	}
	fmt.Fprintf(b, "  %d\n", rows)
}

package page

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"spate/internal/call"
	"spate/internal/host/observe"
	"spate/internal/result"
	"spate/internal/view/curve"
)

// data is what the scripts read. Charts are found by a name that the choices on the page are part of.
type data struct {
	Charts map[string]chart `json:"charts"`
	Names  []string         `json:"names"` // of points, which lines have as positions here
	Runs   []runData        `json:"runs"`

	loads   *loadView
	spread  []choice
	samples []*curve.Samples
	places  map[string]int
}

// chart is a curve.Chart whose numbers are written short.
type chart struct {
	Title string     `json:"title"`
	Note  string     `json:"note,omitempty"`
	X     curve.Axis `json:"x"`
	Y     curve.Axis `json:"y"`
	Lines []line     `json:"lines"`
	Tall  bool       `json:"tall,omitempty"`
}

type line struct {
	Name   string     `json:"name"`
	Kind   curve.Kind `json:"kind"`
	X      numbers    `json:"x"`
	Y      numbers    `json:"y"`
	Labels []int      `json:"labels,omitempty"`
	JoinX  numbers    `json:"join_x,omitempty"`
	JoinY  numbers    `json:"join_y,omitempty"`
}

// numbers are written with six digits, more than any screen can show; what is not finite becomes null.
type numbers []float64

// MarshalJSON writes the array.
func (xs numbers) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2+7*len(xs))
	out = append(out, '[')
	for i, x := range xs {
		if i > 0 {
			out = append(out, ',')
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			out = append(out, "null"...)
			continue
		}
		out = strconv.AppendFloat(out, x, 'g', 6, 64)
	}
	return append(out, ']'), nil
}

type runData struct {
	Duration  float64    `json:"duration_s"`
	Waterfall *waterfall `json:"waterfall,omitempty"`

	time []string // names of its charts
	host []string // those about the client's own host
	lack string   // why the records could not be read
}

func (d *data) has(key string) bool { _, ok := d.Charts[key]; return ok }

// add keeps a chart under a name, unless there is nothing on it.
func (d *data) add(key string, c curve.Chart) bool {
	if c.Empty() {
		return false
	}
	out := chart{Title: c.Title, Note: c.Note, X: c.X, Y: c.Y, Tall: key == "pareto"}
	for _, l := range c.Lines {
		out.Lines = append(out.Lines, line{Name: l.Name, Kind: l.Kind, X: l.X, Y: l.Y, Labels: d.named(l.Labels), JoinX: l.JoinX, JoinY: l.JoinY})
	}
	d.Charts[key] = out
	return true
}

// named are the positions of names, each of which is kept once.
func (d *data) named(labels []string) []int {
	out := make([]int, len(labels))
	for i, name := range labels {
		k, ok := d.places[name]
		if !ok {
			k = len(d.Names)
			d.places[name], d.Names = k, append(d.Names, name)
		}
		out[i] = k
	}
	return out
}

// collect computes every chart of the page. Records are read one run at a time: a set of runs may not fit into
// memory together.
func collect(set []result.Entry, opt Options, records recordsOf) (*data, error) {
	d := &data{Charts: map[string]chart{}, places: map[string]int{}, Runs: make([]runData, len(set)), samples: make([]*curve.Samples, len(set))}
	withRecords := 0
	for i := range set {
		if set[i].Run != nil {
			withRecords++
		}
	}
	for i := range set {
		if err := d.run(i, &set[i], opt.MaxBars/max(1, withRecords), records); err != nil {
			return nil, err
		}
	}
	d.across(set, opt)
	d.spreads(set, opt)
	return d, nil
}

// run adds the charts on the time axis of one run.
func (d *data) run(i int, e *result.Entry, bars int, records recordsOf) error {
	charts, err := d.overTime(i, e, bars, records)
	if err != nil {
		return err
	}
	r := &d.Runs[i]
	for _, c := range charts {
		key := fmt.Sprintf("r%d:%s", i, c.ID)
		switch {
		case !d.add(key, c):
		case strings.HasPrefix(c.ID, "time-host-"):
			r.host = append(r.host, key)
		default:
			r.time = append(r.time, key)
		}
	}
	return nil
}

// overTime computes them, with the samples and bars that the records give.
func (d *data) overTime(i int, e *result.Entry, bars int, records recordsOf) ([]curve.Chart, error) {
	r := &d.Runs[i]
	if e.Run == nil {
		charts := curve.OverTime(nil, nil, curve.Window{}, curve.EngineLog(e.EngineLog))
		r.Duration = span(charts)
		return charts, nil
	}
	recs, err := records(e)
	if err != nil {
		recs, r.lack = nil, err.Error() // its summary is complete without them
	}
	var seen []observe.Series
	if e.Run.Dir != "" {
		if seen, err = observe.Read(e.Run.Dir); err != nil {
			return nil, fmt.Errorf("series of %s: %w", e.ID, err)
		}
	}
	plan := e.Run.Plan.Metrics()
	r.Duration = e.Run.Summary.DurationS
	if len(recs) > 0 {
		d.samples[i] = curve.SamplesOf(recs, plan)
		r.Waterfall = pack(curve.Requests(recs, plan, bars))
	}
	return curve.OverTime(&e.Run.Summary, recs, curve.WindowOf(plan, &e.Run.Summary), seen), nil
}

// span is how long a run went whose charts are all that is known.
func span(charts []curve.Chart) float64 {
	end := 0.0
	for _, c := range charts {
		for _, l := range c.Lines {
			if n := len(l.X); n > 0 {
				end = max(end, l.X[n-1])
			}
		}
	}
	return end
}

// across adds the curves over several runs, in every choice that has points.
func (d *data) across(set []result.Entry, opt Options) {
	if len(set) < 2 {
		return
	}
	groups := curve.Groups(set, opt.GroupBy)
	v := &loadView{}
	latencies := map[string]bool{}
	for _, load := range curve.Loads() {
		found := false
		for _, stat := range curve.Stats() {
			for _, l := range curve.Latencies() {
				c := curve.LoadCurve(set, groups, load, l, stat)
				if points(c) >= 2 && d.add(fmt.Sprintf("load:%s:%s:%s", load.Key, stat.Key, l), c) {
					found, latencies[string(l)] = true, true
				}
			}
		}
		if found {
			v.Loads = append(v.Loads, choice{load.Key, load.Name})
		}
	}
	for _, stat := range curve.Stats() {
		for _, l := range curve.Latencies() {
			if len(v.Loads) > 0 && d.has(fmt.Sprintf("load:%s:%s:%s", v.Loads[0].Key, stat.Key, l)) {
				v.Stats = append(v.Stats, choice{stat.Key, stat.Name})
				break
			}
		}
	}
	for _, l := range curve.Latencies() {
		if latencies[string(l)] {
			v.Latencies = append(v.Latencies, string(l))
		}
	}
	if len(v.Loads) > 0 && len(v.Stats) > 0 {
		d.loads = v
	}
	if c := curve.Pareto(set, groups); points(c) >= 3 { // two runs and the frontier
		d.add("pareto", c)
	}
}

func points(c curve.Chart) int {
	n := 0
	for _, l := range c.Lines {
		n += len(l.X)
	}
	return n
}

// spreads adds the distributions of each latency over all runs that have one.
func (d *data) spreads(set []result.Entry, opt Options) {
	names := curve.Legend(set)
	for _, l := range curve.Latencies() {
		var all []curve.Named
		var reported []curve.Line
		for i := range set {
			if len(all)+len(reported) >= opt.MaxLines {
				break
			}
			if xs := d.samples[i].Of(l); len(xs) > 0 {
				all = append(all, curve.Named{Name: names[i], Values: xs})
			} else if r, ok := curve.Reported(l, names[i], &set[i]); ok {
				reported = append(reported, r)
			}
		}
		found := d.add("percentiles:"+string(l), curve.Ladder(l, all, reported))
		if len(all) > 0 {
			d.add("cdf:"+string(l), curve.CDFs(l, all))
			d.add("histogram:"+string(l), curve.Histograms(l, all))
		}
		if found {
			d.spread = append(d.spread, choice{string(l), l.Name() + " (" + l.Short() + ")"})
		}
	}
}

// waterfall is the bars as columns of variable-length integers: a hundred thousand requests take under 2 MB.
type waterfall struct {
	Unit  float64 `json:"unit_s"`
	Total int     `json:"total"`
	ID    column  `json:"id"`    // less the one before
	Sent  column  `json:"sent"`  // less the one before
	Wait  column  `json:"wait"`  // from due to sent
	First column  `json:"first"` // from sent to first token
	End   column  `json:"end"`   // from there to the end
	In    column  `json:"in"`
	Out   column  `json:"out"`
	Fate  column  `json:"fate"`
}

// column is zigzag varints in base64.
type column []byte

func (c *column) put(v int64) { *c = binary.AppendVarint(*c, v) }

// MarshalText writes base64.
func (c column) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, c), nil
}

// resolution is finer than a pixel of any run: runs of a minute and more are told in tenths of milliseconds.
const resolution = 100 * time.Microsecond

var fates = map[call.Outcome]int64{call.OK: 0, call.Failed: 1, call.Dropped: 2, call.Canceled: 3}

func pack(w curve.Waterfall) *waterfall {
	out := &waterfall{Unit: resolution.Seconds(), Total: w.Total}
	units := func(t time.Duration) int64 { return int64(t.Round(resolution) / resolution) }
	var id, sent int64
	for _, b := range w.Bars {
		at, first := units(b.Sent), units(b.First)
		out.ID.put(int64(b.ID) - id)
		out.Sent.put(at - sent)
		out.Wait.put(at - units(b.Due))
		out.First.put(first - at)
		out.End.put(units(b.End) - first)
		out.In.put(int64(b.In))
		out.Out.put(int64(b.Out))
		out.Fate.put(fates[b.Outcome])
		id, sent = int64(b.ID), at
	}
	return out
}

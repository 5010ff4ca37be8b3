package calibrate

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/host/enginelog"
	"spate/internal/result"
)

// Given is what the user says where the texts do not.
type Given struct {
	Name    string        // of the only server
	Server  profile.Facts // wins over texts
	Dataset string
	Rate    string // requests per second, or inf
	Slots   int    // requests in flight at most
	Input   int    // mean tokens of a prompt ...
	Output  int    // ... and of an answer
	Same    bool   // all results come from one server process, in their order
}

// Found is what calibration can work with.
type Found struct {
	File    *predict.File
	Steps   map[string][]enginelog.Step // of each group whose engine logged them
	Left    []Left
	Notes   []string
	Results int // looked at
}

// Left is a result that was left out.
type Left struct {
	ID     string
	Reason string // with the flag that helps, where one does
}

// Collect makes rows of results, with what logs and the user say about the servers.
func Collect(entries []result.Entry, logs []*Log, given Given) (*Found, error) {
	c := &collector{
		given: given, logs: logs, groups: map[string]string{}, said: map[string]bool{},
		found: &Found{File: &predict.File{Engines: map[string]profile.Facts{}}, Steps: map[string][]enginelog.Step{}},
	}
	for i := range entries {
		c.entry(&entries[i])
	}
	c.rest()
	c.doubt()
	if given.Name != "" && len(c.groups) > 1 {
		return nil, fmt.Errorf("the results are of %d servers, and --name names only one: %s", len(c.groups), strings.Join(c.names(), ", "))
	}
	if err := c.found.File.Complete(); err != nil {
		return nil, err
	}
	return c.found, nil
}

// collector makes rows and groups of them.
type collector struct {
	given  Given
	logs   []*Log
	found  *Found
	groups map[string]string // names by what tells servers apart
	said   map[string]bool   // notes
	order  int
}

// names lists the groups in their order.
func (c *collector) names() []string { return slices.Sorted(maps.Keys(c.found.File.Engines)) }

func (c *collector) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !c.said[text] {
		c.said[text] = true
		c.found.Notes = append(c.found.Notes, text)
	}
}

// entry makes a row of one result, or says why not.
func (c *collector) entry(e *result.Entry) {
	if !e.Measured() {
		return // failed starts and logs have no figures
	}
	c.found.Results++
	row, err := c.row(e)
	if err != nil {
		c.found.Left = append(c.found.Left, Left{e.ID, err.Error()})
		return
	}
	c.found.File.Rows = append(c.found.File.Rows, *row)
}

func (c *collector) row(e *result.Entry) (*predict.Row, error) {
	if err := usableResult(e); err != nil {
		return nil, err
	}
	w, sent := c.workload(e)
	s := c.server(e)
	facts, err := c.facts(&s)
	if err := joined(sent, err); err != nil {
		return nil, err // all that is missing at once
	}
	c.order++
	row := &predict.Row{ID: c.unique(e.ID), Group: c.group(facts), Workload: *w, Order: c.order, Known: true, Metrics: predict.Metrics{}}
	for _, f := range e.Metrics {
		if v, ok := f.Float(); ok && !math.IsInf(v, 0) && !math.IsNaN(v) {
			row.Metrics[f.Name] = v
		}
	}
	row.Process = c.process(e, row)
	return row, nil
}

// joined is several reasons in one line.
func joined(list ...error) error {
	var texts []string
	for _, err := range list {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}

// apart is how far figures of one workload on one server may lie apart by chance, as a factor.
const apart = 1.5

// doubt points at rows that can hardly be of the server they are taken to be of: the same workload, and
// quite another speed. Texts that compare servers often name them in headings only.
func (c *collector) doubt() {
	rows := c.found.File.Rows
	for i := range rows {
		for k := range i {
			a, b := &rows[i], &rows[k]
			if a.Group != b.Group || a.Process != b.Process || !alike(&a.Workload, &b.Workload) {
				continue
			}
			for _, name := range []string{"output_throughput", "mean_ttft_ms", "mean_tpot_ms"} {
				if x, y := a.Metrics[name], b.Metrics[name]; x > 0 && y > 0 && max(x/y, y/x) > apart {
					c.note("%s and %s sent the same to %s and differ by more than half in %s: if these are different servers, calibrate them separately", b.ID, a.ID, a.Group, name)
					return
				}
			}
		}
	}
}

// alike reports whether two runs sent the same.
func alike(a, b *predict.Workload) bool {
	return len(a.Sent)+len(b.Sent) == 0 && a.Dataset == b.Dataset && a.Completed == b.Completed && a.Rate == b.Rate && a.Slots == b.Slots &&
		a.In == b.In && a.Out == b.Out
}

// unique makes an id of its own.
func (c *collector) unique(id string) string {
	taken := func(s string) bool {
		return slices.ContainsFunc(c.found.File.Rows, func(r predict.Row) bool { return r.ID == s })
	}
	out := id
	for n := 2; taken(out); n++ {
		out = fmt.Sprintf("%s#%d", id, n)
	}
	return out
}

// most failed requests of a run that still tells a server's speed, as a share.
const maxFailed = 0.01

// usableResult refuses results that do not tell a server's speed.
func usableResult(e *result.Entry) error {
	r := e
	if e.Predicted() {
		return fmt.Errorf("it was predicted, not measured")
	}
	if e.Invalid() {
		return fmt.Errorf("its verdict is INVALID: the load generator, not the server, set its figures")
	}
	for _, p := range r.Problems {
		if p.Bad() {
			return fmt.Errorf("its text is damaged: %s", p.Text)
		}
	}
	failed, _ := r.Metrics.Float("failed")
	done, ok := r.Metrics.Float("completed")
	asked := done + failed
	if e.Run == nil {
		asked = max(asked, float64(enginelog.Whole(r.Context.Text("num_prompts"))))
	}
	if ok && asked > 0 && (asked-done)/asked > maxFailed {
		return fmt.Errorf("%.0f of %.0f requests failed: such a run does not show a server's speed", asked-done, asked)
	}
	return nil
}

// process is the name of the server process a row belongs to, whose prefix cache outlives its runs.
func (c *collector) process(e *result.Entry, row *predict.Row) string {
	if c.given.Same {
		return "one server, " + row.Group
	}
	if f, ok := e.Context.Get("server_command"); ok {
		return fmt.Sprintf("%s:%d", e.Source.File, f.Line)
	}
	if len(row.Workload.Sent) == 0 && row.Workload.Dataset == "random" && strings.HasPrefix(row.Workload.Client, "vllm") {
		c.note("each run is assumed to begin with an empty prefix cache: if one server process served them all, give --one-server")
	}
	return ""
}

// workload is what a result's run sent.
func (c *collector) workload(e *result.Entry) (*predict.Workload, error) {
	if recs, err := e.Records(); err == nil && len(recs) > 0 {
		return recorded(e, recs)
	}
	r := e
	q := &question{ctx: r.Context, args: arguments(r), given: &c.given}
	w := &predict.Workload{Client: client(r), Dataset: q.dataset(r)}
	w.Prompts, _ = q.count("num_prompts")
	for _, f := range []struct {
		name string
		to   *int
	}{{"completed", &w.Completed}, {"total_input_tokens", &w.In}, {"total_output_tokens", &w.Out}} {
		if v, ok := r.Metrics.Float(f.name); ok && v < enginelog.MaxCount {
			*f.to = int(v)
		}
	}
	if w.Completed == 0 {
		w.Completed = w.Prompts
	}
	if w.Completed < 1 {
		return nil, fmt.Errorf("the number of its requests is not in the text")
	}
	if err := joined(q.lengths(w), q.arrivals(w)); err != nil {
		return nil, err
	}
	q.stops(w, r.Format)
	if v, err := strconv.ParseFloat(r.Context.Text("warmup_time_s"), 64); err == nil && v > 0 && v < 1e6 {
		w.WarmupS = v
	}
	return w, nil
}

// client says whose way of sending a run has.
func client(r *result.Entry) string {
	switch r.Format {
	case result.FormatVLLMBlock, result.FormatVLLMJSON, result.FormatPyTorchJSON:
		if strings.Contains(r.Context.Text("command"), "spate bench") {
			return "spate"
		}
		return "vllm-bench"
	}
	return r.Format
}

// question asks a result's text, then the user.
type question struct {
	ctx   result.Context
	args  map[string]any // the client's command line, nil when unknown
	given *Given
}

// arguments are the client's, nil when the text does not show them.
func arguments(r *result.Entry) map[string]any {
	f, ok := r.Context.Get("arguments")
	if !ok {
		return nil
	}
	m, _ := f.Value.(map[string]any)
	return m
}

// arg is an argument of the client's command line, empty when it was not given.
func (q *question) arg(names ...string) string {
	for _, n := range names {
		if v, ok := q.args[n]; ok && v != nil {
			return fmt.Sprint(v)
		}
	}
	return ""
}

func (q *question) count(name string) (int, bool) {
	n := enginelog.Whole(q.ctx.Text(name))
	return n, n > 0
}

// dataset is the name the text gives, or the user's.
func (q *question) dataset(r *result.Entry) string {
	if s := q.ctx.Text("dataset"); s != "" {
		return s
	}
	if q.given.Dataset != "" {
		return q.given.Dataset
	}
	in, _ := r.Metrics.Float("total_input_tokens")
	out, _ := r.Metrics.Float("total_output_tokens")
	n, _ := r.Metrics.Float("completed")
	if n >= 8 && math.Mod(in, n) == 0 && math.Mod(out, n) == 0 && in > 0 && out > 0 {
		return "fixed" // totals divide evenly: all requests were alike
	}
	return ""
}

// datasets are those whose lengths are known well enough to replay them from totals.
var datasets = []string{"random", "sharegpt", "sonnet", "fixed"}

// lengths fills in the tokens of prompts and answers.
func (q *question) lengths(w *predict.Workload) error {
	if w.Dataset == "" {
		return fmt.Errorf("the kind of its prompts is not in the text: give --dataset-name (%s)", strings.Join(datasets, ", "))
	}
	if !slices.Contains(datasets, w.Dataset) {
		return fmt.Errorf("the lengths of dataset %s cannot be computed from totals; spate's own run folders have them", w.Dataset)
	}
	var ok bool
	if w.Input, ok = q.count("input_len"); !ok {
		w.Input = q.given.Input
	}
	if w.Output, ok = q.count("output_len"); !ok {
		w.Output = q.given.Output
	}
	if w.In == 0 && w.Input == 0 {
		return fmt.Errorf("the length of its prompts is not in the text: give --input-len")
	}
	if w.Out == 0 && w.Output == 0 {
		return fmt.Errorf("the length of its answers is not in the text: give --output-len")
	}
	for _, name := range []string{"random_prefix_len", "sonnet_prefix_len", "prefix_len"} {
		if n := enginelog.Whole(q.arg(name)); n > 0 && strings.HasPrefix(name, w.Dataset) {
			w.Prefix = n
		}
	}
	return q.ranges(w)
}

// ranges reads how lengths of the random dataset spread. The flag has had two meanings; the mean of the
// prompts tells which was meant.
func (q *question) ranges(w *predict.Workload) error {
	text := q.arg("random_range_ratio")
	if text == "" || w.Dataset != "random" || w.Input == 0 {
		return nil
	}
	ratio, err := strconv.ParseFloat(text, 64)
	if err != nil || ratio < 0 || ratio > 1 {
		return fmt.Errorf("its --random-range-ratio %s is of a kind that is not replayed", text)
	}
	mean := float64(w.In)/float64(w.Completed) - float64(w.Prefix)
	older := float64(w.Input) * (1 + ratio) / 2
	if w.In > 0 && math.Abs(mean-older) < math.Abs(mean-float64(w.Input)) || ratio == 1 {
		w.Spread = (1 - ratio) / (1 + ratio) // from ratio times the length to all of it
	} else {
		w.Spread = ratio
	}
	w.OutSpread = w.Spread
	return nil
}

// arrivals fills in when requests were sent. A client's command that names no rate sends at once; a bare
// result says nothing.
func (q *question) arrivals(w *predict.Workload) error {
	if s := q.arg("ramp_up_strategy"); s != "" && s != "None" {
		return fmt.Errorf("its rate was ramped up, which is not replayed from totals; spate's own run folders are")
	}
	text := q.ctx.Text("request_rate")
	slots, capped := q.count("max_concurrency")
	switch {
	case text != "":
	case q.args != nil || capped:
		text = "inf"
	case q.given.Rate != "":
		text = q.given.Rate
	case q.given.Slots > 0:
		text = "inf"
	default:
		return fmt.Errorf("its request rate is not in the text: give --request-rate (a number, or inf for all at once) or --max-concurrency")
	}
	if !capped && q.args == nil {
		slots = q.given.Slots
	}
	w.Slots = slots
	if strings.EqualFold(text, "inf") {
		w.Rate = predict.Rate(math.Inf(1))
	} else {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v > 0) {
			return fmt.Errorf("its request rate %q is neither a number nor inf", text)
		}
		w.Rate = predict.Rate(v)
	}
	if v, err := strconv.ParseFloat(q.ctx.Text("burstiness"), 64); err == nil && v > 0 && v != 1 && !math.IsInf(v, 1) {
		w.Shape = v
	}
	if n, err := strconv.ParseUint(q.ctx.Text("seed"), 10, 32); err == nil {
		seed := uint32(n)
		w.Seed = &seed
	}
	return nil
}

// stops says whether answers could end by themselves: not when the client forbade it, and not when all
// have their full length.
func (q *question) stops(w *predict.Workload, format string) {
	forbidden := q.arg("ignore_eos") == "true"
	switch format {
	case result.FormatSGLangBlock, result.FormatSGLangJSON, result.FormatLMDeployBlock, result.FormatLMDeployCSV:
		forbidden = q.arg("disable_ignore_eos") != "true"
	}
	w.IgnoreEOS = forbidden || w.Output > 0 && w.Out == w.Output*w.Completed
}

package sizing

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"spate/internal/figure"
)

// Write prints a plan for people.
func (p *Plan) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "predicted, not measured: %g requests per second, %s\n", p.Rate, p.Load)
	fmt.Fprintf(&b, "objectives: %s\n\n", strings.Join(p.Objectives, ", "))
	p.table(&b)
	for i := range p.Candidates {
		if c := &p.Candidates[i]; c.Reason != "" {
			fmt.Fprintf(&b, "%s, tensor parallel %d: %s\n", c.Profile, c.TP, c.Reason)
		}
	}
	for _, r := range p.Refused {
		size := ""
		if r.TP > 0 {
			size = fmt.Sprintf(", tensor parallel %d", r.TP)
		}
		fmt.Fprintf(&b, "left out: %s%s: %s\n", r.Profile, size, r.Reason)
	}
	p.recommend(&b)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// table is one line per candidate, best first.
func (p *Plan) table(out *strings.Builder) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := []string{"profile", "TP", "seqs", "tokens", "replicas", "GPUs"}
	priced := false
	for i := range p.Candidates {
		priced = priced || p.Candidates[i].Cost != nil
	}
	if priced {
		head = append(head, "USD/h")
	}
	for _, o := range p.Objectives {
		head = append(head, o, "margin")
	}
	rows := [][]string{append(head, "verdict", "breaks first", "")}
	for i := range p.Candidates {
		rows = append(rows, p.Candidates[i].cells(p.Objectives, priced))
	}
	for _, r := range rows {
		_, _ = io.WriteString(t, strings.Join(r, "\t")+"\n") // into a builder, which takes everything
	}
	_ = t.Flush()
	out.WriteString("\n")
}

// cells are the columns of a candidate.
func (c *Candidate) cells(objectives []string, priced bool) []string {
	name := c.Profile
	if !c.Calibrated {
		name += " (not calibrated)"
	}
	replicas, gpus := "-", "-"
	if c.Replicas > 0 {
		replicas, gpus = fmt.Sprint(c.Replicas), fmt.Sprint(c.GPUs)
	}
	out := []string{name, fmt.Sprint(c.TP), fmt.Sprint(c.MaxSeqs), fmt.Sprint(c.MaxTokens), replicas, gpus}
	if priced {
		cost := "-"
		if c.Cost != nil {
			cost = fmt.Sprintf("%.2f", *c.Cost)
		}
		out = append(out, cost)
	}
	for i := range objectives {
		if i >= len(c.Figures) {
			out = append(out, "-", "-")
			continue
		}
		f := &c.Figures[i]
		out = append(out, fmt.Sprintf("%.1f %s", f.Predicted, f.Unit), fmt.Sprintf("%+.0f%%", f.Margin))
	}
	breaks := "-"
	if c.Breaks != nil {
		breaks = fmt.Sprintf("%s at %.1f/s", c.Breaks.Objective, c.Breaks.Rate)
	}
	return append(out, string(c.Verdict), breaks, "")
}

// recommend names the best candidate.
func (p *Plan) recommend(b *strings.Builder) {
	c := p.Recommended
	if c == nil {
		b.WriteString("\nnothing meets the objectives: loosen one, or try other profiles or sizes\n")
		return
	}
	cost := ""
	if c.Cost != nil {
		cost = fmt.Sprintf(", %.2f USD per hour", *c.Cost)
	}
	fmt.Fprintf(b, "\nrecommended: %s, %s of %s x %s: %s%s\n", c.Profile, figure.Counted(c.Replicas, "replica"), fmt.Sprint(c.TP), c.GPU, figure.Counted(c.GPUs, "GPU"), cost)
	fmt.Fprintf(b, "each replica:\n  %s\n", c.Command)
	if c.Breaks != nil {
		fmt.Fprintf(b, "breaks first: %s at %.1f requests per second (%s)\n", c.Breaks.Objective, c.Breaks.Rate, c.Breaks.Reason)
	}
	fmt.Fprintf(b, "rests on %d simulated requests for each replica\n", c.Requests)
	c.doubts(b)
}

// doubts says how far the recommendation can be trusted.
func (c *Candidate) doubts(b *strings.Builder) {
	if !c.Calibrated {
		b.WriteString("not calibrated: these step times were computed, not fitted to measurements; measure one replica before relying on them\n")
	}
	if c.Wanted > 0 {
		fmt.Fprintf(b, "too few requests: at the limit of a replica %d would be needed for the number in flight to settle; give --num-prompts %d or more\n", c.Wanted, c.Wanted)
	}
	if c.Verdict != CannotTell {
		return
	}
	b.WriteString("cannot tell:\n")
	straddled := false
	for _, f := range c.Figures {
		if f.Verdict != Meets {
			straddled = true
			fmt.Fprintf(b, "  %s: %.1f to %.1f %s over %d parameter vectors within noise\n", f.Objective, f.Low, f.High, f.Unit, c.Vectors)
		}
	}
	if !straddled {
		fmt.Fprintf(b, "  with some of %d parameter vectors within noise the queue grows\n", c.Vectors)
	}
	if c.Certain > 0 {
		fmt.Fprintf(b, "  with %s (%s) all of them meet the objectives\n", figure.Counted(c.Certain, "replica"), figure.Counted(c.Certain*c.TP, "GPU"))
	} else {
		b.WriteString("  more replicas do not settle it: measure\n")
	}
}

package compare

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"spate/internal/safe/escape"
)

// WriteJSON prints everything, for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// WriteMarkdown prints the report as a page.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		fmt.Fprintf(&b, "### %s against %s", cell(c.B.Name), cell(c.A.Name))
		if c.Setting != "" {
			fmt.Fprintf(&b, " at %s", cell(c.Setting))
		}
		fmt.Fprintf(&b, "\n\n**%s**: %s.\n\n", c.Verdict, cell(c.Sentence))
		fmt.Fprintf(&b, "| metric | %s | %s | change | 95 %% interval | could show | verdict | why |\n", cell(c.A.Name), cell(c.B.Name))
		b.WriteString("| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |\n")
		for k := range c.Metrics {
			m := &c.Metrics[k]
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n",
				m.label(), digits(m.A), digits(m.B), m.ChangeText(), m.IntervalText(), m.DetectableText(), m.mark(), cell(m.why()))
		}
		fmt.Fprintf(&b, "\n%s. Intervals are at 95 %%; \"could show\" is the smallest difference that would have been seen with 80 %% chance.\n", cell(c.Method))
		if g := c.grades(); g != "" {
			fmt.Fprintf(&b, "- %s\n", cell(g))
		}
		for _, n := range c.Notes {
			fmt.Fprintf(&b, "- %s\n", cell(n))
		}
		b.WriteByte('\n')
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "- %s\n", cell(n))
	}
	if g := r.Gate; g != nil {
		fmt.Fprintf(&b, "**gate %s**: %s\n", gateWord(g), cell(g.Why))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// mark makes verdicts that matter stand out.
func (m *Metric) mark() string {
	if m.Verdict == Worse || m.Verdict == Better || m.Gate == Fail {
		return "**" + string(m.Verdict) + "**"
	}
	return string(m.Verdict)
}

// cell keeps text within its cell of a table.
func cell(s string) string {
	return escape.Markdown(s)
}

// The elements of a JUnit file, as CI servers read it.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string      `xml:"classname,attr"`
		Name    string      `xml:"name,attr"`
		Failure *junitNote  `xml:"failure"`
		Skipped *junitNote  `xml:"skipped"`
		Out     *junitPlain `xml:"system-out"`
	}
	junitNote struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
	junitPlain struct {
		Text string `xml:",chardata"`
	}
)

// WriteJUnit prints one test suite per comparison and one test per metric. A metric fails that the gate
// fails, or without a gate one that is worse; one that cannot be told is skipped.
func (r *Report) WriteJUnit(w io.Writer) error {
	all := junitSuites{Name: "spate compare"}
	for i := range r.Comparisons {
		s := r.Comparisons[i].suite(r.Gate != nil)
		all.Tests += s.Tests
		all.Failures += s.Failures
		all.Skipped += s.Skipped
		all.Suites = append(all.Suites, s)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (c *Comparison) suite(gated bool) junitSuite {
	s := junitSuite{Name: c.title(), Tests: len(c.Metrics)}
	for i := range c.Metrics {
		m := &c.Metrics[i]
		one := junitCase{Class: "spate.compare." + c.B.Name, Name: m.Name, Out: &junitPlain{c.line(m)}}
		switch {
		case m.failed(gated):
			s.Failures++
			one.Failure = &junitNote{Message: c.complaint(m), Type: string(m.Verdict), Text: m.why()}
		case m.Verdict == CannotTell:
			s.Skipped++
			one.Skipped = &junitNote{Message: "cannot tell: " + m.Why}
		}
		s.Cases = append(s.Cases, one)
	}
	return s
}

func (c *Comparison) title() string {
	title := c.B.Name + " against " + c.A.Name
	if c.Setting != "" {
		title += " at " + c.Setting
	}
	return title
}

// failed reports whether a pipeline should stop at the metric: where there is a gate, it decides.
func (m *Metric) failed(gated bool) bool {
	if gated {
		return m.Gate == Fail
	}
	return m.Verdict == Worse
}

// line is a metric in one line.
func (c *Comparison) line(m *Metric) string {
	return fmt.Sprintf("%s: %s -> %s, %s (%s), could show %s: %s, %s",
		m.label(), digits(m.A), digits(m.B), m.ChangeText(), m.IntervalText(), m.DetectableText(), m.Verdict, m.why())
}

// WriteAnnotations prints GitHub's workflow commands: an error for each metric that fails, a warning for
// each that is worse within what is allowed, and a notice with the verdict.
func (r *Report) WriteAnnotations(w io.Writer) error {
	var b strings.Builder
	command := func(kind, title, text string) {
		fmt.Fprintf(&b, "::%s title=%s::%s\n", kind, property(title), message(text))
	}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		for k := range c.Metrics {
			switch m := &c.Metrics[k]; {
			case m.failed(r.Gate != nil):
				command("error", "regression: "+m.Name, c.complaint(m))
			case m.Verdict == Worse:
				command("warning", "worse: "+m.Name, c.complaint(m))
			}
		}
		command("notice", c.title()+": "+string(c.Verdict), c.Sentence)
	}
	if g := r.Gate; g != nil && !g.Passed && g.Failed == 0 {
		command("error", "cannot tell", g.Why)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// message escapes what a workflow command would take for its end.
func message(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

// property also escapes what separates properties.
func property(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}

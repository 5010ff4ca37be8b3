package live

import (
	"fmt"
	"io"
	"strconv"

	"spate/internal/pytext"
)

// Preamble holds the lines vLLM prints ahead of the block while a run goes on. Each method prints
// those of one moment.
type Preamble struct {
	ReadyTimeout   int // seconds; 0 skips the check
	Warmups        int
	RequestRate    float64
	Burstiness     float64
	MaxConcurrency *int
	RampUp         string // strategy; empty without one
	RampStart      int
	RampEnd        int
}

// Ready goes ahead of the readiness check.
func (p *Preamble) Ready(w io.Writer) error {
	check := "Skipping endpoint ready check."
	if p.ReadyTimeout > 0 {
		check = fmt.Sprintf("Waiting for endpoint to become up in %d seconds", p.ReadyTimeout)
	}
	return printLines(w, []string{"Starting initial single prompt test run...", check})
}

// Warmup goes ahead of the warm-up requests, if there are any.
func (p *Preamble) Warmup(w io.Writer) error {
	if p.Warmups <= 0 {
		return nil
	}
	return printLines(w, []string{fmt.Sprintf("Warming up with %d requests...", p.Warmups)})
}

// WarmedUp follows them.
func (p *Preamble) WarmedUp(w io.Writer) error {
	if p.Warmups <= 0 {
		return nil
	}
	return printLines(w, []string{"Warmup run completed."})
}

// Main goes ahead of the measured part.
func (p *Preamble) Main(w io.Writer) error {
	lines := []string{"Starting main benchmark run..."}
	if p.RampUp != "" {
		lines = append(lines,
			fmt.Sprintf("Traffic ramp-up strategy: %s.", p.RampUp),
			fmt.Sprintf("Will increase RPS from %d to %d RPS over the duration of the benchmark.", p.RampStart, p.RampEnd))
	} else {
		lines = append(lines, "Traffic request rate: "+pytext.Float(p.RequestRate))
	}
	law := "Gamma distribution"
	if p.Burstiness == 1 {
		law = "Poisson process"
	}
	limit := "None"
	if p.MaxConcurrency != nil {
		limit = strconv.Itoa(*p.MaxConcurrency)
	}
	return printLines(w, append(lines,
		fmt.Sprintf("Burstiness factor: %s (%s)", pytext.Float(p.Burstiness), law),
		"Maximum request concurrency: "+limit))
}

func printLines(w io.Writer, lines []string) error {
	for _, line := range lines {
		if _, err := io.WriteString(w, line+"\n"); err != nil {
			return err
		}
	}
	return nil
}

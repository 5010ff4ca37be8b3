package accuracy

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"spate/internal/host/probe"
	"spate/internal/judge/stats"
)

// Suite is what one report measures.
type Suite struct {
	Levels []int // streams
	Rounds int   // answers per stream
	Repeat int   // runs of each level; figures are medians
	// Full adds the bare reader to each level, and everything else the performance table has.
	Full      bool
	Tokenizer string       // file for the tokenization speed; empty leaves it out
	Say       func(string) // told what goes on
}

// Report is what a suite found.
type Report struct {
	Schema  int        `json:"schema"`
	Host    probe.Host `json:"host"`
	Rounds  int        `json:"rounds"`
	Repeat  int        `json:"repeat"`
	Levels  []Level    `json:"levels"`
	Flood   *Level     `json:"flood,omitempty"`
	Slow    *Level     `json:"slow,omitempty"`
	Paced   *Level     `json:"paced,omitempty"`
	Startup []Startup  `json:"startup,omitempty"`
	Text    []Text     `json:"text,omitempty"`
	Goals   []Goal     `json:"goals,omitempty"`
}

// Level is one load, run several times by each reader in turn: run i of one was followed by run i of
// the other.
type Level struct {
	Load  Load  `json:"load"`
	Spate []Row `json:"spate"`
	Bare  []Row `json:"bare,omitempty"`
}

// Startup is how long a command line takes that measures nothing.
type Startup struct {
	Args   []string `json:"args"`
	Median float64  `json:"median_ms"`
	Max    float64  `json:"max_ms"`
}

// heavy is the number of streams from which one round is a load: 5,000 streams are asked for five
// times what two cores can carry.
const heavy = 2000

// Run measures the suite. Repeats are the outer loop, so that a slow minute of the machine hits all
// levels and both readers alike.
func (l *Lab) Run(ctx context.Context, s Suite) (*Report, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	rep := &Report{Schema: 1, Host: probe.ReadHost(""), Rounds: s.Rounds, Repeat: s.Repeat}
	for _, n := range s.Levels {
		rounds := s.Rounds
		if n >= heavy {
			rounds = 1
		}
		rep.Levels = append(rep.Levels, Level{Load: Timetable(n, rounds)})
	}
	if s.Full {
		rep.Flood, rep.Slow, rep.Paced = &Level{Load: Flood()}, &Level{Load: Slow(10000)}, &Level{Load: Paced(2000, 2*time.Second)}
	}
	for i := range s.Repeat {
		if err := l.repeat(ctx, &s, rep, i); err != nil {
			return nil, err
		}
	}
	if !s.Full {
		return rep, nil
	}
	s.Say("10,000 slow streams")
	if err := l.add(ctx, rep.Slow, 0, Spate); err != nil {
		return nil, err
	}
	if err := l.extras(ctx, &s, rep); err != nil {
		return nil, err
	}
	rep.Goals = rep.judge()
	return rep, nil
}

// repeat runs everything that is repeated once.
func (l *Lab) repeat(ctx context.Context, s *Suite, rep *Report, i int) error {
	readers := []Reader{Spate}
	if s.Full {
		readers = []Reader{Bare, Spate}
	}
	for k := range rep.Levels {
		lv := &rep.Levels[k]
		s.Say(fmt.Sprintf("%s%s", count(lv.Load.Streams, "stream"), s.which(i)))
		if err := l.add(ctx, lv, i, readers...); err != nil {
			return err
		}
	}
	if !s.Full {
		return nil
	}
	s.Say("streams as fast as the sockets take them" + s.which(i))
	if err := l.add(ctx, rep.Flood, i, readers...); err != nil {
		return err
	}
	s.Say("2,000 requests per second" + s.which(i))
	return l.add(ctx, rep.Paced, i, Spate)
}

func (s *Suite) which(i int) string {
	if s.Repeat < 2 {
		return ""
	}
	return fmt.Sprintf(", run %d of %d", i+1, s.Repeat)
}

// add runs a level once with each reader; every other time in the opposite order.
func (l *Lab) add(ctx context.Context, lv *Level, turn int, readers ...Reader) error {
	for k := range readers {
		by := readers[(k+turn)%len(readers)]
		row, err := l.Measure(ctx, lv.Load, by)
		if err != nil {
			return err
		}
		if row.Failed > 0 {
			return fmt.Errorf("%d of %d requests failed, the first with %s", row.Failed, row.Requests, row.Error)
		}
		if row.Unjoined > 0 {
			return fmt.Errorf("%d answers were not seen as they were written", row.Unjoined)
		}
		if by == Bare {
			lv.Bare = append(lv.Bare, row)
		} else {
			lv.Spate = append(lv.Spate, row)
		}
	}
	return nil
}

// extras are the figures outside the load path.
func (l *Lab) extras(ctx context.Context, s *Suite, rep *Report) error {
	s.Say("start-up")
	for _, args := range [][]string{{"version"}, {"bench", "--help"}} {
		st, err := l.startup(ctx, 20, args...)
		if err != nil {
			return err
		}
		rep.Startup = append(rep.Startup, st)
	}
	s.Say("prompts")
	var err error
	rep.Text, err = measureText(ctx, s.Tokenizer)
	return err
}

// startup runs the program n times to its end.
func (l *Lab) startup(ctx context.Context, n int, args ...string) (Startup, error) {
	took := make([]float64, 0, n)
	for range n {
		cmd := exec.CommandContext(ctx, l.Program, args...) //nolint:gosec // the executable is this very one
		if l.Name != "" {
			cmd.Args[0] = l.Name
		}
		cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
		begun := time.Now()
		if err := cmd.Run(); err != nil {
			return Startup{}, fmt.Errorf("start spate %s: %w", strings.Join(args, " "), err)
		}
		took = append(took, ms(int64(time.Since(begun))))
	}
	d := distOf(took)
	return Startup{Args: args, Median: d.P50, Max: d.Max}, nil
}

// each takes one figure of every run.
func each(rows []Row, figure func(*Row) float64) []float64 {
	out := make([]float64, len(rows))
	for i := range rows {
		out[i] = figure(&rows[i])
	}
	return out
}

// mid is the median of one figure over runs.
func mid(rows []Row, figure func(*Row) float64) float64 { return stats.Median(each(rows, figure)) }

// count writes a number with its noun, thousands apart.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return thousands(n) + " " + noun
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

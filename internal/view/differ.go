package view

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/result"
	"spate/internal/result/store"
	"spate/internal/settings/dialect"
	"spate/internal/view/curve"
)

// ExplainDiff is `spate explain-diff A B`.
type ExplainDiff struct {
	store string
	json  bool
	as    [2]string
}

// Bind adds the flags to a set.
func (o *ExplainDiff) Bind(f *pflag.FlagSet) {
	f.BoolVar(&o.json, "json", false, "print an array of figures")
	f.StringVar(&o.as[0], "a", "", "`tool` whose definitions A follows")
	f.StringVar(&o.as[1], "b", "", "`tool` whose definitions B follows")
	f.StringVar(&o.store, "store", "", "`store` in which ids are looked up")
}

// Run prints what makes two results differ.
func (o *ExplainDiff) Run(ctx context.Context, p console.Process, refs []string) error {
	lines, names, err := o.lines(ctx, p, refs)
	if err != nil {
		return err
	}
	if o.json {
		return p.WideJSON(lines)
	}
	for i := range lines {
		p.Print("%s\n", lines[i].Sentence(names[0], names[1]))
	}
	return nil
}

func (o *ExplainDiff) lines(ctx context.Context, p console.Process, refs []string) (lines []dialect.Line, names [2]string, err error) {
	finder, err := store.NewFinder(p, o.store)
	if err != nil {
		return nil, names, err
	}
	defer func() { err = errors.Join(err, finder.Close()) }()
	var sides [2]dialect.Side
	for i, ref := range refs {
		set, err := finder.Resolve(ctx, []string{ref})
		if err != nil {
			return nil, names, err
		}
		if len(set) != 1 {
			return nil, names, fmt.Errorf("%s holds %d results: name one, as file:line", ref, len(set))
		}
		if sides[i], err = newSide(&set[0], o.as[i]); err != nil {
			return nil, names, err
		}
		names[i] = string(sides[i].Dialect)
	}
	if names[0] == names[1] {
		short := curve.Names([]result.Entry{*sides[0].Entry, *sides[1].Entry})
		names = [2]string{short[0], short[1]}
	}
	lines = dialect.Compare(sides[0], sides[1])
	if len(lines) == 0 {
		return nil, names, errors.New("the two results have no figure in common")
	}
	return lines, names, nil
}

// newSide is a result with its records, where it has some.
func newSide(e *result.Entry, as string) (dialect.Side, error) {
	s := dialect.Side{Name: e.Name, Dialect: dialect.Of(e), Entry: e}
	if as != "" {
		name, err := dialect.Parse(as)
		if err != nil {
			return s, err
		}
		s.Dialect = name
	}
	recs, err := e.Records()
	if err != nil || recs == nil {
		return s, err
	}
	s.Run = &dialect.Run{Run: e.Run, Records: recs, Now: time.Now()}
	return s, nil
}

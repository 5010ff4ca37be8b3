package observe

import (
	"slices"
	"strings"
	"time"
)

// Derive turns samples into series: gauges as they are, counters as their growth per second, pairs of counters as
// the mean of what happened between two samples. Where a counter fell, the server was restarted and there is no
// point. Series are sorted by source, then name.
func Derive(samples []Sample) []Series {
	b := &builder{made: map[key]*Series{}, last: map[key]mark{}}
	for _, s := range inOrder(samples) {
		b.add(s)
	}
	out := make([]Series, 0, len(b.made))
	for _, s := range b.made {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Series) int {
		if c := strings.Compare(a.Source, b.Source); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

// inOrder sorts by time: sources are sampled side by side, and their lines may change places by a little.
func inOrder(samples []Sample) []Sample {
	out := slices.Clone(samples)
	slices.SortStableFunc(out, func(a, b Sample) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	return out
}

type key struct{ source, name string }

// mark is where a counter stood.
type mark struct {
	at    time.Duration
	value float64
}

type builder struct {
	made map[key]*Series
	last map[key]mark
}

func (b *builder) add(s Sample) {
	for name, v := range s.Values {
		q := lookup(name)
		switch {
		case !q.counter:
			b.point(s, name, q.unit, v)
		case q.rate != "":
			if before, ok := b.last[key{s.Source, name}]; ok && v >= before.value && s.At > before.at {
				b.point(s, q.rate, q.rateUnit, (v-before.value)/(s.At-before.at).Seconds())
			}
		}
	}
	for _, q := range quotients {
		if v, ok := b.quotient(s, q.over, q.under); ok {
			b.point(s, q.name, q.unit, v*q.scale)
		}
	}
	for name, v := range s.Values {
		if lookup(name).counter {
			b.last[key{s.Source, name}] = mark{s.At, v}
		}
	}
}

// quotient is the growth of one counter over that of another since the last sample, if there was any.
func (b *builder) quotient(s Sample, over, under string) (float64, bool) {
	num, okNum := s.Values[over]
	den, okDen := s.Values[under]
	num0, hadNum := b.last[key{s.Source, over}]
	den0, hadDen := b.last[key{s.Source, under}]
	if !okNum || !okDen || !hadNum || !hadDen || den <= den0.value || num < num0.value {
		return 0, false
	}
	return (num - num0.value) / (den - den0.value), true
}

func (b *builder) point(s Sample, name, unit string, v float64) {
	k := key{s.Source, name}
	if b.made[k] == nil {
		b.made[k] = &Series{Name: name, Unit: unit, Source: s.Source}
	}
	b.made[k].Points = append(b.made[k].Points, Point{At: s.At, Value: v})
}

// lookup finds a quantity by name. Sums and counts of the server's clocks are counters.
func lookup(name string) quantity {
	for _, q := range quantities {
		if q.name == name {
			return q
		}
	}
	if strings.HasSuffix(name, "_sum") || strings.HasSuffix(name, "_count") {
		return quantity{name: name, counter: true}
	}
	return quantity{name: name}
}

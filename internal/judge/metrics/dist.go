package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"spate/internal/judge/stats"
)

// confidence of every interval and sample floor.
const confidence = 0.95

// Dist describes a sample. The unit is in the JSON name of the field that holds it. An empty sample
// is all zeros, as vLLM prints it; N tells the difference.
type Dist struct {
	N           int         `json:"n"`
	Mean        float64     `json:"mean"`
	Median      float64     `json:"median"`
	Std         float64     `json:"std"` // population, ddof 0
	Min         float64     `json:"min"`
	Max         float64     `json:"max"`
	Percentiles Percentiles `json:"percentiles"`
	CI95        *CI         `json:"ci95,omitempty"` // headline metrics only
}

// CI holds 95 % intervals by moving-block bootstrap.
type CI struct {
	Mean       Range   `json:"mean"`
	Median     Range   `json:"median"`
	P90        Range   `json:"p90"`
	P99        Range   `json:"p99"`
	EffectiveN float64 `json:"effective_n"` // independent requests that would say as much
	Block      int     `json:"block"`       // consecutive requests resampled together
}

// Range is the low and the high end of an interval; a JSON array of two.
type Range [2]float64

// Quantile is one percentile and how far it can be trusted.
type Quantile struct {
	P        float64
	Value    float64
	Infinite bool // the rank falls on a request that never finished; Value is 0
	Floor    int  // samples needed before order statistics bound it with 95 % confidence
	Enough   bool // the sample is at least that large
	// Low and High are those bounds, for independent samples; nil where no sample bounds that side.
	Low, High *float64
}

// Percentiles are in the order asked for; in JSON an object keyed p50, p99, p99.9.
type Percentiles []Quantile

// At finds a percentile by its number.
func (d Dist) At(p float64) (Quantile, bool) {
	for _, q := range d.Percentiles {
		if q.P == p {
			return q, true
		}
	}
	return Quantile{}, false
}

// P is the value of a percentile; 0 if it was not computed.
func (d Dist) P(p float64) float64 {
	q, _ := d.At(p)
	return q.Value
}

// Name is the percentile's key, as vLLM writes it: p99, p99.9.
func (q Quantile) Name() string { return stats.PercentileName(q.P) }

// quantileJSON is the JSON form of a Quantile. JSON has no infinity: value is null then.
type quantileJSON struct {
	Value    *float64 `json:"value"`
	Infinite bool     `json:"infinite,omitempty"`
	Floor    int      `json:"floor"`
	Enough   bool     `json:"enough"`
	Low      *float64 `json:"low"`
	High     *float64 `json:"high"`
}

// MarshalJSON writes an object in the list's own order.
func (ps Percentiles) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, q := range ps {
		if i > 0 {
			b.WriteByte(',')
		}
		v := quantileJSON{Infinite: q.Infinite, Floor: q.Floor, Enough: q.Enough, Low: q.Low, High: q.High}
		if !q.Infinite {
			v.Value = &q.Value
		}
		body, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("encode percentile %s: %w", q.Name(), err)
		}
		b.WriteString(strconv.Quote(q.Name()) + ":")
		b.Write(body)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads the object back, keeping its order.
func (ps *Percentiles) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	open, err := dec.Token()
	if err != nil {
		return fmt.Errorf("decode percentiles: %w", err)
	}
	*ps = nil
	if open == nil {
		return nil
	}
	if open != json.Delim('{') {
		return fmt.Errorf("decode percentiles: want an object, got %v", open)
	}
	for dec.More() {
		q, err := decodeQuantile(dec)
		if err != nil {
			return err
		}
		*ps = append(*ps, q)
	}
	return nil
}

func decodeQuantile(dec *json.Decoder) (Quantile, error) {
	key, err := dec.Token()
	if err != nil {
		return Quantile{}, fmt.Errorf("decode percentiles: %w", err)
	}
	name, _ := key.(string)
	num, isP := strings.CutPrefix(name, "p")
	p, err := strconv.ParseFloat(num, 64)
	if err != nil || !isP || math.IsNaN(p) || p < 0 || p > 100 {
		return Quantile{}, fmt.Errorf("decode percentiles: %q is not a percentile name such as p99", name)
	}
	var v quantileJSON
	if err := dec.Decode(&v); err != nil {
		return Quantile{}, fmt.Errorf("decode percentile %s: %w", name, err)
	}
	q := Quantile{P: p, Infinite: v.Infinite, Floor: v.Floor, Enough: v.Enough, Low: v.Low, High: v.High}
	if v.Value != nil {
		q.Value = *v.Value
	}
	return q, nil
}

// milli turns seconds into the milliseconds reported; vLLM multiplies after averaging, so does this.
const milli = 1000

// builder makes Dists with the same percentiles.
type builder struct{ percentiles []float64 }

// dist describes xs, which it reorders; results are multiplied by scale.
func (b *builder) dist(xs []float64, scale float64) Dist {
	mean, std := stats.Mean(xs), stats.Std(xs)
	b.arrange(xs)
	return b.describe(stats.Sorted(xs), mean, std, scale)
}

// describe reads a Dist off an ordered sample whose moments are known.
func (b *builder) describe(o stats.Ordered, mean, std, scale float64) Dist {
	n := o.Len()
	d := Dist{N: n, Mean: mean * scale, Std: std * scale, Percentiles: make(Percentiles, 0, len(b.percentiles))}
	d.Median = stats.MedianOf(o) * scale
	if n > 0 {
		d.Min, d.Max = o.At(0)*scale, o.At(n-1)*scale
	}
	for _, p := range b.percentiles {
		d.Percentiles = append(d.Percentiles, quantile(o, p, scale))
	}
	return d
}

// sample describes a sample that need not fit in memory.
func (b *builder) sample(s stats.Sample, scale float64) Dist {
	mean, std := s.Moments()
	return b.describe(s.Arranged(stats.Ranks(s.Count, b.percentiles, confidence)), mean, std, scale)
}

// arrange makes xs readable at the ranks that the percentiles need.
func (b *builder) arrange(xs []float64) {
	stats.Arrange(xs, stats.Ranks(len(xs), b.percentiles, confidence))
}

// quantile reads one percentile off sorted (or arranged) data that may end in infinities.
func quantile(sorted stats.Ordered, p, scale float64) Quantile {
	q := Quantile{P: p, Floor: stats.Floor(p, confidence)}
	q.Enough = sorted.Len() >= q.Floor
	if v := stats.PercentileOf(sorted, p) * scale; math.IsInf(v, 1) {
		q.Infinite = true
	} else {
		q.Value = v
	}
	in := stats.QuantileInterval(sorted, p, confidence)
	if !math.IsInf(in.Low, 0) {
		low := in.Low * scale
		q.Low = &low
	}
	if !math.IsInf(in.High, 0) {
		high := in.High * scale
		q.High = &high
	}
	return q
}

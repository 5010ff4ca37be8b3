// Package lengths says how long prompts and answers are: by a law (dist.go), or by vLLM's range ratio, drawn as its
// benchmark draws them (ratio.go). Package workload makes requests of such lengths.
package lengths

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"

	"spate/internal/nearest"
	"spate/internal/rng"
)

// Dist is how lengths are spread. The zero Dist is none.
type Dist struct {
	Law  string  // constant, uniform, normal, lognormal, exponential or empirical
	A, B float64 // the value; both ends; mean and standard deviation
	File string  // of an empirical one
	list []int32 // what the file holds
}

// laws are the distributions and how many numbers they take.
var laws = []struct {
	name string
	args int
	hint string
}{
	{"constant", 1, "constant(512)"},
	{"uniform", 2, "uniform(100,500), both ends included"},
	{"normal", 2, "normal(480,240): mean and standard deviation"},
	{"lognormal", 2, "lognormal(480,240): mean and standard deviation of the lengths"},
	{"exponential", 1, "exponential(480): mean"},
	{"empirical", 0, "empirical(lengths.txt): one number a line"},
}

// MaxLength is the longest length a distribution may give; a normal law has no end of its own.
const MaxLength = 1 << 24

// ParseDist reads a distribution: 512, uniform(100,500), normal(480,240), lognormal(480,240), exponential(480) or
// empirical(FILE).
func ParseDist(s string) (Dist, error) {
	s = strings.TrimSpace(s)
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		return Dist{Law: "constant", A: v}, checkLength(v, false)
	}
	name, rest, ok := strings.Cut(s, "(")
	rest, closed := strings.CutSuffix(rest, ")")
	if !ok || !closed {
		return Dist{}, fmt.Errorf("%.60q is neither a number nor a distribution such as normal(480,240)", s)
	}
	name = strings.ToLower(strings.TrimSpace(name))
	var names []string
	for _, l := range laws {
		if names = append(names, l.name); l.name == name {
			return parseLaw(l.name, l.args, l.hint, rest)
		}
	}
	return Dist{}, fmt.Errorf("distribution %q is unknown%s (there are %s)", name, nearest.Hint(name, names), strings.Join(names, ", "))
}

func parseLaw(name string, args int, hint, rest string) (Dist, error) {
	d := Dist{Law: name}
	if args == 0 {
		if d.File = strings.Trim(strings.TrimSpace(rest), `"'`); d.File == "" {
			return Dist{}, fmt.Errorf("want %s", hint)
		}
		return d, nil
	}
	parts := strings.Split(rest, ",")
	if len(parts) != args {
		return Dist{}, fmt.Errorf("%s takes %d numbers, as in %s", name, args, hint)
	}
	for i, p := range []*float64{&d.A, &d.B}[:args] {
		v, err := strconv.ParseFloat(strings.TrimSpace(parts[i]), 64)
		if err != nil {
			return Dist{}, fmt.Errorf("%.40q is not a number; want %s", parts[i], hint)
		}
		if err := checkLength(v, i == 1); err != nil {
			return Dist{}, err
		}
		*p = v
	}
	if name == "uniform" && d.A > d.B {
		return Dist{}, fmt.Errorf("uniform(%v,%v) ends before it begins", d.A, d.B)
	}
	return d, nil
}

func checkLength(v float64, zero bool) error {
	if v > 0 && v <= MaxLength || zero && v == 0 {
		return nil
	}
	return fmt.Errorf("%v is not a length above 0 and at most %d", v, MaxLength)
}

// String writes what ParseDist reads.
func (d Dist) String() string {
	num := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	switch d.Law {
	case "":
		return ""
	case "constant":
		return num(d.A)
	case "empirical":
		return "empirical(" + d.File + ")"
	case "exponential":
		return d.Law + "(" + num(d.A) + ")"
	}
	return d.Law + "(" + num(d.A) + "," + num(d.B) + ")"
}

// Load reads the file of an empirical distribution.
func Load[F io.ReadCloser](d *Dist, open func(string) (F, error)) error {
	if d.Law != "empirical" {
		return nil
	}
	if open == nil {
		return errors.New("no way to open files was given")
	}
	file, err := open(d.File)
	if err != nil {
		return fmt.Errorf("open lengths: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(file, 1<<28))
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("read %s: %w", d.File, err)
	}
	words := strings.FieldsFunc(string(raw), func(r rune) bool { return strings.ContainsRune(" \t\r\n,;[]", r) })
	for _, w := range words {
		v, err := strconv.ParseFloat(w, 64)
		if err == nil {
			err = checkLength(v, false)
		}
		if err != nil {
			return fmt.Errorf("%s: %.40q is not a length", d.File, w)
		}
		d.list = append(d.list, int32(max(1, v)))
	}
	if len(d.list) == 0 {
		return fmt.Errorf("%s holds no lengths", d.File)
	}
	return nil
}

// Draw gives one value; only the functions of package rng and exact operations are used, so that it is the
// same on every machine.
func (d *Dist) Draw(r *rand.Rand) float64 {
	switch d.Law {
	case "uniform":
		return math.Floor(d.A + r.Float64()*(math.Floor(d.B)-d.A+1))
	case "normal":
		return d.A + float64(d.B*gauss(r))
	case "lognormal":
		if d.B == 0 {
			return d.A
		}
		variance := rng.Log(1 + float64(d.B*d.B)/float64(d.A*d.A))
		return rng.Exp(rng.Log(d.A) - variance/2 + float64(math.Sqrt(variance)*gauss(r)))
	case "exponential":
		return float64(-d.A * rng.Log(1-r.Float64()))
	case "empirical":
		return float64(d.list[r.IntN(len(d.list))])
	}
	return d.A
}

// Length draws a whole number of tokens, at least 1.
func (d *Dist) Length(r *rand.Rand) int32 {
	return int32(min(max(1, math.RoundToEven(d.Draw(r))), MaxLength))
}

// gauss is a standard normal draw by the polar method.
func gauss(r *rand.Rand) float64 {
	for {
		x, y := 2*r.Float64()-1, 2*r.Float64()-1
		if q := float64(x*x) + float64(y*y); q > 0 && q < 1 {
			return float64(x * math.Sqrt(float64(-2*rng.Log(q))/q))
		}
	}
}

// Bucket is a pair of lengths and how often it is drawn.
type Bucket struct {
	In, Out       float64
	InStd, OutStd float64 // standard deviations around them
	Weight        float64
}

// ParseBuckets reads joint lengths: 128,64:25;512,128:75 is 128 in and 64 out for a quarter of requests, 512 and
// 128 for the rest. 128|20,64|10:25 spreads them around with standard deviations of 20 and 10.
func ParseBuckets(s string) ([]Bucket, error) {
	var out []Bucket
	for part := range strings.SplitSeq(s, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		pair, weight, weighted := strings.Cut(part, ":")
		in, rest, ok := strings.Cut(pair, ",")
		if !ok {
			return nil, fmt.Errorf("%.40q is not INPUT,OUTPUT:WEIGHT, such as 128,64:25", part)
		}
		b := Bucket{Weight: 1}
		err := errors.Join(b.side(in, &b.In, &b.InStd), b.side(rest, &b.Out, &b.OutStd))
		if weighted && err == nil {
			b.Weight, err = strconv.ParseFloat(strings.TrimSpace(weight), 64)
			if err != nil || !(b.Weight > 0) || math.IsInf(b.Weight, 1) {
				err = fmt.Errorf("%.40q is not a weight above 0", weight)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("lengths %.40q: %w", part, err)
		}
		out = append(out, b)
	}
	if len(out) == 0 {
		return nil, errors.New("no lengths given, want 128,64:25;512,128:75")
	}
	return out, nil
}

func (*Bucket) side(text string, mean, std *float64) error {
	m, s, spread := strings.Cut(strings.TrimSpace(text), "|")
	for i, word := range []string{m, s} {
		if i == 1 && !spread {
			break
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		if err != nil {
			return fmt.Errorf("%.40q is not a number", word)
		}
		if err := checkLength(v, i == 1); err != nil {
			return err
		}
		*[]*float64{mean, std}[i] = v
	}
	return nil
}

// Joint draws one of several pairs of laws, as often as their weights say.
type Joint struct {
	list []Bucket
	cum  []float64
	sum  float64
}

// NewJoint makes one of buckets.
func NewJoint(list []Bucket) *Joint {
	j := &Joint{list: list, cum: make([]float64, len(list))}
	for i, b := range list {
		j.sum += b.Weight
		j.cum[i] = j.sum
	}
	return j
}

// Draw chooses a pair, and draws its two lengths.
func (j *Joint) Draw(which, in, out *rand.Rand) (a, z int32) {
	b := j.list[min(sort.SearchFloat64s(j.cum, math.Nextafter(which.Float64()*j.sum, math.Inf(1))), len(j.cum)-1)]
	first, second := Dist{Law: "normal", A: b.In, B: b.InStd}, Dist{Law: "normal", A: b.Out, B: b.OutStd}
	return first.Length(in), second.Length(out)
}

// Pairs draws pairs of lengths by two laws, as ParseDist reads them: the same pair for the same number.
func Pairs[F io.ReadCloser](in, out string, seed uint64, open func(string) (F, error)) (func(i int) (in, out int), error) {
	var laws [2]Dist
	for k, text := range []string{in, out} {
		var err error
		if laws[k], err = ParseDist(text); err != nil {
			return nil, err
		}
		if err := Load(&laws[k], open); err != nil {
			return nil, err
		}
	}
	return func(i int) (int, int) {
		draws := rng.New(seed, "lengths", uint64(i))
		return int(laws[0].Length(draws)), int(laws[1].Length(draws))
	}, nil
}

package harvest

import (
	"regexp"
	"strconv"
	"strings"
)

// statNames are the names other tools give to statistics, under vLLM's.
var statNames = map[string]string{
	"avg": "mean", "average": "mean", "mean": "mean", "p50": "median", "median": "median", "std": "std", "std_dev": "std",
	"p001": "p0.1", "p01": "p1", "p05": "p5", "p999": "p99.9", // GuideLLM's
	"stddev": "std", "min": "min", "minimum": "min", "max": "max", "maximum": "max",
}

var quantile = regexp.MustCompile(`^p\d{1,2}(?:\.\d+)?$`)

// statName is vLLM's name of a statistic.
func statName(name string) (string, bool) {
	name = strings.ToLower(name)
	if s, ok := statNames[name]; ok {
		return s, true
	}
	return name, quantile.MatchString(name)
}

// number takes a JSON value as a figure; words stand for what JSON has no number for.
func number(name string, n *node, from string) (Figure, bool) {
	switch {
	case n == nil:
	case n.kind == 'n':
		return Figure{Name: name, Text: n.text, From: from}, true
	case n.kind == 'w' && strings.HasSuffix(n.text, "Infinity"), n.kind == 'w' && n.text == "NaN":
		return Figure{Name: name, Text: n.text, Word: true, From: from}, true
	}
	return Figure{}, false
}

// scaled is a figure in another unit. from names where it stood; the factor is added to it.
func scaled(f Figure, factor float64, how string) Figure {
	if factor == 1 || f.Word {
		return f
	}
	v, ok := f.Float()
	if !ok {
		return f
	}
	f.Text = formatFloat(v * factor)
	f.From += ", " + how
	return f
}

// formatFloat prints a float so that it reads back the same.
func formatFloat(v float64) string {
	if v != 0 && (v < 1e-5 && v > -1e-5 || v >= 1e17 || v <= -1e17) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// copyNumber takes the number under path as the figure called name.
func (fs *Figures) copyNumber(name string, n *node, path ...string) {
	from := strings.Join(path, ".")
	if from == name {
		from = ""
	}
	if f, ok := number(name, n.get(path...), from); ok {
		fs.set(f)
	}
}

// milliseconds takes a latency in seconds.
func (fs *Figures) milliseconds(name string, n *node, path ...string) {
	fs.converted(name, 1000, "seconds × 1000", n, path...)
}

// converted takes a number in another unit.
func (fs *Figures) converted(name string, factor float64, how string, n *node, path ...string) {
	if f, ok := number(name, n.get(path...), strings.Join(path, ".")); ok {
		fs.set(scaled(f, factor, how))
	}
}

// distribution takes the statistics of an object such as {avg, p50, p99} as figures of a latency.
func (fs *Figures) distribution(latency string, factor float64, how string, n *node, path ...string) {
	dist := n.get(path...)
	if dist == nil || dist.kind != '{' {
		return
	}
	for i, key := range dist.keys {
		stat, ok := statName(key)
		if !ok {
			continue
		}
		from := strings.Join(append(append([]string(nil), path...), key), ".")
		if f, ok := number(stat+"_"+latency+"_ms", dist.kids[i], from); ok {
			fs.set(scaled(f, factor, how))
		}
	}
}

// flatten takes all numbers below a node, named by their paths.
func (fs *Figures) flatten(prefix string, n *node) {
	if n == nil {
		return
	}
	if f, ok := number(prefix, n, ""); ok {
		fs.set(f)
		return
	}
	if n.kind != '{' || len(*fs) > 500 {
		return
	}
	for i, key := range n.keys {
		name := key
		if prefix != "" {
			name = prefix + "." + key
		}
		fs.flatten(name, n.kids[i])
	}
}

// fact adds what a file says of itself.
func (c *Context) fact(name string, n *node, path ...string) {
	v := n.get(path...)
	if v.isNull() {
		return
	}
	if name == "model" && v.kind == '[' && len(v.kids) == 1 {
		v = v.kids[0]
	}
	c.propose(Fact{Name: name, Value: v.value(), From: "file: " + strings.Join(path, "."), Line: v.line})
}

package harvest

import (
	"regexp"
	"strings"

	"spate/internal/result"
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
func number(name string, n *node, from string) (result.Figure, bool) {
	switch {
	case n == nil:
	case n.kind == 'n':
		return result.NewPrinted(name, n.text, from), true
	case n.kind == 'w' && strings.HasSuffix(n.text, "Infinity"), n.kind == 'w' && n.text == "NaN":
		return result.NewWord(name, n.text, from), true
	}
	return result.Figure{}, false
}

// copyNumber takes the number under path as the figure called name.
func copyNumber(fs *result.Figures, name string, n *node, path ...string) {
	from := strings.Join(path, ".")
	if from == name {
		from = ""
	}
	if f, ok := number(name, n.get(path...), from); ok {
		fs.Set(f)
	}
}

// milliseconds takes a latency in seconds.
func milliseconds(fs *result.Figures, name string, n *node, path ...string) {
	converted(fs, name, 1000, "seconds × 1000", n, path...)
}

// converted takes a number in another unit.
func converted(fs *result.Figures, name string, factor float64, how string, n *node, path ...string) {
	if f, ok := number(name, n.get(path...), strings.Join(path, ".")); ok {
		fs.Set(f.Scaled(factor, how))
	}
}

// distribution takes the statistics of an object such as {avg, p50, p99} as figures of a latency.
func distribution(fs *result.Figures, latency string, factor float64, how string, n *node, path ...string) {
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
			fs.Set(f.Scaled(factor, how))
		}
	}
}

// flatten takes all numbers below a node, named by their paths.
func flatten(fs *result.Figures, prefix string, n *node) {
	if n == nil {
		return
	}
	if f, ok := number(prefix, n, ""); ok {
		fs.Set(f)
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
		flatten(fs, name, n.kids[i])
	}
}

// fact adds what a file says of itself.
func fact(c *result.Context, name string, n *node, path ...string) {
	v := n.get(path...)
	if v.isNull() {
		return
	}
	if name == "model" && v.kind == '[' && len(v.kids) == 1 {
		v = v.kids[0]
	}
	c.Propose(result.Fact{Name: name, Value: v.value(), From: "file: " + strings.Join(path, "."), Line: v.line})
}

package chat

import (
	"runtime"
	"testing"
)

// TestHostileTemplates renders templates that ask for time or memory without a bound: each ends in an error, and
// what was allocated until then is bounded.
func TestHostileTemplates(t *testing.T) {
	if testing.Short() {
		t.Skip("short: each template runs until it meets its limit")
	}
	for name, src := range map[string]string{
		"strings kept":    `{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = ns.x + ["a" * 1000000] %}{% endfor %}`,
		"strings joined":  `{% set ns = namespace(s="a") %}{% for i in range(100000) %}{% set ns.s = ns.s + ns.s %}{% endfor %}`,
		"loops in loops":  `{% for i in range(100000) %}{% for j in range(100000) %}{% for k in range(100000) %}{% endfor %}{% endfor %}{% endfor %}`,
		"lists":           `{% set ns = namespace(x=[1]) %}{% for i in range(100000) %}{% set ns.x = ns.x + ns.x %}{% endfor %}`,
		"output":          `{% for i in range(100000) %}{{ "a" * 100000 }}{% endfor %}`,
		"replaced":        `{% set ns = namespace(s="aaaa") %}{% for i in range(100000) %}{% set ns.s = ns.s | replace("a", "aa") %}{% endfor %}`,
		"copies of a cut": `{% set s = "a" * 10000000 %}{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = ns.x + [s[1:] + "b"] %}{% endfor %}`,
		"case":            `{% set s = "a" * 10000000 %}{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = ns.x + [s | upper] %}{% endfor %}`,
		"JSON":            `{% set s = ["a" * 1000000] * 10 %}{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = ns.x + [s | tojson] %}{% endfor %}`,
		"joined lists":    `{% set s = ["a" * 1000000] * 10 %}{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = ns.x + [s | join(",")] %}{% endfor %}`,
		"split":           `{% set s = "a " * 1000000 %}{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = ns.x + [s.split(" ")] %}{% endfor %}`,
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := Parse(src)
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = parsed.Render(Input{Messages: []Message{{Role: "user", Content: "hi"}}})
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Error("it was rendered")
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 2<<30 {
				t.Errorf("%d MiB were allocated: %v", grown>>20, err)
			} else {
				t.Logf("%d MiB: %v", grown>>20, err)
			}
		})
	}
}

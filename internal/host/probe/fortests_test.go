package probe

import (
	"strings"
)

// KVUsage is the used share of the engine's cache memory, 0 to 1.
func (c Counters) KVUsage() (float64, bool) { return c.value(kvNames) }

// PrefixCaching tells whether the engine says that it reuses prefixes; known is false where it does not say.
func (c Counters) PrefixCaching() (on, known bool) {
	switch strings.ToLower(c.Config["enable_prefix_caching"]) {
	case "true", "1":
		return true, true
	case "false", "0":
		return false, true
	}
	return false, false
}

// Delta computes what happened between two looks at one server.
func Delta(before, after Counters) Change { return DeltaAll([]Counters{before}, []Counters{after}) }

package flags

import "spate/internal/settings/config"

// Defaults are the settings of a run without any flag.
func Defaults() config.Bench {
	b, _ := fresh()
	return *b
}

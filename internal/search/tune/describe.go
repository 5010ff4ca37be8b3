package tune

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"spate/internal/search/suggest"
)

// Describe says what would be searched.
func (f *File) Describe(w io.Writer) error {
	var b strings.Builder
	def := f.Defaults()
	fmt.Fprintf(&b, "default: %s\n", f.Line(def))
	fmt.Fprintf(&b, "%d flags may be set, %d trials, strategy %s\n", len(f.Knobs), f.Trials, f.Strategy)
	for i := range f.Knobs {
		k := &f.Knobs[i]
		values := strings.Join(k.Values, " ")
		if k.Kind == suggest.Int || k.Kind == suggest.Float {
			values = fmt.Sprintf("%g to %g", k.Low, k.High)
		}
		fmt.Fprintf(&b, "  %-32s %-7s %-24s default %s\n", k.Name, k.Kind, values, cmp.Or(def[k.Name], "unknown"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

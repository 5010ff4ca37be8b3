package escape

import (
	"fmt"
	"io"
)

// Print prints for people, without control characters that a terminal would obey. Errors are ignored: there is no other
// place to report them.
func Print(w io.Writer, format string, args ...any) {
	_, _ = io.WriteString(w, Terminal(fmt.Sprintf(format, args...)))
}

package escape

import (
	"fmt"
	"io"
)

// Print prints for people, without what a terminal would obey. When it is gone there is nobody left to tell.
func Print(w io.Writer, format string, args ...any) {
	_, _ = io.WriteString(w, Terminal(fmt.Sprintf(format, args...)))
}

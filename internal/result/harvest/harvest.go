// Package harvest reads benchmark results out of whatever people kept: logs, Markdown pages, consoles,
// result files of other tools. It is a line scanner (scan.go) with one small recogniser per format, each
// a pure function of the text, and a collector of the context around a result (context.go). Find goes through
// files and folders (find.go): spate's run folders, what spate export wrote (export.go writes and reads that), and
// any text. What it finds are result.Entry values. Read scan.go first, then block.go.
package harvest

import "spate/internal/host/enginelog"

// num is a number as JSON takes it, so that what was printed can be passed on.
const num = enginelog.Number

// Package escape makes text that came from a server, a file or the network harmless in what it is written to: a
// terminal, an HTML or Markdown page, a CSV table. One function per kind of output; the writers of package cli, table,
// runs and the like call it at the last moment, so that figures and names stay as they are everywhere else.
// A script's text is JSON; Policy says what a page may do.
package escape

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// hostile reports whether a terminal or a reader could take a character for something else than itself: control
// characters, and those that turn the direction of writing around.
func hostile(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ', r >= 0x7f && r <= 0x9f:
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0xfeff:
		return true
	}
	return false
}

// Terminal writes control characters as \u001b, which JSON reads as the same character again. Line ends and tabs stay.
func Terminal(s string) string {
	if strings.IndexFunc(s, hostile) < 0 && utf8.ValidString(s) {
		return s
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	for _, r := range s { // what is no UTF-8 comes as U+FFFD
		if hostile(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Line is Terminal for one line: a cell of a table, a name in a sentence.
func Line(s string) string { return Terminal(strings.Join(strings.Fields(s), " ")) }

// XML is text that is valid in XML and SVG once its markup is escaped.
func XML(s string) string { return Line(s) }

// Raw is a text that HTML fills in as it is: styles and scripts of our own, JSON without <, > and &.
type Raw string

var htmlText = strings.NewReplacer("\x00", "\ufffd", "&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

// HTML fills values into markup of our own as Sprintf does. No value can become markup, be it in an element's text or
// in an attribute's value within quotes; into scripts, styles and addresses only Raw may go.
func HTML(markup string, values ...any) string {
	safe := make([]any, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case Raw:
			safe[i] = string(v)
		case int, float64:
			safe[i] = v
		default:
			safe[i] = htmlText.Replace(fmt.Sprint(v))
		}
	}
	return fmt.Sprintf(markup, safe...)
}

var markup = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "`", "\\`", "*", `\*`, "[", `\[`, "]", `\]`,
)

// Markdown is one line of text without markup: no tables, no HTML, no links and no pictures.
func Markdown(s string) string { return markup.Replace(Line(s)) }

var tags = strings.NewReplacer("<", "&lt;", "![", `!\[`)

// Sentence is a line of a Markdown page that spate wrote and that holds foreign names: it may have markup of its
// own, but no HTML and no pictures.
func Sentence(s string) string { return tags.Replace(Line(s)) }

// Code is text between backquotes.
func Code(s string) string { return "`" + strings.ReplaceAll(Line(s), "`", "'") + "`" }

var formula = regexp.MustCompile(`^'*[=+@\t\r-]`)

// Cell is a cell of CSV that no spreadsheet takes for a formula; numbers stay numbers. Plain undoes it.
func Cell(s string) string {
	if !formula.MatchString(s) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

var quoted = regexp.MustCompile(`^'+[=+@\t\r-]`)

// Plain is a cell as it was before Cell.
func Plain(s string) string {
	if quoted.MatchString(s) {
		return s[1:]
	}
	return s
}

// CSV writes tables for spreadsheets.
type CSV struct{ w *csv.Writer }

// NewCSV makes a writer of CSV.
func NewCSV(w io.Writer) *CSV { return &CSV{csv.NewWriter(w)} }

// Write writes a row.
func (c *CSV) Write(row []string) error {
	out := make([]string, len(row))
	for i, s := range row {
		out[i] = Cell(s)
	}
	return c.w.Write(out)
}

// Flush writes what is left, and says what went wrong.
func (c *CSV) Flush() error {
	c.w.Flush()
	return c.w.Error()
}

// Writer passes text on as Terminal makes it.
type Writer struct {
	w    io.Writer
	rest []byte // of a character whose end is still to come
}

// NewWriter makes a writer for a terminal.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Raw is the output itself, for bytes that are no text.
func (t *Writer) Raw() io.Writer { return t.w }

// Write escapes and passes on. A character that is cut in two waits for its other half.
func (t *Writer) Write(p []byte) (int, error) {
	data := append(t.rest, p...)
	cut := len(data)
	for i := 1; i < utf8.UTFMax && i <= len(data); i++ {
		if utf8.RuneStart(data[len(data)-i]) {
			if !utf8.FullRune(data[len(data)-i:]) {
				cut = len(data) - i
			}
			break
		}
	}
	t.rest = append([]byte(nil), data[cut:]...)
	if _, err := io.WriteString(t.w, Terminal(string(data[:cut]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Policy is what a page may do whose one script and one style sheet are these: run them, and nothing else. Whatever
// a foreign name smuggles in is refused by the browser.
func Policy(script, style string) string {
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
	}
	return fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; base-uri 'none'; form-action 'none'", hash(script), hash(style))
}

// Clip cuts s, which is ASCII but for what a server may have put into a note, to n columns.
func Clip(s string, n int) string {
	s = ASCII(s)
	if len(s) <= n {
		return s
	}
	if n <= 3 {
		return s[:n]
	}
	return s[:n-2] + ".."
}

// ASCII replaces what a terminal might take for a command or draw wider than one column.
func ASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

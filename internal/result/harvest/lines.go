package harvest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// maxPiece is the longest stretch of a line handled at once. Longer lines, such as a result file with
// every request in it, come in pieces.
const maxPiece = 1 << 20

// lineReader cuts a stream into lines, and lines into pieces of bounded length.
type lineReader struct {
	r    *bufio.Reader
	line int
	cont bool // the next piece continues the line
	buf  []byte
}

// newLineReader looks through gzip and UTF-16, in which shells of some systems write what they redirect.
func newLineReader(r io.Reader) (*lineReader, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	if head, err := br.Peek(2); err == nil && head[0] == 0x1f && head[1] == 0x8b {
		zip, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("open gzip stream: %w", err)
		}
		br = bufio.NewReaderSize(zip, 64<<10)
	}
	head, err := br.Peek(2)
	utf16 := err == nil && (bytes.Equal(head, []byte{0xff, 0xfe}) || bytes.Equal(head, []byte{0xfe, 0xff}))
	if utf16 {
		decode := unicode.BOMOverride(transform.Nop)
		br = bufio.NewReaderSize(transform.NewReader(br, decode), 64<<10)
	}
	return &lineReader{r: br}, nil
}

// piece is a line without its end, or a stretch of a long one.
type piece struct {
	text  string
	line  int
	first bool // it starts the line
	last  bool // it ends the line
}

// next returns the next piece, io.EOF after the last.
func (l *lineReader) next() (piece, error) {
	l.buf = l.buf[:0]
	p := piece{first: !l.cont}
	if p.first {
		l.line++
	}
	p.line = l.line
	for {
		part, err := l.r.ReadSlice('\n')
		l.buf = append(l.buf, part...)
		switch {
		case err == nil:
			p.last, l.cont = true, false
			p.text = string(bytes.TrimSuffix(l.buf, []byte("\n")))
			return p, nil
		case errors.Is(err, bufio.ErrBufferFull):
			if len(l.buf) >= maxPiece {
				l.cont = true
				p.text = string(l.buf)
				return p, nil
			}
		case errors.Is(err, io.EOF):
			if len(l.buf) == 0 && !l.cont {
				return piece{}, io.EOF
			}
			p.last, l.cont = true, false
			p.text = string(l.buf)
			return p, nil
		default:
			return piece{}, fmt.Errorf("read line %d: %w", l.line, err)
		}
	}
}

// clean takes off what terminals and Markdown put around a line: colours, invisible characters, quote
// marks. Indentation stays.
func clean(s string) string {
	if isPlain(s) {
		return strings.TrimRight(s, " \t")
	}
	s = stripEscapes(s)
	s = strings.Map(func(r rune) rune {
		switch r {
		case '\u00a0', '\t':
			return ' '
		case '\ufeff', '\u200b', '\u200e', '\u200f', '\b', 0:
			return -1
		}
		return r
	}, s)
	s = strings.TrimRight(s, " ")
	for {
		rest := strings.TrimLeft(s, " ")
		if rest == "" || rest[0] != '>' {
			return s
		}
		s = strings.TrimPrefix(rest[1:], " ")
	}
}

// isPlain reports whether a line has nothing to take off, which is nearly always so.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '>' {
			return false
		}
	}
	return true
}

// stripEscapes removes ANSI control sequences.
func stripEscapes(s string) string {
	if !strings.Contains(s, "\x1b") {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); {
		if s[i] != 0x1b {
			out.WriteByte(s[i])
			i++
			continue
		}
		i += escapeLen(s[i:])
	}
	return out.String()
}

// escapeLen is the length of the control sequence s starts with.
func escapeLen(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	switch s[1] {
	case '[': // parameters, then one final byte
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
			if s[i] < 0x20 || s[i] > 0x3f {
				return i
			}
		}
		return len(s)
	case ']': // a title, up to BEL or ESC \
		if end := strings.IndexAny(s[2:], "\a\x1b"); end >= 0 {
			if s[2+end] == 0x1b && strings.HasPrefix(s[2+end:], "\x1b\\") {
				return 2 + end + 2
			}
			return 2 + end + 1
		}
		return len(s)
	}
	return 2
}

// segments splits a line at carriage returns: what was
// overwritten, then what was left, without the states of a progress bar.
func segments(s string) []string {
	s = strings.TrimRight(s, "\r")
	if !strings.Contains(s, "\r") {
		return []string{s}
	}
	var out []string
	for seg := range strings.SplitSeq(s, "\r") {
		if seg != "" && (!strings.Contains(seg, "%|") || !progressBar.MatchString(seg)) {
			out = append(out, seg)
		}
	}
	return out
}

// progressBar is one state of a bar and nothing else.
var progressBar = regexp.MustCompile(`^[^|]*\d%\|[^|]*\|[^\]]*\]?\s*$`)

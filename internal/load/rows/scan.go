package rows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Scanner walks over JSON of any size in one pass, keeping nothing: callers note the byte
// offsets of what they want and read it again later. It checks structure; what strings hold is
// checked when they are decoded. (Token-wise decoding with encoding/json takes ten times as long,
// which is felt with files of hundreds of megabytes.)
type Scanner struct {
	r    io.Reader
	buf  []byte
	i, n int   // unread part of buf
	base int64 // offset of buf[0]
	err  error
}

const maxDepth = 512

// NewScanner walks over a stream.
func NewScanner(r io.Reader) *Scanner {
	return &Scanner{r: r, buf: make([]byte, 256<<10)}
}

// Pos is the offset of the next byte.
func (s *Scanner) Pos() int64 { return s.base + int64(s.i) }

// Pass goes past bytes that were read already, as far as they were.
func (s *Scanner) Pass(n int) { s.i = min(s.i+n, s.n) }

// Bad is an error about what stands where the scanner is.
func (s *Scanner) Bad(format string, args ...any) error {
	return fmt.Errorf("byte %d: %s", s.Pos(), fmt.Sprintf(format, args...))
}

// fill reads more when everything read is used up.
func (s *Scanner) fill() error {
	if s.i < s.n {
		return nil
	}
	if s.err != nil {
		return s.err
	}
	s.base += int64(s.n)
	s.i, s.n = 0, 0
	for s.n == 0 && s.err == nil {
		s.n, s.err = s.r.Read(s.buf)
	}
	if s.n == 0 {
		return s.err
	}
	return nil
}

// Fail turns the end of input into a sentence.
func (s *Scanner) Fail(err error, inside string) error {
	if errors.Is(err, io.EOF) {
		return s.Bad("the file ends inside %s", inside)
	}
	return fmt.Errorf("read at byte %d: %w", s.Pos(), err)
}

// Peek skips space and returns the next byte without using it up.
func (s *Scanner) Peek() (byte, error) {
	for {
		if err := s.fill(); err != nil {
			return 0, err
		}
		switch c := s.buf[s.i]; c {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return c, nil
		}
	}
}

// Array calls element for each element; element must move past it.
func (s *Scanner) Array(element func(i int) error) error {
	if c, err := s.Peek(); err != nil {
		return s.Fail(err, "an array")
	} else if c != '[' {
		return s.Bad("an array was expected, not %q", c)
	}
	s.i++
	return s.list(']', "an array", element)
}

// Object calls field for each key of an object; field must move past the value. With quick set
// keys are not decoded and come empty.
func (s *Scanner) Object(quick bool, field func(key string) error) error {
	s.i++ // the caller saw '{'
	return s.list('}', "an object", func(int) error {
		key, err := s.key(quick)
		if err != nil {
			return err
		}
		if c, err := s.Peek(); err != nil {
			return s.Fail(err, "an object")
		} else if c != ':' {
			return s.Bad("':' was expected after a key, not %q", c)
		}
		s.i++
		return field(key)
	})
}

// list walks over comma-separated items up to the closing byte.
func (s *Scanner) list(closing byte, what string, item func(i int) error) error {
	for i := 0; ; i++ {
		c, err := s.Peek()
		if err != nil {
			return s.Fail(err, what)
		}
		switch {
		case c == closing:
			s.i++
			return nil
		case i > 0 && c != ',':
			return s.Bad("',' or %q was expected in %s, not %q", closing, what, c)
		case i > 0:
			s.i++
			if c, err = s.Peek(); err != nil {
				return s.Fail(err, what)
			} else if c == closing {
				return s.Bad("%s ends in a comma", what)
			}
		}
		if err := item(i); err != nil {
			return err
		}
	}
}

func (s *Scanner) key(quick bool) (string, error) {
	if c, err := s.Peek(); err != nil {
		return "", s.Fail(err, "an object")
	} else if c != '"' {
		return "", s.Bad("a key was expected, not %q", c)
	}
	if quick {
		return "", s.text(nil)
	}
	raw := []byte{'"'}
	if err := s.text(&raw); err != nil {
		return "", err
	}
	var key string
	if err := json.Unmarshal(raw, &key); err != nil {
		return "", s.Bad("key %.40q: %v", raw, err)
	}
	return key, nil
}

// text moves past a string, keeping its bytes where asked. It ends at the first quote that follows
// an even number of backslashes.
func (s *Scanner) text(keep *[]byte) error {
	s.i++
	escaped := false // an odd run of backslashes ended the previous piece
	for {
		if err := s.fill(); err != nil {
			return s.Fail(err, "a string")
		}
		piece, found := s.buf[s.i:s.n], true
		if q := bytes.IndexByte(piece, '"'); q >= 0 {
			piece = piece[:q+1]
		} else {
			found = false
		}
		s.i += len(piece)
		if keep != nil {
			*keep = append(*keep, piece...)
		}
		body := piece
		if found {
			body = piece[:len(piece)-1]
		}
		escaped = oddBackslashes(body, escaped)
		if found {
			if !escaped {
				return nil
			}
			escaped = false // the quote was escaped
		}
	}
}

// oddBackslashes reports whether body, which continues a text whose end was escaped or not, leaves
// the byte after it escaped.
func oddBackslashes(body []byte, before bool) bool {
	run := 0
	for run < len(body) && body[len(body)-1-run] == '\\' {
		run++
	}
	odd := run%2 == 1
	if run == len(body) && before { // the run reaches back into what came before
		odd = !odd
	}
	return odd
}

// Past moves past any value.
func (s *Scanner) Past(depth int) error {
	c, err := s.Peek()
	if err != nil {
		return s.Fail(err, "a value")
	}
	if depth > maxDepth {
		return s.Bad("nested deeper than %d", maxDepth)
	}
	switch c {
	case '{':
		return s.Object(true, func(string) error { return s.Past(depth + 1) })
	case '[':
		return s.Array(func(int) error { return s.Past(depth + 1) })
	case '"':
		return s.text(nil)
	}
	return s.scalar()
}

// scalar moves past a number or a name; NaN and the infinities are what Python writes.
func (s *Scanner) scalar() error {
	var word []byte
	for len(word) < 64 {
		err := s.fill()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return s.Fail(err, "a value")
		}
		c := s.buf[s.i]
		if bytes.IndexByte([]byte(" \t\r\n,]}:[{\""), c) >= 0 {
			break
		}
		word = append(word, c)
		s.i++
	}
	switch string(word) {
	case "NaN", "Infinity", "-Infinity":
		return nil
	}
	if !json.Valid(word) {
		return s.Bad("%.40q is not a JSON value", word)
	}
	return nil
}

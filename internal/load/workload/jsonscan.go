package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// jsonScanner walks over JSON of any size in one pass, keeping nothing: callers note the byte
// offsets of what they want and read it again later. It checks structure; what strings hold is
// checked when they are decoded. (Token-wise decoding with encoding/json takes ten times as long,
// which is felt with files of hundreds of megabytes.)
type jsonScanner struct {
	r    io.Reader
	buf  []byte
	i, n int   // unread part of buf
	base int64 // offset of buf[0]
	err  error
}

const maxDepth = 512

func newJSONScanner(r io.Reader) *jsonScanner {
	return &jsonScanner{r: r, buf: make([]byte, 256<<10)}
}

func (s *jsonScanner) pos() int64 { return s.base + int64(s.i) }

func (s *jsonScanner) bad(format string, args ...any) error {
	return fmt.Errorf("byte %d: %s", s.pos(), fmt.Sprintf(format, args...))
}

// fill reads more when everything read is used up.
func (s *jsonScanner) fill() error {
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

// fail turns the end of input into a sentence.
func (s *jsonScanner) fail(err error, inside string) error {
	if errors.Is(err, io.EOF) {
		return s.bad("the file ends inside %s", inside)
	}
	return fmt.Errorf("read at byte %d: %w", s.pos(), err)
}

// peek skips space and returns the next byte without using it up.
func (s *jsonScanner) peek() (byte, error) {
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

// array calls element for each element; element must move past it.
func (s *jsonScanner) array(element func(i int) error) error {
	if c, err := s.peek(); err != nil {
		return s.fail(err, "an array")
	} else if c != '[' {
		return s.bad("an array was expected, not %q", c)
	}
	s.i++
	return s.list(']', "an array", element)
}

// object calls field for each key of an object; field must move past the value. With quick set
// keys are not decoded and come empty.
func (s *jsonScanner) object(quick bool, field func(key string) error) error {
	s.i++ // the caller saw '{'
	return s.list('}', "an object", func(int) error {
		key, err := s.key(quick)
		if err != nil {
			return err
		}
		if c, err := s.peek(); err != nil {
			return s.fail(err, "an object")
		} else if c != ':' {
			return s.bad("':' was expected after a key, not %q", c)
		}
		s.i++
		return field(key)
	})
}

// list walks over comma-separated items up to the closing byte.
func (s *jsonScanner) list(closing byte, what string, item func(i int) error) error {
	for i := 0; ; i++ {
		c, err := s.peek()
		if err != nil {
			return s.fail(err, what)
		}
		switch {
		case c == closing:
			s.i++
			return nil
		case i > 0 && c != ',':
			return s.bad("',' or %q was expected in %s, not %q", closing, what, c)
		case i > 0:
			s.i++
			if c, err = s.peek(); err != nil {
				return s.fail(err, what)
			} else if c == closing {
				return s.bad("%s ends in a comma", what)
			}
		}
		if err := item(i); err != nil {
			return err
		}
	}
}

func (s *jsonScanner) key(quick bool) (string, error) {
	if c, err := s.peek(); err != nil {
		return "", s.fail(err, "an object")
	} else if c != '"' {
		return "", s.bad("a key was expected, not %q", c)
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
		return "", s.bad("key %.40q: %v", raw, err)
	}
	return key, nil
}

// text moves past a string, keeping its bytes where asked. It ends at the first quote that follows
// an even number of backslashes.
func (s *jsonScanner) text(keep *[]byte) error {
	s.i++
	escaped := false // an odd run of backslashes ended the previous piece
	for {
		if err := s.fill(); err != nil {
			return s.fail(err, "a string")
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

// skip moves past any value.
func (s *jsonScanner) skip(depth int) error {
	c, err := s.peek()
	if err != nil {
		return s.fail(err, "a value")
	}
	if depth > maxDepth {
		return s.bad("nested deeper than %d", maxDepth)
	}
	switch c {
	case '{':
		return s.object(true, func(string) error { return s.skip(depth + 1) })
	case '[':
		return s.array(func(int) error { return s.skip(depth + 1) })
	case '"':
		return s.text(nil)
	}
	return s.scalar()
}

// scalar moves past a number or a name; NaN and the infinities are what Python writes.
func (s *jsonScanner) scalar() error {
	var word []byte
	for len(word) < 64 {
		err := s.fill()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return s.fail(err, "a value")
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
		return s.bad("%.40q is not a JSON value", word)
	}
	return nil
}

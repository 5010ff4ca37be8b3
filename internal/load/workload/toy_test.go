package workload

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"spate/internal/call"
)

// letters is a tokenizer small enough to compute with by hand. Id 0 is the special token "<s>",
// which also opens every encoding with special tokens; 1 to 26 are a to z; 27 to 39 are ab, cd ...
// yz; 40 is bcd, which encoding never gives. Encoding takes a pair where it finds one, else a
// letter, and gives any other byte (space, newline) the id of z.
type letters struct{ decodes atomic.Int64 }

func (t *letters) NewEncoder() Encoder { return t }
func (t *letters) VocabSize() int      { return 41 }
func (t *letters) SpecialIDs() []int32 { return []int32{0} }
func (t *letters) SpecialsToAdd() int  { return 1 }

func (t *letters) Encode(dst []int32, text string, special bool) []int32 {
	if special {
		dst = append(dst, 0)
	}
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case strings.HasPrefix(text[i:], "<s>"):
			dst = append(dst, 0)
			i += 3
		case c < 'a' || c > 'z':
			dst = append(dst, 26)
			i++
		case (c-'a')%2 == 0 && i+1 < len(text) && text[i+1] == c+1:
			dst = append(dst, 27+int32(c-'a')/2)
			i += 2
		default:
			dst = append(dst, int32(c-'a')+1)
			i++
		}
	}
	return dst
}

func (t *letters) AppendDecode(b []byte, ids []int32, skipSpecial bool) []byte {
	t.decodes.Add(1)
	for _, id := range ids {
		switch {
		case id == 0 && !skipSpecial:
			b = append(b, "<s>"...)
		case id == 40:
			b = append(b, "bcd"...)
		case id >= 27:
			first := byte('a' + 2*(id-27))
			b = append(b, first, first+1)
		case id >= 1:
			b = append(b, byte('a'+id-1))
		}
	}
	return b
}

// flat is a tokenizer whose every id is five bytes of text and back: fast, and exact.
type flat struct{ vocab int }

const flatDigits = "0123456789abcdef"

func (t flat) NewEncoder() Encoder { return t }
func (t flat) VocabSize() int      { return t.vocab }
func (t flat) SpecialIDs() []int32 { return []int32{0, 1} }
func (t flat) SpecialsToAdd() int  { return 0 }

func (t flat) Encode(dst []int32, text string, _ bool) []int32 {
	for ; len(text) >= 5; text = text[5:] {
		id := int32(0)
		for i := 1; i < 5; i++ {
			id = id<<4 | int32(strings.IndexByte(flatDigits, text[i]))
		}
		dst = append(dst, id)
	}
	return dst
}

func (t flat) AppendDecode(b []byte, ids []int32, _ bool) []byte {
	for _, id := range ids {
		b = append(b, ' ', flatDigits[id>>12&15], flatDigits[id>>8&15], flatDigits[id>>4&15], flatDigits[id&15])
	}
	return b
}

// memFile is a dataset file in memory.
type memFile struct {
	*bytes.Reader
	closed *int
}

func (f memFile) Close() error {
	*f.closed++
	return nil
}

// files opens dataset files by their contents.
func files(contents map[string]string) (open func(string) (File, error), closed *int) {
	closed = new(int)
	return func(path string) (File, error) {
		text, ok := contents[path]
		if !ok {
			return nil, errors.New("no such file")
		}
		return memFile{bytes.NewReader([]byte(text)), closed}, nil
	}, closed
}

// drain takes every request of a stream and closes it.
func drain(t testing.TB, s *Stream) []call.Request {
	t.Helper()
	var all []call.Request
	for {
		r, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("request %d: %v", len(all), err)
		}
		all = append(all, r)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

// requests makes all requests of a configuration.
func requests(t testing.TB, cfg Config, tok Tokenizer, tmpl Template) ([]call.Request, []string) {
	t.Helper()
	if cfg.Media.Open == nil && cfg.Open != nil {
		cfg.Media.Open = beside(cfg.Open, cfg.Path)
	}
	s, err := New(cfg, tok, tmpl)
	if err != nil {
		t.Fatal(err)
	}
	all := drain(t, s)
	return all, s.Notes()
}

// beside opens media by their own name, then in the folder of the dataset, then in the dataset that is a folder.
func beside(open func(string) (File, error), dataset string) func(string) (File, error) {
	return func(name string) (file File, err error) {
		for _, at := range []string{name, path.Join(path.Dir(dataset), name), path.Join(dataset, name)} {
			if file, err = open(at); err == nil {
				return file, nil
			}
		}
		return nil, err
	}
}

// texts are the prompts of requests.
func texts(rs []call.Request) []string {
	var all []string
	for _, r := range rs {
		all = append(all, r.Prompt.Text)
	}
	return all
}

// must gives Default(name) for a name that has one.
func must(t testing.TB, name string) Config {
	t.Helper()
	cfg, err := Default(name)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

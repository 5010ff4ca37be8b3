package arrow

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

func file(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func rows(b []byte, most int) (out []map[string]any, err error) {
	err = Read(bytes.NewReader(b), int64(len(b)), func(row map[string]any) bool {
		out = append(out, row)
		return len(out) < most
	})
	return out, err
}

// TestRead reads what pyarrow wrote, in both forms, compressed and not.
func TestRead(t *testing.T) {
	var want []map[string]any
	if err := json.Unmarshal(file(t, "rows.json"), &want); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"stream", "file", "lz4", "zstd", "legacy"} {
		t.Run(name, func(t *testing.T) {
			got, err := rows(file(t, name+".arrow"), 100)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			if got, err := rows(file(t, name+".arrow"), 4); err != nil || len(got) != 4 {
				t.Errorf("%d rows after the fourth was the last one wanted, %v", len(got), err)
			}
		})
	}
	got, err := rows(file(t, "view.arrow"), 100)
	if err != nil {
		t.Fatal(err)
	}
	var texts []any
	for _, r := range got {
		texts = append(texts, r["prompt"])
	}
	if d := cmp.Diff([]any{"short", "longer than twelve bytes", nil, "another long one of these"}, texts); d != "" {
		t.Error(d)
	}
}

func TestHalf(t *testing.T) {
	for u, want := range map[uint16]float64{0x3c00: 1, 0xc000: -2, 0x3555: 0.333251953125, 0x0001: 1.0 / (1 << 24), 0x7bff: 65504, 0x8000: 0} {
		if got := half(u); got != want {
			t.Errorf("%#x: %v, want %v", u, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	stream := file(t, "stream.arrow")
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":      {nil, "too short"},
		"text":       {[]byte("prompt,answer\nx,y\n"), "longer than what there is"},
		"feather 1":  {[]byte("FEA1....FEA1"), "first version of Feather"},
		"no schema":  {[]byte("ARROW1\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00"), "no schema"},
		"cut inside": {stream[:len(stream)/2], "longer than what there is"},
	} {
		if _, err := rows(c.data, 100); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// bare is a message without columns: a schema, or a batch of so many rows.
func bare(kind byte, rows uint64) []byte {
	meta := make([]byte, 48)
	put16 := func(at int, list ...uint16) {
		for i, v := range list {
			binary.LittleEndian.PutUint16(meta[at+2*i:], v)
		}
	}
	binary.LittleEndian.PutUint32(meta, 16)
	put16(4, 12, 12, 0, 4, 8, 0) // the message has a kind and a header
	binary.LittleEndian.PutUint32(meta[16:], 12)
	meta[20] = kind
	binary.LittleEndian.PutUint32(meta[24:], 36-24)
	put16(28, 6, 12, 4) // the header has one number
	binary.LittleEndian.PutUint32(meta[36:], 8)
	binary.LittleEndian.PutUint64(meta[40:], rows)
	return append([]byte{0xff, 0xff, 0xff, 0xff, byte(len(meta)), 0, 0, 0}, meta...)
}

// TestRowsOfNothing lets a few bytes claim a billion rows that have no columns.
func TestRowsOfNothing(t *testing.T) {
	few, err := rows(append(bare(messageSchema, 0), bare(messageBatch, 3)...), 100)
	if err != nil || len(few) != 3 {
		t.Errorf("%d rows, %v, want 3", len(few), err)
	}
	many, err := rows(append(bare(messageSchema, 0), bare(messageBatch, 1<<30)...), 100)
	if err == nil || len(many) != 0 || !strings.Contains(err.Error(), "1073741824 rows without a column") {
		t.Errorf("%d rows, %v", len(many), err)
	}
}

// packed is a compressed buffer of so many bytes.
func packed(t *testing.T, size int) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(make([]byte, size), binary.LittleEndian.AppendUint64(nil, uint64(size)))
}

// TestSharedBuffer lets many columns name one compressed buffer.
func TestSharedBuffer(t *testing.T) {
	body := packed(t, 1<<16)
	var c codecs
	defer c.close()
	unpack, err := c.of(codecZstd)
	if err != nil {
		t.Fatal(err)
	}
	made := expansion{fine: 1 << 20, read: int64(len(body))}
	b := &batch{body: body, unpack: unpack, made: &made}
	n := 0
	for ; n < 1000 && err == nil; n++ {
		b.buffers = []int64{0, int64(len(body))}
		_, err = b.buffer()
	}
	most := 1<<20 + maxRatio*len(body)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("unpack to more than %d", most)) || n != most>>16+1 {
		t.Errorf("%v at buffer %d, want at %d", err, n, most>>16+1)
	}
}

// TestSharedText lets many views name one text, and many columns one buffer of numbers.
func TestSharedText(t *testing.T) {
	const n, size = 1000, 4000
	body := make([]byte, 16*n+size)
	for i := range n {
		binary.LittleEndian.PutUint32(body[16*i:], size)
	}
	for name, c := range map[string]struct {
		field   *field
		buffers []int64
		fine    int64
		want    string // empty: all of it comes
	}{
		"views":        {&field{kind: kindTextView}, []int64{0, 0, 0, 16 * n, 16 * n, size}, 1 << 10, "20000 bytes of the file hold texts of more than 1281024"},
		"views, fine":  {&field{kind: kindTextView}, []int64{0, 0, 0, 16 * n, 16 * n, size}, n * size, ""},
		"fixed, fine":  {&field{kind: kindFixedBinary, width: 16}, []int64{0, 0, 0, 16 * n}, 0, ""},
		"numbers":      {&field{kind: kindInt, width: 1}, []int64{0, 0, 0, n}, 0, "hold more than 320000 values"},
		"few, in fine": {&field{kind: kindInt, width: 1}, []int64{0, 0, 0, n}, 400 * n * valueBytes, ""},
	} {
		made := expansion{fine: c.fine, read: int64(len(body))}
		times := 1
		if c.field.kind == kindInt {
			times = 400
		}
		for range times {
			b := &batch{body: body, nodes: []int64{n, 0}, buffers: c.buffers, views: []int64{1}, made: &made}
			col, err := b.values(c.field)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			b.slice(col, 0, n)
		}
		switch err := made.over(); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		case made.texts > c.fine+textRatio*int64(len(body))+size:
			t.Errorf("%s: went on to %d bytes of text", name, made.texts)
		}
	}
}

// TestExpansion reads a whole file that comes to more than it may.
func TestExpansion(t *testing.T) {
	data := file(t, "view.arrow")
	n := 0
	d := &decoder{in: bytes.NewReader(data), size: int64(len(data)), dictionaries: map[int64][]any{}, made: expansion{fine: -textRatio * int64(len(data))}}
	err := d.read(func(map[string]any) bool { n++; return true })
	if err == nil || n != 0 || !strings.Contains(err.Error(), "damaged Arrow data") {
		t.Errorf("%d rows, %v", n, err)
	}
}

// TestDamage changes every byte of a file in turn: what comes is rows or an error, never a panic or all memory.
func TestDamage(t *testing.T) {
	whole := file(t, "stream.arrow")
	for i := range whole {
		for _, bit := range []byte{1, 0x80} {
			b := bytes.Clone(whole)
			b[i] ^= bit
			_, _ = rows(b, 100)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"stream", "file", "lz4", "zstd", "legacy", "view"} {
		f.Add(file(f, name+".arrow"))
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		if len(b) < 1<<16 {
			_, _ = rows(b, 200)
		}
	})
}

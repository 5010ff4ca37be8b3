package arrow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// column is n values, made when they are asked for.
type column struct {
	n  int
	at func(i int) any
}

// maxEmpty bounds columns that take no bytes, so that a few bytes cannot ask for all memory.
const maxEmpty = 1 << 20

// batch is rows as they lie in a message: the lengths and buffers of its columns, in the order of the schema.
type batch struct {
	n            int
	body         []byte
	nodes        []int64 // pairs: length, nulls
	buffers      []int64 // pairs: place, length
	views        []int64 // further buffers of each column of views
	unpack       func([]byte) ([]byte, error)
	dictionaries map[int64][]any
	made         *expansion
}

func (d *decoder) batch(t table, body []byte) (*batch, error) {
	b := &batch{body: body, nodes: t.numbers(1, 2), buffers: t.numbers(2, 2), views: t.numbers(4, 1), dictionaries: d.dictionaries, made: &d.made}
	d.made.read = d.pos
	n := t.i64(0)
	if n < 0 || n > math.MaxInt32 {
		return nil, fmt.Errorf("damaged Arrow data: a batch of %d rows", n)
	}
	b.n = int(n)
	if c := t.sub(3); c.at != 0 {
		var err error
		if b.unpack, err = d.codecs.of(c.u8(0, 0)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// buffer is the next of the column's buffers.
func (b *batch) buffer() ([]byte, error) {
	if len(b.buffers) < 2 {
		return nil, errors.New("damaged Arrow data: a buffer is missing")
	}
	at, n := b.buffers[0], b.buffers[1]
	b.buffers = b.buffers[2:]
	if at < 0 || n < 0 || n > int64(len(b.body)) || at > int64(len(b.body))-n {
		return nil, errors.New("damaged Arrow data: a buffer lies outside of its message")
	}
	data := b.body[at : at+n]
	if b.unpack == nil || n == 0 {
		return data, nil
	}
	if err := b.made.unpacks(data); err != nil {
		return nil, err
	}
	return b.unpack(data)
}

// wide is the next buffer, which holds so many values of a width.
func (b *batch) wide(n, width int) ([]byte, error) {
	data, err := b.buffer()
	if err == nil && len(data)/max(1, width) < n {
		err = fmt.Errorf("damaged Arrow data: %d bytes for %d values of %d", len(data), n, width)
	}
	return data, err
}

// column reads a column: its values, or its places in a dictionary.
func (b *batch) column(f *field) (column, error) {
	if !f.encoded {
		return b.values(f)
	}
	places, err := b.values(f.places)
	if err != nil {
		return column{}, err
	}
	values := b.dictionaries[f.id]
	return column{places.n, func(i int) any {
		if k, ok := places.at(i).(float64); ok && k >= 0 && int(k) < len(values) {
			return values[int(k)]
		}
		return nil
	}}, nil
}

// values reads a column that is no dictionary's.
func (b *batch) values(f *field) (column, error) {
	if len(b.nodes) < 2 || b.nodes[0] < 0 || b.nodes[0] > math.MaxInt32 {
		return column{}, errors.New("damaged Arrow data: the length of a column is missing")
	}
	n, nulls := int(b.nodes[0]), b.nodes[1]
	b.nodes = b.nodes[2:]
	if f.kind == kindNull {
		if n > maxEmpty {
			return column{}, fmt.Errorf("%d values of nothing", n)
		}
		return column{n, func(int) any { return nil }}, nil
	}
	valid, err := b.buffer()
	if err != nil {
		return column{}, err
	}
	if nulls == 0 || len(valid) == 0 {
		valid = nil
	} else if len(valid) < (n+7)/8 {
		return column{}, errors.New("damaged Arrow data: too few marks of missing values")
	}
	at, err := b.reader(f, n)
	if err != nil {
		return column{}, err
	}
	return column{n, func(i int) any {
		if b.made.values++; valid != nil && valid[i/8]>>(i%8)&1 == 0 {
			return nil
		}
		return at(i)
	}}, nil
}

// reader gives the values of a column by its type.
func (b *batch) reader(f *field, n int) (func(i int) any, error) {
	switch f.kind {
	case kindText, kindBinary:
		return b.texts(n, 4)
	case kindLargeText, kindLargeBinary:
		return b.texts(n, 8)
	case kindTextView, kindBinaryView:
		return b.viewed(n)
	case kindList, kindMap:
		return b.lists(f, n, 4)
	case kindLargeList:
		return b.lists(f, n, 8)
	case kindFixedList:
		return b.fixedLists(f, n)
	case kindStruct:
		return b.structs(f, n)
	case kindBool:
		data, err := b.wide((n+7)/8, 1)
		return func(i int) any { return data[i/8]>>(i%8)&1 == 1 }, err
	}
	data, err := b.wide(n, f.width)
	if f.width == 0 && n > maxEmpty {
		return nil, fmt.Errorf("%d values of no width", n)
	}
	return func(i int) any {
		v := data[i*f.width : (i+1)*f.width]
		if f.kind == kindFixedBinary {
			return b.made.text(v)
		}
		return number(f, v)
	}, err
}

// number is a value of fixed width.
func number(f *field, v []byte) any {
	switch f.kind {
	case kindFloat:
		switch f.width {
		case 2:
			return half(binary.LittleEndian.Uint16(v))
		case 4:
			return float64(math.Float32frombits(binary.LittleEndian.Uint32(v)))
		}
		return math.Float64frombits(binary.LittleEndian.Uint64(v))
	case kindDecimal, kindInterval:
		return nil // nothing of a prompt is in such
	}
	var u uint64
	for k := len(v) - 1; k >= 0; k-- {
		u = u<<8 | uint64(v[k])
	}
	if f.kind == kindInt && !f.signed {
		return float64(u)
	}
	shift := 64 - 8*len(v)
	return float64(int64(u<<shift) >> shift)
}

// half is a number of 16 bits.
func half(u uint16) float64 {
	sign, exp, frac := 1-2*float64(u>>15), int(u>>10&31), float64(u&1023)
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// offsets are where values begin and end, n of them in order within a limit.
func (b *batch) offsets(n, width int) (func(i int) (from, to int), int, error) {
	data, err := b.buffer()
	if err != nil {
		return nil, 0, err
	}
	if n == 0 {
		return func(int) (int, int) { return 0, 0 }, 0, nil
	}
	if len(data)/width < n+1 {
		return nil, 0, errors.New("damaged Arrow data: too few places of values")
	}
	get := func(i int) int { return int(int32(binary.LittleEndian.Uint32(data[4*i:]))) }
	if width == 8 {
		get = func(i int) int { return int(int64(binary.LittleEndian.Uint64(data[8*i:]))) }
	}
	last := get(0)
	for i := 1; i <= n; i++ {
		next := get(i)
		if next < last || last < 0 {
			return nil, 0, errors.New("damaged Arrow data: places of values are out of order")
		}
		last = next
	}
	return func(i int) (int, int) { return get(i), get(i + 1) }, last, nil
}

func (b *batch) texts(n, width int) (func(i int) any, error) {
	place, end, err := b.offsets(n, width)
	if err != nil {
		return nil, err
	}
	data, err := b.buffer()
	if err == nil && end > len(data) {
		err = errors.New("damaged Arrow data: a text ends behind its buffer")
	}
	return func(i int) any {
		from, to := place(i)
		return b.made.text(data[from:to])
	}, err
}

// viewed are texts of which short ones stand among the places and long ones in one of several buffers.
func (b *batch) viewed(n int) (func(i int) any, error) {
	views, err := b.wide(n, 16)
	if err != nil {
		return nil, err
	}
	if len(b.views) == 0 || b.views[0] < 0 || b.views[0] > int64(len(b.buffers)/2) {
		return nil, errors.New("damaged Arrow data: the number of buffers is missing")
	}
	more := make([][]byte, b.views[0])
	b.views = b.views[1:]
	for k := range more {
		if more[k], err = b.buffer(); err != nil {
			return nil, err
		}
	}
	return func(i int) any {
		v := views[16*i : 16*i+16]
		size := int(int32(binary.LittleEndian.Uint32(v)))
		if size >= 0 && size <= 12 {
			return string(v[4 : 4+size])
		}
		k, at := int(int32(binary.LittleEndian.Uint32(v[8:]))), int(int32(binary.LittleEndian.Uint32(v[12:])))
		if size < 0 || k < 0 || k >= len(more) || at < 0 || at > len(more[k])-size {
			return nil
		}
		return b.made.text(more[k][at : at+size])
	}, nil
}

func (b *batch) lists(f *field, n, width int) (func(i int) any, error) {
	place, end, err := b.offsets(n, width)
	if err != nil {
		return nil, err
	}
	c, err := b.column(f.children[0])
	if err == nil && end > c.n {
		err = errors.New("damaged Arrow data: a list ends behind its elements")
	}
	return func(i int) any {
		from, to := place(i)
		return b.slice(c, from, to)
	}, err
}

func (b *batch) fixedLists(f *field, n int) (func(i int) any, error) {
	c, err := b.column(f.children[0])
	if err == nil && f.size > 0 && c.n/f.size < n {
		err = errors.New("damaged Arrow data: a list ends behind its elements")
	}
	if f.size == 0 && n > maxEmpty {
		return nil, fmt.Errorf("%d empty lists", n)
	}
	return func(i int) any { return b.slice(c, i*f.size, (i+1)*f.size) }, err
}

func (b *batch) slice(c column, from, to int) []any {
	out := make([]any, 0, to-from)
	for i := from; i < to && b.made.over() == nil; i++ {
		out = append(out, c.at(i))
	}
	return out
}

func (b *batch) structs(f *field, n int) (func(i int) any, error) {
	parts := make([]column, len(f.children))
	for k, child := range f.children {
		var err error
		if parts[k], err = b.column(child); err != nil {
			return nil, err
		}
		if parts[k].n < n {
			return nil, errors.New("damaged Arrow data: a part of a structure is too short")
		}
	}
	if len(parts) == 0 && n > maxEmpty {
		return nil, fmt.Errorf("%d values of nothing", n)
	}
	return func(i int) any {
		out := make(map[string]any, len(parts))
		for k, p := range parts {
			out[f.children[k].name] = p.at(i)
		}
		return out
	}, nil
}

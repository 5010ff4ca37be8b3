package arrow

import (
	"errors"
	"fmt"
)

// kind is a type of Arrow's, by its number in the metadata.
type kind uint8

const (
	kindNull        kind = 1
	kindInt         kind = 2
	kindFloat       kind = 3
	kindBinary      kind = 4
	kindText        kind = 5
	kindBool        kind = 6
	kindDecimal     kind = 7
	kindDate        kind = 8
	kindTime        kind = 9
	kindTimestamp   kind = 10
	kindInterval    kind = 11
	kindList        kind = 12
	kindStruct      kind = 13
	kindFixedBinary kind = 15
	kindFixedList   kind = 16
	kindMap         kind = 17
	kindDuration    kind = 18
	kindLargeBinary kind = 19
	kindLargeText   kind = 20
	kindLargeList   kind = 21
	kindBinaryView  kind = 23
	kindTextView    kind = 24
)

// The names of types that are not read.
var unread = map[kind]string{14: "union", 22: "run-end encoded", 25: "list view", 26: "large list view"}

// field is a column, or a part of one.
type field struct {
	name     string
	kind     kind
	width    int  // bytes of a value, for types that have such
	signed   bool // of whole numbers
	size     int  // elements of a list of fixed size
	children []*field

	encoded bool // values are places in a dictionary
	id      int64
	places  *field // how those are written
}

// dictionary finds the field whose values are in a dictionary.
func (f *field) dictionary(id int64) *field {
	if f.encoded && f.id == id {
		return f
	}
	for _, c := range f.children {
		if found := c.dictionary(id); found != nil {
			return found
		}
	}
	return nil
}

const (
	maxDepth  = 32
	maxFields = 10000
)

// schema reads the columns.
func schema(t table) ([]*field, error) {
	if t.i16(0, 0) != 0 {
		return nil, errors.New("big-endian Arrow data is not read")
	}
	left := maxFields
	fields := []*field{}
	for _, c := range t.tables(1) {
		f, err := newField(c, 0, &left)
		if err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
	return fields, nil
}

func newField(t table, depth int, left *int) (*field, error) {
	if *left--; *left < 0 || depth > maxDepth {
		return nil, errors.New("damaged Arrow data: too many columns")
	}
	f := &field{name: t.text(0), kind: kind(t.u8(2, 0))}
	if err := f.measure(t.sub(3)); err != nil {
		return nil, fmt.Errorf("column %q: %w", f.name, err)
	}
	if enc := t.sub(4); enc.at != 0 {
		f.encoded, f.id = true, enc.i64(0)
		f.places = &field{name: f.name, kind: kindInt, width: 4, signed: true}
		if index := enc.sub(1); index.at != 0 {
			if err := f.places.measure(index); err != nil {
				return nil, fmt.Errorf("column %q: %w", f.name, err)
			}
		}
	}
	for _, c := range t.tables(5) {
		child, err := newField(c, depth+1, left)
		if err != nil {
			return nil, err
		}
		f.children = append(f.children, child)
	}
	if want := map[kind]int{kindList: 1, kindLargeList: 1, kindFixedList: 1, kindMap: 1}[f.kind]; want > 0 && len(f.children) != want {
		return nil, fmt.Errorf("column %q: damaged Arrow data: a list of %d things", f.name, len(f.children))
	}
	return f, nil
}

// measure reads what belongs to the type.
func (f *field) measure(t table) error {
	switch f.kind {
	case kindInt:
		f.width, f.signed = int(t.i32(0))/8, t.u8(1, 0) != 0
		if f.width != 1 && f.width != 2 && f.width != 4 && f.width != 8 {
			return fmt.Errorf("whole numbers of %d bits are not read", t.i32(0))
		}
	case kindFloat:
		f.width = map[int16]int{0: 2, 1: 4, 2: 8}[t.i16(0, 0)]
		if f.width == 0 {
			return errors.New("damaged Arrow data: a number without a width")
		}
	case kindDecimal:
		f.width = 16
		if bits := t.i32(2); bits == 32 || bits == 64 || bits == 256 {
			f.width = int(bits) / 8
		}
	case kindDate:
		f.width = 8
		if t.i16(0, 1) == 0 { // days
			f.width = 4
		}
	case kindTime:
		f.width = 4
		if t.i32(1) == 64 {
			f.width = 8
		}
	case kindTimestamp, kindDuration:
		f.width = 8
	case kindInterval:
		f.width = map[int16]int{0: 4, 1: 8, 2: 16}[t.i16(0, 0)]
	case kindFixedBinary:
		f.width = int(t.i32(0))
	case kindFixedList:
		f.size = int(t.i32(0))
	default:
		if name, ok := unread[f.kind]; ok || f.kind < kindNull || f.kind > kindTextView {
			return fmt.Errorf("type %s (%d) is not read", name, f.kind)
		}
	}
	if f.width < 0 || f.size < 0 {
		return errors.New("damaged Arrow data: a negative width")
	}
	return nil
}

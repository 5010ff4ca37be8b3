package arrow

import "encoding/binary"

// table is a Flatbuffers table. Whatever lies outside of its bytes reads as not there: damaged metadata gives
// defaults, which what follows refuses.
type table struct {
	b  []byte
	at int // 0: no table
}

// root is the table a buffer begins with.
func root(b []byte) table {
	if len(b) < 8 {
		return table{}
	}
	return table{b, int(binary.LittleEndian.Uint32(b))}.checked()
}

func (t table) checked() table {
	if t.at <= 0 || t.at+4 > len(t.b) {
		return table{}
	}
	return t
}

// field is where the i-th field stands, 0 when it is not given.
func (t table) field(i, width int) int {
	if t.at == 0 {
		return 0
	}
	v := t.at - int(int32(binary.LittleEndian.Uint32(t.b[t.at:])))
	if v < 0 || v+4 > len(t.b) {
		return 0
	}
	slot := 4 + 2*i
	if slot+2 > int(binary.LittleEndian.Uint16(t.b[v:])) || v+slot+2 > len(t.b) {
		return 0
	}
	off := int(binary.LittleEndian.Uint16(t.b[v+slot:]))
	if off == 0 || t.at+off+width > len(t.b) {
		return 0
	}
	return t.at + off
}

func (t table) u8(i int, or uint8) uint8 {
	if p := t.field(i, 1); p > 0 {
		return t.b[p]
	}
	return or
}

func (t table) i16(i int, or int16) int16 {
	if p := t.field(i, 2); p > 0 {
		return int16(binary.LittleEndian.Uint16(t.b[p:]))
	}
	return or
}

func (t table) i32(i int) int32 {
	if p := t.field(i, 4); p > 0 {
		return int32(binary.LittleEndian.Uint32(t.b[p:]))
	}
	return 0
}

func (t table) i64(i int) int64 {
	if p := t.field(i, 8); p > 0 {
		return int64(binary.LittleEndian.Uint64(t.b[p:]))
	}
	return 0
}

// sub is a table the i-th field points to.
func (t table) sub(i int) table {
	p := t.field(i, 4)
	if p == 0 {
		return table{}
	}
	return table{t.b, p + int(binary.LittleEndian.Uint32(t.b[p:]))}.checked()
}

// list is where the elements of the i-th field stand and how many there are.
func (t table) list(i, width int) (at, n int) {
	p := t.field(i, 4)
	if p == 0 {
		return 0, 0
	}
	p += int(binary.LittleEndian.Uint32(t.b[p:]))
	if p+4 > len(t.b) {
		return 0, 0
	}
	n = int(binary.LittleEndian.Uint32(t.b[p:]))
	if n > (len(t.b)-p-4)/width {
		return 0, 0
	}
	return p + 4, n
}

func (t table) text(i int) string {
	at, n := t.list(i, 1)
	return string(t.b[at : at+n])
}

// tables are the elements of a list of tables.
func (t table) tables(i int) []table {
	at, n := t.list(i, 4)
	out := make([]table, 0, n)
	for k := range n {
		p := at + 4*k
		out = append(out, table{t.b, p + int(binary.LittleEndian.Uint32(t.b[p:]))}.checked())
	}
	return out
}

// numbers are the elements of a list of 64-bit numbers, or of structures of them.
func (t table) numbers(i, each int) []int64 {
	at, n := t.list(i, 8*each)
	out := make([]int64, 0, n*each)
	for k := range n * each {
		out = append(out, int64(binary.LittleEndian.Uint64(t.b[at+8*k:])))
	}
	return out
}

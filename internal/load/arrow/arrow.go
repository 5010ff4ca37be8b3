// Package arrow reads the rows of Arrow IPC data: the stream that the Hugging Face library saves datasets in, and
// the file form of the same, which Feather is. It knows the types datasets have, plain or compressed, and gives
// values as JSON has them; package workload asks for the rows. The reference library does all of Arrow and would
// more than double the program.
//
// Read this file first, then column.go; flat.go reads the Flatbuffers the metadata is in, expand.go bounds what comes of
// a file.
package arrow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	magic        = "ARROW1"
	continuation = 0xffffffff
)

// Kinds of messages.
const (
	messageSchema     = 1
	messageDictionary = 2
	messageBatch      = 3
)

// Read calls yield with each row until there are no more or yield returns false.
func Read(r io.ReaderAt, size int64, yield func(row map[string]any) bool) error {
	d := &decoder{in: r, size: size, dictionaries: map[int64][]any{}, made: expansion{fine: fileFine}}
	return d.read(yield)
}

// decoder reads messages one after the other.
type decoder struct {
	in           io.ReaderAt
	pos, size    int64
	fields       []*field
	dictionaries map[int64][]any
	codecs       codecs
	made         expansion
}

// read goes through all messages.
func (d *decoder) read(yield func(row map[string]any) bool) error {
	defer d.codecs.close()
	var head [8]byte
	if err := d.at(head[:], 0); err != nil {
		return errors.New("too short for Arrow data")
	}
	if string(head[:4]) == "FEA1" {
		return errors.New("the first version of Feather is not read: write the file again with a current version")
	}
	if bytes.HasPrefix(head[:], []byte(magic)) {
		d.pos = int64(len(head)) // the stream stands between two marks; the index behind it is not needed
	}
	for {
		kind, header, body, err := d.message()
		if errors.Is(err, io.EOF) && d.fields != nil {
			return nil
		} else if errors.Is(err, io.EOF) {
			return errors.New("not Arrow data: there is no schema")
		} else if err != nil {
			return err
		}
		more, err := d.take(kind, header, body, yield)
		if err != nil || !more {
			return err
		}
	}
}

// at fills b from a place that must be inside.
func (d *decoder) at(b []byte, pos int64) error {
	if pos < 0 || pos+int64(len(b)) > d.size {
		return errors.New("damaged Arrow data: it ends inside a message")
	}
	if _, err := d.in.ReadAt(b, pos); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read Arrow: %w", err)
	}
	return nil
}

// message reads the next message; io.EOF ends them.
func (d *decoder) message() (kind uint8, header table, body []byte, err error) {
	var word [4]byte
	if d.pos+4 > d.size {
		return 0, table{}, nil, io.EOF
	}
	if err := d.at(word[:], d.pos); err != nil {
		return 0, table{}, nil, err
	}
	d.pos += 4
	n := binary.LittleEndian.Uint32(word[:])
	if n == continuation {
		if err := d.at(word[:], d.pos); err != nil {
			return 0, table{}, nil, err
		}
		d.pos += 4
		n = binary.LittleEndian.Uint32(word[:])
	}
	if n == 0 {
		return 0, table{}, nil, io.EOF
	}
	if int64(n) > d.size-d.pos {
		return 0, table{}, nil, errors.New("damaged Arrow data: a message is longer than what there is")
	}
	meta := make([]byte, n)
	if err := d.at(meta, d.pos); err != nil {
		return 0, table{}, nil, err
	}
	d.pos += int64(n)
	m := root(meta)
	length := m.i64(3)
	if length < 0 || length > d.size-d.pos {
		return 0, table{}, nil, errors.New("damaged Arrow data: a message's body is longer than what there is")
	}
	body = make([]byte, length)
	if err := d.at(body, d.pos); err != nil {
		return 0, table{}, nil, err
	}
	d.pos += length
	return m.u8(1, 0), m.sub(2), body, nil
}

// take does what a message says; more is false when no further rows are wanted.
func (d *decoder) take(kind uint8, header table, body []byte, yield func(map[string]any) bool) (more bool, err error) {
	switch kind {
	case messageSchema:
		d.fields, err = schema(header)
		return true, err
	case messageDictionary:
		return true, d.dictionary(header, body)
	case messageBatch:
		return d.rows(header, body, yield)
	}
	return true, nil // tensors and what is to come hold no rows
}

// rows hands on the rows of a batch.
func (d *decoder) rows(header table, body []byte, yield func(map[string]any) bool) (more bool, err error) {
	if d.fields == nil {
		return false, errors.New("damaged Arrow data: rows come before the schema")
	}
	b, err := d.batch(header, body)
	if err != nil {
		return false, err
	}
	if len(d.fields) == 0 && b.n > maxEmpty {
		return false, fmt.Errorf("damaged Arrow data: %d rows without a column", b.n)
	}
	columns := make([]column, len(d.fields))
	for i, f := range d.fields {
		if columns[i], err = b.column(f); err != nil {
			return false, fmt.Errorf("column %q: %w", f.name, err)
		}
		if columns[i].n < b.n {
			return false, fmt.Errorf("damaged Arrow data: column %q has %d rows of %d", f.name, columns[i].n, b.n)
		}
	}
	for i := range b.n {
		row := make(map[string]any, len(columns))
		for k, c := range columns {
			row[d.fields[k].name] = c.at(i)
		}
		if err := d.made.over(); err != nil {
			return false, err
		}
		if !yield(row) {
			return false, nil
		}
	}
	return true, nil
}

// dictionary keeps the values that columns refer to.
func (d *decoder) dictionary(header table, body []byte) error {
	id := header.i64(0)
	var values *field
	for _, f := range d.fields {
		if values = f.dictionary(id); values != nil {
			break
		}
	}
	if values == nil {
		return nil // nobody refers to it
	}
	b, err := d.batch(header.sub(1), body)
	if err != nil {
		return err
	}
	c, err := b.values(values)
	if err != nil {
		return fmt.Errorf("dictionary of column %q: %w", values.name, err)
	}
	list := d.dictionaries[id]
	if header.u8(2, 0) == 0 { // not a further part of it
		list = nil
	}
	for i := range c.n {
		list = append(list, c.at(i))
		if err := d.made.over(); err != nil {
			return err
		}
	}
	d.dictionaries[id] = list
	return nil
}

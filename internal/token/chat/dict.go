package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/big"
)

// Dict is a mapping that keeps the order its keys were first set in, which a
// prompt depends on wherever a template prints JSON.
type Dict struct {
	keys  []any
	vals  []any
	index map[any]int
}

// NewDict returns an empty Dict.
func NewDict() *Dict { return &Dict{} }

// Set gives key a value, at the end unless the key is already there.
func (d *Dict) Set(key string, v any) { d.set(key, v) }

// Get returns the value of key.
func (d *Dict) Get(key string) (any, bool) { return d.get(key) }

// Len counts the keys.
func (d *Dict) Len() int { return len(d.keys) }

// All walks the string keys and their values in order.
func (d *Dict) All() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for i, k := range d.keys {
			if name, ok := k.(string); ok && !yield(name, d.vals[i]) {
				return
			}
		}
	}
}

// hashKey folds the keys Python holds equal (1, 1.0, True) into one; ok is
// false for values that cannot be keys.
func hashKey(k any) (any, bool) {
	switch k := k.(type) {
	case nil, string:
		return k, true
	case markup:
		return string(k), true
	case float64:
		if k == math.Trunc(k) && math.Abs(k) < 1<<53 {
			return int64(k), true
		}
		return k, true
	case *big.Int:
		return "\x00" + k.String(), true
	}
	n, ok := asInt(k)
	return n, ok
}

func (d *Dict) set(k, v any) bool {
	h, ok := hashKey(k)
	if !ok {
		return false
	}
	if i, ok := d.index[h]; ok {
		d.vals[i] = v
		return true
	}
	if d.index == nil {
		d.index = make(map[any]int)
	}
	d.index[h] = len(d.keys)
	d.keys = append(d.keys, k)
	d.vals = append(d.vals, v)
	return true
}

func (d *Dict) get(k any) (any, bool) {
	h, ok := hashKey(k)
	if !ok {
		return nil, false
	}
	i, ok := d.index[h]
	if !ok {
		return nil, false
	}
	return d.vals[i], true
}

// pairs lists the items as tuples.
func (d *Dict) pairs() []any {
	out := make([]any, len(d.keys))
	for i, k := range d.keys {
		out[i] = tuple{k, d.vals[i]}
	}
	return out
}

func (d *Dict) convert(depth int) (any, error) {
	if d == nil {
		return nil, nil
	}
	out := NewDict()
	for i, k := range d.keys {
		v, err := convert(d.vals[i], depth+1)
		if err != nil {
			return nil, within(fmt.Sprint(k), err)
		}
		out.set(k, v)
	}
	return out, nil
}

// DecodeJSON reads one JSON value as a template should see it: objects are
// *Dict in their written order, arrays []any, and whole numbers stay whole.
func DecodeJSON(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := decode(dec, 0)
	if err != nil {
		return nil, fmt.Errorf("decoding JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decoding JSON: text after the first value")
	}
	return v, nil
}

func decode(dec *json.Decoder, depth int) (any, error) {
	if depth > maxValueDepth {
		return nil, errTooDeep
	}
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		return number(string(t))
	case json.Delim:
		if t == '[' {
			return decodeList(dec, depth)
		}
		return decodeDict(dec, depth)
	}
	return t, nil
}

func decodeList(dec *json.Decoder, depth int) (any, error) {
	out := []any{}
	for dec.More() {
		v, err := decode(dec, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := dec.Token()
	return out, err
}

func decodeDict(dec *json.Decoder, depth int) (any, error) {
	d := NewDict()
	for dec.More() {
		k, err := dec.Token()
		if err != nil {
			return nil, err
		}
		v, err := decode(dec, depth+1)
		if err != nil {
			return nil, err
		}
		d.set(k, v)
	}
	_, err := dec.Token()
	return d, err
}

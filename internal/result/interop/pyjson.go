package interop

import (
	"fmt"
	"slices"
	"strconv"

	"spate/internal/pytext"
)

// Field is one entry of an Object.
type Field struct {
	Key   string
	Value any
}

// Object is a JSON object that keeps its order, as a Python dict does. Its values are nil, bool, int,
// float64, string, Object, or slices of these.
type Object []Field

// Set works as assignment in a Python dict: a key that is there keeps its place and changes its value.
func (o *Object) Set(key string, value any) {
	if i := o.find(key); i >= 0 {
		(*o)[i].Value = value
		return
	}
	*o = append(*o, Field{key, value})
}

// Get returns the value of a key.
func (o Object) Get(key string) (any, bool) {
	if i := o.find(key); i >= 0 {
		return o[i].Value, true
	}
	return nil, false
}

// Delete removes a key if it is there.
func (o *Object) Delete(key string) {
	if i := o.find(key); i >= 0 {
		*o = slices.Delete(*o, i, i+1)
	}
}

func (o Object) find(key string) int {
	return slices.IndexFunc(o, func(f Field) bool { return f.Key == key })
}

// AppendPython appends v as Python's json.dump writes it with its defaults: ", " and ": " between
// parts, floats as repr, NaN and Infinity as bare words, everything outside ASCII escaped.
func AppendPython(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case float64:
		return pytext.AppendJSONFloat(dst, v), nil
	case string:
		return pytext.AppendJSONString(dst, v, true), nil
	case Object:
		return appendPyObject(dst, v)
	case []any:
		return appendPyList(dst, v)
	case []int:
		return appendPyList(dst, v)
	case []float64:
		return appendPyList(dst, v)
	case [][]float64:
		return appendPyList(dst, v)
	case []string:
		return appendPyList(dst, v)
	case []Object:
		return appendPyList(dst, v)
	}
	return dst, fmt.Errorf("no JSON form for a value of type %T", v)
}

func appendPyObject(dst []byte, o Object) ([]byte, error) {
	dst = append(dst, '{')
	var err error
	for i, f := range o {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = pytext.AppendJSONString(dst, f.Key, true)
		dst = append(dst, ": "...)
		if dst, err = AppendPython(dst, f.Value); err != nil {
			return dst, fmt.Errorf("%s: %w", f.Key, err)
		}
	}
	return append(dst, '}'), nil
}

func appendPyList[T any](dst []byte, list []T) ([]byte, error) {
	dst = append(dst, '[')
	var err error
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		if dst, err = AppendPython(dst, v); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

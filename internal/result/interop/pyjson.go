package interop

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
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
		return appendPyNumber(dst, v), nil
	case string:
		return appendPyString(dst, v), nil
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
		dst = appendPyString(dst, f.Key)
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

// appendPyNumber is a float inside JSON, where Python spells the special values like JavaScript.
func appendPyNumber(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	return appendPyFloat(dst, f)
}

// PyFloat is a float as Python's str and repr print it: inf, 10.0, 1e-05.
func PyFloat(f float64) string {
	return string(appendPyFloat(nil, f))
}

// appendPyFloat lays out the shortest digits that read back as f: plain between 1e-4 and 1e16, with a
// two-digit exponent outside.
func appendPyFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "nan"...)
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	}
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if !slices.Contains(dst[start:], '.') {
		dst = append(dst, ".0"...)
	}
	return dst
}

const hexDigits = "0123456789abcdef"

func appendPyString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s { // bytes that are not UTF-8 come as U+FFFD
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r >= ' ' && r <= '~':
			dst = append(dst, byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == '\b':
			dst = append(dst, `\b`...)
		case r == '\f':
			dst = append(dst, `\f`...)
		default:
			dst = appendPyEscape(dst, r)
		}
	}
	return append(dst, '"')
}

// appendPyEscape writes r in UTF-16 units, beyond the first plane as a surrogate pair.
func appendPyEscape(dst []byte, r rune) []byte {
	if r > 0xffff && r <= utf8.MaxRune {
		r -= 0x10000
		dst = appendUnit(dst, 0xd800+(r>>10))
		return appendUnit(dst, 0xdc00+(r&0x3ff))
	}
	return appendUnit(dst, r)
}

func appendUnit(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

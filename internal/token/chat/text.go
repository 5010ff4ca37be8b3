package chat

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// writer builds one string within the output limit.
type writer struct {
	run *run
	b   strings.Builder
}

type output = writer

var errTooLong = errors.New("rendered text is too long")

func (w *writer) write(s string) error {
	if w.b.Len()+len(s) > w.run.lim.output {
		return errTooLong
	}
	w.b.WriteString(s)
	return w.run.build(len(s))
}

// str is Python's str(): what printing a value gives.
func (r *run) str(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case markup:
		return string(v), nil
	case *undefined:
		return "", nil
	}
	w := &writer{run: r}
	err := w.repr(v, 0)
	return w.b.String(), err
}

// repr writes v as Python's repr() does.
func (w *writer) repr(v any, depth int) error {
	if depth > maxValueDepth {
		return errTooDeep
	}
	switch v := v.(type) {
	case nil:
		return w.write("None")
	case bool:
		if v {
			return w.write("True")
		}
		return w.write("False")
	case int64:
		return w.write(strconv.FormatInt(v, 10))
	case *big.Int:
		return w.write(v.String())
	case float64:
		return w.write(floatRepr(v))
	case string:
		return w.write(quote(v))
	case markup:
		return w.write("Markup(" + quote(string(v)) + ")")
	case *undefined:
		return w.write("Undefined")
	case []any:
		return w.reprItems("[", v, "]", depth)
	case tuple:
		if len(v) == 1 {
			return w.reprItems("(", v, ",)", depth)
		}
		return w.reprItems("(", v, ")", depth)
	case *Dict:
		return w.reprDict(v, depth)
	}
	return fmt.Errorf("a value of type %s cannot be printed", typeName(v))
}

func (w *writer) reprItems(open string, items []any, end string, depth int) error {
	if err := w.write(open); err != nil {
		return err
	}
	for i, x := range items {
		if i > 0 {
			if err := w.write(", "); err != nil {
				return err
			}
		}
		if err := w.repr(x, depth+1); err != nil {
			return err
		}
	}
	return w.write(end)
}

func (w *writer) reprDict(d *Dict, depth int) error {
	if err := w.write("{"); err != nil {
		return err
	}
	for i, k := range d.keys {
		if i > 0 {
			if err := w.write(", "); err != nil {
				return err
			}
		}
		if err := w.repr(k, depth+1); err != nil {
			return err
		}
		if err := w.write(": "); err != nil {
			return err
		}
		if err := w.repr(d.vals[i], depth+1); err != nil {
			return err
		}
	}
	return w.write("}")
}

// floatRepr writes a float with the fewest digits that read back the same,
// and an exponent only below 1e-4 or from 1e16 on.
func floatRepr(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	e := strconv.FormatFloat(f, 'e', -1, 64)
	i := strings.IndexByte(e, 'e')
	exp, _ := strconv.Atoi(e[i+1:])
	if exp < -4 || exp >= 16 {
		return e
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// quote writes a string literal as Python does: single quotes unless only
// double ones save an escape, and unprintable characters escaped.
func quote(s string) string {
	q := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	var b strings.Builder
	b.WriteByte(q)
	for i, c := range s {
		switch {
		case c == rune(q) || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\udc%02x`, s[i])
		case unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			fmt.Fprintf(&b, `\U%08x`, c)
		}
	}
	b.WriteByte(q)
	return b.String()
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;")

// jsonStyle is how tojson lays out its text.
type jsonStyle struct {
	indent     string
	lines      bool // one element per line
	item, key  string
	ascii      bool
	sortedKeys bool
}

// json writes v as Python's json.dumps does.
func (w *writer) json(v any, st jsonStyle, depth int) error {
	if depth > maxValueDepth {
		return errTooDeep
	}
	switch v := v.(type) {
	case nil:
		return w.write("null")
	case bool:
		return w.write(strconv.FormatBool(v))
	case int64:
		return w.write(strconv.FormatInt(v, 10))
	case *big.Int:
		return w.write(v.String())
	case float64:
		return w.write(jsonFloat(v))
	case string:
		return w.write(jsonString(v, st.ascii))
	case markup:
		return w.write(jsonString(string(v), st.ascii))
	case []any:
		return w.jsonItems("[", len(v), "]", st, depth, func(i int) error { return w.json(v[i], st, depth+1) })
	case tuple:
		return w.jsonItems("[", len(v), "]", st, depth, func(i int) error { return w.json(v[i], st, depth+1) })
	case *Dict:
		return w.jsonDict(v, st, depth)
	}
	return fmt.Errorf("tojson: a value of type %s has no JSON form", typeName(v))
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return floatRepr(f)
}

func (w *writer) jsonItems(open string, n int, end string, st jsonStyle, depth int, item func(int) error) error {
	if err := w.write(open); err != nil || n == 0 {
		return errors.Join(err, w.write(end))
	}
	for i := range n {
		if i > 0 {
			if err := w.write(st.item); err != nil {
				return err
			}
		}
		if err := w.newline(st, depth+1); err != nil {
			return err
		}
		if err := item(i); err != nil {
			return err
		}
	}
	if err := w.newline(st, depth); err != nil {
		return err
	}
	return w.write(end)
}

func (w *writer) newline(st jsonStyle, depth int) error {
	if !st.lines {
		return nil
	}
	if len(st.indent)*depth > w.run.lim.output {
		return errTooLong
	}
	return w.write("\n" + strings.Repeat(st.indent, depth))
}

func (w *writer) jsonDict(d *Dict, st jsonStyle, depth int) error {
	order := make([]int, d.Len())
	for i := range order {
		order[i] = i
	}
	if st.sortedKeys {
		var err error
		if order, err = w.run.sortIndex(d.keys, false); err != nil {
			return err
		}
	}
	return w.jsonItems("{", d.Len(), "}", st, depth, func(i int) error {
		k, err := jsonKey(d.keys[order[i]])
		if err != nil {
			return err
		}
		if err := w.write(jsonString(k, st.ascii) + st.key); err != nil {
			return err
		}
		return w.json(d.vals[order[i]], st, depth+1)
	})
}

func jsonKey(k any) (string, error) {
	switch k := k.(type) {
	case nil:
		return "null", nil
	case string:
		return k, nil
	case markup:
		return string(k), nil
	case bool:
		return strconv.FormatBool(k), nil
	case int64:
		return strconv.FormatInt(k, 10), nil
	case float64:
		return jsonFloat(k), nil
	}
	return "", fmt.Errorf("tojson: a key of type %s has no JSON form", typeName(k))
}

func jsonString(s string, ascii bool) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c < 0x20:
			if i := strings.IndexRune("\n\r\t\b\f", c); i >= 0 {
				b.WriteByte('\\')
				b.WriteByte("nrtbf"[i])
			} else {
				fmt.Fprintf(&b, `\u%04x`, c)
			}
		case ascii && c >= 0x10000:
			c -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		case ascii && c >= 0x7f:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

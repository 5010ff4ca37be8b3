package chat

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"spate/internal/pytext"
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
		return w.write(pytext.Bool(v))
	case int64:
		return w.write(strconv.FormatInt(v, 10))
	case *big.Int:
		return w.write(v.String())
	case float64:
		return w.write(pytext.Float(v))
	case string:
		return w.write(pytext.Quote(v))
	case markup:
		return w.write("Markup(" + pytext.Quote(string(v)) + ")")
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
		return w.write(string(pytext.AppendJSONFloat(nil, v)))
	case string:
		return w.write(string(pytext.AppendJSONString(nil, v, st.ascii)))
	case markup:
		return w.write(string(pytext.AppendJSONString(nil, string(v), st.ascii)))
	case []any:
		return w.jsonItems("[", len(v), "]", st, depth, func(i int) error { return w.json(v[i], st, depth+1) })
	case tuple:
		return w.jsonItems("[", len(v), "]", st, depth, func(i int) error { return w.json(v[i], st, depth+1) })
	case *Dict:
		return w.jsonDict(v, st, depth)
	}
	return fmt.Errorf("tojson: a value of type %s has no JSON form", typeName(v))
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
		if err := w.write(string(pytext.AppendJSONString(nil, k, st.ascii)) + st.key); err != nil {
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
		return string(pytext.AppendJSONFloat(nil, k)), nil
	}
	return "", fmt.Errorf("tojson: a key of type %s has no JSON form", typeName(k))
}

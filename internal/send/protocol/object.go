package protocol

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/valyala/fastjson"
)

// object writes a JSON object in a fixed key order. Later keys replace earlier ones in place, so that
// --extra-body can override what the backend sets; a null takes a field out, for servers that refuse
// requests with fields they do not know.
type object struct {
	keys   []string
	values [][]byte
}

func (o *object) set(key string, value []byte) {
	if i := slices.Index(o.keys, key); i >= 0 {
		o.values[i] = value
		return
	}
	o.keys = append(o.keys, key)
	o.values = append(o.values, value)
}

func (o *object) merge(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var p fastjson.Parser
	v, err := p.ParseBytes(raw)
	if err != nil {
		return fmt.Errorf("merge request body: %w", err)
	}
	fields, err := v.Object()
	if err != nil {
		return fmt.Errorf("merge request body: want a JSON object, got %.40s", raw)
	}
	fields.Visit(func(k []byte, v *fastjson.Value) {
		if v.Type() == fastjson.TypeNull {
			o.remove(string(k))
			return
		}
		o.set(string(k), v.MarshalTo(nil))
	})
	return nil
}

func (o *object) remove(key string) {
	if i := slices.Index(o.keys, key); i >= 0 {
		o.keys = slices.Delete(o.keys, i, i+1)
		o.values = slices.Delete(o.values, i, i+1)
	}
}

// rename gives a key the name a server knows it by.
func (o *object) rename(from, to string) {
	if i := slices.Index(o.keys, from); i >= 0 {
		o.keys[i] = to
	}
}

// finish merges what overrides the backend's own fields, the strongest last, and appends the object.
func (o *object) finish(dst []byte, over ...json.RawMessage) ([]byte, error) {
	for _, raw := range over {
		if err := o.merge(raw); err != nil {
			return dst, err
		}
	}
	return o.appendTo(dst), nil
}

func (o *object) appendTo(dst []byte) []byte {
	dst = append(dst, '{')
	for i, k := range o.keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, k)
		dst = append(dst, ':')
		dst = append(dst, o.values[i]...)
	}
	return append(dst, '}')
}

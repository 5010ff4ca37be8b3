package interop

import (
	"strings"
	"testing"
)

func TestAppendPython(t *testing.T) {
	cases := []struct {
		name string
		in   any
		want string
	}{
		{"none", nil, "null"},
		{"bools", []any{true, false}, "[true, false]"},
		{"empty list", []int(nil), "[]"},
		{"empty object", Object{}, "{}"},
		{"nested", Object{{"a", []float64{1, 2.5}}, {"b", Object{{"c", "d"}}}}, `{"a": [1.0, 2.5], "b": {"c": "d"}}`},
		{"lists of lists", [][]float64{{0.1}, nil}, "[[0.1], []]"},
		{"objects in a list", []Object{{{"k", 1}}}, `[{"k": 1}]`},
		{"words", []string{"a", "é"}, `["a", "\u00e9"]`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := AppendPython(nil, c.in)
			if err != nil || string(got) != c.want {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
		})
	}
	if _, err := AppendPython(nil, Object{{"when", struct{}{}}}); err == nil || !strings.Contains(err.Error(), "when") {
		t.Errorf("unknown type: %v, want an error naming the key", err)
	}
}

func TestObjectKeepsPlaces(t *testing.T) {
	o := Object{{"a", 1}, {"b", 2}}
	o.Set("a", 3)
	o.Set("c", 4)
	o.Delete("b")
	o.Delete("nothing")
	got, _ := AppendPython(nil, o)
	if string(got) != `{"a": 3, "c": 4}` {
		t.Errorf("got %s", got)
	}
}

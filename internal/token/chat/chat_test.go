package chat

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// fixture is a template of our own with the output of Python's jinja2;
// conformance/reference.py writes the file.
type fixture struct {
	Name     string `json:"name"`
	Template string `json:"template"`
	Vars     string `json:"vars"`
	Out      string `json:"out"`
	Error    string `json:"error"`
	Raised   bool   `json:"raised"`
}

// fixtureTime is the time strftime_now saw when the fixtures were made.
var fixtureTime = time.Date(2025, 3, 7, 9, 5, 2, 0, time.UTC)

// fixtures returns the cases and the inputs they name.
func fixtures(tb testing.TB) ([]fixture, map[string]Input) {
	tb.Helper()
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		tb.Fatal(err)
	}
	var file struct {
		Vars  map[string]json.RawMessage `json:"vars"`
		Cases []fixture                  `json:"cases"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		tb.Fatal(err)
	}
	inputs := map[string]Input{}
	for name, raw := range file.Vars {
		v, err := DecodeJSON(raw)
		if err != nil {
			tb.Fatal(err)
		}
		in := Input{Extra: map[string]any{}, Now: func() time.Time { return fixtureTime }}
		for key, x := range v.(*Dict).All() {
			in.Extra[key] = x
		}
		inputs[name] = in
	}
	return file.Cases, inputs
}

func render(src string, in Input) (string, error) {
	t, err := Parse(src)
	if err != nil {
		return "", err
	}
	return t.Render(in)
}

func TestFixtures(t *testing.T) {
	cases, inputs := fixtures(t)
	if len(cases) < 500 {
		t.Fatalf("only %d cases", len(cases))
	}
	for _, f := range cases {
		t.Run(f.Name, func(t *testing.T) {
			got, err := render(f.Template, inputs[f.Vars])
			var e *Error
			switch {
			case f.Error == "" && err != nil:
				t.Fatalf("%s\n%v\nwant %q", f.Template, err, f.Out)
			case f.Error == "":
				if got != f.Out {
					t.Errorf("%s\ngot  %q\nwant %q", f.Template, got, f.Out)
				}
			case err == nil:
				t.Errorf("%s\ngot %q, want an error like %s", f.Template, got, f.Error)
			case !errors.As(err, &e):
				t.Errorf("%v is not an *Error", err)
			case e.Line < 1 || e.Line > 1+strings.Count(f.Template, "\n"):
				t.Errorf("%v: no such line", err)
			case e.Raised != f.Raised || (f.Raised && e.Msg != f.Error):
				t.Errorf("%v: raised %v, want %v %q", err, e.Raised, f.Raised, f.Error)
			}
		})
	}
}

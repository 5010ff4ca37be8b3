// Command conformance renders chat templates for comparison with a reference
// implementation. It reads one JSON job per line from standard input and
// writes one JSON result per line; scripts/chat-template-conformance.sh feeds
// it the same jobs Python's jinja2 gets.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"spate/internal/token/chat"
)

// job is a template and the variables transformers would give it.
type job struct {
	Template string          `json:"template"`
	Vars     json.RawMessage `json:"vars"`
	Now      time.Time       `json:"now"`
}

type result struct {
	Out    string `json:"out"`
	Error  string `json:"error,omitempty"`
	Raised bool   `json:"raised,omitempty"`
}

func main() {
	if err := answer(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func answer(in io.Reader, out io.Writer) error {
	dec := json.NewDecoder(in)
	w := bufio.NewWriter(out)
	enc := json.NewEncoder(w)
	for {
		var j job
		if err := dec.Decode(&j); errors.Is(err, io.EOF) {
			return w.Flush()
		} else if err != nil {
			return fmt.Errorf("reading a job: %w", err)
		}
		res := result{}
		text, err := render(j)
		if err != nil {
			var e *chat.Error
			res.Error, res.Raised = err.Error(), errors.As(err, &e) && e.Raised
		} else {
			res.Out = text
		}
		if err := enc.Encode(res); err != nil {
			return fmt.Errorf("writing a result: %w", err)
		}
	}
}

// render passes every variable through Extra, so that both sides see exactly
// the same ones.
func render(j job) (string, error) {
	t, err := chat.Parse(j.Template)
	if err != nil {
		return "", err
	}
	v, err := chat.DecodeJSON(j.Vars)
	if err != nil {
		return "", err
	}
	vars, ok := v.(*chat.Dict)
	if !ok {
		return "", errors.New("vars is not an object")
	}
	extra := map[string]any{}
	for name, v := range vars.All() {
		extra[name] = v
	}
	return t.Render(chat.Input{Extra: extra, Now: func() time.Time { return j.Now }})
}

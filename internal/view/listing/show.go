package listing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"spate/internal/result"
	"spate/internal/result/store"
	"spate/internal/safe/escape"
	"spate/internal/view/report"
)

// ShowJSON prints one result as spate export writes it, with line ends.
func ShowJSON(w io.Writer, e *result.Entry) error {
	data, err := result.Encode(e)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = w.Write(out.Bytes())
	return err
}

// Show prints everything the store knows of one result.
func Show(w io.Writer, s *store.Store, it *store.Item, e *result.Entry) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(name, text string) {
		if text != "" && text != "-" {
			escape.Print(t, "%s:\t%s\n", name, escape.Line(text))
		}
	}
	row("id", it.ID)
	if it.Name != it.ID {
		row("name", it.Name)
	}
	row("format", it.Format)
	row("started", shortTime(it.Started))
	row("put in", shortTime(it.Added))
	row("model", it.Model)
	row("engine", it.Engine)
	row("backend", it.Backend)
	row("gpu", it.GPU)
	row("state", it.State)
	row("verdict", it.Verdict)
	row("labels", Labels(it.Labels))
	row("command", it.Command)
	if e.Launch != nil {
		row("server", *e.Launch)
	}
	row("error", it.Error)
	if it.Source != "" {
		row("found in", fmt.Sprintf("%s:%d", it.Source, it.Line))
	}
	row("records", recordsText(s, it))
	if e.Run != nil {
		row("host", environmentText(e.Run))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	escape.Print(w, "\n")
	if e.Run != nil {
		return report.Text(w, e.Run)
	}
	return showFigures(w, e)
}

func recordsText(s *store.Store, it *store.Item) string {
	switch s.Records(it) {
	case store.RecordsHere:
		return it.Folder
	case store.RecordsNever:
		return "none, only figures are known"
	}
	return s.Lost(it)
}

// environmentText is the machine the run was made on.
func environmentText(run *result.Run) string {
	var env struct {
		Host struct {
			Name  string `json:"name"`
			OS    string `json:"os"`
			CPU   string `json:"cpu"`
			Cores int    `json:"cores"`
		} `json:"host"`
	}
	if json.Unmarshal(run.Environment, &env) != nil || env.Host.Cores == 0 { // none, or of a form to come
		return ""
	}
	var parts []string
	for _, text := range []string{env.Host.Name, env.Host.OS, env.Host.CPU, fmt.Sprintf("%d cores", env.Host.Cores)} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

// showFigures prints settings and figures of another tool's result, as printed there.
func showFigures(w io.Writer, e *result.Entry) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, f := range e.Metrics {
		escape.Print(t, "%s\t%s\n", f.Name, f.String())
	}
	for _, f := range e.Extra {
		escape.Print(t, "%s\t%s\t(the tool's own)\n", f.Name, f.String())
	}
	for _, f := range e.Context {
		if text, err := json.Marshal(f.Value); err == nil {
			escape.Print(t, "%s\t%s\t(%s)\n", f.Name, oneLine(string(text)), f.From)
		}
	}
	if n := len(e.EngineLog); n > 0 {
		escape.Print(t, "engine log\t%d lines\n", n)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, problem := range e.Problems {
		escape.Print(w, "%s\n", problem)
	}
	return nil
}

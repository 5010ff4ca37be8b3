package table

import (
	"encoding/json"
	"fmt"
	"io"

	"spate/internal/result"
	"spate/internal/safe/escape"
)

// CSV writes every digit the results have, verdict and settings first, under vLLM's names.
func CSV(w io.Writer, set []result.Entry, opt Options) error {
	g, err := New(set, opt)
	if err != nil {
		return err
	}
	out := escape.NewCSV(w)
	head := []string{"id", "verdict", "state"}
	for _, s := range g.Common {
		head = append(head, s.Key)
	}
	for _, f := range g.Factors {
		head = append(head, f.Key)
	}
	for _, c := range g.Columns {
		head = append(head, c.Key)
	}
	rows := [][]string{head}
	for _, r := range g.Rows {
		row := []string{r.Entry.ID, r.Entry.Grade(), r.Entry.State()}
		for _, s := range g.Common {
			row = append(row, s.Value)
		}
		row = append(row, r.Settings...)
		for _, c := range g.Columns {
			row = append(row, r.Entry.Text(c.Key))
		}
		rows = append(rows, row)
	}
	for _, row := range rows {
		if err := out.Write(row); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	return out.Flush()
}

// JSON writes an array, one object per row: id, settings, figures as printed, verdict.
func JSON(w io.Writer, set []result.Entry, opt Options) error {
	g, err := New(set, opt)
	if err != nil {
		return err
	}
	type row struct {
		ID       string                 `json:"id"`
		Settings map[string]string      `json:"settings"`
		Metrics  map[string]json.Number `json:"metrics"`
		Verdict  string                 `json:"verdict,omitempty"`
		State    string                 `json:"state,omitempty"`
	}
	out := make([]row, 0, len(g.Rows))
	for _, r := range g.Rows {
		o := row{ID: r.Entry.ID, Settings: map[string]string{}, Metrics: map[string]json.Number{}, Verdict: r.Entry.Grade(), State: r.Entry.State()}
		for _, s := range g.Common {
			o.Settings[s.Key] = s.Value
		}
		for i, f := range g.Factors {
			o.Settings[f.Key] = r.Settings[i]
		}
		for _, c := range g.Columns {
			if f, ok := r.Entry.Metrics.Get(c.Key); ok && !f.Word {
				o.Metrics[c.Key] = json.Number(f.String())
			}
		}
		out = append(out, o)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

package view

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/judge/explain"
	"spate/internal/result/store"
)

// explanation is one result with what limited it, for programs.
type explanation struct {
	ID     string          `json:"id"`
	Name   string          `json:"name,omitempty"`
	Causes []explain.Cause `json:"causes"`
}

// Explain is `spate explain RUN...`.
type Explain struct {
	store string
	json  bool
}

// Bind adds the flags to a set.
func (o *Explain) Bind(f *pflag.FlagSet) {
	f.StringVar(&o.store, "store", "", store.Help)
	f.BoolVar(&o.json, "json", false, "print an array, one object per result")
}

// Run prints what limited each result.
func (o *Explain) Run(ctx context.Context, p console.Process, refs []string) error {
	set, err := store.Find(ctx, p, o.store, refs)
	if err != nil {
		return err
	}
	list := []explanation{}
	for i := range set {
		if e := &set[i]; e.Measured() {
			list = append(list, explanation{ID: e.ID, Name: e.Name, Causes: explain.Of(e)})
		}
	}
	if len(list) == 0 {
		return fmt.Errorf("no result to explain in %s", strings.Join(refs, ", "))
	}
	var out strings.Builder
	if o.json {
		data, err := json.MarshalIndent(list, "", "  ")
		if err != nil {
			return fmt.Errorf("encode explanations: %w", err)
		}
		out.Write(append(data, '\n'))
	} else if err := writeExplanations(&out, list); err != nil {
		return err
	}
	_, err = io.WriteString(p.Stdout, out.String())
	return console.Wrote(err)
}

func writeExplanations(out *strings.Builder, list []explanation) error {
	for i, e := range list {
		if i > 0 {
			out.WriteByte('\n')
		}
		title := e.ID
		if e.Name != e.ID && e.Name != "" {
			title += "  " + e.Name
		}
		out.WriteString(title + "\n\n")
		if err := explain.Write(out, e.Causes); err != nil {
			return fmt.Errorf("write explanation: %w", err)
		}
	}
	return nil
}

package sweep

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"spate/internal/result"
	"spate/internal/view/table"
)

// WriteTables writes the results side by side: on a terminal of this width a table that fits it, elsewhere (0) in
// Markdown with everything. Below it stands why not every run is VALID; what it says in sentences is for reports.
func (f *Folder) WriteTables(b *bytes.Buffer, entries []result.Entry, width int) error {
	if err := f.sideBySide(b, entries, width); err != nil {
		return err
	}
	if why := Reasons(f.Plan, entries); len(why) > 0 {
		fmt.Fprintf(b, "\nWhy not every run is VALID\n\n- %s\n", strings.Join(why, "\n- "))
	}
	return nil
}

func (f *Folder) sideBySide(b *bytes.Buffer, entries []result.Entry, width int) error {
	b.WriteByte('\n')
	var err error
	switch repeats := f.Plan.Repeat > 1; {
	case width == 0:
		if repeats {
			b.WriteString("Medians of each point\n\n")
			err = Table(b, f.Plan, entries)
			b.WriteByte('\n')
		}
		return errors.Join(err, table.Markdown(b, entries, table.Options{}))
	case repeats: // every run was told as it ended
		b.WriteString("Medians of each point\n\n")
		head, rows := Medians(f.Plan, entries)
		err = table.Fit(b, head, rows, slices.Index(head, "verdict")+1, width)
	default:
		err = table.Text(b, entries, width)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "latencies are in ms; everything in one table: spate report %s -o table.md\n", filepath.Join(f.Dir, "runs"))
	return nil
}

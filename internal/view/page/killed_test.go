package page

import (
	"testing"

	"spate/internal/judge/verdict"
)

// How many requests a killed run cut off is not known.
func TestChecksOfAKilledRun(t *testing.T) {
	for _, row := range checks(verdict.Judge(verdict.Input{Killed: true})).Rows {
		if row[0].Text == "cut off" {
			if row[1].Text != "suspect" || row[2].Text != "not known" || row[3].Text != "" {
				t.Errorf("the row is %+v", row)
			}
			return
		}
	}
	t.Error("there is no row of cut_off")
}

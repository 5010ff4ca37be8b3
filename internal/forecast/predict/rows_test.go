package predict

import (
	"strings"
	"testing"
)

// TestRowsOfTheWrongShape: whoever gives another file is told what is wrong in it, not in which type.
func TestRowsOfTheWrongShape(t *testing.T) {
	for data, want := range map[string]string{
		`[]`: `the file is a JSON array`,
		`{"rows": [{"id": "a", "workload": {"num_prompts": "ten"}}]}`: `rows.workload.num_prompts is a JSON string`,
		`{"rows": [`: `unexpected end`,
		`{}`:         `there are none`,
	} {
		if _, err := ParseRows([]byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", data, err, want)
		}
	}
}

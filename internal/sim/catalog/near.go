package catalog

import (
	"fmt"
	"strings"
)

// nearest returns a hint that names the valid word closest to got, or nothing when none is close.
func nearest(got string, valid []string) string {
	best, dist := "", len(got)/2+1
	for _, v := range valid {
		if d := distance(strings.ToLower(got), strings.ToLower(v)); d < dist {
			best, dist = v, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
}

// distance is the number of single-byte edits between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diag, row[j] = row[j], min(row[j]+1, row[j-1]+1, diag+cost)
		}
	}
	return row[len(b)]
}

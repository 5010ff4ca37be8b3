package config

import (
	"slices"
	"strings"
)

func contains(list []string, s string) bool { return slices.Contains(list, s) }

// DidYouMean returns `: did you mean "x"?` for the nearest candidate, or the empty string when none
// is near.
func DidYouMean(word string, candidates []string) string {
	if best := Nearest(word, candidates); best != "" {
		return `: did you mean "` + best + `"?`
	}
	return ""
}

// Nearest returns the candidate that word was most likely meant to be, or the empty string. Ties go
// to the earlier candidate, so the answer does not depend on anything but the arguments.
func Nearest(word string, candidates []string) string {
	word = fold(word)
	best, bestCost := "", limit(word)+1
	for _, c := range candidates {
		cost := bestCost
		if gap := len(word) - len(c); max(gap, -gap) <= 4*limit(word) { // else it cannot be near, and long words take long
			cost = distance(word, fold(c))
		}
		if len(word) >= 4 && strings.Contains(fold(c), word) {
			cost = min(cost, 2)
		}
		if cost < bestCost {
			best, bestCost = c, cost
		}
	}
	return best
}

// limit is how many edits still look like a slip: about a third of the word.
func limit(word string) int { return max(1, min(4, len(word)/3)) }

func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "-") }

// distance counts insertions, deletions, replacements and swaps of neighbours (optimal string
// alignment), each one edit.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	prev2 := make([]int, len(y)+1)
	prev := make([]int, len(y)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row := make([]int, len(y)+1)
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], prev2[j-2]+1)
			}
		}
		prev2, prev = prev, row
	}
	return prev[len(y)]
}

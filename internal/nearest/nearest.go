// Package nearest finds the word a misspelt one was meant to be. Whoever refuses a name asks it for a hint: readers of
// flags, settings, scripts and catalogs. Before it is what a user typed, after it an error message.
//
// Read Word first.
package nearest

import "strings"

// Hint returns `: did you mean "x"?` for the nearest of the known words, or nothing when none is near.
func Hint[S ~string](word string, known []S) string {
	if best := Word(word, known); best != "" {
		return `: did you mean "` + string(best) + `"?`
	}
	return ""
}

// Word returns the known word that word was most likely meant to be, or the empty string. Capitals do not matter, nor
// whether words are joined by - or _. Ties go to the earlier word, so the answer depends on the arguments alone.
func Word[S ~string](word string, known []S) S {
	word = fold(word)
	var best S
	least := limit(word) + 1
	for _, k := range known {
		cost := least
		if gap := len(word) - len(k); max(gap, -gap) <= 4*limit(word) { // else it cannot be near, and long words take long
			cost = distance(word, fold(string(k)))
		}
		if len(word) >= 4 && strings.Contains(fold(string(k)), word) {
			cost = min(cost, 2)
		}
		if cost < least {
			best, least = k, cost
		}
	}
	return best
}

// limit is how many edits still look like a slip: about a third of the word.
func limit(word string) int { return max(1, min(4, len(word)/3)) }

func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "-") }

// distance counts insertions, deletions, replacements and swaps of neighbours (optimal string alignment), each one edit.
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

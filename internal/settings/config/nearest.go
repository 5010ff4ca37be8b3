package config

import (
	"slices"

	"spate/internal/nearest"
)

func contains(list []string, s string) bool { return slices.Contains(list, s) }

// DidYouMean returns `: did you mean "x"?` for the nearest candidate, or the empty string when none
// is near.
func DidYouMean(word string, candidates []string) string { return nearest.Hint(word, candidates) }

// Nearest returns the candidate that word was most likely meant to be, or the empty string.
func Nearest(word string, candidates []string) string { return nearest.Word(word, candidates) }

//go:build race

package compare

// pairsTried is how many pairs a law is tried on: fewer where everything takes ten times as long.
const pairsTried = 4

//go:build !race

package compare

// pairsTried is how many pairs a law is tried on.
const pairsTried = 100

// Package archtest holds the house rules as tests: which package may import which, which may touch the
// machine or the clock, and that the documents name what is really there. It has no code of its own.
// Read table_test.go: it is the plan of the house.
package archtest

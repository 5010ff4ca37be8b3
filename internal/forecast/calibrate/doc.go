// Package calibrate fits profiles (package profile) to rows of benchmark tables. Rows of one model on
// one engine version form a family that shares its parameters; physics, where model and GPU are
// known, says what to expect of each; a bounded least-squares search runs the simulator (through
// package predict) until the figures agree within noise. What the rows do not determine stays at its
// expectation and is said so. Leaving out one row at a time tells how far the result can be trusted.
//
// What users have comes first: results of any benchmark tool become rows (rows.go), an engine's log of its steps
// becomes parameters of the step time (regress.go), and its start-up lines say what the server is (server.go).
// Nothing is guessed: what a result lacks is named, with the flag that supplies it.
//
// Read gather.go for what goes in, family.go for the parameters, then search.go, then calibrate.go.
package calibrate

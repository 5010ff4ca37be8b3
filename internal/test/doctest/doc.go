// Package doctest has only tests: they run every command that README.md, docs and the comments of examples tell people
// to type, with the program as it is shipped, against simulated servers. table_test.go says what is changed in a
// command so that it can run here within seconds, and why; nothing else is. Beside it stands internal/test/archtest, which
// holds what documents say about the code.
package doctest

// Package e2e has only tests: they run the whole program as users do. Most start the command as a process of its own,
// against a real server over real sockets; the scripts in testdata/script run one command after another and check what
// each prints. They need only what the program offers: unit tests of the commands' insides stay in internal/cli.
package e2e

//go:build !unix

package store

import "testing"

// server stands for the Postgres the tests start on Unix.
type server struct{}

var pg server

func postgresURL(t *testing.T) string {
	t.Helper()
	t.Skip("the tests start Postgres on Unix only")
	return ""
}

func (*server) stop() error { return nil }

// Package probe looks at what surrounds a measurement: the machine spate runs on (host.go), spate's own process
// while it measures (self.go), the way to the server (rtt.go), the server's identity (server.go) and its counters
// before and after the run (counters.go, delta.go). bench calls it around driver; verdict judges what it found and
// result keeps it.
//
// Every figure may be missing: an operating system that does not tell or a server without counters leaves zero
// or nil behind, never a guess. Read self.go first: it holds the figures that decide how far a run can be
// trusted.
package probe

import "net/http"

// Do sends one HTTP request. The caller passes its own client's, so that probes go through the same proxy,
// certificates and socket as the load; (*http.Client).Do fits.
type Do func(*http.Request) (*http.Response, error)

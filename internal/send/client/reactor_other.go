//go:build !linux

package client

import (
	"net"

	"spate/internal/call"
)

// reactors exist on Linux only; elsewhere every connection is read by its own goroutine.
type reactors struct{}

func newReactors(call.Clock) (*reactors, error) { return nil, nil }

func (*reactors) adopt(net.Conn) (link, error) { return nil, net.ErrClosed }

func (*reactors) close() {}

func (*reactors) stampLag() (Lag, bool) { return Lag{}, false }

func (*reactors) resetLag() {}

// stamped is for kernels that say when bytes arrived.
func stamped(conn net.Conn, _ call.Clock) net.Conn { return conn }

package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// RTT is how long it takes to reach a server and back: the time a TCP connection takes to open, which is one
// round trip plus little. It is shown beside latencies and never subtracted from them.
type RTT struct {
	Address string        `json:"address"` // the one that answered
	Resolve time.Duration `json:"resolve_ns"`
	Min     time.Duration `json:"min_ns"`
	Median  time.Duration `json:"median_ns"`
	Max     time.Duration `json:"max_ns"`
	N       int           `json:"n"`
	Failed  int           `json:"failed,omitempty"`
}

// MeasureRTT opens and closes n connections one after another. The network is tcp or unix; a TCP address is
// host:port, and its name is resolved once, beforehand.
func MeasureRTT(ctx context.Context, network, address string, n int) (RTT, error) {
	if n < 1 {
		return RTT{}, fmt.Errorf("measuring the round trip needs at least 1 sample, got %d", n)
	}
	candidates, resolve, err := resolve(ctx, network, address)
	if err != nil {
		return RTT{}, fmt.Errorf("resolving %s: %w", address, err)
	}
	r := RTT{Resolve: resolve}
	var times []time.Duration
	var errs []error
	for len(times)+r.Failed < n && ctx.Err() == nil {
		d, err := connect(ctx, network, candidates[0])
		switch {
		case err == nil:
			times = append(times, d)
		case len(times) == 0 && len(candidates) > 1:
			candidates = candidates[1:] // a name with addresses nobody listens on
			errs = append(errs, err)
		default:
			r.Failed++
			errs = append(errs, err)
		}
	}
	if len(times) == 0 {
		return RTT{}, fmt.Errorf("connecting to %s: %w", address, errors.Join(append(errs, ctx.Err())...))
	}
	slices.Sort(times)
	r.Address, r.N = candidates[0], len(times)
	r.Min, r.Max = times[0], times[len(times)-1]
	r.Median = (times[(len(times)-1)/2] + times[len(times)/2]) / 2
	return r, nil
}

func resolve(ctx context.Context, network, address string) (candidates []string, took time.Duration, err error) {
	if network == "unix" {
		return []string{address}, 0, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, 0, err
	}
	start := time.Now()
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	took = time.Since(start)
	if err != nil {
		return nil, 0, err
	}
	for _, ip := range ips {
		candidates = append(candidates, net.JoinHostPort(ip, port))
	}
	return candidates, took, nil
}

func connect(ctx context.Context, network, address string) (time.Duration, error) {
	var d net.Dialer
	start := time.Now()
	conn, err := d.DialContext(ctx, network, address)
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	return took, conn.Close()
}

package client

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"spate/internal/call"
)

// BenchmarkFirstWave is what the pool costs a first wave of requests, all sent before the first answer: per request,
// it must not grow with their number.
func BenchmarkFirstWave(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				p := newPool(&dialer{clock: call.NewClock()}, false, 0)
				for range n {
					p.fresh = append(p.fresh, &opened{link: idleLink{}})
				}
				for range n {
					if p.pop() == nil {
						b.Fatal("no connection")
					}
				}
				p.close()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/request")
		})
	}
}

// idleLink is a connection that stays open.
type idleLink struct{}

func (idleLink) exchange(context.Context, *exchange, net.Buffers) bool { return true }
func (idleLink) alive(time.Duration) bool                              { return true }
func (idleLink) close()                                                {}

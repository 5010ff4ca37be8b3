package coordinator

import (
	"strings"
	"testing"
	"time"

	"spate/internal/fleet/clock"
	"spate/internal/fleet/wire"
)

// TestWorkersAreShown: a clock 1.5 ms behind with a round trip of 0.4 ms is known to within 0.2 ms; what a worker does not
// tell is a dash.
func TestWorkersAreShown(t *testing.T) {
	load := 3.25
	var out strings.Builder
	err := writeWorkers(&out, []workerStatus{
		{
			Hello: wire.Hello{Worker: "a", Host: "h1", Version: "1", Protocol: wire.Protocol, Cores: 8, Load: &load, Runs: 2},
			Clock: &clock.Estimate{Offset: -1500 * time.Microsecond, RoundTrip: 400 * time.Microsecond, Exchanges: 24},
		},
		{Hello: wire.Hello{Worker: "b", Host: "h2", Version: "2", Protocol: wire.Protocol, Cores: 16}},
	}, "1")
	want := `worker  host  version  cores  load  clock offset       round trip  runs  state
a       h1    1        8      3.25  -1.500 ± 0.200 ms  0.400 ms    2     free
b       h2    2        16     -     -                  -           0     another version
`
	if err != nil || out.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out.String(), want)
	}
}

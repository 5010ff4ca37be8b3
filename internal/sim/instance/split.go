package instance

import (
	"fmt"
	"slices"

	"spate/internal/sim"
	"spate/internal/sim/catalog"
	"spate/internal/sim/cluster"
	"spate/internal/sim/engineconf"
	"spate/internal/sim/latency"
)

// Split separates prompts from decoding: prefill engines compute prompts, and the KV moves over a
// link to the engines that answer. The zero value changes nothing.
type Split struct {
	Prefill int // engines; 0 with Decode set: one
	Decode  int
	Link    string  // of the catalog, such as rdma or tcp-25; empty: the one between nodes
	Loss    float64 // share of transfers that are lost
	Retries int     // of a lost transfer, before OnLoss
	OnLoss  string  // recompute (the default) or fail
}

// What happens to a request whose KV was lost, under vLLM's names.
const (
	Recompute = "recompute"
	Fail      = "fail"
)

// Middle values for what no datasheet tells.
const (
	proxyNS = 3e6  // a proxy's two hops
	retryNS = 10e6 // until a lost transfer is noticed and begun again
)

// asked reports whether engines of either kind were asked for.
func (s *Split) asked() bool { return s.Prefill > 0 || s.Decode > 0 }

// check reports settings that make no sense.
func (s *Split) check() error {
	switch {
	case s.Prefill < 0 || s.Decode < 0 || s.Retries < 0:
		return fmt.Errorf("a negative number of prefill engines, decode engines or retries")
	case !(s.Loss >= 0 && s.Loss <= 1):
		return fmt.Errorf("kv-loss is %v: it is the share of transfers lost, 0 to 1", s.Loss)
	case s.OnLoss != "" && s.OnLoss != Recompute && s.OnLoss != Fail:
		return fmt.Errorf("kv-load-failure-policy is %s or %s, not %q", Recompute, Fail, s.OnLoss)
	}
	return nil
}

// apply separates a deployment's engines, or changes how separate ones lose transfers.
func (s *Split) apply(c *engineconf.Conf, cl *cluster.Config) error {
	if err := s.check(); err != nil {
		return err
	}
	if s.asked() {
		if err := s.separate(c, cl); err != nil {
			return err
		}
	}
	d := cl.Disagg
	if d == nil {
		if *s != (Split{}) {
			return fmt.Errorf("no KV moves between engines: give --prefill-engines and --decode-engines too")
		}
		return nil
	}
	if s.Link != "" && !s.asked() {
		return fmt.Errorf("the profile has a measured link: --kv-link needs --prefill-engines and --decode-engines")
	}
	if s.Loss > 0 {
		d.Link.FailureRate = s.Loss
	}
	d.Link.Retries = max(d.Link.Retries, s.Retries)
	if d.Link.RetryNS == 0 {
		d.Link.RetryNS = retryNS
	}
	if s.OnLoss != "" {
		d.FailHard = s.OnLoss == Fail
	}
	return nil
}

// separate makes as many engines of each kind as asked for, all like the first.
func (s *Split) separate(c *engineconf.Conf, cl *cluster.Config) error {
	one := cl.Engines[0]
	if cl.Disagg == nil {
		d, err := s.computed(c, cl)
		if err != nil {
			return err
		}
		cl.Disagg = d
	} else if s.Link != "" {
		return fmt.Errorf("the profile has a measured link: leave --kv-link out")
	}
	cl.Engines = slices.Repeat([]cluster.Engine{one}, max(s.Decode, 1))
	cl.Disagg.Prefill = slices.Repeat([]cluster.Engine{one}, max(s.Prefill, 1))
	return nil
}

// computed is the way between engines by the datasheet of the link and the size of the model's KV.
func (s *Split) computed(c *engineconf.Conf, cl *cluster.Config) (*cluster.Disagg, error) {
	one := &cl.Engines[0]
	old := one.Sim.Policy == sim.V0 || one.Sim.Policy == sim.V0Chunked
	switch {
	case !old && one.Sim.Policy != sim.V1:
		return nil, fmt.Errorf("separate prefill and decode engines are simulated for vLLM, not for %s", c.Engine.Name)
	case len(cl.Engines) > 1:
		return nil, fmt.Errorf("prefill and decode engines have no replicas of their own: leave --data-parallel-size out and ask for more of them")
	case c.NodeLink == nil:
		return nil, fmt.Errorf("the profile names no model and GPU in the catalog: how much KV a token has is not known")
	}
	l := c.NodeLink
	if s.Link != "" {
		var err error
		if l, err = catalog.FindLink(s.Link); err != nil {
			return nil, err
		}
	}
	d := &cluster.Disagg{ProxyNS: proxyNS, Link: cluster.Link{
		SetupNS: 1e3 * l.Setup, TokenNS: c.Shape().KVBytes / l.Bandwidth, DescriptorNS: 1e3 * l.Descriptor * float64(c.Model.Layers),
		Descriptor: one.Sim.BlockSize, RetryNS: retryNS,
	}}
	if old { // its connectors move KV within a step
		d.Blocking, d.Between = true, true
		d.FirstNS = float64(one.Model.Step(latency.Batch{Decode: 1, KV: 1, MaxContext: 1}))
	}
	return d, nil
}

// separation describes separate engines; nothing for others.
func separation(cl *cluster.Config) string {
	if cl.Disagg == nil {
		return ""
	}
	return fmt.Sprintf("; prefill engines: %d, decode engines: %d", len(cl.Disagg.Prefill), len(cl.Engines))
}

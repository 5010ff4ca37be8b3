package cluster

import "spate/internal/rng"

// Policy is the way requests are spread over engines.
type Policy string

// The policies.
const (
	RoundRobin  Policy = "round-robin"
	LeastLoaded Policy = "least-loaded"
	Affinity    Policy = "prefix" // prompts that begin alike go to the same engine, unless it is crowded
)

// crowded is how many more requests than the emptiest engine one may have before affinity gives way.
const crowded = 16

type router struct {
	policy Policy
	turn   int
}

func (r *router) begin() { r.turn = 0 }

// pick chooses a node and returns its position among all nodes.
func (r *router) pick(nodes []*node, call *Call) int {
	if len(nodes) == 1 {
		return nodes[0].index
	}
	switch r.policy {
	case LeastLoaded:
		return nodes[least(nodes)].index
	case Affinity:
		if len(call.Prompt) > 0 {
			n := nodes[rng.Mix(call.Prompt[0].Stream^0x70726566)%uint64(len(nodes))]
			if n.load() <= nodes[least(nodes)].load()+crowded {
				return n.index
			}
		}
		return nodes[least(nodes)].index
	default:
		n := nodes[r.turn%len(nodes)]
		r.turn++
		return n.index
	}
}

func (n *node) load() int { return n.engine.Load() }

func least(nodes []*node) int {
	best := 0
	for i := range nodes {
		if nodes[i].load() < nodes[best].load() {
			best = i
		}
	}
	return best
}

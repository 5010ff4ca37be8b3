package flags

import "spate/internal/settings/config"

// fleetFlags have the load sent by several processes.
func fleetFlags(b *config.Bench) []Def {
	f := &b.Fleet
	return []Def{
		{
			Name: "workers", Group: GroupFleet, Main: true, value: integer(&f.Workers), Meta: "N",
			Help: "have the load sent by this many worker processes, here or (with --fleet) on other hosts; the load is the same for any number",
		},
		{
			Name: "fleet", Group: GroupFleet, Main: true, value: str(&f.Join), Meta: "URL",
			Help: "address of the broker whose workers are to send: nats://host:4222, tls://host:4222, or the join file of spate fleet serve",
		},
	}
}

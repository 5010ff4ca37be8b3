package cli

import (
	"fmt"

	"spate/internal/settings/config"
	"spate/internal/settings/flags"
)

// This file has what several tenants in one run change for commands.

// oneWorkload refuses settings with tenants for a command that changes or simulates the load of one.
func oneWorkload(c *config.Bench, command string) error {
	if len(c.Tenants) == 0 {
		return nil
	}
	return &flags.Error{Text: fmt.Sprintf("the config file lists tenants, and %s knows runs of one workload only", command), Hint: "spate bench runs several"}
}

// addSalt gives the prompts a beginning that no other run's have, where it is wanted.
func addSalt(c *config.Bench, wanted func(*config.Bench) bool) {
	word := randomHex()
	if wanted(c) {
		c.Dataset.Salt = word
	}
	for i := range c.Tenants {
		if wanted(c.Tenant(i)) {
			c.Tenants[i].Dataset.Salt = word
		}
	}
}

package cli

import (
	"spate/internal/settings/config"
)

// This file has what several tenants in one run change for commands.

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

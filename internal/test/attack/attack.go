// Package attack has only tests: hostile servers, hostile files and bad moments against real spate processes over
// loopback. `make test` runs a short form of each, `make attack` the long one (SPATE_ATTACK=long), from a seed
// (SPATE_ATTACK_SEED). Whatever is done to a process, the same laws hold for it; laws_test.go has them.
package attack

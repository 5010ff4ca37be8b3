package trial

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"spate/internal/settings/config"
)

// Digest is a short name for settings; what differs from run to run anyway is left out. Before the dash stands which
// settings there are at all: another version of spate may know others.
func Digest(cfg *config.Bench) string {
	c := cfg.Redacted()
	c.Given, c.Load.RequestIDPrefix = nil, ""
	return short(config.Bench{}) + "-" + short(c)
}

// short names a value by its JSON.
func short(c config.Bench) string {
	raw, err := json.Marshal(c)
	if err != nil {
		return "" // cannot be: bench writes the same to every run folder
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:6])
}

// SameDigest reports whether two digests are equal, or come from versions of spate whose settings cannot be compared.
func SameDigest(a, b string) bool {
	x, _, known := strings.Cut(a, "-")
	y, _, _ := strings.Cut(b, "-")
	return a == b || !known || x != y
}

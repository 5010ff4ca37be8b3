package trial

import (
	"crypto/rand"
	"encoding/hex"
)

// NewID is eight digits nobody else has.
func NewID() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

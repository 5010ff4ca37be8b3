package trial

import (
	"crypto/rand"
	"encoding/hex"
)

// NewID is a random id of eight digits.
func NewID() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

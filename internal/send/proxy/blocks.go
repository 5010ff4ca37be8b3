package proxy

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"os"
)

// idBits is the width of a block's id: what every reader of JSON keeps exactly.
const idBits = 53

// charsPerToken is how much text a token stands for where nobody counts them.
const charsPerToken = 4

// salt keys the ids. Who does not have it can compare them with each other and with nothing else.
type salt []byte

func newSalt(given []byte) (salt, error) {
	if len(given) > 0 {
		return salt(given), nil
	}
	s := make(salt, sha256.Size)
	if _, err := rand.Read(s); err != nil {
		return nil, fmt.Errorf("make a salt: %w", err)
	}
	return s, nil
}

// word is a short name for something that must not be readable.
func (s salt) word(kind, text string) string {
	m := hmac.New(sha256.New, s)
	_, _ = m.Write([]byte(kind + "\x00" + text)) // never fails
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil)[:9])
}

// chain names blocks one after another: an id follows from its block and all before it.
type chain struct {
	mac hash.Hash
	sum []byte
	ids []uint64
}

func (s salt) chain() *chain { return &chain{mac: hmac.New(sha256.New, s)} }

func (c *chain) add(block []byte) {
	c.mac.Reset()
	_, _ = c.mac.Write(c.sum) // never fails
	_, _ = c.mac.Write(block) // as above
	c.sum = c.mac.Sum(c.sum[:0])
	c.ids = append(c.ids, binary.BigEndian.Uint64(c.sum)>>(64-idBits))
}

// ofTokens are the ids of a prompt's blocks, each of size tokens but the last.
func (s salt) ofTokens(ids []int32, size int) *chain {
	c := s.chain()
	block := make([]byte, 0, 4*size)
	for len(ids) > 0 {
		n := min(size, len(ids))
		block = block[:0]
		for _, id := range ids[:n] {
			block = binary.BigEndian.AppendUint32(block, uint32(id))
		}
		c.add(block)
		ids = ids[n:]
	}
	return c
}

// ofText are the ids where tokens are not known: blocks of as many characters as size tokens usually have.
func (s salt) ofText(text string, size int) *chain {
	c := s.chain()
	for len(text) > 0 {
		n := runes(text, charsPerToken*size)
		c.add([]byte(text[:n]))
		text = text[n:]
	}
	return c
}

// runes is how many bytes the first characters of a text are, at most most of them.
func runes(text string, most int) int {
	for i := range text {
		if most == 0 {
			return i
		}
		most--
	}
	return len(text)
}

// fit makes the ids as many as a prompt of n tokens has, because readers take a prompt's length from both.
// Where the count was another, the end of the prompt gets ids of its own, so that prompts which differ
// anywhere still differ.
func (c *chain) fit(n, size int) []uint64 {
	want := (n + size - 1) / size
	if len(c.ids) == want {
		return c.ids
	}
	if len(c.ids) > want && want > 0 {
		c.ids = c.ids[:want-1]
	}
	for len(c.ids) < want {
		c.add([]byte("end"))
	}
	return c.ids[:want]
}

// minSalt is the shortest salt that cannot be guessed.
const minSalt = 16

// ReadSalt reads the salt of a file, and makes the file when there is none.
func ReadSalt(path string) ([]byte, error) {
	s, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if s, err = newSalt(nil); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, s, 0o600); err != nil {
			return nil, fmt.Errorf("keep the salt: %w", err)
		}
	case err != nil:
		return nil, fmt.Errorf("read the salt: %w", err)
	case len(s) < minSalt:
		return nil, fmt.Errorf("the salt in %s has %d bytes: at least %d are needed, or ids could be guessed", path, len(s), minSalt)
	}
	return s, nil
}

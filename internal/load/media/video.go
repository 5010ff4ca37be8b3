package media

import (
	"encoding/binary"
	"math/rand/v2"
)

// framesPerSecond is how fast made-up videos play.
const framesPerSecond = 30

// Video is frames of noise as Motion JPEG in an AVI file: every frame a picture of its own, which no codec of another
// kind is needed for and every decoder reads.
func Video(draws *rand.Rand, size Size) ([]byte, error) {
	frames := make([][]byte, size.Frames)
	largest := 0
	for i := range frames {
		data, err := Picture(draws, size)
		if err != nil {
			return nil, err
		}
		frames[i] = data
		largest = max(largest, len(data))
	}
	return chunk(nil, "RIFF", func(b []byte) []byte {
		b = list(b, "AVI ", "hdrl", func(b []byte) []byte { return aviHeaders(b, size, largest) })
		var index []byte
		b = list(b, "", "movi", func(b []byte) []byte {
			at := 4 // from the word movi
			for _, f := range frames {
				b = chunk(b, "00dc", func(b []byte) []byte { return append(b, f...) })
				index = append(index, "00dc"...)
				index = words32(index, 0x10, uint32(at), uint32(len(f))) // each can be shown alone
				at += 8 + len(f) + len(f)%2
			}
			return b
		})
		return chunk(b, "idx1", func(b []byte) []byte { return append(b, index...) })
	}), nil
}

// aviHeaders says how many pictures of what size come how fast.
func aviHeaders(b []byte, size Size, largest int) []byte {
	w, h, n := uint32(size.Width), uint32(size.Height), uint32(size.Frames)
	b = chunk(b, "avih", func(b []byte) []byte {
		return words32(b, 1_000_000/framesPerSecond, uint32(largest)*framesPerSecond, 0, 0x10, n, 0, 1, uint32(largest), w, h, 0, 0, 0, 0)
	})
	return list(b, "", "strl", func(b []byte) []byte {
		b = chunk(b, "strh", func(b []byte) []byte {
			b = append(b, "vidsMJPG"...)
			b = words32(b, 0, 0, 0, 1, framesPerSecond, 0, n, uint32(largest), 0xffffffff, 0)
			return words16(b, 0, 0, uint16(w), uint16(h))
		})
		return chunk(b, "strf", func(b []byte) []byte {
			b = words32(b, 40, w, h)
			b = append(words16(b, 1, 24), "MJPG"...)
			return words32(b, w*h*3, 0, 0, 0, 0)
		})
	})
}

// chunk appends a named piece with its length, padded to even.
func chunk(b []byte, name string, fill func([]byte) []byte) []byte {
	b = append(b, name...)
	at := len(b)
	b = fill(append(b, 0, 0, 0, 0))
	n := len(b) - at - 4
	binary.LittleEndian.PutUint32(b[at:], uint32(n))
	if n%2 == 1 {
		b = append(b, 0)
	}
	return b
}

// list appends a list of pieces; before stands ahead of it.
func list(b []byte, before, name string, fill func([]byte) []byte) []byte {
	return chunk(append(b, before...), "LIST", func(b []byte) []byte { return fill(append(b, name...)) })
}

func words32(b []byte, list ...uint32) []byte {
	for _, v := range list {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

func words16(b []byte, list ...uint16) []byte {
	for _, v := range list {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	return b
}

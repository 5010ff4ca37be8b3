package arrow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// What a compressed buffer may come to: no text shrinks to less than a thousandth.
const (
	maxBuffer  = 1 << 31
	alwaysFine = 1 << 24
	maxRatio   = 1000
)

// codecs decompress buffers. Their tables are large, so each is made once.
type codecs struct {
	lz4  *lz4.Reader
	zstd *zstd.Decoder
}

// The numbers of compressions.
const (
	codecLZ4  = 0
	codecZstd = 1
)

// of is how buffers are decompressed; each begins with its length before.
func (c *codecs) of(n uint8) (func([]byte) ([]byte, error), error) {
	switch n {
	case codecLZ4:
		if c.lz4 == nil {
			c.lz4 = lz4.NewReader(nil)
		}
		return func(b []byte) ([]byte, error) {
			return unpacked(b, c.lz4, func(r io.Reader) error { c.lz4.Reset(r); return nil })
		}, nil
	case codecZstd:
		if c.zstd == nil {
			var err error
			if c.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBuffer)); err != nil {
				return nil, fmt.Errorf("prepare decompression: %w", err)
			}
		}
		return func(b []byte) ([]byte, error) { return unpacked(b, c.zstd, c.zstd.Reset) }, nil
	}
	return nil, fmt.Errorf("compression %d is not known", n)
}

func (c *codecs) close() {
	if c.zstd != nil {
		c.zstd.Close()
	}
}

func unpacked(b []byte, r io.Reader, reset func(io.Reader) error) ([]byte, error) {
	if len(b) < 8 {
		return nil, errors.New("damaged Arrow data: a compressed buffer without its length")
	}
	size := int64(binary.LittleEndian.Uint64(b))
	if size == -1 { // it would have become no smaller
		return b[8:], nil
	}
	if size < 0 || size > maxBuffer || size > alwaysFine && size > maxRatio*int64(len(b)) {
		return nil, fmt.Errorf("damaged Arrow data: a buffer of %d bytes", size)
	}
	if err := reset(bytes.NewReader(b[8:])); err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	var out bytes.Buffer
	if _, err := io.Copy(&out, io.LimitReader(r, size)); err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	if int64(out.Len()) != size {
		return nil, fmt.Errorf("damaged Arrow data: %d bytes instead of %d", out.Len(), size)
	}
	return out.Bytes(), nil
}

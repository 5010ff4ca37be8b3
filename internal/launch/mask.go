package launch

import (
	"bytes"
	"os"

	"spate/internal/secret"
)

// maskChunk is how much of a log is looked at at once.
const maskChunk = 1 << 20

// mask overwrites secrets in a log where they stand: engines print their arguments, keys included. The log keeps
// its length, so that whoever reads along does not lose the place. What cannot be opened has nothing to hide.
func mask(path string, secrets []string) {
	if len(secrets) == 0 {
		return
	}
	f, err := openLog(path, os.O_RDWR)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()       // written through WriteAt, which tells
	longest := len(secrets[0])             // they are sorted
	buf := make([]byte, maskChunk+longest) // with the end of the chunk before
	for at := int64(0); ; at += int64(maskChunk) {
		n, err := f.ReadAt(buf, at)
		for _, s := range secrets {
			maskOne(f, buf[:n], at, []byte(s))
		}
		if err != nil || n == 0 {
			return
		}
	}
}

func maskOne(f *os.File, buf []byte, at int64, value []byte) {
	for i := 0; ; {
		k := bytes.Index(buf[i:], value)
		if k < 0 {
			return
		}
		cover := bytes.Repeat([]byte{'*'}, len(value))
		copy(cover, secret.Redacted)
		_, _ = f.WriteAt(cover, at+int64(i+k)) // a disk that refuses this has no more to say
		copy(buf[i+k:], cover)
		i += k + len(value)
	}
}

// openLog opens a server's log.
func openLog(path string, flags int) (*os.File, error) { return os.OpenFile(path, flags, 0o600) }

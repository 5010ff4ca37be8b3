package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"spate/internal/safe/secret"
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

// openLog opens a server's log, which only its owner may read: a regular file of that name, not a link to another.
func openLog(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|noFollow, 0o600)
	if err != nil {
		if info, look := os.Lstat(path); look == nil && info.Mode()&os.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s is a link to another file: name that file, or remove the link", path)
		}
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		err = f.Chmod(0o600) // an earlier version made it readable for all
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

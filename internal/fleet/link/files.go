package link

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go/jetstream"

	"spate/internal/fleet/wire"
	"spate/internal/safe/infile"
)

// Files travel under the SHA-256 of what is in them: once to the broker, once to each worker.

// Hash reads a file and says what it holds.
func Hash(path string) (wire.File, error) {
	f, err := infile.Open(path, wire.MaxFile)
	if err != nil {
		return wire.File{}, err
	}
	defer func() { _ = f.Close() }() // only read from
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return wire.File{}, fmt.Errorf("read %s: %w", path, err)
	}
	return wire.File{Path: path, Hash: hex.EncodeToString(h.Sum(nil)), Size: n}, nil
}

func (l *Link) store(ctx context.Context) (jetstream.ObjectStore, error) {
	s, err := l.JS.ObjectStore(ctx, wire.Files)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		s, err = l.JS.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: wire.Files, Description: "datasets and tokenizers of spate, by SHA-256", TTL: keepFor,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("the fleet's store of files: %w", err)
	}
	return s, nil
}

// PutFile gives a file to the broker, unless it has it.
func (l *Link) PutFile(ctx context.Context, f wire.File) error {
	s, err := l.store(ctx)
	if err != nil {
		return err
	}
	if info, err := s.GetInfo(ctx, f.Hash); err == nil && info.Size == uint64(f.Size) {
		return nil
	}
	in, err := infile.Open(f.Path, wire.MaxFile)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read from
	if _, err := s.Put(ctx, jetstream.ObjectMeta{Name: f.Hash}, in); err != nil {
		return fmt.Errorf("hand %s to the fleet: %w", f.Path, err)
	}
	return nil
}

// GetFile is the path of a file within a folder of files by their content; it is fetched where it is not there yet, and
// checked on arrival.
func (l *Link) GetFile(ctx context.Context, f wire.File, dir string) (string, error) {
	path := filepath.Join(dir, f.Hash)
	if have, err := Hash(path); err == nil && have.Hash == f.Hash {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of files: %w", err)
	}
	s, err := l.store(ctx)
	if err != nil {
		return "", err
	}
	obj, err := s.Get(ctx, f.Hash)
	if err != nil {
		return "", fmt.Errorf("fetch %s from the fleet: %w", f.Path, err)
	}
	defer func() { _ = obj.Close() }() // only read from
	return path, receive(obj, f, path)
}

// receive writes a file beside its place and moves it there once it is what was announced.
func receive(from io.Reader, f wire.File, path string) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "arriving-")
	if err != nil {
		return fmt.Errorf("keep %s: %w", f.Path, err)
	}
	defer func() { err = errors.Join(err, clean(tmp, err)) }()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(tmp, h), io.LimitReader(from, f.Size+1))
	if err != nil {
		return fmt.Errorf("fetch %s: %w", f.Path, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); n != f.Size || got != f.Hash {
		return fmt.Errorf("%s arrived with %d bytes and SHA-256 %.12s…; %d bytes and %.12s… were announced", f.Path, n, got, f.Size, f.Hash)
	}
	if err := tmp.Sync(); err != nil {
		return fmt.Errorf("keep %s: %w", f.Path, err)
	}
	return os.Rename(tmp.Name(), path)
}

func clean(tmp *os.File, failed error) error {
	err := tmp.Close()
	if failed != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return err
}

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/store"
)

// flockRename is the register that one would write first: a file for each key,
// changed under flock(2) by writing a new file, syncing it, renaming it over the
// old one and syncing the directory. It is durable and excludes on a local file
// system. It wakes no waiter: waiters poll.
type flockRename struct {
	dir  string
	lock *os.File
}

func openFlockRename(dir string) (*flockRename, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &flockRename{dir, lock}, nil
}

func (s *flockRename) path(key string) string {
	return filepath.Join(s.dir, base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString([]byte(key)))
}

// The file is the version, a newline and the value. The rename is atomic: a reader needs no lock.
func (s *flockRename) Get(_ context.Context, key string) ([]byte, store.Version, error) {
	data, err := os.ReadFile(s.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", store.ErrNotFound
	}
	if err != nil {
		return nil, "", err
	}
	version, value, _ := bytes.Cut(data, []byte("\n"))
	return value, store.Version(version), nil
}

func (s *flockRename) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	// Each open file has its own flock; this one is shared by the goroutines of the
	// process, of which there is one here.
	if err := unix.Flock(int(s.lock.Fd()), unix.LOCK_EX); err != nil {
		return "", store.MarkNotApplied(err)
	}
	defer unix.Flock(int(s.lock.Fd()), unix.LOCK_UN)
	current, v, err := s.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", store.MarkNotApplied(err)
	}
	if v != prev {
		return "", &store.ConflictError{Key: key, HasCurrent: true, Value: current, Version: v}
	}
	next := store.Version(rand.Text())
	temp := s.path(key) + ".tmp"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.Write(append([]byte(string(next)+"\n"), value...))
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return "", err
	}
	if err := os.Rename(temp, s.path(key)); err != nil {
		return "", err
	}
	return next, syncDir(s.dir)
}

// Delete is not measured.
func (s *flockRename) Delete(context.Context, string, store.Version) error {
	return errors.ErrUnsupported
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

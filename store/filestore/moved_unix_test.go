//go:build unix

package filestore_test

// Windows removes and moves no directory that is open, or has open files.

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// TestVanished: if the directory of the store is removed, no register is reported absent
// and none is created.
func TestVanished(t *testing.T) {
	vanish := map[string]func(t *testing.T, dir string){
		"removed": func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		},
		"moved": func(t *testing.T, dir string) {
			if err := os.Rename(dir, dir+".old"); err != nil {
				t.Fatal(err)
			}
		},
		"replaced": func(t *testing.T, dir string) {
			if err := os.Rename(dir, dir+".old"); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(dir, "k"), 0o700); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, vanish := range vanish {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(memoryDir(t), "store")
			s := open(t, dir, nil)
			v := put(t, s, "known", "", "1")
			vanish(t, dir)
			_, _, err := s.Get(t.Context(), "unknown")
			if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrNotFound) {
				t.Errorf("get of an absent key: got %v, want unavailable", err)
			}
			if !errors.Is(err, store.ErrMisconfigured) {
				t.Errorf("get: got %v, want an error that ends the wait of a waiter", err)
			}
			if _, err := s.Put(t.Context(), "unknown", "", nil); !errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("create: got %v (%v), want unavailable, not applied", err, store.OutcomeOf(err))
			}
			if _, err := s.Put(t.Context(), "known", v, nil); err == nil || errors.Is(err, store.ErrConflict) {
				t.Errorf("put: got %v", err)
			}
			if err := s.Watch(t.Context(), "unknown", ""); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("watch: got %v, want unavailable", err)
			}
			for _, err := range s.List(t.Context(), "") {
				if !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("list: got %v, want unavailable", err)
				}
			}
			again := open(t, dir, nil)
			if _, _, err := again.Get(t.Context(), "known"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("opened again: got %v, want not found", err)
			}
		})
	}
}

// TestMovedLong: a log of several files ends with its directory like one of one file,
// for those who wait for it too.
func TestMovedLong(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(memoryDir(t), "store")
	s := open(t, dir, filestore.Tiny())
	v := put(t, s, "key", "", "1")
	for range 9 {
		v = put(t, s, "key", v, "2")
	}
	waiting, watched := open(t, dir, nil), make(chan error, 1)
	go func() { watched <- waiting.Watch(ctx, "key", v) }()
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		_, _, err := s.Get(ctx, "key")
		if errors.Is(err, store.ErrUnavailable) {
			break
		}
		if err != nil || time.Since(start) > 20*time.Second {
			t.Fatalf("get: got %v, want unavailable in the end", err)
		}
	}
	if err := <-watched; !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("watch: got %v, want unavailable", err)
	}
}

// TestRemovedFromWithin: who removes the directory of the store removes what is in it
// first. Those who knew a log must not take that for a log that is absent.
func TestRemovedFromWithin(t *testing.T) {
	for {
		dir := filepath.Join(memoryDir(t), "store")
		s := open(t, dir, nil)
		put(t, s, "key", "", "1")
		if err := os.RemoveAll(filepath.Join(dir, "k")); err != nil {
			t.Fatal(err)
		}
		start, got := time.Now(), make(chan error, 1)
		go func() {
			_, _, err := s.Get(t.Context(), "key")
			got <- err
		}()
		time.Sleep(5 * time.Millisecond)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		inTime := time.Since(start) < 50*time.Millisecond
		if err := <-got; errors.Is(err, store.ErrUnavailable) {
			return
		} else if inTime {
			t.Fatalf("got %v, want unavailable", err)
		}
	}
}

// TestKeyRemoved: a log that is removed by hand is an absent register; only a create makes
// it again, with versions that it never had.
func TestKeyRemoved(t *testing.T) {
	dir := memoryDir(t)
	s, other := open(t, dir, nil), open(t, dir, nil)
	v := put(t, s, "key", "", "1")
	if _, _, err := other.Get(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "k", "key")
	if err := os.RemoveAll(log); err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.Get(t.Context(), "key"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get: got %v, want not found", err)
	}
	var conflict *store.ConflictError
	if _, err := s.Put(t.Context(), "key", v, nil); !errors.As(err, &conflict) || conflict.Version != "" || !conflict.HasCurrent {
		t.Errorf("put: got %v, want a conflict with an absent register", err)
	}
	if _, err := os.Stat(log); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the log is there again: %v", err)
	}
	if again := put(t, other, "key", "", "2"); again == v {
		t.Error("a version returned")
	}
	if value, _, err := s.Get(t.Context(), "key"); string(value) != "2" {
		t.Errorf("got %q, %v", value, err)
	}
	// Moved away, not removed: noticed by a write at once, by a read within a second.
	if err := os.Rename(log, log+".old"); err != nil {
		t.Fatal(err)
	}
	_, v, _ = s.Get(t.Context(), "key") // may still be the old one
	if _, err := s.Put(t.Context(), "key", v, nil); err == nil {
		t.Error("put into a log that was moved away: no error")
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		_, _, err := other.Get(t.Context(), "key")
		if errors.Is(err, store.ErrNotFound) {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("get: got %v, want not found in the end", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Package trial names the test data that the command creates in a store, and removes test data of killed
// processes.
package trial

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Name returns a random name. The name contains the time now.
func Name(now time.Time) string { return fmt.Sprintf("%x-%s", now.Unix(), rand.Text()) }

// Began returns the time in a name. If the text is not a name of this package, ok is false.
func Began(name string) (at time.Time, ok bool) {
	hex, random, found := strings.Cut(name, "-")
	seconds, err := strconv.ParseInt(hex, 16, 64)
	return time.Unix(seconds, 0), found && err == nil && len(random) == len(rand.Text())
}

// Old reports whether a key is below dir/NAME, where NAME was made before the given time.
func Old(key, dir string, before time.Time) bool {
	rest, ok := strings.CutPrefix(key, dir+"/")
	name, _, below := strings.Cut(rest, "/")
	began, isName := Began(name)
	return ok && below && isName && began.Before(before)
}

// Sweep removes the registers below each dir/NAME that was made before the given time, and returns their
// number. With dryRun it only counts them. If the store lists tombstones, Sweep removes them, too.
func Sweep(ctx context.Context, st store.Store, dir string, before time.Time, dryRun bool) (n int, err error) {
	keys := store.List(ctx, st, dir)
	if all, ok := store.As[interface {
		ListAll(ctx context.Context, prefix string) iter.Seq2[string, error]
	}](st); ok {
		keys = all.ListAll(ctx, dir)
	}
	for key, err := range keys {
		if errors.Is(err, errors.ErrUnsupported) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if !Old(key, dir, before) {
			continue
		}
		if !dryRun {
			if err := Remove(ctx, st, key); err != nil {
				return n, err
			}
		}
		n++
	}
	return n, nil
}

// RemoveBelow removes the registers below a prefix.
func RemoveBelow(ctx context.Context, st store.Store, prefix string) error {
	for key, err := range store.List(ctx, st, prefix) {
		if err == nil {
			err = Remove(ctx, st, key)
		}
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return nil
}

// Remove removes a register. If the store can erase registers, no tombstone remains.
func Remove(ctx context.Context, st store.Store, key string) error {
	if eraser, ok := store.As[interface {
		Erase(ctx context.Context, key string) error
	}](st); ok {
		if err := eraser.Erase(ctx, key); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	_, v, err := st.Get(ctx, key)
	if err == nil {
		err = st.Delete(ctx, key, v)
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
		return nil // another process has removed it
	}
	return err
}

// BenchDir is the prefix of the keys of all measurements.
const BenchDir = "bench"

package avisofile_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/compat/avisofile"
	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store"
)

// TestStrangersDirectory: a state file where strangers could change or exchange it is
// refused, for reading, writing and restoring, and nothing is made there; unless it is
// accepted.
func TestStrangersDirectory(t *testing.T) {
	suitetest.NeedRoot(t, "a directory of another user")
	for risk, prepare := range map[string]func(dir, path string) error{
		"owner":    func(dir, _ string) error { return os.Chown(dir, alice, alice) },
		"writable": func(dir, _ string) error { return os.Chmod(dir, 0o777) },
		"link": func(dir, path string) error {
			target := filepath.Join(dir, "elsewhere.json")
			return errors.Join(os.Symlink(target, path), os.Lchown(path, alice, alice))
		},
	} {
		t.Run(risk, func(t *testing.T) {
			path := statePath(t)
			dir := filepath.Dir(path)
			do(t, prepare(dir, path))
			before, err := os.ReadDir(dir)
			do(t, err)
			if _, err := avisofile.Open(path, nil); !errors.Is(err, store.ErrUnsafe) || !strings.HasSuffix(err.Error(), "(unsafe="+risk+")") {
				t.Errorf("open: got %v, want unsafe=%s", err, risk)
			}
			if _, err := avisofile.Restore(t.Context(), path, nil); !errors.Is(err, store.ErrUnsafe) {
				t.Errorf("restore: got %v, want unsafe", err)
			}
			after, err := os.ReadDir(dir)
			do(t, err)
			if len(after) != len(before) {
				t.Errorf("after the refusals the directory holds %v", after)
			}
			advance(t, open(t, path, &avisofile.Options{Unsafe: []string{risk}}), keyA, at(1), checkpoint.Advanced)
		})
	}
	if _, err := avisofile.Open(statePath(t), &avisofile.Options{Unsafe: []string{""}}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("an empty risk: got %v", err)
	}
}

// TestBecomesStrangers: a store that is open writes nothing any more where strangers could
// change the file by now.
func TestBecomesStrangers(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	advance(t, s, keyA, at(1), checkpoint.Advanced)
	do(t, os.Chmod(filepath.Dir(path), 0o777))
	_, err := s.Advance(t.Context(), keyA, at(2), nil)
	if !errors.Is(err, store.ErrUnsafe) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("got %v (%v), want unsafe, not applied", err, store.OutcomeOf(err))
	}
}

// TestSparseFence: a fence file that another user has made 8 TB long is an error, and is
// not read. The same holds for the state file and its last good copy.
func TestSparseFence(t *testing.T) {
	for _, suffix := range []string{"", ".fence", ".good"} {
		path := statePath(t)
		s := open(t, path, nil)
		advance(t, s, keyA, at(1), checkpoint.Advanced)
		advance(t, s, keyA, at(2), checkpoint.Advanced)
		_, err := s.Fence(t.Context(), keyA, 7)
		do(t, err)
		do(t, os.Truncate(path+suffix, 8<<40))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		again, err := avisofile.Open(path, nil)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%q: %d bytes were allocated", suffix, got)
		}
		if suffix == ".good" {
			do(t, err)
			do(t, again.Close(t.Context()))
		} else if !errors.Is(err, store.ErrTooLarge) || !strings.Contains(err.Error(), "8796093022208 bytes") {
			t.Errorf("%q: got %v, want too large", suffix, err)
		}
		if suffix == ".good" {
			_, err = avisofile.Restore(t.Context(), path, nil)
			if !errors.Is(err, store.ErrTooLarge) {
				t.Errorf("restore: got %v, want too large", err)
			}
		}
	}
}

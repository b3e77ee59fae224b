package filestore_test

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

func put(t testing.TB, s *filestore.Store, key string, prev store.Version, value string) store.Version {
	t.Helper()
	v, err := s.Put(t.Context(), key, prev, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestInTheWay: files of other programs in the place of the store are neither used nor
// destroyed.
func TestInTheWay(t *testing.T) {
	ctx := t.Context()
	dir := memoryDir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		if _, err := filestore.Open(path, nil); err == nil {
			t.Errorf("open %s: no error", path)
		} else if !strings.Contains(err.Error(), file) {
			t.Errorf("open %s: the error does not name it: %v", path, err)
		}
	}
	s := open(t, filepath.Join(dir, "store"), filestore.Impatient())
	put(t, s, "good", "", "1")
	keys := filepath.Join(dir, "store", "k")
	// A file, a symbolic link to another user's directory, an empty directory, one with a
	// symbolic link for a log, and one with something that is no log.
	elsewhere := filepath.Join(dir, "elsewhere")
	segment := "000000000001"
	for _, err := range []error{
		os.WriteFile(filepath.Join(keys, "file"), []byte("precious"), 0o600),
		os.Mkdir(elsewhere, 0o700),
		os.WriteFile(filepath.Join(elsewhere, segment), []byte("precious"), 0o600),
		os.Symlink(elsewhere, filepath.Join(keys, "outside")),
		os.Symlink("good", filepath.Join(keys, "inside")),
		os.Mkdir(filepath.Join(keys, "empty"), 0o700),
		os.Mkdir(filepath.Join(keys, "linked"), 0o700),
		os.Symlink(filepath.Join(elsewhere, segment), filepath.Join(keys, "linked", segment)),
		os.Mkdir(filepath.Join(keys, "linkedin"), 0o700),
		os.Symlink("../good/"+segment, filepath.Join(keys, "linkedin", segment)),
		os.Mkdir(filepath.Join(keys, "foreign"), 0o700),
		os.WriteFile(filepath.Join(keys, "foreign", segment), []byte("precious"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"file", "outside", "inside", "empty", "linked", "linkedin", "foreign"} {
		if _, _, err := s.Get(ctx, key); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("get %s: got %v", key, err)
		}
		_, err := s.Put(ctx, key, "", []byte("x"))
		if store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("put %s: got %v (%v), want not applied", key, err, store.OutcomeOf(err))
		}
	}
	for _, file := range []string{file, filepath.Join(keys, "file"), filepath.Join(elsewhere, segment), filepath.Join(keys, "foreign", segment)} {
		if data, err := os.ReadFile(file); string(data) != "precious" {
			t.Errorf("%s: got %q, %v", file, data, err)
		}
	}
	// The listing yields the faults, and the good key too.
	var good, bad int
	for key, err := range s.List(ctx, "") {
		if err != nil {
			bad++
		} else if key == "good" {
			good++
		}
	}
	if good != 1 || bad != 1 {
		t.Errorf("the listing has %d good keys and %d errors", good, bad)
	}
}

// TestDamaged: a log that makes no sense is corrupt, not absent, and left as it is.
func TestDamaged(t *testing.T) {
	segment := "000000000001"
	damage := map[string]func(file string) error{
		"empty":     func(file string) error { return os.Truncate(file, 0) },
		"cut short": func(file string) error { return os.Truncate(file, 60) },
		"zeros": func(file string) error {
			return os.WriteFile(file, make([]byte, 500), 0o600)
		},
		"renumbered": func(file string) error {
			return os.Rename(file, filepath.Join(filepath.Dir(file), "000000000007"))
		},
		"of another key": func(file string) error {
			return os.Rename(filepath.Join(filepath.Dir(file), "..", "other", segment), file)
		},
		"newer": func(file string) error {
			return os.WriteFile(file, []byte("\nK 2 0 - j\"key\" 5a3df04a\n"), 0o600)
		},
	}
	for name, damage := range damage {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := memoryDir(t)
			s := open(t, dir, nil)
			put(t, s, "key", "", "1")
			put(t, s, "other", "", "2")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := damage(filepath.Join(dir, "k", "key", segment)); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, filestore.Impatient())
			if _, _, err := s.Get(t.Context(), "key"); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("get: got %v, want corrupt", err)
			}
			if _, err := s.Put(t.Context(), "key", "", nil); !errors.Is(err, store.ErrCorrupt) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("put: got %v (%v), want corrupt, not applied", err, store.OutcomeOf(err))
			}
		})
	}
}

// TestCut: a program writes a backup over a log, and other processes continue from there. A process that has seen the
// shorter log uses it no more, also when it has become longer: it would read its own old state, and write what no other
// process reads. It continues when it opens the store again, or when a person has removed the log.
func TestCut(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, nil)
	v := put(t, s, "key", "", "1")
	file := filepath.Join(dir, "k", "key", "000000000001")
	backup, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	v = put(t, s, "key", v, "2")
	if err := os.WriteFile(file, backup, 0o600); err != nil {
		t.Fatal(err)
	}
	corrupt := func(when string) {
		t.Helper()
		_, _, err := s.Get(t.Context(), "key")
		_, putErr := s.Put(t.Context(), "key", v, []byte("3"))
		if !errors.Is(err, store.ErrCorrupt) || !errors.Is(putErr, store.ErrCorrupt) || store.OutcomeOf(putErr) != store.NotApplied {
			t.Errorf("%s: Get: %v; Put: %v", when, err, putErr)
		}
	}
	corrupt("a shorter log")
	other := open(t, dir, nil)
	_, v2, err := other.Get(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		v2 = put(t, other, "key", v2, "other")
	}
	corrupt("a log that has grown again")
	if got, _, err := open(t, dir, nil).Get(t.Context(), "key"); err != nil || string(got) != "other" {
		t.Errorf("opened again: %q, %v", got, err)
	}
	if err := os.RemoveAll(filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	put(t, s, "key", "", "new")
}

// TestSweepTmp: what crashed writers left is removed when it is old, and only then.
func TestSweepTmp(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, nil)
	put(t, s, "key", "", "1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * time.Hour)
	leave := func(aged bool, path ...string) string {
		t.Helper()
		file := filepath.Join(append([]string{dir}, path...)...)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{file, filepath.Dir(file)} {
			if aged && p != filepath.Join(dir, "tmp") {
				if err := os.Chtimes(p, old, old); err != nil {
					t.Fatal(err)
				}
			}
		}
		return file
	}
	removed := []string{
		leave(true, "tmp", rand.Text()),
		leave(true, "tmp", rand.Text(), "000000000001"),
		leave(true, "tmp", rand.Text(), rand.Text()),
		leave(true, "k", "key", "tmp-"+rand.Text()),
	}
	stay := []string{
		leave(false, "tmp", rand.Text(), "000000000001"),
		leave(false, "k", "key", "tmp-"+rand.Text()),
		leave(true, "k", "key", "unknown"),
		leave(true, "tmp", "notes"),
		leave(true, "tmp", rand.Text(), "notes"),
		leave(true, "k", "key", "tmp-notes"),
	}
	s = open(t, dir, nil)
	if _, _, err := s.Get(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	put(t, s, "another", "", "1")
	for _, file := range removed {
		if _, err := os.Lstat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", file, err)
		}
	}
	for _, file := range stay {
		if _, err := os.Lstat(file); err != nil {
			t.Errorf("%s was removed: %v", file, err)
		}
	}
}

// TestOptions: what makes no sense is refused.
func TestOptions(t *testing.T) {
	for _, opts := range []*filestore.Options{{Unsafe: []string{""}}, {Unsafe: []string{"all"}}} {
		if _, err := filestore.Open(t.TempDir(), opts); err == nil {
			t.Errorf("%+v: no error", opts)
		}
	}
	if _, err := filestore.Open("", nil); err == nil {
		t.Error("no directory: no error")
	}
}

// TestClosed: after Close everything fails for certain, and Close ends a watch.
func TestClosed(t *testing.T) {
	ctx := t.Context()
	s := open(t, memoryDir(t), nil)
	v := put(t, s, "key", "", "1")
	watched := make(chan error)
	go func() { watched <- s.Watch(ctx, "key", v) }()
	time.Sleep(5 * time.Millisecond)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-watched; !errors.Is(err, store.ErrClosed) {
		t.Errorf("watch: got %v", err)
	}
	_, putErr := s.Put(ctx, "key", v, nil)
	_, _, getErr := s.Get(ctx, "key")
	_, announceErr := s.Announce(ctx)
	for name, err := range map[string]error{
		"put": putErr, "get": getErr, "announce": announceErr, "delete": s.Delete(ctx, "key", v),
		"watch": s.Watch(ctx, "key", v),
	} {
		if !errors.Is(err, store.ErrClosed) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: got %v (%v)", name, err, store.OutcomeOf(err))
		}
	}
	for _, err := range s.List(ctx, "") {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("list: got %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

// TestCloseInList: a listing whose store is closed says so once, not for each key.
func TestCloseInList(t *testing.T) {
	s := open(t, memoryDir(t), nil)
	for i := range 20 {
		put(t, s, strconv.Itoa(i), "", "1")
	}
	var last error
	for _, err := range s.List(t.Context(), "") {
		last = err
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !errors.Is(last, store.ErrClosed) || strings.Count(last.Error(), store.ErrClosed.Error()) != 1 {
		t.Errorf("got %v, want closed, once", last)
	}
}

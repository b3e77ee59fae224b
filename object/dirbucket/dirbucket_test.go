package dirbucket_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/dirbucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

func newBucket(t *testing.T, dir string, index store.Store) *dirbucket.Bucket {
	t.Helper()
	b, err := dirbucket.New(dir, index)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBucket(t *testing.T) {
	var dir string
	var index store.Store
	open := func(t *testing.T) object.Bucket {
		dir, index = filepath.Join(t.TempDir(), "bodies"), memstore.New()
		return newBucket(t, dir, index)
	}
	second := func(t *testing.T, _ object.Bucket) object.Bucket { return newBucket(t, dir, index) }
	objecttest.Run(t, open, &objecttest.Options{Reopen: second, Rounds: 10, Keys: 100})
}

// TestOpened is the suite on what Open opens, with a second process's handle.
func TestOpened(t *testing.T) {
	var dir string
	open := func(t *testing.T) *dirbucket.Bucket {
		b, err := dirbucket.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		return b
	}
	first := func(t *testing.T) object.Bucket {
		dir = filepath.Join(t.TempDir(), "bucket")
		return open(t)
	}
	second := func(t *testing.T, _ object.Bucket) object.Bucket { return open(t) }
	objecttest.Run(t, first, &objecttest.Options{Reopen: second, Rounds: 5, Keys: 50})

	b := first(t).(*dirbucket.Bucket)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), "a", strings.NewReader("x"), nil); !errors.Is(err, store.ErrClosed) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("after Close: %v", err)
	}
	if got := files(t, filepath.Join(dir, "data")); len(got) != 0 {
		t.Errorf("after Close: %q", got)
	}
	if err := newBucket(t, t.TempDir(), memstore.New()).Close(); err != nil {
		t.Error(err)
	}
}

// TestNothingLeft: what a put, a copy and a delete replace is removed, and so is
// what a refused put wrote.
func TestNothingLeft(t *testing.T) {
	dir := t.TempDir()
	b := newBucket(t, dir, memstore.New())
	ctx := t.Context()
	for range 3 {
		if _, err := b.Put(ctx, "a", strings.NewReader("body"), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Copy(ctx, "a", "b", nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Put(ctx, "a", strings.NewReader("body"), &object.PutOptions{IfAbsent: true}); !errors.Is(err, store.ErrConflict) {
		t.Fatal(err)
	}
	if got := len(files(t, dir)); got != 2 {
		t.Errorf("%d files for two objects", got)
	}
	for _, key := range []string{"a", "b"} {
		if err := b.Delete(ctx, key, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("files without objects: %q", got)
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestSweepRemovesDeletedObjects: the sweep removes what the index keeps of objects that were
// deleted long ago, and of no other.
func TestSweepRemovesDeletedObjects(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	b, err := dirbucket.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	versions := map[string]object.Version{}
	for _, key := range []string{"old", "new", "kept"} {
		info, err := b.Put(ctx, key, strings.NewReader(key), nil)
		if err == nil && key != "kept" {
			err = b.Delete(ctx, key, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		versions[key] = info.Version
		log := filepath.Join(dir, "index/k/k+"+key, "000000000001")
		then := time.Now().Add(-dirbucket.OrphanAge - time.Hour)
		if key != "new" {
			if err := os.Chtimes(log, then, then); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n, err := b.Sweep(ctx); n != 0 || err != nil {
		t.Errorf("sweep: %d, %v", n, err)
	}
	for key, want := range map[string]bool{"old": false, "new": true, "kept": true} {
		if _, err := os.Stat(filepath.Join(dir, "index/k/k+"+key)); (err == nil) != want {
			t.Errorf("%s: %v, want it to be there: %v", key, err, want)
		}
	}
	info, err := b.Put(ctx, "old", strings.NewReader("again"), &object.PutOptions{IfAbsent: true})
	if err != nil || info.Version == versions["old"] {
		t.Errorf("put: %v, %v", info.Version, err)
	}
	if _, err := b.Put(ctx, "old", strings.NewReader("late"), &object.PutOptions{IfMatch: versions["old"]}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a put over the version before the sweep: %v", err)
	}
}

// TestSweep: files that nothing names go when they are old, and nothing else does.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	b := newBucket(t, dir, memstore.New())
	ctx := t.Context()
	if _, err := b.Put(ctx, "kept", strings.NewReader("body"), nil); err != nil {
		t.Fatal(err)
	}
	named := files(t, dir)[0]
	old := time.Now().Add(-dirbucket.OrphanAge - time.Hour)
	made := func(name string, when time.Time) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.Chtimes(named, old, old); err != nil {
		t.Fatal(err)
	}
	size := len(filepath.Base(named))
	orphan := made("ZZ/"+strings.Repeat("Z", size), old)
	young := made("ZZ/"+strings.Repeat("Y", size), time.Now())
	foreign := made("ZZ/readme", old)
	n, err := b.Sweep(ctx)
	if err != nil || n != 1 {
		t.Errorf("sweep: %d, %v", n, err)
	}
	for path, want := range map[string]bool{named: true, orphan: false, young: true, foreign: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v, want it to be there: %v", path, err, want)
		}
	}
}

// TestSweepNeedsTheWholeIndex: a sweep removes no file if it cannot read the register of one object. The name of the
// directory of this register does not contain the whole key.
func TestSweepNeedsTheWholeIndex(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bucket")
	open := func() *dirbucket.Bucket {
		b, err := dirbucket.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	key := strings.Repeat("long/", 40) + "name"
	if _, err := open().Put(t.Context(), key, strings.NewReader("precious"), nil); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * dirbucket.OrphanAge)
	for _, file := range files(t, filepath.Join(dir, "data")) {
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
	}
	segments, err := filepath.Glob(filepath.Join(dir, "index", "k", "*", "0*"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	good, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range [][]byte{[]byte("damaged\n"), good} {
		if err := os.WriteFile(segments[0], content, 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := open().Sweep(t.Context()); n != 0 || (err == nil) != (len(content) == len(good)) {
			t.Errorf("the sweep removed %d files, %v", n, err)
		}
	}
	if r, err := open().Get(t.Context(), key, nil); err != nil {
		t.Error(err)
	} else if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnknownKeepsFile: the body of a put whose outcome is unknown must stay, since
// the index may name it.
func TestUnknownKeepsFile(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	inner := memstore.New()
	lossy := store.Intercept(inner, func(ctx context.Context, op *store.Op, next store.Handler) error {
		err := next(ctx, op)
		if err == nil && op.Kind == store.OpPut {
			err = errors.New("the reply was lost")
		}
		return err
	})
	_, err := newBucket(t, dir, lossy).Put(ctx, "a", strings.NewReader("body"), nil)
	if err == nil || store.OutcomeOf(err) != store.Unknown {
		t.Fatalf("got %v (%v)", err, store.OutcomeOf(err))
	}
	body, _, err := object.ReadAll(ctx, newBucket(t, dir, inner), "a", 100, nil)
	if err != nil || string(body) != "body" {
		t.Errorf("got %q, %v", body, err)
	}
}

func TestModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	for _, want := range []os.FileMode{0o700, 0o770} {
		dir := filepath.Join(t.TempDir(), "bodies")
		if want != 0o700 {
			if err := os.Mkdir(dir, want); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, want); err != nil {
				t.Fatal(err)
			}
		}
		b := newBucket(t, dir, memstore.New())
		if _, err := b.Put(t.Context(), "a", strings.NewReader("body"), nil); err != nil {
			t.Fatal(err)
		}
		file := files(t, dir)[0]
		for path, mode := range map[string]os.FileMode{dir: want, filepath.Dir(file): want, file: want & 0o666} {
			stat, err := os.Stat(path)
			if err != nil || stat.Mode().Perm() != mode {
				t.Errorf("%s: %v, %v, want %v", path, stat.Mode(), err, mode)
			}
		}
	}
}

func TestFileAsDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dirbucket.New(file, memstore.New()); err == nil {
		t.Error("a file is accepted as a directory")
	}
}

// TestCorrupt: an entry that is none, or whose file is missing or cut, is reported, and is
// not absent.
func TestCorrupt(t *testing.T) {
	dir := t.TempDir()
	index := memstore.New()
	b := newBucket(t, dir, index)
	ctx := t.Context()
	for _, key := range []string{"gone", "cut"} {
		if _, err := b.Put(ctx, key, strings.NewReader("body of "+key), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range files(t, dir) {
		body, _ := os.ReadFile(path)
		if string(body) == "body of gone" {
			os.Remove(path)
		} else {
			os.Truncate(path, 3)
		}
	}
	if _, err := index.Put(ctx, "k/foreign", "", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"gone", "cut", "foreign"} {
		_, err := b.Get(ctx, key, nil)
		if !errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: got %v, want ErrCorrupt", key, err)
		}
	}
}

// TestErrorsNameTheBucket: an error names the directory, once.
func TestErrorsNameTheBucket(t *testing.T) {
	dir := t.TempDir()
	b := newBucket(t, dir, memstore.New())
	_, err := b.Stat(t.Context(), "a")
	if got, want := err.Error(), "stat a in dir:"+dir+": not found"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

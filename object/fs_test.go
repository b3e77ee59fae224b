package object_test

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// fsFiles are objects that are files, and fsOthers objects that are not.
var (
	fsFiles  = []string{"top.txt", "empty", "a/one", "a/two", "a/b/three", "a/b c/\u00fcn\u00ef", "a-b/four", "z/.hidden"}
	fsOthers = []string{"a//double", "/root", "a/../up", "dir/", "tail//"}
)

func fillFS(t *testing.T, b object.Bucket) {
	t.Helper()
	for _, key := range slices.Concat(fsFiles, fsOthers) {
		text := strings.Repeat(key+"\n", 100)
		if key == "empty" {
			text = ""
		}
		put(t, b, key, text, nil)
	}
}

// TestFS: the suite of package fstest passes, on a part too.
func TestFS(t *testing.T) {
	logOn(t, func(t *testing.T, b object.Bucket) {
		fillFS(t, b)
		files := object.FS(t.Context(), newClient(t, b, nil))
		if err := fstest.TestFS(files, fsFiles...); err != nil {
			t.Error(err)
		}
		part, err := fs.Sub(files, "a")
		if err != nil {
			t.Fatal(err)
		}
		if err := fstest.TestFS(part, "one", "two", "b/three"); err != nil {
			t.Error(err)
		}
		matches, err := fs.Glob(files, "*/t*")
		if want := []string{"a/two"}; err != nil || !slices.Equal(matches, want) {
			t.Errorf("got %q, %v", matches, err)
		}
	})
}

// TestFSErrors: what is not there, or is no path.
func TestFSErrors(t *testing.T) {
	b := membucket.New()
	put(t, b, "a/b", "text", nil)
	files := object.FS(t.Context(), newClient(t, b, nil))
	for _, name := range []string{"none", "a/none", "a/b/c", "b"} {
		for op, err := range map[string]error{
			"open": second(files.Open(name)), "stat": second(fs.Stat(files, name)), "read": second(fs.ReadFile(files, name)), "list": second(fs.ReadDir(files, name)),
		} {
			var of *fs.PathError
			if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &of) || of.Path != name {
				t.Errorf("%s %s: %v", op, name, err)
			}
		}
	}
	for _, name := range []string{"", "/a", "a/", "../a", "a//b"} {
		for op, err := range map[string]error{
			"open": second(files.Open(name)), "stat": second(fs.Stat(files, name)), "read": second(fs.ReadFile(files, name)), "list": second(fs.ReadDir(files, name)),
			"sub": second(fs.Sub(files, name)),
		} {
			if !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%s %q: %v", op, name, err)
			}
		}
	}
	if _, err := fs.ReadFile(files, "a"); err == nil {
		t.Error("a directory was read as a file")
	}
	denied := objecttest.NewFaulty(b, func(objecttest.Call) objecttest.Fault { return objecttest.Fail })
	if _, err := object.FS(t.Context(), newClient(t, denied, nil)).Open("a/b"); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a store that does not answer: %v", err)
	}
	// An object hides what is below it, which can be opened all the same.
	put(t, b, "a", "a file", nil)
	if err := fstest.TestFS(files, "a"); err != nil {
		t.Error(err)
	}
	if text, err := fs.ReadFile(files, "a/b"); err != nil || string(text) != "text" {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestFSTombstone: a tombstone is no file.
func TestFSTombstone(t *testing.T) {
	c := newClient(t, membucket.New(), nil)
	fence := &object.Fence{Lock: "l", Token: 1}
	if _, err := c.Put(t.Context(), "d/gone", body("x"), &object.WriteOptions{Fence: fence}); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), "d/gone", &object.WriteOptions{Fence: fence}); err != nil {
		t.Fatal(err)
	}
	files := object.FS(t.Context(), c)
	if entries, err := fs.ReadDir(files, "d"); err != nil || len(entries) != 0 {
		t.Errorf("got %v, %v", entries, err)
	}
	if _, err := fs.Stat(files, "d/gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestFSKeepsState: an open file never mixes two states of its object.
func TestFSKeepsState(t *testing.T) {
	b := membucket.New()
	put(t, b, "f", "first state", nil)
	f, err := object.FS(t.Context(), newClient(t, b, nil)).Open("f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	put(t, b, "f", "other state", nil)
	if _, err := f.(io.ReaderAt).ReadAt(make([]byte, 3), 2); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a later read of an object that was replaced: %v", err)
	}
	if text, err := io.ReadAll(f); err != nil || string(text) != "first state" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := f.(io.Seeker).Seek(-1, io.SeekStart); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// TestFSRequests: what opening and reading cost, and a server of files that asks for a
// range.
func TestFSRequests(t *testing.T) {
	b := objecttest.NewFaulty(membucket.New(), nil)
	put(t, b, "d/f", strings.Repeat("0123456789", 100), nil)
	files := object.FS(t.Context(), newClient(t, b, nil))
	before := len(b.Calls())
	if _, err := fs.ReadFile(files, "d/f"); err != nil {
		t.Fatal(err)
	}
	if calls := b.Calls()[before:]; len(calls) != 1 {
		t.Errorf("reading a file: %v", calls)
	}
	request := httptest.NewRequest(http.MethodGet, "/d/f", nil)
	request.Header.Set("Range", "bytes=100-104")
	answer := httptest.NewRecorder()
	http.FileServerFS(files).ServeHTTP(answer, request)
	if answer.Code != http.StatusPartialContent || answer.Body.String() != "01234" {
		t.Errorf("got %d, %q", answer.Code, answer.Body)
	}
}

package dirbucket_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// TestFileIsShortened: a body whose file another program shortens while it is read is an
// error, and not a shorter body.
func TestFileIsShortened(t *testing.T) {
	dir := t.TempDir()
	b := newBucket(t, dir, memstore.New())
	if _, err := b.Put(t.Context(), "a", strings.NewReader("precious"), nil); err != nil {
		t.Fatal(err)
	}
	r, err := b.Get(t.Context(), "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	files := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		return os.Truncate(path, 3)
	})
	if err != nil || files != 1 {
		t.Fatal(files, err)
	}
	if all, err := io.ReadAll(r); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("got %q, %v", all, err)
	}
}

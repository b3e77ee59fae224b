package localfs_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/localfs"
)

func TestCheckNamesAFileSystem(t *testing.T) {
	kind, _, err := localfs.Check(t.TempDir())
	if err != nil || kind == "" {
		t.Fatalf("got %q, %v, want a name", kind, err)
	}
}

func TestCheckMissingDirectory(t *testing.T) {
	_, local, err := localfs.Check(filepath.Join(t.TempDir(), "missing"))
	if !errors.Is(err, fs.ErrNotExist) || local {
		t.Fatalf("got local=%v, %v, want an error that says it does not exist", local, err)
	}
}

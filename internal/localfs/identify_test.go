package localfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/localfs"
)

// identify returns the identity of a file.
func identify(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	id, err := localfs.Identify(path, info)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A file is known by what it is and not by the way to it, and another file is another one.
func TestIdentify(t *testing.T) {
	dir := t.TempDir()
	one, two, link := filepath.Join(dir, "one"), filepath.Join(dir, "two"), filepath.Join(dir, "link")
	write(t, one)
	first := identify(t, one)
	write(t, two)
	if identify(t, two) == first {
		t.Error("two files are one")
	}
	write(t, one) // in place
	if err := os.Symlink("one", link); err != nil {
		t.Fatal(err)
	}
	if got := identify(t, link); got != first || identify(t, one) != first {
		t.Errorf("by a link %s, directly %s, before %s", got, identify(t, one), first)
	}
}

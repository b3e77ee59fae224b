package allstores

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// A file has another name if it has a second hard link, or if it is mounted and its directory is not.
func TestOtherName(t *testing.T) {
	file, place := filepath.Join(t.TempDir(), "a file"), filepath.Join(t.TempDir(), "a place")
	for _, path := range []string{file, place} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(path, how string) {
		t.Helper()
		if got := otherName(path); got != how {
			t.Errorf("%s: got %q, want %q", filepath.Base(path), got, how)
		}
	}
	want(file, "")
	want(file+"-none", "")
	if err := os.Link(file, file+"-2"); err != nil {
		t.Fatal(err)
	}
	want(file, "has 2 hard links")
	if err := os.Remove(file + "-2"); err != nil {
		t.Fatal(err)
	}
	suitetest.NeedRoot(t, "a mount")
	if err := syscall.Mount(file, place, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(place, 0); err != nil {
			t.Error(err)
		}
	}()
	want(place, "is mounted without its directory")
	want(file, "")
}

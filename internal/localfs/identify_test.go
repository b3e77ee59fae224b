package localfs_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/localfs"
)

// A file is known by what it is and not by the way to it, and another file is another
// one, also where it has got the inode of the first.
func TestIdentify(t *testing.T) {
	dir := t.TempDir()
	id := func(name string) string {
		t.Helper()
		path := filepath.Join(dir, name)
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
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	first := id("one")
	write("two")
	if id("two") == first {
		t.Error("two files are one")
	}
	write("one") // in place
	if err := os.Symlink("one", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if got := id("link"); got != first || id("one") != first {
		t.Errorf("by a link %s, directly %s, before %s", got, id("one"), first)
	}
	two := id("two")
	if err := os.Remove(filepath.Join(dir, "two")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // births have the resolution of the kernel's ticks
	write("two")                      // many file systems give it the same inode
	if now := id("two"); now == two {
		t.Errorf("a file that was made again has the identity %s of the earlier one", now)
	}
}

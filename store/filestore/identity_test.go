package filestore_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// A directory is known by what it is, and not by the way to it.
func TestIdentity(t *testing.T) {
	id := func(path string) string {
		s, err := filestore.Open(path, &filestore.Options{Unsafe: []string{"link"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return store.TraitsOf(s).ID
	}
	dir := t.TempDir()
	one, two, link := filepath.Join(dir, "one"), filepath.Join(dir, "two"), filepath.Join(dir, "link")
	first := id(one)
	if err := os.Symlink("one", link); err != nil {
		t.Fatal(err)
	}
	if first == "" || id(one) != first || id(link) != first || id(two) == first {
		t.Errorf("one %q, again %q, by a link %q, another %q", first, id(one), id(link), id(two))
	}
	t.Chdir(one)
	if got := id("."); got != first {
		t.Errorf("by a relative path %q, else %q", got, first)
	}
}

package filestore_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// TestSuite runs the conformance tests: each write against the contract, with a
// second handle, which shares nothing but the directory with the first.
func TestSuite(t *testing.T) {
	variants := []struct {
		name   string
		opts   *filestore.Options
		prefix string
		second bool
		dir    func(testing.TB) string
	}{
		{name: "plain", dir: memoryDir},
		{name: "second", second: true, dir: func(t testing.TB) string { return t.TempDir() }},
		{name: "prefix", prefix: "some/Prefix", second: true, dir: memoryDir},
		{name: "rotating", opts: filestore.Tiny(), second: true, dir: memoryDir},
		{name: "polling", opts: filestore.Polling(), second: true, dir: memoryDir},
	}
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			o := &storetest.Options{Rounds: 8, Keys: 300, Racers: 8, Parallel: true}
			under := func(t *testing.T, s store.Store) store.Store {
				p, err := store.Prefix(s, v.prefix)
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
			if v.prefix != "" {
				o.MaxKey = store.MaxKey - len(v.prefix) - 1
			}
			if v.second {
				o.Reopen = func(t *testing.T, first store.Store) store.Store {
					dir := strings.TrimPrefix(store.TraitsOf(first).Name, "file:")
					return under(t, open(t, dir, v.opts))
				}
			}
			storetest.Run(t, func(t *testing.T) store.Store {
				return under(t, open(t, filepath.Join(v.dir(t), "store"), v.opts))
			}, o)
		})
	}
}

package filestore_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

func open(t testing.TB, dir string, opts *filestore.Options) *filestore.Store {
	t.Helper()
	s, err := filestore.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// memoryDir returns a new directory, in memory where there is one: a sync costs
// nothing there.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "filestore")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func keys(t testing.TB, s *filestore.Store, prefix string) []string {
	t.Helper()
	var keys []string
	for key, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func TestBasic(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	s, other := open(t, dir, nil), open(t, dir, nil)
	if _, _, err := s.Get(ctx, "a/b"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("got %v, want not found", err)
	}
	v1, err := s.Put(ctx, "a/b", "", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	if value, v, err := other.Get(ctx, "a/b"); string(value) != "1" || v != v1 || err != nil {
		t.Fatalf("got %q %q %v", value, v, err)
	}
	var conflict *store.ConflictError
	if _, err := other.Put(ctx, "a/b", "", []byte("2")); !errors.As(err, &conflict) || conflict.Version != v1 || string(conflict.Value) != "1" {
		t.Fatalf("got %v", err)
	}
	v2, err := other.PutUnsynced(ctx, "a/b", v1, []byte("2"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, "a/b", v1); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("got %v", err)
	}
	if got := keys(t, s, ""); !slices.Equal(got, []string{"a/b"}) {
		t.Fatalf("got %v", got)
	}
	if err := s.Delete(ctx, "a/b", v2); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, s, ""); len(got) != 0 {
		t.Fatalf("got %v", got)
	}
	v3, err := other.Put(ctx, "a/b", "", nil)
	if err != nil || v3 == v1 {
		t.Fatalf("got %q %v", v3, err)
	}
}

func TestCount(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	const each, n = 200, 4
	var wg sync.WaitGroup
	for i := range n {
		s := open(t, dir, nil)
		wg.Go(func() {
			for range each {
				_, err := store.Update(ctx, s, "count", func(old []byte) ([]byte, error) {
					var x int
					fmt.Sscan(string(old), &x)
					return fmt.Append(nil, x+1), nil
				})
				if err != nil {
					t.Error(i, err)
				}
			}
		})
	}
	wg.Wait()
	s := open(t, dir, nil)
	if value, v, err := s.Get(ctx, "count"); string(value) != fmt.Sprint(n*each) {
		t.Errorf("got %q %q %v", value, v, err)
	}
}

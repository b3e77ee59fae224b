package leasetest_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease/leasetest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

func openMemory(*testing.T) store.Store { return memstore.New() }

func TestMemory(t *testing.T) {
	leasetest.Run(t, openMemory, &leasetest.Options{TTL: 10 * time.Second, Bubble: true, Parallel: true})
}

// bare is a store without any ability.
type bare struct{ store.Store }

func TestBare(t *testing.T) {
	leasetest.Run(t, func(*testing.T) store.Store { return bare{memstore.New()} }, &leasetest.Options{
		TTL: 10 * time.Second, Bubble: true, Parallel: true, CaseTimeout: time.Hour,
	})
}

func TestPrefixed(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) store.Store {
		s, err := store.Prefix(memstore.New(), "some/tenant")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}, &leasetest.Options{Bubble: true, Parallel: true})
}

func openFile(t *testing.T, dir string) store.Store {
	s, err := filestore.Open(dir, nil)
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

func TestFile(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) store.Store {
		return openFile(t, filepath.Join(t.TempDir(), "store"))
	}, &leasetest.Options{
		TTL: 500 * time.Millisecond, Parallel: true, Contenders: 6,
		Second: func(t *testing.T, first store.Store) store.Store {
			return openFile(t, strings.TrimPrefix(store.TraitsOf(first).Name, "file:"))
		},
	})
}

func TestCases(t *testing.T) {
	names := slices.Sorted(slices.Values(leasetest.Cases()))
	if len(names) < 25 || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("%d cases: %q", len(names), names)
	}
}

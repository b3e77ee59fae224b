package doctor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// placeOf runs doctor and returns its check of the place.
func placeOf(t *testing.T, target *doctor.Target) doctor.Check {
	t.Helper()
	r, err := doctor.Run(t.Context(), target, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Checks {
		if c.ID == "place" {
			return c
		}
	}
	t.Fatalf("no check of the place: %v", r.Checks)
	return doctor.Check{}
}

// prefixed returns a store of the keys below a prefix; an empty prefix means all keys.
func prefixed(t *testing.T, st store.Store, prefix string) store.Store {
	t.Helper()
	if prefix == "" {
		return st
	}
	below, err := store.Prefix(st, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return below
}

// use takes and frees a lock in a store, and saves a checkpoint.
func use(t *testing.T, st store.Store) {
	t.Helper()
	client, err := lease.New(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := client.TryAcquire(t.Context(), "jobs/nightly", nil)
	if err == nil {
		err = g.Release(t.Context())
	}
	if err == nil {
		err = client.Close(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	keeper, err := checkpoint.New(st, nil)
	if err == nil {
		_, err = keeper.Advance(t.Context(), "orders", checkpoint.Position{Sequence: 1}, nil)
	}
	if err == nil {
		err = keeper.Close(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// doctor finds two stores that have the same registers under different names, from the outer and from the
// inner store. Stores side by side, and locks with such names, are not reported.
func TestStoresInsideEachOther(t *testing.T) {
	for _, c := range []struct {
		name, outer, inner string
		want               [2]doctor.Result // of the outer and of the inner store
	}{
		{"the inner prefix is in the locks", "a", "a/lock", [2]doctor.Result{doctor.Warning, doctor.Warning}},
		{"deeper in the locks", "a", "a/lock/x", [2]doctor.Result{doctor.Warning, doctor.Warning}},
		{"in the checkpoints", "a", "a/checkpoint", [2]doctor.Result{doctor.Warning, doctor.Warning}},
		{"in the locks of a whole store", "", "lock", [2]doctor.Result{doctor.Warning, doctor.Warning}},
		{"control: below, and not in the locks", "a", "a/b", [2]doctor.Result{doctor.OK, doctor.OK}},
		{"control: side by side", "a", "ab", [2]doctor.Result{doctor.OK, doctor.OK}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := &memstore.Store{}
			outer, inner := prefixed(t, mem, c.outer), prefixed(t, mem, c.inner)
			use(t, outer)
			use(t, inner)
			for i, st := range []store.Store{outer, inner} {
				got := placeOf(t, doctor.Registers("memory", st))
				if got.Result != c.want[i] || (got.Result == doctor.Warning) != strings.Contains(got.Means, "use a prefix that is not inside another store") {
					t.Errorf("store %d: %+v, want %s", i, got, c.want[i])
				}
			}
		})
	}
	t.Run("control: a lock with such a name", func(t *testing.T) {
		mem := &memstore.Store{}
		client, err := lease.New(mem, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"lock/a", "lock/lock/a", "x/checkpoint/y"} {
			if _, err := client.TryAcquire(t.Context(), name, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := client.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := placeOf(t, doctor.Registers("memory", mem)); got.Result != doctor.OK {
			t.Errorf("%+v", got)
		}
	})
}

// doctor finds a directory store inside a part of another one, from both sides. A store in another part of
// the directory is safe.
func TestDirectoriesInsideEachOther(t *testing.T) {
	for part, want := range map[string]doctor.Result{"k": doctor.Unsafe, "alive": doctor.Unsafe, "team": doctor.OK} {
		t.Run(part, func(t *testing.T) {
			outer := t.TempDir()
			inner := filepath.Join(outer, part)
			for _, dir := range []string{outer, inner} {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				st, err := filestore.Open(dir, nil)
				if err != nil {
					t.Fatal(err)
				}
				use(t, st)
				if err := st.Close(); err != nil {
					t.Fatal(err)
				}
			}
			for _, dir := range []string{outer, inner} {
				got := placeOf(t, doctor.Directory(dir, nil))
				if got.Result != want || want == doctor.Unsafe && (!strings.Contains(got.Found, outer) || !strings.Contains(got.Means, "use a directory that is not inside a store")) {
					t.Errorf("%s: %+v, want %s", dir, got, want)
				}
			}
		})
	}
}

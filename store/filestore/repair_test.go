package filestore_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// Repair moves an unreadable log away as it is. Then the key can be used again, also by
// processes that have read the damaged log. Repair leaves a readable log.
func TestRepair(t *testing.T) {
	dir := t.TempDir()
	open := func() *filestore.Store {
		st, err := filestore.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { st.Close() })
		return st
	}
	st := open()
	if _, err := st.Put(t.Context(), "job", "", []byte("good")); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Repair(t.Context(), "job"); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("of a good one: %v", err)
	}
	if _, err := st.Repair(t.Context(), "nothing"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of none: %v", err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "k", "job", "*"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("%q (%v)", logs, err)
	}
	damaged := []byte("no log of ours\n")
	if err := os.WriteFile(logs[0], damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	st, other := open(), open()
	for _, s := range []*filestore.Store{st, other} {
		if _, _, err := s.Get(t.Context(), "job"); !errors.Is(err, store.ErrCorrupt) {
			t.Fatalf("control: %v", err)
		}
	}
	where, err := st.Repair(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(filepath.Join(where, filepath.Base(logs[0]))); err != nil || string(kept) != string(damaged) {
		t.Errorf("kept %q (%v)", kept, err)
	}
	if _, _, err := other.Get(t.Context(), "job"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("afterwards: %v", err)
	}
	if _, err := st.Put(t.Context(), "job", "", []byte("anew")); err != nil {
		t.Fatal(err)
	}
	if got, _, err := other.Get(t.Context(), "job"); err != nil || string(got) != "anew" {
		t.Errorf("created again: %q (%v)", got, err)
	}
}

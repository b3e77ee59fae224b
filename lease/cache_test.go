package lease_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// TestMemoryOfLocalStore: on a local store a process that announces itself saves no observation of
// its own grants, or of a free lock. It saves one of what others may have to wait for: another's
// grant, and the time before which no grant may follow.
func TestMemoryOfLocalStore(t *testing.T) {
	open := func() *filestore.Store {
		st, err := filestore.Open(t.TempDir(), nil)
		must(t, err)
		t.Cleanup(func() { st.Close() })
		return st
	}
	kept := func(st store.Store, o lease.Options) int {
		memory := &sightings{}
		o.Cache = memory
		c := client(t, st, &o)
		if g, err := c.TryAcquire(t.Context(), "job", nil); err == nil {
			mustRelease(t, g)
		} else if !errors.Is(err, lease.ErrHeld) {
			t.Fatal(err)
		}
		return len(memory.m)
	}
	st, want := open(), 0
	if _, err := st.Announce(t.Context()); err != nil {
		t.Logf("each grant is worth an observation here: %v", err)
		want = 1
	}
	if n := kept(st, lease.Options{}); n != want {
		t.Errorf("%d observations of a lock that was free all the time, want %d", n, want)
	}
	if n := kept(st, lease.Options{MinInterval: time.Hour}); n != 1 {
		t.Errorf("%d observations of a lock with a time before which it may not be taken, want 1", n)
	}
	if n := kept(open(), lease.Options{NoPresence: true}); n != 1 {
		t.Errorf("%d observations of a grant whose holder cannot be known dead, want 1", n)
	}
	other := open()
	mustTry(t, client(t, other, &lease.Options{ManualRenewal: true}), "job")
	edit(t, other, "job", func(rec *lease.Record) { rec.Process = "ANOTHER" })
	if n := kept(other, lease.Options{}); n != 1 {
		t.Errorf("%d observations of another's grant, want 1", n)
	}
}

// TestLongName: the error for a name that is too long gives its own length, not that of the key.
func TestLongName(t *testing.T) {
	c := client(t, named(t), nil)
	longest := store.MaxKey - len("lock/")
	mustRelease(t, mustTry(t, c, strings.Repeat("n", longest)))
	_, err := c.TryAcquire(t.Context(), strings.Repeat("n", longest+1), nil)
	if !errors.Is(err, store.ErrKey) || !strings.Contains(err.Error(), "508 bytes, at most 507") {
		t.Errorf("%v", err)
	}
}

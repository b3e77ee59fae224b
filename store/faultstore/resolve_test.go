package faultstore_test

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// TestResolve: Resolve returns the true outcome of a write under each fault.
func TestResolve(t *testing.T) {
	for _, c := range []struct {
		schedule string
		delete   bool
		fates    [3]store.Resolution // at once; after all late writes; after the writes of other programs
	}{
		{"write job #1 lose", false, [3]store.Resolution{store.ResolutionApplied, store.ResolutionApplied, store.ResolutionSuperseded}},
		{"write job #1 drop", false, [3]store.Resolution{store.ResolutionPending, store.ResolutionPending, store.ResolutionNotApplied}},
		{"write job #1 late", false, [3]store.Resolution{store.ResolutionPending, store.ResolutionApplied, store.ResolutionSuperseded}},
		{"write job #1 lose", true, [3]store.Resolution{store.ResolutionApplied, store.ResolutionApplied, store.ResolutionSuperseded}},
		{"write job #1 drop", true, [3]store.Resolution{store.ResolutionPending, store.ResolutionPending, store.ResolutionNotApplied}},
		{"write job #1 late", true, [3]store.Resolution{store.ResolutionPending, store.ResolutionApplied, store.ResolutionSuperseded}},
	} {
		s, m := open(t, c.schedule)
		v, err := m.Put(t.Context(), "job", "", []byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		if c.delete {
			err = s.Delete(t.Context(), "job", v)
		} else {
			_, err = s.Put(t.Context(), "job", v, []byte("ours"))
		}
		write := store.AttemptedVersion(err)
		if store.OutcomeOf(err) != store.Unknown || write == "" {
			t.Fatalf("%s: %v, version %q", c.schedule, err, write)
		}
		check := func(when string, want store.Resolution) {
			t.Helper()
			found, err := store.Resolve(t.Context(), s, "job", v, write)
			if err != nil || found.Resolution != want || (found.Write == write) != (want == store.ResolutionApplied || want == store.ResolutionSuperseded) {
				t.Errorf("%s, delete %v, %s: %+v, %v; want %v", c.schedule, c.delete, when, found, err, want)
			}
		}
		check("at once", c.fates[0])
		if err := s.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		check("after all that is late", c.fates[1])
		_, now, err := m.Get(t.Context(), "job")
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		if _, err := m.Put(t.Context(), "job", now, []byte("another's")); err != nil {
			t.Fatal(err)
		}
		check("after others' writes", c.fates[2])
	}
}

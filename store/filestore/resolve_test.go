package filestore_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// TestResolveByLog: Resolve finds the outcome of a write as far as the log reaches back,
// also before the seal of a segment. Older writes remain unknown.
func TestResolveByLog(t *testing.T) {
	s, err := filestore.Open(t.TempDir(), filestore.Tiny())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var all []store.Version
	v := store.Version("")
	for i := range 60 {
		prev := v
		if v, err = s.Put(t.Context(), "k", prev, fmt.Appendf(nil, `"%d"`, i)); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
		settle := func(what string, want store.Resolution, write store.Version) {
			t.Helper()
			found, err := s.Resolve(t.Context(), "k", prev, write)
			if err != nil || found.Resolution != want || found.Current.Version != v {
				t.Errorf("after %d writes, %s: %+v, %v; want %v", i+1, what, found, err, want)
			}
		}
		settle("the last", store.ResolutionApplied, v)
		settle("another at its place", store.ResolutionNotApplied, store.Version(fmt.Sprintf("%d.NONE", i+1)))
		settle("a place to come", store.ResolutionUnknown, store.Version(fmt.Sprintf("%d.NONE", i+9)))
		if i > 0 {
			settle("the one before", store.ResolutionSuperseded, all[i-1])
		}
	}
	if found, err := s.Resolve(t.Context(), "k", "", all[0]); err != nil || found.Resolution != store.ResolutionUnknown {
		t.Errorf("the first of sixty: %+v, %v", found, err)
	}
	if found, err := s.Resolve(t.Context(), "k", v, "61.NONE"); err != nil || found.Resolution != store.ResolutionPending {
		t.Errorf("the next: %+v, %v", found, err)
	}
	for _, bad := range []store.Version{"x", "0.X", "01.X", "1.", "-1.X"} {
		if _, err := s.Resolve(t.Context(), "k", v, bad); !errors.Is(err, store.ErrVersion) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

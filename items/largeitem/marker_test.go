package largeitem_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// TestAlteredMarker: an object in the place of the table's name that says something else, or
// is of any size, stops writes and sweeps before they upload or remove anything, until a
// store adopts the names.
func TestAlteredMarker(t *testing.T) {
	for name, text := range map[string]string{"huge": strings.Repeat("x", 1<<20), "null": "null", "empty": "", "a number": `{"table":5}`, "no grace": `{"table":"memory:items","grace_ms":-1}`, "a grace beyond all": `{"table":"memory:items","grace_ms":9223372036854775807}`, "a longer one beyond all": `{"table":"memory:items","longer_grace_ms":9223372036854775807}`} {
		w := newWorld(t, nil)
		if _, err := w.bucket.Put(t.Context(), "items/.table", strings.NewReader(text), nil); err != nil {
			t.Fatal(err)
		}
		s := w.process(func(c objecttest.Call) objecttest.Fault {
			if c.Op == "put" {
				t.Errorf("%s: %q was uploaded", name, c.Key)
			}
			return objecttest.Pass
		}, nil)
		_, err := s.Create(t.Context(), k1, nil, texts("body", "new"), nil)
		if !errors.Is(err, store.ErrMisconfigured) || store.OutcomeOf(err) != store.NotApplied || len(w.objects()) > 0 {
			t.Errorf("%s: create: %v (%v), %q", name, err, store.OutcomeOf(err), w.objects())
		}
		if _, err := w.store.Sweep(t.Context(), nil); !errors.Is(err, store.ErrMisconfigured) {
			t.Errorf("%s: sweep: %v", name, err)
		}
		adopting := w.open(w.table, w.bucket, &largeitem.Options{AdoptPrefix: true})
		if _, err := adopting.Create(t.Context(), k1, nil, texts("body", "new"), nil); err != nil {
			t.Errorf("%s: adopting: %v", name, err)
		}
	}
}

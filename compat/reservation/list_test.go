package reservation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/store"
)

// listed returns the reservations of a table as text, and the errors about single rows.
func listed(t *testing.T, r *reserve.Reserver) (rows []string, corrupt int) {
	t.Helper()
	for s, err := range r.List(t.Context()) {
		switch {
		case errors.Is(err, store.ErrCorrupt):
			corrupt++
		case err != nil:
			t.Fatal(err)
		default:
			rows = append(rows, fmt.Sprintf("%s %s live %v, %v ago", s.Key, s.Version, s.Live, time.Since(s.Since).Truncate(2*time.Second)))
		}
	}
	slices.Sort(rows)
	return rows, corrupt
}

// TestList: reservations of both programs are listed over several pages, with their state, and
// a row that is none hides no other one. A probe is not listed.
func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, table, other := newTable(t)
		d.PageSize = 2
		r := reserver(t, table, nil)
		refused := errors.New("refused")
		err := r.Do(t.Context(), "released", "", exists, func(context.Context) error { return store.MarkNotApplied(refused) })
		if !errors.Is(err, refused) {
			t.Fatal(err)
		}
		if _, err := other.Acquire(t.Context(), "object_store's", `"v"`, 20*time.Second, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		if err := r.Do(t.Context(), "held", `"v"`, exists, exists); err != nil {
			t.Fatal(err)
		}
		if err := table.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{`held "v" live true, 0s ago`, `object_store's "v" live true, 40s ago`, `released  live false, 40s ago`}
		if rows, corrupt := listed(t, r); !slices.Equal(rows, want) || corrupt != 0 {
			t.Errorf("got %q, %d corrupt; want %q", rows, corrupt, want)
		}
		time.Sleep(30 * time.Second)
		d.Update(name, func(item map[string]map[string]any) map[string]map[string]any {
			if item["path"]["S"] == "held" {
				item["generation"] = map[string]any{"S": "x"}
			}
			return item
		})
		want = []string{`object_store's "v" live false, 1m10s ago`, `released  live false, 1m10s ago`}
		if rows, corrupt := listed(t, r); !slices.Equal(rows, want) || corrupt != 1 {
			t.Errorf("got %q, %d corrupt; want %q, 1", rows, corrupt, want)
		}
	})
}

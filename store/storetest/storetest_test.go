package storetest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func openMemory(*testing.T) store.Store { return memstore.New() }

func TestMemory(t *testing.T) {
	storetest.Run(t, openMemory, nil)
}

func TestIntercepted(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store {
		return store.Intercept(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
			return next(ctx, op)
		})
	}, &storetest.Options{Rounds: 8})
}

func TestPrefixed(t *testing.T) {
	const prefix = "tenants/日本 1"
	m := memstore.New() // one for all, between neighbours that the cases must not see
	n := 0
	storetest.Run(t, func(t *testing.T) store.Store {
		n++
		for _, key := range []string{prefix, prefix + "-2/x", "tenants/x"} {
			_, _ = m.Put(t.Context(), key, "", []byte("a neighbour"))
		}
		p, err := store.Prefix(m, prefix+"/"+fmtInt(n))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}, &storetest.Options{MaxKey: store.MaxKey - len(prefix) - len("/999/"), Rounds: 8})
}

// TestBubble runs the suite where time is not real: cases must not spin, nor wait
// for anything that is not in the bubble.
func TestBubble(t *testing.T) {
	storetest.Run(t, openMemory, &storetest.Options{Bubble: true, Parallel: true})
	synctest.Test(t, func(t *testing.T) {
		for _, f := range storetest.Check(t, openMemory, &storetest.Options{Rounds: 4}) {
			t.Errorf("%s: %v", f.Case, f)
		}
	})
}

func TestCases(t *testing.T) {
	names := storetest.Cases()
	if len(names) < 40 {
		t.Errorf("%d cases", len(names))
	}
	sorted := slices.Sorted(slices.Values(names))
	if len(slices.Compact(sorted)) != len(names) {
		t.Errorf("two cases have one name: %q", sorted)
	}
}

func TestCheckNamesTheRule(t *testing.T) {
	open := func(*testing.T) store.Store { return newBare() }
	failures := storetest.Check(t, open, &storetest.Options{Rounds: 2})
	if len(failures) != 1 || failures[0].Case != "ErrorsNameTheKey" || !strings.Contains(failures[0].String(), "has the operation, the key that the caller passed") {
		t.Errorf("got %v, want one failure, of ErrorsNameTheKey", failures)
	}
}

func TestSkips(t *testing.T) {
	open := func(*testing.T) store.Store { return newBare() }
	opts := &storetest.Options{
		Skip: map[string]string{"ErrorsNameTheKey": "its errors are bare"}, VerifySkips: true,
		Rounds: 1, Racers: 2, Keys: 1,
	}
	t.Run("verified", func(t *testing.T) { storetest.Run(t, open, opts) })
	if got := storetest.Check(t, open, opts); len(got) != 0 {
		t.Errorf("a skipped case was run: %v", got)
	}
}

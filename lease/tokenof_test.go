package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// delayed says that it delays its writes. It does not.
type delayed struct{ store.Store }

func (delayed) Traits() store.Traits { return store.Traits{MinWriteTime: 1} }

func (d delayed) GetUncommitted(ctx context.Context, key string) ([]byte, store.Version, error) {
	return d.Get(ctx, key)
}

func (delayed) HighestToken(context.Context, string) (uint64, error) { return 0, nil }

// keepsMarks is a store that keeps the highest mark of all writes, refused ones too.
type keepsMarks struct {
	delayed
	highest *uint64
}

func (s keepsMarks) HighestToken(context.Context, string) (uint64, error) { return *s.highest, nil }

// Every write of a lease carries the token in its record as its mark, and the token of
// a claim is above that of a claim that lost.
func TestTokensAreAboveThoseOfLostClaims(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		var highest uint64
		writes, refuse := 0, false
		s := keepsMarks{delayed{store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if !op.Kind.Write() {
				return next(ctx, op)
			}
			var record struct{ Token uint64 }
			if err := json.Unmarshal(op.Value, &record); err != nil || record.Token == 0 || store.TokenOf(ctx) != record.Token {
				t.Errorf("write %d: %s of %s has the mark %d", writes, op.Kind, op.Value, store.TokenOf(ctx))
			}
			writes++
			highest = max(highest, store.TokenOf(ctx))
			if refuse {
				return store.MarkNotApplied(errNetwork)
			}
			return next(ctx, op)
		})}, &highest}
		c := client(t, s, nil)
		g := mustTry(t, c, "job")
		must(t, errors.Join(g.Renew(t.Context()), g.SetData(t.Context(), []byte("x")), g.Release(t.Context())))
		refuse = true
		if _, err := c.TryAcquire(t.Context(), "job", nil); err == nil {
			t.Fatal("a claim that was refused succeeds")
		}
		refuse = false
		lost := highest
		if lost <= g.Token() {
			t.Fatalf("the claim that lost showed %d, the one before had %d", lost, g.Token())
		}
		if g = mustTry(t, c, "job"); g.Token() <= lost {
			t.Fatalf("after a claim that showed %d: token %d", lost, g.Token())
		}
		must(t, errOf(c.Break(t.Context(), "job", g.Token(), nil)))
		if writes < 6 {
			t.Errorf("%d writes, want 6 at least", writes)
		}
	})
}

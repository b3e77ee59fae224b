package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
)

// faulty returns st with the faults of a schedule, which begin with the call of start. before is
// called before the first read that is to resolve a write.
func faulty(t *testing.T, st store.Store, schedule string, before func()) (_ store.Store, start func()) {
	t.Helper()
	fs := faultstore.New(st, faultstore.Schedule{})
	t.Cleanup(func() { _ = fs.Close() })
	started := false
	return store.Intercept(fs, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if op.Kind == store.OpResolve && started && before != nil {
			f := before
			before = nil
			f()
		}
		return next(ctx, op)
	}), func() { started = true; fs.Set(faultstore.MustParse(schedule)) }
}

// A write whose reply is lost is resolved also when others have written since: the store knows its
// outcome.
func TestSupersededWritesAreReported(t *testing.T) {
	// thief breaks the lock with immediate effect, if it is held or broken, and takes it.
	thief := func(t *testing.T, st store.Store) func() {
		return func() {
			c := client(t, st, nil)
			if info, err := c.Inspect(t.Context(), "job"); err != nil {
				t.Error(err)
			} else if info.Record.State != lease.Free && !info.Record.Immediate {
				report(t, errOf(c.Break(t.Context(), "job", info.Record.Token, &lease.BreakOptions{Immediate: true})))
			}
			mustTry(t, c, "job")
		}
	}
	for name, c := range map[string]struct {
		schedule string
		stolen   bool
	}{
		"the reply":   {"put lock/job #1 lose", false},
		"the request": {"put lock/job #1 drop", true},
	} {
		t.Run("release, "+name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, st store.Store, client newParty) {
				lossy, start := faulty(t, st, c.schedule, thief(t, st))
				g := mustTry(t, client(t, lossy, nil), "job")
				start()
				if err := g.Release(t.Context()); errors.Is(err, lease.ErrTakenOver) != c.stolen || (err == nil) == c.stolen {
					t.Errorf("Release = %v; want it stolen: %v", err, c.stolen)
				}
			})
		})
		t.Run("break, "+name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, st store.Store, client newParty) {
				lossy, start := faulty(t, st, c.schedule, thief(t, st))
				breaker := client(t, lossy, nil)
				g := mustTry(t, client(t, st, nil), "job")
				start()
				rec, err := breaker.Break(t.Context(), "job", g.Token(), nil)
				if c.stolen {
					if !errors.Is(err, lease.ErrTokenMismatch) {
						t.Errorf("Break = %v; want ErrTokenMismatch", err)
					}
				} else if err != nil || rec.State != lease.Broken || rec.Token != g.Token()+1 {
					t.Errorf("Break = %+v, %v; it was applied", rec, err)
				}
			})
		})
	}
}

// The error of an acquire that was refused for certain is no unknown outcome; that of one
// whose earlier write is open is one.
func TestRefusalAfterALostReply(t *testing.T) {
	for name, c := range map[string]struct {
		schedule string
		want     store.Outcome
	}{
		"refused":            {"put lock/job fail", store.NotApplied},
		"lost, then refused": {"put lock/job #1 drop; put lock/job #2 fail; resolve lock/job #2- fail", store.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, st store.Store, client newParty) {
				lossy, start := faulty(t, st, c.schedule, nil)
				locks := client(t, lossy, nil)
				start()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if g, err := locks.TryAcquire(ctx, "job", nil); err == nil || store.OutcomeOf(err) != c.want {
					t.Errorf("TryAcquire = %v, %v (%v); want the outcome %v", g, err, store.OutcomeOf(err), c.want)
				}
			})
		})
	}
}

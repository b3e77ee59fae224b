package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// fileFaults are what a worker on the file store does to itself, or gets wrong.
type fileFaults struct {
	// Chance is how often the worker stops itself, or kills itself, right before and
	// right after a write: between a lock's write and the return of the acquire, in
	// the middle of a renewal, between a look at the lease and the fenced write.
	Chance float64

	// Rash makes the worker take every other process for dead: the control, in
	// which two hold the lock.
	Rash bool
}

// openFile opens a file store as a program would, with the faults of the target.
func openFile(a target) (store.Store, error) {
	st, err := filestore.Open(a.Space, nil)
	if err != nil {
		return nil, err
	}
	var s store.Store = st
	if a.File.Rash {
		p, _ := store.As[store.Presence](s)
		s = rashStore{s, p}
	}
	if a.File.Chance == 0 {
		return s, nil
	}
	return store.Intercept(s, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if !op.Kind.Write() {
			return next(ctx, op)
		}
		what := instantOf(op)
		a.File.strike("before " + what)
		err := next(ctx, op)
		a.File.strike("after " + what)
		return err
	}), nil
}

// instantOf names what a write is for.
func instantOf(op *store.Op) string {
	switch {
	case op.Key == tortureCounter:
		return "fenced write"
	case op.Kind == store.OpPutUnsynced:
		return "renewal"
	case strings.Contains(op.Key, ".session/") && op.Kind != store.OpPut:
		return "removal"
	case strings.Contains(op.Key, ".session/"):
		for state, what := range map[string]string{"open": "opening", "fenced": "fence", "closed": "closing"} {
			if strings.Contains(string(op.Value), fmt.Sprintf(`"state":%q`, state)) {
				return what
			}
		}
	case strings.Contains(string(op.Value), `"state":"free"`):
		return "release"
	}
	return "acquire"
}

// strike stops or kills this process now and then.
func (f fileFaults) strike(instant string) {
	if x := rand.Float64(); x < f.Chance/3 {
		interrupt("kill", instant)
	} else if x < f.Chance {
		interrupt("stop", instant)
	}
}

// rashStore takes every other process for dead.
type rashStore struct {
	store.Store
	presence store.Presence
}

func (s rashStore) Unwrap() store.Store                             { return s.Store }
func (s rashStore) Announce(ctx context.Context) (string, error)    { return s.presence.Announce(ctx) }
func (s rashStore) Liveness(context.Context, string) store.Liveness { return store.Dead }
func (s rashStore) WaitLiveness(ctx context.Context, other string) error {
	return s.presence.WaitLiveness(ctx, other)
}

package storetest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// broken is a store with one deliberate fault.
type broken struct {
	fault  string
	caught []string // cases that must fail
	open   func() store.Store
	second func(first store.Store) store.Store // another handle on it, if it has any
}

// TestBrokenStores shows that every case of the suite can fail: each fails on a store with
// the fault that it checks.
func TestBrokenStores(t *testing.T) {
	all := slices.Concat(brokenConditions(), brokenVersions(), brokenValues(), brokenKeys(), brokenCalls(),
		brokenRaces(), brokenWatches(), brokenLists(), brokenTags(), brokenAbilities(), brokenCuts(), brokenResolving())
	shown := make(map[string]bool)
	for _, b := range all {
		for _, name := range b.caught {
			shown[name] = true
			if !slices.Contains(storetest.Cases(), name) {
				t.Fatalf("%s: %q is no case", b.fault, name)
			}
		}
		t.Run(b.fault, func(t *testing.T) {
			// In a bubble a store that never answers costs no time.
			for _, parallel := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) { b.check(t, parallel) })
			}
		})
	}
	for _, name := range storetest.Cases() {
		if !shown[name] {
			t.Errorf("no broken store shows that %s can fail", name)
		}
	}
}

func (b broken) check(t *testing.T, parallel bool) {
	opts := &storetest.Options{CaseTimeout: 2 * time.Second, Parallel: parallel}
	if b.second != nil {
		opts.Reopen = func(_ *testing.T, first store.Store) store.Store { return b.second(first) }
	}
	opts.Intercept = func(_ *testing.T, first store.Store, carry func(func() error) error) store.Store {
		first.(*remote).carry = carry
		return first
	}
	failures := storetest.Check(t, func(*testing.T) store.Store { return b.open() }, opts, b.caught...)
	for _, name := range b.caught {
		i := slices.IndexFunc(failures, func(f *storetest.Failure) bool { return f.Case == name })
		if i < 0 {
			t.Errorf("%s did not notice, parallel: %v", name, parallel)
			continue
		}
		if f := failures[i]; f.Rule == "" || len(f.Errors) == 0 || !strings.Contains(f.String(), f.Rule) {
			t.Errorf("%s failed without saying why: %q", name, f)
		}
	}
}

// handler is what a broken store does with an operation; m is the sound store
// below it.
type handler func(ctx context.Context, m *memstore.Store, op *store.Op, next store.Handler) error

// onMemory returns an opener of stores that do f.
func onMemory(f handler) func() store.Store {
	return func() store.Store {
		m := memstore.New()
		return store.Intercept(m, func(ctx context.Context, op *store.Op, next store.Handler) error {
			return f(ctx, m, op, next)
		})
	}
}

// forces returns a handler that makes the operations for which when holds
// unconditional.
func forces(when func(op *store.Op) bool) handler {
	return func(ctx context.Context, m *memstore.Store, op *store.Op, next store.Handler) error {
		if !op.Kind.Write() || !when(op) {
			return next(ctx, op)
		}
		_, v, _ := m.Get(ctx, op.Key)
		forced := *op
		forced.Prev = v
		if op.Kind == store.OpDelete && v == "" {
			return nil
		}
		err := next(ctx, &forced)
		if err == nil {
			op.Version = forced.Version
		}
		return err
	}
}

// brokenConditions are stores that ignore a condition.
func brokenConditions() []broken {
	return []broken{
		{"creates over what is there", []string{"CreateExisting", "RaceCreate", "RaceCreateDelete", "DecoratedWorks", "PutAndResolve"}, onMemory(forces(func(op *store.Op) bool {
			return op.Kind == store.OpPut && op.Prev == ""
		})), nil},
		{"creates over an empty value", []string{"CreateExistingEmpty"}, onMemory(func(ctx context.Context, m *memstore.Store, op *store.Op, next store.Handler) error {
			if value, _, err := m.Get(ctx, op.Key); err == nil && len(value) == 0 {
				return forces(func(op *store.Op) bool { return op.Prev == "" })(ctx, m, op, next)
			}
			return next(ctx, op)
		}), nil},
		{"puts with any version", []string{"SwapSuperseded", "SwapAbsent", "SwapOtherKey", "SwapMadeUp", "KeysApart", "RaceSwap", "RaceCounter", "RaceNeighbours", "OldIncarnation", "OldIncarnationManyWrites", "VersionOfOldValue", "RaceHistory"}, onMemory(forces(func(op *store.Op) bool {
			return op.Kind == store.OpPut && op.Prev != ""
		})), nil},
		{"deletes with any version", []string{"DeleteSuperseded", "DeleteAbsent", "DeleteOtherKey", "DeleteMadeUp", "RaceDelete", "RaceDeleteSwap"}, onMemory(forces(func(op *store.Op) bool {
			return op.Kind == store.OpDelete && op.Prev != ""
		})), nil},
		{"deletes without a version", []string{"DeleteZero"}, onMemory(forces(func(op *store.Op) bool {
			return op.Kind == store.OpDelete && op.Prev == ""
		})), nil},
		{"deletes nothing", []string{"Delete"}, onMemory(func(ctx context.Context, _ *memstore.Store, op *store.Op, next store.Handler) error {
			if op.Kind == store.OpDelete {
				return nil
			}
			return next(ctx, op)
		}), nil},
		{"writes nothing", []string{"Create", "Swap"}, onMemory(func(ctx context.Context, _ *memstore.Store, op *store.Op, next store.Handler) error {
			if op.Kind == store.OpPut {
				op.Version = "1"
				return nil
			}
			return next(ctx, op)
		}), nil},
		{"reads nothing where nothing is", []string{"GetAbsent"}, onMemory(func(ctx context.Context, _ *memstore.Store, op *store.Op, next store.Handler) error {
			err := next(ctx, op)
			if op.Kind == store.OpGet && err != nil {
				return nil
			}
			return err
		}), nil},
		{"reports a conflict with its own first try", []string{"Create", "RaceCreate"}, onMemory(func(ctx context.Context, _ *memstore.Store, op *store.Op, next store.Handler) error {
			if op.Kind == store.OpPut {
				again := *op
				if err := next(ctx, &again); err != nil {
					return err
				}
			}
			return next(ctx, op)
		}), nil},
		{"keeps nothing for a later handle", []string{"LaterHandle", "TwoHandles"}, func() store.Store { return memstore.New() },
			func(store.Store) store.Store { return memstore.New() }},
		{"its conflicts carry no state", []string{"ConflictCarriesState"}, onMemory(func(ctx context.Context, _ *memstore.Store, op *store.Op, next store.Handler) error {
			if err := next(ctx, op); err != nil && op.Kind == store.OpPut && store.OutcomeOf(err) == store.NotApplied && ctx.Err() == nil {
				return &store.OpError{Op: "put", Key: op.Key, Err: store.ErrConflict}
			}
			return nil
		}), nil},
	}
}

func brokenVersions() []broken {
	return []broken{
		{"has the value as its version", []string{"VersionOfEqualValue", "VersionOfOldValue", "VersionsAllDistinct", "VersionAfterRecreate", "WatchPut"}, func() store.Store {
			return newLoose(func(value string, _ int) string { return "#" + value })
		}, nil},
		{"restarts its count after a delete", []string{"VersionAfterRecreate", "OldIncarnation", "OldIncarnationManyWrites", "VersionsAllDistinct"}, func() store.Store {
			return newLoose(func(_ string, n int) string { return fmtInt(n) })
		}, nil},
		{"changes its version when it is read", []string{"VersionStable", "VersionFromGet"}, onMemory(func(ctx context.Context, m *memstore.Store, op *store.Op, next store.Handler) error {
			err := next(ctx, op)
			if op.Kind == store.OpGet && err == nil {
				_, err = m.Put(ctx, op.Key, op.Version, op.Value)
			}
			return err
		}), nil},
	}
}

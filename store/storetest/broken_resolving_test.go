package storetest_test

import (
	"context"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// brokenResolving are stores whose Resolve returns wrong answers about writes whose reply
// was lost.
func brokenResolving() []broken {
	settles := func(fault string, caught []string, change func(op *store.Op, err error) error) broken {
		return broken{fault, caught, onMemory(func(ctx context.Context, _ *memstore.Store, op *store.Op, next store.Handler) error {
			err := next(ctx, op)
			if op.Kind == store.OpResolve {
				err = change(op, err)
			}
			return err
		}), nil}
	}
	return []broken{
		settles("calls every write without a reply not applied", []string{"ResolveApplied", "ResolveSuperseded", "ResolvePending"}, func(op *store.Op, err error) error {
			op.Resolved.Resolution, op.Resolved.Write = store.ResolutionNotApplied, ""
			return err
		}),
		settles("takes the current state for its own write", []string{"ResolveSuperseded", "ResolvePending", "ResolveOthers"}, func(op *store.Op, err error) error {
			if len(op.Writes) > 0 {
				op.Resolved.Resolution, op.Resolved.Write = store.ResolutionApplied, op.Writes[0]
			}
			return err
		}),
		settles("does not return the current state", []string{"ResolveApplied", "ResolveOthers"}, func(op *store.Op, err error) error {
			op.Resolved.Current = store.Entry{}
			return err
		}),
		settles("resolves a write although it could not read", []string{"ResolveErrors"}, func(op *store.Op, err error) error {
			if err != nil {
				op.Resolved.Resolution = store.ResolutionNotApplied
			}
			return nil
		}),
	}
}

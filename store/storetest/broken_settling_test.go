package storetest_test

import (
	"context"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// brokenSettling are stores that tell untruths of writes whose reply was lost.
func brokenSettling() []broken {
	settles := func(fault string, caught []string, change func(op *store.Op, err error) error) broken {
		return broken{fault, caught, onMemory(func(ctx context.Context, _ *memstore.Store, op *store.Op, next store.Handler) error {
			err := next(ctx, op)
			if op.Kind == store.OpSettle {
				err = change(op, err)
			}
			return err
		}), nil}
	}
	return []broken{
		settles("calls every write without a reply not applied", []string{"SettleApplied", "SettleSuperseded", "SettleNotYet"}, func(op *store.Op, err error) error {
			op.Settled.Fate, op.Settled.Write = store.FateNever, ""
			return err
		}),
		settles("takes what stands there for its own", []string{"SettleSuperseded", "SettleNotYet", "SettleOthers"}, func(op *store.Op, err error) error {
			if len(op.Writes) > 0 {
				op.Settled.Fate, op.Settled.Write = store.FateApplied, op.Writes[0]
			}
			return err
		}),
		settles("says nothing of the state", []string{"SettleApplied", "SettleOthers"}, func(op *store.Op, err error) error {
			op.Settled.Current = store.Entry{}
			return err
		}),
		settles("settles what it could not read", []string{"SettleErrors"}, func(op *store.Op, err error) error {
			if err != nil {
				op.Settled.Fate = store.FateNever
			}
			return nil
		}),
	}
}

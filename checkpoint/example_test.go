package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// must is for examples: programs handle their errors.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// newStore makes a keeper in memory. Programs open a file store, or a bucket.
func newStore() *checkpoint.RegisterStore {
	return must(checkpoint.New(memstore.New(), nil))
}

func Example() {
	ctx := context.Background()
	keeper, err := checkpoint.New(memstore.New(), nil) // or filestore.Open(dir, nil), ...
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keeper.Close(ctx)

	for _, event := range []uint64{16, 17, 12} { // handled one after the other, 12 by mistake
		r, err := keeper.Advance(ctx, "orders", checkpoint.Position{Sequence: event}, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(event, r.Status, "at", r.Current.Sequence)
	}
	// Output:
	// 16 advanced at 16
	// 17 advanced at 17
	// 12 behind at 17
}

// The holder of a lease that does not know yet that it is over cannot move the
// checkpoint under the next one.
func Example_fence() {
	ctx := context.Background()
	st := memstore.New()
	leases := must(lease.New(st, nil))
	defer leases.Close(ctx)
	keeper := must(checkpoint.New(st, nil))
	defer keeper.Close(ctx)

	first := must(leases.Acquire(ctx, "orders", nil)).Token()
	must(keeper.Fence(ctx, "orders", first))
	must(keeper.Advance(ctx, "orders", checkpoint.Position{Sequence: 10}, &checkpoint.AdvanceOptions{Token: first}))

	// The first holder hangs, an operator breaks its lease, and a second holder continues.
	broken := must(leases.Break(ctx, "orders", first, &lease.BreakOptions{Immediate: true}))
	second := broken.Token + 1
	from := must(keeper.Fence(ctx, "orders", second))
	fmt.Println("the second continues from", from.Sequence)

	// The first wakes up.
	_, err := keeper.Advance(ctx, "orders", checkpoint.Position{Sequence: 11}, &checkpoint.AdvanceOptions{Token: first})
	fmt.Println("the first is fenced off:", errors.Is(err, checkpoint.ErrFenced))
	// Output:
	// the second continues from 10
	// the first is fenced off: true
}

func ExampleNew() {
	ctx := context.Background()
	st := memstore.New()
	leases := must(lease.New(st, nil))
	defer leases.Close(ctx)

	// Reset and Delete are refused while a client holds the lease of the same name.
	keeper, err := checkpoint.New(st, &checkpoint.Options{
		HeldBy: func(ctx context.Context, key string) (checkpoint.Holder, bool, error) {
			info, err := leases.Inspect(ctx, key)
			if errors.Is(err, store.ErrNotFound) {
				return checkpoint.Holder{}, false, nil
			}
			r := info.Record
			return checkpoint.Holder{Name: r.Holder, Token: r.Token}, r.State == lease.Held, err
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keeper.Close(ctx)
	must(keeper.Advance(ctx, "orders", checkpoint.Position{Sequence: 17}, nil))

	guard := must(leases.Acquire(ctx, "orders", nil))
	_, err = keeper.Delete(ctx, "orders", nil)
	fmt.Println(errors.Is(err, checkpoint.ErrHeld))
	_, err = keeper.Delete(ctx, "orders", &checkpoint.ChangeOptions{Token: guard.Token()})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func ExampleRegisterStore_Advance() {
	ctx := context.Background()
	keeper := newStore()
	defer keeper.Close(ctx)
	save := func(sequence uint64, event string) {
		r, err := keeper.Advance(ctx, "orders", checkpoint.Position{Sequence: sequence, EventID: event}, nil)
		fmt.Println(r.Status, r.Current.Sequence, r.Current.EventID, err)
	}
	save(17, "order-17")
	save(17, "order-17")
	save(17, "order-4711")
	save(3, "order-3")
	// Output:
	// advanced 17 order-17 <nil>
	// unchanged 17 order-17 <nil>
	// mismatch 17 order-17 checkpoint advance orders: the same sequence is saved with another event
	// behind 17 order-17 <nil>
}

// A cursor that is no number travels as data; the sequence counts the pages.
func ExampleRegisterStore_Advance_cursor() {
	ctx := context.Background()
	keeper := newStore()
	defer keeper.Close(ctx)
	page := checkpoint.Position{Sequence: 1, Data: []byte(`{"next":"eyJpZCI6NDJ9"}`)}
	must(keeper.Advance(ctx, "invoices", page, nil))
	c := must(keeper.Get(ctx, "invoices", nil))
	fmt.Printf("page %d, then %s\n", c.Sequence, c.Data)
	// Output: page 1, then {"next":"eyJpZCI6NDJ9"}
}

func ExampleRegisterStore_Fence() {
	ctx := context.Background()
	keeper := newStore()
	defer keeper.Close(ctx)
	c := must(keeper.Fence(ctx, "orders", 5))
	fmt.Println("saved:", c.Exists, "token:", c.Token)
	_, err := keeper.Fence(ctx, "orders", 4)
	fmt.Println(errors.Is(err, checkpoint.ErrFenced))
	// Output:
	// saved: false token: 5
	// true
}

func ExampleRegisterStore_Reset() {
	ctx := context.Background()
	keeper := newStore()
	defer keeper.Close(ctx)
	must(keeper.Advance(ctx, "orders", checkpoint.Position{Sequence: 100}, nil))

	expected := uint64(99) // a look from a while ago
	c, err := keeper.Reset(ctx, "orders", checkpoint.Position{Sequence: 10}, &checkpoint.ChangeOptions{ExpectedSequence: &expected})
	fmt.Println(errors.Is(err, checkpoint.ErrUnexpectedSequence), c.Sequence)

	c, err = keeper.Reset(ctx, "orders", checkpoint.Position{Sequence: 10}, &checkpoint.ChangeOptions{ExpectedSequence: &c.Sequence})
	fmt.Println(err, c.Sequence, "in epoch", c.Epoch)

	// A worker that began before the reset cannot undo it.
	r, err := keeper.Advance(ctx, "orders", checkpoint.Position{Sequence: 101}, &checkpoint.AdvanceOptions{Epoch: 1})
	fmt.Println(r.Status, errors.Is(err, checkpoint.ErrRolledBack))
	// Output:
	// true 100
	// <nil> 10 in epoch 2
	// rolled back true
}

func ExampleRegisterStore_Delete() {
	ctx := context.Background()
	keeper := newStore()
	defer keeper.Close(ctx)
	must(keeper.Advance(ctx, "orders", checkpoint.Position{Sequence: 100}, nil))
	must(keeper.Delete(ctx, "orders", nil))
	_, err := keeper.Get(ctx, "orders", nil)
	fmt.Println(errors.Is(err, store.ErrNotFound))
	// Output: true
}

func ExampleRegisterStore_Get() {
	ctx := context.Background()
	st := memstore.New()
	ours, theirs := must(checkpoint.New(st, nil)), must(checkpoint.New(st, nil))
	defer ours.Close(ctx)
	defer theirs.Close(ctx)
	must(ours.Advance(ctx, "orders", checkpoint.Position{Sequence: 1}, nil))
	must(theirs.Advance(ctx, "orders", checkpoint.Position{Sequence: 2}, nil))
	fmt.Println("memory:", must(ours.Get(ctx, "orders", &checkpoint.GetOptions{Cached: true})).Sequence)
	fmt.Println("fresh:", must(ours.Get(ctx, "orders", nil)).Sequence)
	// Output:
	// memory: 1
	// fresh: 2
}

func ExampleRegisterStore_List() {
	ctx := context.Background()
	keeper := newStore()
	defer keeper.Close(ctx)
	must(keeper.Advance(ctx, "jobs/a", checkpoint.Position{Sequence: 1}, nil))
	must(keeper.Advance(ctx, "jobs/b", checkpoint.Position{Sequence: 2}, nil))
	must(keeper.Advance(ctx, "other", checkpoint.Position{Sequence: 3}, nil))
	for c, err := range keeper.List(ctx, "jobs") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(c.Key, c.Sequence)
	}
	// Unordered output:
	// jobs/a 1
	// jobs/b 2
}

func ExampleRegisterStore_Watch() {
	ctx := context.Background()
	keeper := newStore()
	defer keeper.Close(ctx)
	for c, err := range keeper.Watch(ctx, "orders") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(c.Exists, c.Sequence)
		if c.Sequence == 2 {
			break
		}
		must(keeper.Advance(ctx, "orders", checkpoint.Position{Sequence: c.Sequence + 1}, nil))
	}
	// Output:
	// false 0
	// true 1
	// true 2
}

func ExampleRegisterStore_Close() {
	ctx := context.Background()
	keeper := newStore()
	fmt.Println(keeper.Close(ctx))
	_, err := keeper.Advance(ctx, "orders", checkpoint.Position{Sequence: 1}, nil)
	fmt.Println(errors.Is(err, checkpoint.ErrClosed))
	// Output:
	// <nil>
	// true
}

func ExamplePosition_Matches() {
	saved := checkpoint.Position{Sequence: 17, EventID: "order-17"}
	fmt.Println(saved.Matches(checkpoint.Position{Sequence: 17}))
	fmt.Println(saved.Matches(checkpoint.Position{Sequence: 17, EventID: "order-4711"}))
	// Output:
	// true
	// false
}

func ExampleStatus_Err() {
	ctx := context.Background()
	keeper := newStore()
	defer keeper.Close(ctx)
	must(keeper.Advance(ctx, "orders", checkpoint.Position{Sequence: 17, EventID: "a"}, nil))
	for _, p := range []checkpoint.Position{{Sequence: 3}, {Sequence: 17, EventID: "b"}} {
		r, _ := keeper.Advance(ctx, "orders", p, nil) // its error is, or wraps, that of the status
		fmt.Println(r.Status, "-", r.Status.Err())
	}
	// Output:
	// behind - <nil>
	// mismatch - the same sequence is saved with another event
}

// orders is a source: a stream that can be read from any place.
func orders(_ context.Context, from checkpoint.Checkpoint) iter.Seq2[checkpoint.Event[string], error] {
	stream := []string{"pears", "apples", "plums", "quinces"}
	return func(yield func(checkpoint.Event[string], error) bool) {
		for i := int(from.Sequence); i < len(stream); i++ {
			e := checkpoint.Event[string]{Value: stream[i]}
			e.Sequence = uint64(i) + 1
			if !yield(e, nil) {
				return
			}
		}
	}
}

func ExampleRun() {
	ctx := context.Background()
	keeper := newStore()
	defer keeper.Close(ctx)

	handle := func(_ context.Context, e checkpoint.Event[string]) error {
		if e.Value == "plums" {
			return errors.New("no plums today")
		}
		fmt.Println("handled", e.Value)
		return nil
	}
	fmt.Println(checkpoint.Run(ctx, keeper, "orders", orders, handle, nil))

	// Later another worker continues where the first one stopped.
	fmt.Println(checkpoint.Run(ctx, keeper, "orders", orders, func(_ context.Context, e checkpoint.Event[string]) error {
		fmt.Println("handled", e.Value)
		return nil
	}, nil))
	// Output:
	// handled pears
	// handled apples
	// no plums today
	// handled plums
	// handled quinces
	// <nil>
}

// Of several workers that run this, one works at a time; the token of its lease
// guards the checkpoint, and what handle writes.
func ExampleToken() {
	ctx := context.Background()
	st := memstore.New()
	leases := must(lease.New(st, nil))
	defer leases.Close(ctx)
	keeper := must(checkpoint.New(st, nil))
	defer keeper.Close(ctx)

	fenced := true
	err := checkpoint.Run(ctx, keeper, "orders", orders, func(ctx context.Context, e checkpoint.Event[string]) error {
		fenced = fenced && checkpoint.Token(ctx) > 0
		return nil
	}, &checkpoint.RunOptions{
		Acquire: func(ctx context.Context) (checkpoint.Guard, error) { return leases.Acquire(ctx, "orders", nil) },
	})
	fmt.Println(fenced, err)
	// Output: true <nil>
}

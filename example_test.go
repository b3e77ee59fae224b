package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// A worker that runs on several machines, of which one works at a time. It follows a
// stream of orders, and continues where the last worker stopped.
//
// The lease excludes the others, as long as clocks run at the right rate. The fencing
// token excludes them for certain: a worker that was stopped past its lease, and wakes
// up, can save nothing any more.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "holdfast")
	check(err)
	defer os.RemoveAll(dir)

	// The storage: a directory. S3, DynamoDB, PostgreSQL and SQLite work in the same way.
	st, err := filestore.Open(filepath.Join(dir, "store"), nil)
	check(err)
	defer st.Close()

	// The lock. Acquire waits; TryAcquire does not.
	locks, err := lease.New(st, nil)
	check(err)
	defer locks.Close(ctx)
	guard, err := locks.Acquire(ctx, "orders", nil)
	check(err)

	// The checkpoint. A new holder raises the fence, and continues from what that returns.
	positions, err := checkpoint.New(st, nil)
	check(err)
	defer positions.Close(ctx)
	from, err := positions.Fence(ctx, "orders", guard.Token())
	check(err)

	// The work. Its context ends when the lease does, and each position that it saves
	// carries the token.
	save := func(sequence uint64, token uint64) error {
		_, err := positions.Advance(guard.Context(), "orders",
			checkpoint.Position{Sequence: sequence}, &checkpoint.AdvanceOptions{Token: token})
		return err
	}
	for order := from.Sequence + 1; order <= 3; order++ {
		check(save(order, guard.Token()))
	}

	// A worker of an earlier grant is refused, whatever its clock says.
	err = save(4, guard.Token()-1)
	fmt.Println("an earlier holder is refused:", errors.Is(err, checkpoint.ErrFenced))

	// Another worker waits no longer than it takes to release the lock.
	check(guard.Release(ctx))
	next, err := locks.Acquire(ctx, "orders", nil)
	check(err)
	from, err = positions.Fence(ctx, "orders", next.Token())
	check(err)
	fmt.Println("the next worker continues from", from.Sequence, "with a higher token:", next.Token() > guard.Token())
	// Output:
	// an earlier holder is refused: true
	// the next worker continues from 3 with a higher token: true
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/store"
)

// at is a position without event or data.
func at(sequence uint64) checkpoint.Position { return checkpoint.Position{Sequence: sequence} }

// advance advances and demands a status.
func advance(t testing.TB, k checkpoint.Store, key string, p checkpoint.Position, opts *checkpoint.AdvanceOptions, want checkpoint.Status) checkpoint.Checkpoint {
	t.Helper()
	r, err := k.Advance(t.Context(), key, p, opts)
	if want := want.Err(); !errors.Is(err, want) {
		t.Fatalf("advance to %d: got error %v, want %v", p.Sequence, err, want)
	}
	if r.Status != want {
		t.Fatalf("advance to %d: got %v with %d saved, want %v", p.Sequence, r.Status, r.Current.Sequence, want)
	}
	return r.Current
}

// expectAt demands that the checkpoint is saved at a sequence.
func expectAt(t testing.TB, k checkpoint.Store, key string, want uint64) checkpoint.Checkpoint {
	t.Helper()
	c, err := k.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Sequence != want || !c.Exists {
		t.Fatalf("got a checkpoint at %d, want one at %d", c.Sequence, want)
	}
	return c
}

// refused demands an error that proves that nothing was written.
func refused(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want one that matches %v", err, want)
	}
	if got := store.OutcomeOf(err); got != store.NotApplied && !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("outcome of %q is %v, want not applied", err, got)
	}
}

// numbers is a source of the events 1 to n. Then it ends, or yields nothing more.
func numbers(n uint64, ends bool) checkpoint.Source[string] {
	return func(ctx context.Context, from checkpoint.Checkpoint) iter.Seq2[checkpoint.Event[string], error] {
		return func(yield func(checkpoint.Event[string], error) bool) {
			for i := from.Sequence + 1; i <= n; i++ {
				e := checkpoint.Event[string]{Position: at(i), Value: fmt.Sprint("event ", i)}
				if !yield(e, nil) {
					return
				}
			}
			if !ends {
				<-ctx.Done()
			}
		}
	}
}

// tally counts what was handled.
type tally struct {
	mu    sync.Mutex
	count map[uint64]int
	order []uint64
}

func (c *tally) handle(_ context.Context, e checkpoint.Event[string]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = map[uint64]int{}
	}
	c.count[e.Sequence]++
	c.order = append(c.order, e.Sequence)
	return nil
}

// Package positiontest has what the suite of checkpoints and the tests of package checkpoint share.
package positiontest

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

// At is a position without event or data.
func At(sequence uint64) checkpoint.Position { return checkpoint.Position{Sequence: sequence} }

// Advance advances and demands a status.
func Advance(t testing.TB, k checkpoint.Store, key string, p checkpoint.Position, opts *checkpoint.AdvanceOptions, want checkpoint.Status) checkpoint.Checkpoint {
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

// ExpectAt demands that the checkpoint is saved at a sequence.
func ExpectAt(t testing.TB, k checkpoint.Store, key string, want uint64) checkpoint.Checkpoint {
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

// Refused demands an error that proves that nothing was written.
func Refused(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want one that matches %v", err, want)
	}
	if got := store.OutcomeOf(err); got != store.NotApplied && !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("outcome of %q is %v, want not applied", err, got)
	}
}

// Numbers is a source of the events 1 to n. Then it ends, or yields nothing more.
func Numbers(n uint64, ends bool) checkpoint.Source[string] {
	return func(ctx context.Context, from checkpoint.Checkpoint) iter.Seq2[checkpoint.Event[string], error] {
		return func(yield func(checkpoint.Event[string], error) bool) {
			for i := from.Sequence + 1; i <= n; i++ {
				e := checkpoint.Event[string]{Position: At(i), Value: fmt.Sprint("event ", i)}
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

// Tally counts what was handled.
type Tally struct {
	mu    sync.Mutex
	Count map[uint64]int
	Order []uint64
}

// Handle counts an event.
func (c *Tally) Handle(_ context.Context, e checkpoint.Event[string]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Count == nil {
		c.Count = map[uint64]int{}
	}
	c.Count[e.Sequence]++
	c.Order = append(c.Order, e.Sequence)
	return nil
}

package checkpoint_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// A copy takes over a position with its epoch and token, and never moves a position back. The token never
// decreases. A second copy changes nothing.
func TestCopy(t *testing.T) {
	at := func(sequence, epoch, token uint64, event string) checkpoint.Checkpoint {
		return checkpoint.Checkpoint{Key: "a", Exists: true, Position: checkpoint.Position{Sequence: sequence, EventID: event}, Epoch: epoch, Token: token}
	}
	deleted := func(epoch, token uint64) checkpoint.Checkpoint {
		return checkpoint.Checkpoint{Key: "a", Epoch: epoch, Token: token}
	}
	for _, c := range []struct {
		name     string
		from, to checkpoint.Checkpoint
		status   checkpoint.Status
		want     checkpoint.Checkpoint
	}{
		{"new", at(17, 3, 9, "x"), deleted(1, 0), checkpoint.Advanced, at(17, 3, 9, "x")},
		{"sequence 0", at(0, 1, 0, ""), deleted(1, 0), checkpoint.Advanced, at(0, 1, 0, "")},
		{"further", at(17, 1, 9, "x"), at(16, 1, 3, "w"), checkpoint.Advanced, at(17, 1, 9, "x")},
		{"further, after a reset in the old store", at(17, 3, 9, "x"), at(16, 1, 3, "w"), checkpoint.Advanced, at(17, 3, 9, "x")},
		{"same", at(17, 1, 9, "x"), at(17, 1, 9, "x"), checkpoint.Unchanged, at(17, 1, 9, "x")},
		{"same, in a later epoch", at(17, 2, 9, "x"), at(17, 1, 9, "x"), checkpoint.Advanced, at(17, 2, 9, "x")},
		{"same, with a lower token", at(17, 1, 3, "x"), at(17, 1, 9, "x"), checkpoint.Unchanged, at(17, 1, 9, "x")},
		{"ahead", at(17, 1, 3, "x"), at(18, 1, 9, "y"), checkpoint.Behind, at(18, 1, 9, "y")},
		{"ahead, and the old store was reset", at(17, 2, 9, "x"), at(18, 1, 3, "y"), checkpoint.Behind, at(18, 1, 9, "y")},
		{"another event", at(17, 1, 9, "x"), at(17, 1, 3, "y"), checkpoint.Mismatch, at(17, 1, 9, "y")},
		{"the new store was reset", at(17, 1, 9, "x"), at(16, 2, 3, "w"), checkpoint.RolledBack, at(16, 2, 9, "w")},
		{"the new store has deleted it", at(17, 1, 9, "x"), deleted(2, 3), checkpoint.RolledBack, deleted(2, 9)},
		{"deleted", deleted(2, 9), deleted(1, 0), checkpoint.Advanced, deleted(2, 9)},
		{"deleted in both", deleted(2, 9), deleted(2, 9), checkpoint.Unchanged, deleted(2, 9)},
		{"the old store has deleted it", deleted(2, 9), at(17, 1, 3, "x"), checkpoint.Behind, at(17, 1, 9, "x")},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := keeperAt(t, c.to)
			for _, want := range []checkpoint.Status{c.status, second(c.status)} {
				r, err := k.Copy(t.Context(), c.from)
				if err != nil || r.Status != want {
					t.Errorf("Copy = %v, %v; want %v", r.Status, err, want)
				}
				r.Current.Written, c.want.Written = r.Current.Written.UTC(), r.Current.Written.UTC()
				if got := fmt.Sprint(r.Current); got != fmt.Sprint(c.want) {
					t.Errorf("Copy returns %v, want %v", got, c.want)
				}
				now, err := k.Get(t.Context(), "a", nil)
				if errors.Is(err, store.ErrNotFound) == c.want.Exists || now.Sequence != c.want.Sequence || now.EventID != c.want.EventID || now.Epoch != c.want.Epoch || now.Token != c.want.Token {
					t.Errorf("after the copy: %v, %v; want %v", now, err, c.want)
				}
			}
		})
	}
}

// second is the status of the second copy.
func second(first checkpoint.Status) checkpoint.Status {
	if first == checkpoint.Advanced {
		return checkpoint.Unchanged
	}
	return first
}

// keeperAt returns a keeper whose checkpoint a is in that state.
func keeperAt(t *testing.T, c checkpoint.Checkpoint) *checkpoint.RegisterStore {
	t.Helper()
	k, err := checkpoint.New(&memstore.Store{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Copy(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return k
}

// A worker that began before the copy, in an older epoch or with a lower token, changes nothing after it.
func TestCopyKeepsWorkersOut(t *testing.T) {
	k, err := checkpoint.New(&memstore.Store{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Copy(t.Context(), checkpoint.Checkpoint{Key: "a", Exists: true, Position: checkpoint.Position{Sequence: 17}, Epoch: 3, Token: 9}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Advance(t.Context(), "a", checkpoint.Position{Sequence: 18}, &checkpoint.AdvanceOptions{Token: 8, Epoch: 3}); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("an Advance with a lower token = %v", err)
	}
	if _, err := k.Advance(t.Context(), "a", checkpoint.Position{Sequence: 18}, &checkpoint.AdvanceOptions{Token: 9, Epoch: 2}); !errors.Is(err, checkpoint.ErrRolledBack) {
		t.Errorf("an Advance of an older epoch = %v", err)
	}
	if r, err := k.Advance(t.Context(), "a", checkpoint.Position{Sequence: 18}, &checkpoint.AdvanceOptions{Token: 9, Epoch: 3}); err != nil || r.Status != checkpoint.Advanced {
		t.Errorf("an Advance of this epoch = %v, %v", r, err)
	}
}

package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Position is a place in a stream: what a caller saves.
type Position struct {
	// Sequence orders the positions of one key. 0 is a position like any other.
	Sequence uint64

	// EventID names the event at this position; empty means that it has no name.
	EventID string

	// Data is opaque: a cursor that is no number, for example. nil means none. The caller
	// owns the slices that it passes and the slices that it gets.
	Data []byte
}

// Matches reports whether q has the same sequence and does not contradict p. What q leaves
// out (an empty EventID, nil Data) is not compared.
func (p Position) Matches(q Position) bool {
	return p.Sequence == q.Sequence && (q.EventID == "" || q.EventID == p.EventID) && (q.Data == nil || bytes.Equal(q.Data, p.Data))
}

// Checkpoint is the state of one key: a position, its epoch and its fencing token.
type Checkpoint struct {
	Key string

	// Exists is false where no position is saved. Epoch and Token may be set even so: a
	// deleted checkpoint keeps them.
	Exists bool

	Position

	// Epoch counts how often the checkpoint was moved back or deleted, from 1 on. An
	// Advance that names the epoch that its caller read is refused when a new epoch has
	// begun since. 0 means that this keeper has no epochs.
	Epoch uint64

	// Token is the highest fencing token that a writer has used or announced; 0 means
	// none.
	Token uint64

	// Written is the time of the last write, by the writer's clock, to the millisecond:
	// for people only. It is zero where that is not known.
	Written time.Time
}

// Status tells what an Advance did. The zero value is not a status.
type Status int

const (
	// Advanced: the position was saved, durably.
	Advanced Status = iota + 1

	// Unchanged: this very position is already saved, durably.
	Unchanged

	// Behind: a higher sequence is saved, durably. The position was not written,
	// and need not be: the saved one covers it.
	Behind

	// Mismatch: the same sequence is saved with another event id or other data. The
	// position was not written: one of the two is wrong, and only the caller can know
	// which. Reset replaces it. The error matches ErrMismatch.
	Mismatch

	// Fenced: the checkpoint has a higher fencing token, or any token while the caller
	// gave none. The position was not written. The error matches ErrFenced.
	Fenced

	// RolledBack: the checkpoint was moved back or deleted since the caller read it, by
	// Reset, by Delete, or without Holdfast. The position was not written. Get returns
	// the state to continue from. The error matches ErrRolledBack.
	RolledBack
)

// String returns the status in words.
func (s Status) String() string {
	switch s {
	case Advanced:
		return "advanced"
	case Unchanged:
		return "unchanged"
	case Behind:
		return "behind"
	case Mismatch:
		return "mismatch"
	case Fenced:
		return "fenced"
	case RolledBack:
		return "rolled back"
	}
	return fmt.Sprintf("Status(%d)", int(s))
}

// Err returns the error that Advance returns beside the status. It is nil for Advanced,
// Unchanged and Behind, where the saved state covers the position, and otherwise
// [ErrMismatch], [ErrFenced] or [ErrRolledBack].
func (s Status) Err() error {
	switch s {
	case Advanced, Unchanged, Behind:
		return nil
	case Mismatch:
		return ErrMismatch
	case Fenced:
		return ErrFenced
	case RolledBack:
		return ErrRolledBack
	}
	return fmt.Errorf("no status: %v", s)
}

// Result is the answer to an Advance, whether applied or refused.
type Result struct {
	// Status is zero after an error that is no refusal.
	Status Status

	// Current is the state that the status refers to: after Advanced the one that was
	// written, otherwise the one that the call found.
	Current Checkpoint
}

// Err returns the error that Advance returns beside the result, for a caller with this token.
// It is that of [Status.Err], and names both tokens where they are the reason.
func (r Result) Err(token uint64) error {
	if r.Status == Fenced {
		return fencedOff(r.Current, token)
	}
	return r.Status.Err()
}

// The errors of this package, to be read with [errors.Is]; those of package store
// occur besides. Of all of these nothing was written.
var (
	// ErrMismatch: the same sequence is saved with another event id or other data.
	ErrMismatch = store.NewError("the same sequence is saved with another event", store.NotApplied, store.ErrPermanent)

	// ErrFenced: the checkpoint has a higher fencing token, or any token while the caller
	// gave none.
	ErrFenced = store.NewError("fenced by a higher token", store.NotApplied, store.ErrPermanent)

	// ErrRolledBack: the checkpoint was moved back or deleted since it was read.
	ErrRolledBack = store.NewError("rolled back since it was read", store.NotApplied, store.ErrPermanent)

	// ErrUnexpectedSequence: the sequence is not the expected one.
	ErrUnexpectedSequence = store.NewError("the sequence is not the expected one", store.NotApplied)

	// ErrHeld: another holder has the lease on this key; see [HeldError].
	ErrHeld = store.NewError("another holds the lease", store.NotApplied)

	// ErrNewerFormat: the checkpoint was written in a newer format than this program
	// knows. It is neither used nor overwritten. Such an error matches
	// [store.ErrCorrupt], too.
	ErrFormat = store.NewError("record of a newer format", store.NotApplied, store.ErrPermanent)

	// ErrClosed: the keeper was closed.
	ErrClosed = store.NewError("keeper is closed", store.NotApplied, store.ErrPermanent)
)

// Holder describes the holder of the lease that guards a key.
type Holder struct {
	Name  string // free text, for people
	Token uint64 // the fencing token of the grant
}

// HeldError refuses a Reset or Delete of a key whose lease another holder has. It matches
// [ErrHeld].
type HeldError struct {
	Key    string
	Holder Holder
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("the lease on %q is held by %s with token %d", e.Key, e.Holder.Name, e.Holder.Token)
}

// Is makes a HeldError match ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Outcome is NotApplied.
func (e *HeldError) Outcome() store.Outcome { return store.NotApplied }

// GetOptions are the options of Get.
type GetOptions struct {
	// Cached allows an answer from this keeper's memory: the state that it last
	// read or wrote, without a request. Where it has none, or is not certain of it,
	// it reads. Default: false, every Get reads.
	Cached bool
}

// AdvanceOptions are the options of Advance.
type AdvanceOptions struct {
	// Token is the fencing token of the lease under which the caller works; 0 means none.
	// The checkpoint keeps it, and refuses lower ones from then on.
	Token uint64

	// Force saves without a token on a checkpoint that carries one, which is
	// refused otherwise. It does not help a token that is too low.
	Force bool

	// Epoch is the epoch of the checkpoint from which the caller's work began. 0 means
	// the one that this keeper last showed to its user by Get, Fence, Reset, Delete or
	// Watch. If it has shown none, it is the epoch that the first Advance found.
	Epoch uint64
}

// ChangeOptions are the options of Reset and Delete.
type ChangeOptions struct {
	// Expect, if not nil, is the sequence that must be saved now; otherwise the error
	// matches ErrUnexpectedSequence.
	ExpectedSequence *uint64

	// Token is the fencing token of the lease under which the caller works; 0 means
	// none.
	Token uint64

	// Force allows the change without a token on a checkpoint that carries one, and while
	// another holder has the lease. It does not help a token that is too low.
	Force bool
}

// Store keeps checkpoints: [RegisterStore] on any register, package avisofile in a
// JSON file. All methods may be called from any number of goroutines.
//
// The context of a call bounds that call, waiting for others included. When the context
// ends a call early, [store.OutcomeOf] of its error says whether the call may still take
// effect.
type Store interface {
	// Get returns the checkpoint of key. Where none is saved the error matches
	// [store.ErrNotFound]; Epoch and Token of the result are valid even so.
	Get(ctx context.Context, key string, opts *GetOptions) (Checkpoint, error)

	// Advance saves p unless that would move the checkpoint back. A nil error means that
	// the saved state covers p, durably: Advanced, Unchanged or Behind. A refusal is an
	// error that matches ErrMismatch, ErrFenced or ErrRolledBack; the result then carries
	// the state that caused it.
	Advance(ctx context.Context, key string, p Position, opts *AdvanceOptions) (Result, error)

	// Fence announces a token: from then on, lower ones are refused. A new holder of a
	// lease calls Fence first, and continues from the checkpoint that it returns. Where
	// none is saved the result's Exists is false, and the error nil. If the checkpoint
	// has a higher token, the error matches ErrFenced, and the result carries that token.
	Fence(ctx context.Context, key string, token uint64) (Checkpoint, error)

	// Reset saves p whatever the current position is, also to move back, and begins a new
	// epoch. It returns the state that it wrote, or with a refusal (ErrUnexpectedSequence, ErrHeld,
	// ErrFenced) the current state. With Expect, a missing checkpoint is an error that
	// matches [store.ErrNotFound].
	Reset(ctx context.Context, key string, p Position, opts *ChangeOptions) (Checkpoint, error)

	// Delete removes the checkpoint and begins a new epoch. It returns the state that it
	// left, or with a refusal the current state. Where none is saved the error matches
	// [store.ErrNotFound].
	Delete(ctx context.Context, key string, opts *ChangeOptions) (Checkpoint, error)

	// List reads and yields the checkpoints whose keys lie below prefix, or all of them
	// if it is empty, in no promised order. An error with a Key concerns that key alone,
	// and the listing continues; any other ends it.
	List(ctx context.Context, prefix string) iter.Seq2[Checkpoint, error]

	// Watch yields the checkpoint of key, existing or not, then every further state that
	// it sees, until the context ends or the loop is left. It may miss states that came
	// and went. It yields errors, and continues after them; the last thing that it yields
	// is the context's error.
	Watch(ctx context.Context, key string) iter.Seq2[Checkpoint, error]

	// Close waits for the running writes, and ends them when the context ends. Later
	// calls fail with ErrClosed.
	Close(ctx context.Context) error
}

package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Position is a place in a stream.
type Position struct {
	// Sequence orders the positions of one key. 0 is a valid position.
	Sequence uint64

	// EventID names the event at this position; empty means that it has no name.
	EventID string

	// Data is any further state of the caller, for example a cursor that is not a number. nil
	// means no data. The caller owns the slices that it passes and the slices that it receives.
	Data []byte
}

// Matches reports whether q has the same Sequence, EventID and Data as p. If the EventID of q is
// empty, Matches does not compare the EventID. If the Data of q is nil, Matches does not compare
// the Data.
func (p Position) Matches(q Position) bool {
	return p.Sequence == q.Sequence && (q.EventID == "" || q.EventID == p.EventID) && (q.Data == nil || bytes.Equal(q.Data, p.Data))
}

// Checkpoint is the state of one key: a position, its epoch and its fencing token.
type Checkpoint struct {
	Key string

	// Exists is false if no position is saved. Epoch and Token may still be set: a deleted
	// checkpoint keeps them.
	Exists bool

	Position

	// Epoch begins at 1, and increases when the checkpoint is moved back or deleted. An Advance
	// names the epoch that its caller has read. If a new epoch has begun meanwhile, the keeper
	// refuses the Advance. 0 means that this kind of Store has no epochs.
	Epoch uint64

	// Token is the highest fencing token that any call has passed for this key; 0 means none.
	Token uint64

	// Written is the time of the last write, by the writer's clock, in milliseconds, for people
	// only. It is zero if that time is not known.
	Written time.Time
}

// Status is the result of an Advance. The zero value is not a status.
type Status int

const (
	// Advanced: the position was saved, durably.
	Advanced Status = iota + 1

	// Unchanged: the same position is already saved, durably.
	Unchanged

	// Behind: a higher sequence is saved, durably. The position was not written, because the saved
	// position includes it.
	Behind

	// Mismatch: the same sequence is saved with a different event id or different data. The
	// position was not written. Either the saved position or the new position is wrong; only the
	// caller can know which of the two. Reset replaces the saved position. The error matches
	// ErrMismatch.
	Mismatch

	// Fenced: the checkpoint has a higher fencing token, or the checkpoint has a token and the
	// caller passed none. The position was not written. The error matches ErrFenced.
	Fenced

	// RolledBack: after the caller read the checkpoint, it was moved back or deleted, by
	// Reset, by Delete, or without Holdfast. The position was not written. Get returns the
	// state to continue from. The error matches ErrRolledBack.
	RolledBack
)

// String returns the status in words.
func (s Status) String() string {
	if s < Advanced || s > RolledBack {
		return fmt.Sprintf("Status(%d)", int(s))
	}
	return []string{"advanced", "unchanged", "behind", "mismatch", "fenced", "rolled back"}[s-Advanced]
}

// Err returns the error that Advance returns with the status. For Advanced, Unchanged and Behind
// the error is nil, because this position or a later position is saved. Otherwise it is
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
	return fmt.Errorf("unknown status %d", int(s))
}

// Result is the result of an Advance.
type Result struct {
	// Status is zero if Advance returned an error other than ErrMismatch, ErrFenced or
	// ErrRolledBack.
	Status Status

	// Current is the state that the status describes. After Advanced, this is the state that was
	// written, and otherwise the state that the call found.
	Current Checkpoint
}

// Err returns the error that Advance returns with this result: the error of [Status.Err]. Pass the
// token of the caller. For the status Fenced, the error also names the token of the checkpoint and
// the token of the caller.
func (r Result) Err(token uint64) error {
	if r.Status == Fenced {
		return fencedOff(r.Current, token)
	}
	return r.Status.Err()
}

// The errors of this package, for [errors.Is]. If a call returns one of these errors, nothing was
// written. The calls can also return errors of package store.
var (
	// ErrMismatch: the same sequence is saved with a different event id or different
	// data.
	ErrMismatch = store.NewError("the same sequence is saved with another event", store.NotApplied, store.ErrPermanent)

	// ErrFenced: the checkpoint has a higher fencing token, or the checkpoint has a token and the
	// caller passed none.
	ErrFenced = store.NewError("fenced by a higher token", store.NotApplied, store.ErrPermanent)

	// ErrRolledBack: the checkpoint was moved back or deleted after the caller read it.
	ErrRolledBack = store.NewError("the checkpoint was moved back or deleted after it was read", store.NotApplied, store.ErrPermanent)

	// ErrUnexpectedSequence: the saved sequence is not the expected sequence.
	ErrUnexpectedSequence = store.NewError("the saved sequence is not the expected one", store.NotApplied)

	// ErrHeld: another holder has the lease of this key; see [HeldError].
	ErrHeld = store.NewError("another holder has the lease", store.NotApplied)

	// ErrFormat: the checkpoint was written in a newer format than this program knows.
	// The keeper neither uses nor overwrites it. The error also matches [store.ErrCorrupt].
	ErrFormat = store.NewError("the checkpoint has a newer format than this program reads", store.NotApplied, store.ErrPermanent)

	// ErrClosed: the keeper was closed.
	ErrClosed = store.NewError("keeper is closed", store.NotApplied, store.ErrPermanent)
)

// Holder describes the holder of the lease that guards a key.
type Holder struct {
	Name  string // free text, for people
	Token uint64 // the fencing token of the grant; 0 if the lease has no tokens
}

// HeldError is the error of a Reset or Delete if another holder has the lease of the key.
// It matches [ErrHeld].
type HeldError struct {
	Key    string
	Holder Holder
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%[2]s holds the lease of %[1]q with token %[3]d", e.Key, e.Holder.Name, e.Holder.Token)
}

// Is makes a HeldError match ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Outcome returns NotApplied.
func (e *HeldError) Outcome() store.Outcome { return store.NotApplied }

// GetOptions are the options of Get.
type GetOptions struct {
	// With Cached, Get may return the state that this keeper last read or wrote, without a request.
	// If the keeper has no such state, or if its last write had an unknown outcome, Get reads the
	// register. By default every Get reads the register.
	Cached bool
}

// AdvanceOptions are the options of Advance.
type AdvanceOptions struct {
	// Token is the fencing token of the caller's lease; 0 means none. The keeper saves the token in
	// the checkpoint, and then refuses lower tokens.
	Token uint64

	// With Force, Advance without a token is allowed even if the checkpoint has a token. If the
	// caller passes a token that is too low, Advance returns ErrFenced even with Force.
	Force bool

	// Epoch is the epoch of the checkpoint from which the caller's work began. 0 means the epoch
	// that Get, Fence, Reset, Delete or Watch of this keeper returned last. If none of them has
	// returned an epoch, 0 means the epoch that the first Advance found.
	Epoch uint64
}

// ChangeOptions are the options of Reset and Delete.
type ChangeOptions struct {
	// ExpectedSequence, if not nil, is the sequence that must be saved now. If another sequence
	// is saved, the error matches ErrUnexpectedSequence.
	ExpectedSequence *uint64

	// Token is the fencing token of the caller's lease; 0 means none.
	Token uint64

	// Force allows the change without a token even if the checkpoint has a token, and while another
	// holder has the lease. If the caller passes a token that is too low, the call returns
	// ErrFenced even with Force.
	Force bool
}

// Store stores checkpoints. [RegisterStore] uses registers, and package avisofile uses a JSON file.
// Any number of goroutines may call all methods.
//
// The context of a call bounds that call, including its wait for other callers. If the context ends
// during the call, [store.OutcomeOf] of the error says whether the call may still take effect.
type Store interface {
	// Get returns the checkpoint of a key. If no position is saved, the error matches
	// [store.ErrNotFound]. Epoch and Token of the result are still valid.
	Get(ctx context.Context, key string, opts *GetOptions) (Checkpoint, error)

	// Advance saves the position p if that does not move the checkpoint back. A nil error means
	// that p or a later position is saved, durably: Advanced, Unchanged or Behind. If Advance is
	// refused, the error matches ErrMismatch, ErrFenced or ErrRolledBack. Then the result contains
	// the state that caused the refusal.
	Advance(ctx context.Context, key string, p Position, opts *AdvanceOptions) (Result, error)

	// Fence writes a token into the checkpoint. From then on, every keeper refuses lower tokens. A
	// new holder of a lease calls Fence first, and continues from the checkpoint that it returns.
	// If no position is saved, the result's Exists is false, and the error is nil. If the
	// checkpoint has a higher token, the error matches ErrFenced, and the result has that token.
	Fence(ctx context.Context, key string, token uint64) (Checkpoint, error)

	// Reset saves the position p even if that moves the checkpoint back. It begins a new epoch, and
	// returns the new state. If Reset is refused (ErrUnexpectedSequence, ErrHeld, ErrFenced), it
	// returns the present state. If ExpectedSequence is set and no position is saved, the error
	// matches [store.ErrNotFound].
	Reset(ctx context.Context, key string, p Position, opts *ChangeOptions) (Checkpoint, error)

	// Delete removes the checkpoint and begins a new epoch. It returns the remaining state. If
	// Delete is refused, it returns the present state. If no position is saved, the error matches
	// [store.ErrNotFound].
	Delete(ctx context.Context, key string, opts *ChangeOptions) (Checkpoint, error)

	// List reads and yields the checkpoints whose keys are below a prefix, in no particular order.
	// An empty prefix means all keys. If List yields an error with a Checkpoint whose Key is set,
	// the error is about that key only, and the listing continues. Any other error ends the
	// listing.
	List(ctx context.Context, prefix string) iter.Seq2[Checkpoint, error]

	// Watch first yields the checkpoint of a key, even if no position is saved. Then it yields
	// every new state that it reads, until the context ends or the caller leaves the loop. It can
	// miss states that last only a short time. It yields errors, and continues after them. The last
	// error is the context's error.
	Watch(ctx context.Context, key string) iter.Seq2[Checkpoint, error]

	// Close waits for the writes in progress. If the context ends first, Close cancels these
	// writes, and does not wait for them. Later calls fail with [ErrClosed].
	Close(ctx context.Context) error
}

package object

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// The errors of this package, for [errors.Is]. Calls also return errors of package store.
var (
	// ErrNotChanged: the object is still in the state of [GetOptions].IfChanged.
	ErrNotChanged = errors.New("not changed")

	// ErrRange: the body has no byte at the requested offset.
	ErrRange = errors.New("the offset is after the end of the object")

	// ErrBusy: the store refused the write because another write of the same object was in
	// progress. The refused write was not applied. Retry it.
	ErrBusy = store.MarkNotApplied(errors.New("another write of this object is in progress"))

	// ErrInvalid: the arguments contradict each other or break a rule. Nothing was changed.
	ErrInvalid = store.NewError("invalid argument", store.NotApplied, store.ErrInvalid)

	// ErrFenced: the fence of the object refuses the write. The object has a higher token or the
	// token of another lock, or the write has no token. Nothing was written. See [FencedError].
	ErrFenced = store.NewError("fenced", store.NotApplied, store.ErrPermanent)
)

// FencedError says that the client refused a write because of the fence of the object. It matches
// [ErrFenced]. Its outcome is NotApplied.
type FencedError struct {
	Key   string
	Fence Fence  // fence of the object
	Write *Fence // fence of the write; nil if it had none
}

func (e *FencedError) Error() string {
	switch {
	case e.Write == nil:
		return fmt.Sprintf("the fence of %q has token %d of the lock %q, but the write has no token", e.Key, e.Fence.Token, e.Fence.Lock)
	case folded(e.Write.Lock) != folded(e.Fence.Lock):
		return fmt.Sprintf("the fence of %q is from the lock %q, but the write has a token of the lock %q", e.Key, e.Fence.Lock, e.Write.Lock)
	}
	return fmt.Sprintf("the fence of %q has token %d of the lock %q, but the write has token %d", e.Key, e.Fence.Token, e.Fence.Lock, e.Write.Token)
}

// Is makes a FencedError match ErrFenced, and the errors that ErrFenced matches.
func (e *FencedError) Is(target error) bool { return errors.Is(ErrFenced, target) }

// Outcome returns NotApplied.
func (e *FencedError) Outcome() store.Outcome { return store.NotApplied }

// Outcome returns NotApplied.
func (e *UnsupportedError) Outcome() store.Outcome { return store.NotApplied }

// ConflictError says that an object was not in the expected state. It matches [store.ErrConflict].
// Its outcome is NotApplied. This is true only for the request that got this answer: an earlier
// copy of the request may have been applied.
type ConflictError struct {
	Key string

	// If HasCurrent is true, Version is the state that the request found; an empty Version means
	// that there was no object. If HasCurrent is false, the present state is not known.
	HasCurrent bool
	Version    Version

	// RenamedTo is the destination of another rename that has won. It is empty if no rename caused
	// the conflict.
	RenamedTo string
}

func (e *ConflictError) Error() string {
	switch {
	case e.RenamedTo != "":
		return fmt.Sprintf("another rename has moved %q to %q", e.Key, e.RenamedTo)
	case !e.HasCurrent:
		return fmt.Sprintf("%q is not in the state that the request requires", e.Key)
	case e.Version == "":
		return fmt.Sprintf("%q does not exist", e.Key)
	}
	return fmt.Sprintf("%q does not have the version that the write requires", e.Key)
}

// Is makes a ConflictError match store.ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == store.ErrConflict }

// Outcome returns NotApplied.
func (e *ConflictError) Outcome() store.Outcome { return store.NotApplied }

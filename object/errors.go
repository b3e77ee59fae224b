package object

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// The errors that package store does not have. They are read with [errors.Is].
var (
	// ErrNotChanged: the object still is in the state that [GetOptions].IfChanged
	// names.
	ErrNotChanged = errors.New("not changed")

	// ErrRange: the body has no byte at the requested offset.
	ErrRange = errors.New("offset is behind the end of the object")

	// ErrBusy: the store refused because another write of the same object was in
	// flight. This one was not applied; trying again is right.
	ErrBusy = store.MarkNotApplied(errors.New("another write of this object is in flight"))

	// ErrInvalid: the arguments contradict each other or break a rule. Nothing was
	// done.
	ErrInvalid = store.NewSentinel("invalid argument", store.NotApplied, store.ErrInvalid)
)

// Outcome makes an UnsupportedError a definite failure.
func (e *UnsupportedError) Outcome() store.Outcome { return store.NotApplied }

// ConflictError says that an object was not in the state that a condition names.
// It matches [store.ErrConflict]; its outcome is NotApplied, for the request that
// was answered so.
type ConflictError struct {
	Key string

	// Known says that Version tells the state that the request met; a zero Version
	// means that there was no object.
	Known   bool
	Version Version
}

func (e *ConflictError) Error() string {
	switch {
	case !e.Known:
		return fmt.Sprintf("%q is not in the state that was asked for", e.Key)
	case e.Version == "":
		return fmt.Sprintf("%q does not exist", e.Key)
	}
	return fmt.Sprintf("%q has another version than the write named", e.Key)
}

// Is makes a ConflictError match store.ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == store.ErrConflict }

// Outcome is NotApplied.
func (e *ConflictError) Outcome() store.Outcome { return store.NotApplied }

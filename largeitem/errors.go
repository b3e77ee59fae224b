package largeitem

import (
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

// The errors that package store does not have. They are read with [errors.Is].
var (
	// ErrInvalid: the arguments contradict each other or break a rule. Nothing was done.
	ErrInvalid = store.NewSentinel("invalid argument", store.NotApplied, store.ErrInvalid)

	// ErrKey: the key cannot name an item of this table. Nothing was done.
	ErrKey = store.NewSentinel("invalid key", store.NotApplied, store.ErrKey, ErrInvalid, store.ErrInvalid)

	// ErrForeign: a reference is not of this attribute of this item, or not to this bucket.
	// See [ReferenceError].
	ErrForeign = store.NewSentinel("foreign reference", store.NotApplied, store.ErrPermanent)

	// ErrMissing: an item refers to an object that is not there.
	ErrMissing = errors.New("the object is missing")
)

func isNotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

package cell

import (
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

// ErrClosed: the client, or the session, was closed.
var ErrClosed = errors.New("lease client or session closed")

// ErrUnresponsive: during [Settings.StoreTimeout] the store has answered no request, or no write.
var ErrUnresponsive = errors.New("the store does not answer")

// ErrUnresolved: the client could not find out whether a write was applied.
var ErrUnresolved = store.NewError("it is unknown whether the write was applied", store.Unknown)

package store

import "context"

// Waker is a store that can wake a single waiter. Where each change of a register concerns only one of
// its waiters, the others need not look at it.
//
// A wake-up is a hint, and decides nothing. It may be lost, it may come late, and it may come without a
// reason. So a waiter also reads the register from time to time.
type Waker interface {
	// ExpectWake makes each later Wake with this name, in any process, call wake, until end is called.
	// The name has at most 64 bytes: ASCII letters, digits and dots, and no dot at the start. The
	// function wake must return at once. If the store cannot do this here, the error matches
	// [errors.ErrUnsupported].
	ExpectWake(ctx context.Context, name string, wake func()) (end func(), err error)

	// Wake wakes the waiter that expects a Wake with this name, if there is one.
	Wake(ctx context.Context, name string)
}

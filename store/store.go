// Package store defines the register: the one thing that Holdfast asks of a
// storage system.
//
// # The register
//
// A register is a key with a small value (at most [MaxValue] bytes) that changes
// only by compare-and-swap. A [Store] is a space of registers. Locks, commits and
// checkpoints are written above this interface and know no backend.
//
// # The contract
//
//   - Linearizable for each key: every call takes effect at one instant between
//     its start and its return. Nothing is promised across keys.
//   - A [Version] is never used twice for a key: not when an old value is written again,
//     nor after the key was deleted and created anew. A version is opaque: compare it for
//     equality and nothing else.
//   - A write has three outcomes, which [OutcomeOf] reads from its error: applied and
//     durable (nil), certainly not applied, and unknown. Unknown is the default: unless
//     the error proves otherwise, the write may have been applied, or may still be
//     applied later.
//   - A caller never gets a conflict with its own write. Where a transport repeats
//     requests, the backend reads the register back to find out whose write stands there.
//   - A version is chosen before the write is sent. A put or delete whose outcome is
//     unknown says which version it would have made ([InDoubtError]). [Settle] finds out
//     later what became of it: applied, superseded, not yet, never, or unknown for good.
//     A put that is known to be applied is a success, even if other writes have
//     superseded it by then.
//   - The error of a call is an [OpError], which names the operation, the key as the
//     caller gave it, and the store by its name, if it has one ([Traits]). An error that refuses an argument need not be one.
//   - All methods may be called from any number of goroutines. The context bounds the
//     call. When the context ends a write early, the outcome is unknown unless the error
//     says otherwise.
//   - The caller keeps ownership of the slices that it passes, and may change them
//     after the call returned; the slices that a store returns belong to the caller.
//
// Package storetest checks the contract.
//
// # Optional abilities
//
// Each ability that only some stores have is a small interface ([Watcher], [Lister],
// [UnsyncedPutter], [Presence], [AgeReader], [UncommittedGetter] and more), found with [As]. The
// decorators of this package offer each ability of the store below, in its decorated
// form, and hide everything else of it. So no call bypasses a decorator.
package store

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// MaxValue is the largest value of a register, in bytes.
	MaxValue = 64 << 10

	// MaxKey is the longest key, in bytes.
	MaxKey = 512
)

// Version names one state of a register. The zero value means that there is no
// register: nothing was ever written, or the last write was a delete.
type Version string

// A Store is a space of registers. The package comment states the contract.
type Store interface {
	// Get returns the value and the version of a key. If the register is absent, the
	// error matches [ErrNotFound]. If the stored bytes are no register, the error matches
	// [ErrCorrupt]; such a key is not absent.
	Get(ctx context.Context, key string) ([]byte, Version, error)

	// Put writes value if the current version is prev, and returns the version that it
	// wrote. A zero prev means "must not exist". A nil error means applied and durable.
	// If the register has another version, nothing is written and the error matches
	// [ErrConflict]; it can be a [*ConflictError] that carries the current value.
	Put(ctx context.Context, key string, prev Version, value []byte) (Version, error)

	// Delete removes a key if its current version is prev, with the outcomes of Put. A
	// zero prev is refused: there is nothing to delete. A delete does not restart the
	// versions: none of them is used again.
	Delete(ctx context.Context, key string, prev Version) error
}

// Entry is the state of one register. A zero Version means that it is absent.
type Entry struct {
	Key     string
	Value   []byte
	Version Version
}

// CheckKey reports why key cannot name a register; the error matches [ErrKey].
//
// A key is valid UTF-8, not empty, at most [MaxKey] bytes, and made of segments
// between slashes of which none is empty, "." or "..". Every store accepts every
// valid key, whatever its characters.
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: it is empty", ErrKey)
	case len(key) > MaxKey:
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrKey, len(key), MaxKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("%w: %q is not valid UTF-8", ErrKey, key)
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("%w: %q has a segment %q", ErrKey, key, segment)
		}
	}
	return nil
}

// CheckPut reports why no store can carry out a Put with these arguments. Stores call it
// first, so its errors prove that nothing was written.
func CheckPut(key string, value []byte) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if len(value) > MaxValue {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, len(value), MaxValue)
	}
	return nil
}

// CheckDelete reports why a Delete with these arguments cannot be carried out.
func CheckDelete(key string, prev Version) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if prev == "" {
		return fmt.Errorf("%w: a delete needs the version that it deletes", ErrVersion)
	}
	return nil
}

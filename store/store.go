// Package store defines what Holdfast needs from a storage system: keys with small values that
// change only by compare-and-swap.
//
// # Use
//
// Open a store with the package of its storage system, and pass it to package lease or
// checkpoint. Many programs call nothing else of this package:
//
//	s, err := filestore.Open("/var/lib/jobs", nil)
//	client, err := lease.New(s, nil)
//
// The stores are filestore (a directory), sqlstore (SQLite, PostgreSQL, MySQL), bucketstore (object storage), memstore
// (one process), and the stores in the modules for DynamoDB, Redis, etcd, NATS, Kubernetes and others. To use a store
// yourself:
//
//   - [Prefix] returns a store of all keys below a prefix. So several teams can share one store.
//   - [Update] reads a value, changes it and writes it. It starts again after a conflict.
//   - Get, Put and Delete are the methods of [Store]. A Put names the version that it replaces.
//   - [OutcomeOf] says whether a failed write was applied: yes, no, or unknown. [PutAndResolve]
//     is a Put that repeats the write until the outcome is known.
//   - [Watch] yields each new state of a key. [List] yields the keys below a prefix.
//
// # Terms
//
// A register is a key with its value, at most [MaxValue] bytes. A [Version] names one state of
// a register. A zero Version means that the register is absent.
//
// # The contract
//
// Every store keeps these rules, and package storetest checks them:
//
//   - Linearizable for each key: every call takes effect at one instant between its start and
//     its return. Nothing is promised across keys.
//   - No [Version] is used twice for a key. This is also true if a writer writes an old value
//     again, or deletes the key and creates it again. Compare versions for equality only.
//   - A write has three outcomes, which [OutcomeOf] reads from its error: applied and durable
//     (nil), certainly not applied, and unknown. Unknown is the default: unless the error
//     proves otherwise, the write may have been applied, or may still be applied later.
//   - A caller never gets a conflict with its own write. If a transport repeats requests, the
//     store reads the register after a conflict to find out which write was applied.
//   - A store chooses the version of a write before it sends the write. If the outcome is
//     unknown, the error carries that version ([InDoubtError]). [Resolve] finds out later whether
//     the write was applied, was superseded, or may still be applied. If a put is known to be
//     applied, it is a success, even if other writes have superseded it.
//   - The error of a call is an [OpError]. It has the operation, the key as the caller passed it,
//     and the name of the store if [Traits] has a name. An error that refuses an argument need
//     not be an OpError.
//   - Any number of goroutines may call all methods. A call returns soon after its context has
//     ended: package lease relies on that. If the context ends during a write, the outcome is
//     unknown unless the error says otherwise. The error contains the [Cause] of the context.
//   - The caller owns the slices that it passes, and may change them after the call has
//     returned. The caller also owns the slices that a store returns.
//
// # Optional abilities
//
// Each ability that only some stores have is a small interface: [Watcher], [Lister],
// [UnsyncedPutter], [Presence], [AgeReader], [UncommittedReader] and more. The function [As] finds
// out whether a store has an ability. A decorator is a store on top of another store, such as the
// result of Prefix. The decorators of this package offer the abilities of the store below, but
// every call passes through the decorator.
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
	// Get returns the value and the version of a key. If the register is absent, the error matches
	// [ErrNotFound]. If the stored bytes are not a valid register, the error matches [ErrCorrupt];
	// such a key is not absent.
	Get(ctx context.Context, key string) ([]byte, Version, error)

	// Put writes value if the current version is prev, and returns the version that it
	// wrote. A zero prev means that the register must be absent. A nil error means that
	// the write was applied and is durable. If the register has another version,
	// nothing is written and the error matches [ErrConflict]; it can be a
	// [*ConflictError] that carries the current value.
	Put(ctx context.Context, key string, prev Version, value []byte) (Version, error)

	// Delete removes a key if its current version is prev. It has the same outcomes and errors as
	// Put. A zero prev is an error: it names no state to delete. After a delete, the store never
	// uses an earlier version of the key again.
	Delete(ctx context.Context, key string, prev Version) error
}

// Entry is the state of one register. A zero Version means that it is absent.
type Entry struct {
	Key     string
	Value   []byte
	Version Version
}

// CheckKey returns an error that matches [ErrKey] if key cannot name a register.
//
// A key is valid UTF-8, not empty, and at most [MaxKey] bytes. None of its segments between
// slashes is empty, "." or "..". Every store accepts every valid key, whatever its
// characters.
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: the key is empty", ErrKey)
	case len(key) > MaxKey:
		return fmt.Errorf("%w: the key has %d bytes, at most %d are allowed", ErrKey, len(key), MaxKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("%w: %q is not valid UTF-8", ErrKey, key)
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("%w: %q has the segment %q between slashes; no segment may be empty, \".\" or \"..\"", ErrKey, key, segment)
		}
	}
	return nil
}

// Below returns what all keys below a prefix begin with: the prefix and a slash. All keys are below an empty
// prefix, so the result is then empty. If the prefix is neither empty nor a valid key, the error matches
// [ErrKey].
func Below(prefix string) (string, error) {
	if prefix == "" {
		return "", nil
	}
	return prefix + "/", CheckKey(prefix)
}

// CheckPut returns an error if no store can carry out a Put with these arguments. Stores call it
// first, so its errors prove that nothing was written.
func CheckPut(key string, value []byte) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if len(value) > MaxValue {
		return fmt.Errorf("%w: the value has %d bytes, at most %d are allowed", ErrTooLarge, len(value), MaxValue)
	}
	return nil
}

// CheckDelete returns an error if no store can carry out a Delete with these arguments.
func CheckDelete(key string, prev Version) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if prev == "" {
		return fmt.Errorf("%w: the version is empty; a delete must name the version that it deletes", ErrVersion)
	}
	return nil
}

package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Outcome tells what became of a write.
type Outcome int

const (
	// Unknown: it may have been applied, or may still be.
	Unknown Outcome = iota

	// Applied: it took effect and is durable.
	Applied

	// NotApplied: it did not take effect and never will.
	NotApplied
)

// String returns the outcome in words.
func (o Outcome) String() string {
	switch o {
	case Applied:
		return "applied"
	case NotApplied:
		return "not applied"
	}
	return "outcome unknown"
}

// OutcomeOf tells the outcome of a write from its error. An error is Unknown
// unless it proves otherwise. Where errors are wrapped, the outermost one that
// knows the outcome decides; where they are joined, the first. The failure of a write
// ([OpError]) that does not know its outcome is Unknown, whatever is joined to it.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Applied
	}
	if o, told := writeOutcome(err); told {
		return o
	}
	var known interface{ Outcome() Outcome }
	if errors.As(err, &known) {
		return known.Outcome()
	}
	return Unknown
}

// InDoubt reports whether err leaves a write of which it is not known whether it was,
// or will be, applied. The failure of a read leaves none, and an error that neither
// names a write nor has an outcome is not taken for one.
func InDoubt(err error) bool {
	o, told := writeOutcome(err)
	return told && o == Unknown
}

// writeOutcome looks for the first error that knows what became of a write. What a
// failed read says is not about a write.
func writeOutcome(err error) (o Outcome, told bool) {
	switch e := err.(type) {
	case interface{ Outcome() Outcome }:
		return e.Outcome(), true
	case *OpError:
		switch {
		case e.Op.Read():
			return Unknown, false
		case e.Op.Write():
			o, told = writeOutcome(e.Err)
			return o, told || e.Err != nil
		}
		return writeOutcome(e.Err)
	case interface{ Unwrap() error }:
		return writeOutcome(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if o, told = writeOutcome(err); told {
				return o, true
			}
		}
	}
	return Unknown, false
}

// Permanent reports whether the same call will fail again however often it is tried:
// something about the call, the set-up, the rights or the data has to change first.
// Every loop that tries again asks it.
func Permanent(err error) bool {
	for _, target := range []error{
		ErrPermanent, ErrInvalid, ErrKey, ErrVersion, ErrTooLarge, ErrUnsafe, ErrMisconfigured, ErrDenied, ErrCorrupt, ErrClosed,
		errors.ErrUnsupported,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// NewSentinel returns an error to be read with [errors.Is], for this package and those
// above it. It implies an outcome, and matches the errors of also as well: [ErrInvalid]
// and [ErrPermanent], for example.
//
// An error that ends contexts as their cause must not imply an outcome: the write that
// it interrupts may have been applied.
func NewSentinel(text string, outcome Outcome, also ...error) error {
	return &sentinel{text, outcome, also}
}

type sentinel struct {
	text    string
	outcome Outcome
	also    []error
}

func (e *sentinel) Error() string        { return e.text }
func (e *sentinel) Outcome() Outcome     { return e.outcome }
func (e *sentinel) Is(target error) bool { return slices.Contains(e.also, target) }

// The errors of a store, to be read with [errors.Is].
var (
	// ErrPermanent matches errors of the packages above that no repetition mends. Ask
	// [Permanent], which knows those of this package as well.
	ErrPermanent = errors.New("trying again does not help")

	// ErrInvalid: an argument or an option is out of its bounds. Nothing was done.
	ErrInvalid error = NewSentinel("invalid argument", NotApplied)

	// ErrConflict: the register is not in the state that the write named. The
	// write was not applied.
	ErrConflict error = NewSentinel("conflict", NotApplied)

	// ErrKey: the key is not valid. Nothing was done.
	ErrKey error = NewSentinel("invalid key", NotApplied, ErrInvalid)

	// ErrVersion: the version cannot be one of this store, or none was given
	// where one is needed. Nothing was done.
	ErrVersion error = NewSentinel("invalid version", NotApplied, ErrInvalid)

	// ErrTooLarge: the value is larger than [MaxValue]. Nothing was done.
	ErrTooLarge error = NewSentinel("value too large", NotApplied, ErrInvalid)

	// ErrUnsafe: the store cannot keep the contract (it ignores conditions, say,
	// or lies on a network file system) and is refused.
	ErrUnsafe error = NewSentinel("store is not safe to use", NotApplied)

	// ErrMisconfigured: what the store needs is not there or not as it must be: a
	// missing bucket or table, a table with another key, no credentials, the wrong
	// region. Trying again does not help. Nothing was done.
	ErrMisconfigured error = NewSentinel("wrong set-up", NotApplied)

	// ErrDenied: the store refused for lack of rights.
	ErrDenied error = NewSentinel("permission denied", NotApplied)

	// ErrNotFound: the register is absent.
	ErrNotFound = errors.New("not found")

	// ErrCorrupt: something lies in the register's place that is not a register.
	// It is neither absent nor overwritten.
	ErrCorrupt = errors.New("unreadable register")

	// ErrUnavailable: the store could not be reached or did not answer. It says
	// nothing about the outcome of a write.
	ErrUnavailable = errors.New("store unavailable")

	// ErrClosed: the store was closed.
	ErrClosed error = NewSentinel("store is closed", NotApplied)
)

// ConflictError is a conflict that may carry the state which was found instead.
// It matches [ErrConflict], and its outcome is NotApplied.
type ConflictError struct {
	Key string

	// Known says that Value and Version tell the state that the write met; with a
	// zero Version the register was absent.
	Known   bool
	Value   []byte
	Version Version
}

func (e *ConflictError) Error() string {
	switch {
	case !e.Known:
		return fmt.Sprintf("%q was changed by another", e.Key)
	case e.Version == "":
		return fmt.Sprintf("%q does not exist", e.Key)
	}
	return fmt.Sprintf("%q is in another state", e.Key)
}

// Is makes a ConflictError match ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Outcome is NotApplied.
func (e *ConflictError) Outcome() Outcome { return NotApplied }

// marked gives an error an outcome.
type marked struct {
	err     error
	outcome Outcome
}

func (e *marked) Error() string    { return e.err.Error() }
func (e *marked) Unwrap() error    { return e.err }
func (e *marked) Outcome() Outcome { return e.outcome }

// MarkNotApplied marks err as proof that the write was not applied and never will
// be. A nil err stays nil.
func MarkNotApplied(err error) error {
	if err == nil {
		return nil
	}
	return &marked{err, NotApplied}
}

// MarkUnknown marks err as an unknown outcome, whatever the errors that it wraps
// say. A nil err stays nil.
func MarkUnknown(err error) error {
	if err == nil {
		return nil
	}
	return &marked{err, Unknown}
}

// OpError names the operation and the key of a failure, the key as the caller gave it.
// Stores wrap their errors in it once.
type OpError struct {
	Op  Kind // OpGet, OpPut, ..., or what a layer above calls its own
	Key string
	Err error
}

func (e *OpError) Error() string { return string(e.Op) + " " + e.Key + ": " + e.Err.Error() }
func (e *OpError) Unwrap() error { return e.Err }

// CheckContext returns the error of a context that has ended, marked as proof that
// nothing was sent, and nil while it lives. Stores call it before they send.
func CheckContext(ctx context.Context) error {
	if ctx.Err() != nil {
		return MarkNotApplied(context.Cause(ctx))
	}
	return nil
}

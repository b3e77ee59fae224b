package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Outcome says whether a write was applied.
type Outcome int

const (
	// Unknown: the write may have been applied, or may still be applied later.
	Unknown Outcome = iota

	// Applied: the write took effect and is durable.
	Applied

	// NotApplied: the write did not take effect and never will.
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

// OutcomeOf returns the outcome of a write, from its error. A nil error means Applied. The outcome
// of any other error is Unknown, unless the error states another outcome. If several errors in err
// state an outcome, the outermost one decides; of joined errors, the first one decides. If an
// [OpError] of a write states no outcome, the result is Unknown, even if other errors are joined to
// the OpError.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Applied
	}
	if o, ok := writeOutcome(err); ok {
		return o
	}
	var known interface{ Outcome() Outcome }
	if errors.As(err, &known) {
		return known.Outcome()
	}
	return Unknown
}

// InDoubt reports whether err leaves a write in doubt: a write that may have been applied, or may
// still be applied later. A failed read leaves no write in doubt. If an error names no write and
// states no outcome, it also leaves no write in doubt.
func InDoubt(err error) bool {
	o, ok := writeOutcome(err)
	return ok && o == Unknown
}

// writeOutcome returns the outcome that the first error of a write states; ok is false if
// no error states one. The error of a failed read says nothing about a write.
func writeOutcome(err error) (o Outcome, ok bool) {
	switch e := err.(type) {
	case interface{ Outcome() Outcome }:
		return e.Outcome(), true
	case *OpError:
		switch {
		case e.Op.Read():
			return Unknown, false
		case e.Op.Write():
			o, ok = writeOutcome(e.Err)
			return o, ok || e.Err != nil
		}
		return writeOutcome(e.Err)
	case interface{ Unwrap() error }:
		return writeOutcome(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if o, ok = writeOutcome(err); ok {
				return o, true
			}
		}
	}
	return Unknown, false
}

// Permanent reports whether a retry of the same call is bound to fail: the call, the
// set-up, the rights or the data must change first. A loop that retries calls Permanent
// before each retry.
func Permanent(err error) bool {
	return errors.Is(err, ErrPermanent) || matches(err, refusals)
}

// refusals are the errors of this package that no retry changes. ErrKey, ErrVersion and ErrTooLarge match ErrInvalid.
var refusals = []error{ErrInvalid, ErrUnsafe, ErrMisconfigured, ErrDenied, ErrCorrupt, ErrClosed, errors.ErrUnsupported}

func matches(err error, targets []error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// isAnswer reports whether err says what a store found, refused or wrote.
func isAnswer(err error) bool {
	return errors.As(err, new(interface{ Outcome() Outcome })) || errors.Is(err, ErrNotFound) || errors.Is(err, fs.ErrNotExist) || matches(err, refusals)
}

// NewError returns an error to compare with errors.Is. This package and the packages that use it
// define their errors with NewError. The new error states the given outcome. It also matches each
// error in the last argument (for example [ErrInvalid] or [ErrPermanent]).
//
// Do not use NewError for an error that is the cause of an ended context: [Cause] hides it,
// because the write that the context interrupts may have been applied.
func NewError(text string, outcome Outcome, also ...error) error {
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

// The errors of a store, for [errors.Is].
var (
	// ErrPermanent: a retry does not help. Errors of other packages, such as lease, match it. To
	// test any error, call [Permanent], which also knows the errors of this package.
	ErrPermanent = errors.New("a retry does not help")

	// ErrInvalid: an argument or an option is out of its bounds. Nothing was done.
	ErrInvalid error = NewError("invalid argument", NotApplied)

	// ErrConflict: the current version of the register is not the one that the write named.
	// The write was not applied.
	ErrConflict error = NewError("conflict", NotApplied)

	// ErrKey: the key is not valid. Nothing was done.
	ErrKey error = NewError("invalid key", NotApplied, ErrInvalid)

	// ErrVersion: this store never made such a version, or a required version is missing.
	// Nothing was done.
	ErrVersion error = NewError("invalid version", NotApplied, ErrInvalid)

	// ErrTooLarge: the value is larger than [MaxValue]. Nothing was done.
	ErrTooLarge error = NewError("value too large", NotApplied, ErrInvalid)

	// ErrUnsafe: Holdfast refuses the store, because the store cannot keep the contract. For
	// example, the store ignores conditions, or is on a network file system.
	ErrUnsafe error = NewError("store is not safe to use", NotApplied)

	// ErrMisconfigured: something that the store needs is missing or wrong: no bucket or
	// table, a table with another key, no credentials, the wrong region. A retry does not
	// help. Nothing was done.
	ErrMisconfigured error = NewError("wrong set-up", NotApplied)

	// ErrDenied: the caller lacks a right that the store demands.
	ErrDenied error = NewError("permission denied", NotApplied)

	// ErrCredentials: the store does not accept the caller's credentials. This error also
	// matches ErrDenied.
	ErrCredentials error = NewError("permission denied", NotApplied, ErrDenied)

	// ErrNotFound: the register is absent.
	ErrNotFound = errors.New("not found")

	// ErrCorrupt: the content under the key is not a valid register. Holdfast does not
	// treat such a register as absent, and does not overwrite it.
	ErrCorrupt = errors.New("unreadable register")

	// ErrUnavailable: the store could not be reached or did not answer. The error says
	// nothing about the outcome of a write.
	ErrUnavailable = errors.New("store unavailable")

	// ErrClosed: the store was closed.
	ErrClosed error = NewError("store is closed", NotApplied)
)

// ConflictError is the error of a write that named a version other than the current version. It
// may carry the current state. It matches [ErrConflict], and its outcome is NotApplied.
type ConflictError struct {
	Key string

	// HasCurrent says that Value and Version are the state that the write found. A zero
	// Version means that the register was absent.
	HasCurrent bool
	Value      []byte
	Version    Version
}

func (e *ConflictError) Error() string {
	switch {
	case !e.HasCurrent:
		return fmt.Sprintf("another writer changed %q", e.Key)
	case e.Version == "":
		return fmt.Sprintf("%q does not exist", e.Key)
	}
	return fmt.Sprintf("%q does not have the version that the write requires", e.Key)
}

// Is makes a ConflictError match ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Outcome returns NotApplied.
func (e *ConflictError) Outcome() Outcome { return NotApplied }

// outcomeError gives an error an outcome.
type outcomeError struct {
	err     error
	outcome Outcome
}

func (e *outcomeError) Error() string    { return e.err.Error() }
func (e *outcomeError) Unwrap() error    { return e.err }
func (e *outcomeError) Outcome() Outcome { return e.outcome }

// MarkNotApplied marks err as proof that the write was not applied and never will be. If err is
// nil, the result is nil.
func MarkNotApplied(err error) error { return mark(err, NotApplied) }

// MarkUnknown marks err as an unknown outcome, even if the errors that it wraps state another
// outcome. If err is nil, the result is nil.
func MarkUnknown(err error) error { return mark(err, Unknown) }

func mark(err error, outcome Outcome) error {
	if err == nil {
		return nil
	}
	return &outcomeError{err, outcome}
}

// OpError names the operation, the key and the store of a failure. Key is the key that the
// caller passed. A store wraps each of its errors once in an OpError.
type OpError struct {
	Op    Kind // OpGet, OpPut and so on, or the name of an operation of another package
	Key   string
	Store string // [Traits].Name of the store that failed; empty if the store has no name
	Err   error
}

// Error returns a text that names the store. If the text of Err already names the
// store, Error does not repeat the name.
func (e *OpError) Error() string {
	text := string(e.Op) + " " + e.Key
	if e.Store != "" && nameIn(e.Err) == "" {
		text += " in " + e.Store
	}
	return text + ": " + e.Err.Error()
}

func (e *OpError) Unwrap() error { return e.Err }

// StoreName returns the name of the store that the text of the error contains; empty if it
// contains none. Each type of error whose text names the store has this method, so that no
// message names the store twice.
func (e *OpError) StoreName() string { return cmp.Or(e.Store, nameIn(e.Err)) }

func nameIn(err error) string {
	var named interface{ StoreName() string }
	if errors.As(err, &named) {
		return named.StoreName()
	}
	return ""
}

// Cause returns the error of a call that the end of its context has interrupted: the cause of this end. If
// the context has not ended, Cause returns nil.
//
// The cause can be the error of another call, for example in an errgroup. It must not look like the answer to
// this call. So the returned error has the text of the cause, and states no outcome. It matches the error of the
// context, such as [context.Canceled]. With [errors.Is] it also matches what the cause matches, except errors that
// state an outcome, ErrNotFound, ErrCorrupt, errors.ErrUnsupported and [fs.ErrNotExist]. If the cause
// matches one of these, [errors.As] does not find its type: use [context.Cause] for that.
func Cause(ctx context.Context) error {
	ended := ctx.Err() // first: the context may end now
	cause := context.Cause(ctx)
	if ended == nil || cause == ended {
		return ended
	}
	return &endedError{cause, ended}
}

// endedError hides that a cause looks like an answer of a store.
type endedError struct{ cause, ended error }

func (e *endedError) Error() string { return e.cause.Error() }
func (e *endedError) Is(target error) bool {
	return target == e.ended || !isAnswer(target) && errors.Is(e.cause, target)
}

func (e *endedError) As(target any) bool { return !isAnswer(e.cause) && errors.As(e.cause, target) }

// If the context has ended, CheckContext returns its [Cause], marked as proof that no request was
// sent. Otherwise it returns nil. Stores call CheckContext before they send a request.
func CheckContext(ctx context.Context) error {
	if ctx.Err() != nil {
		return MarkNotApplied(Cause(ctx))
	}
	return nil
}

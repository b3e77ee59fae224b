package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
)

// InDoubtError says that a write may have been applied, or may still be applied later.
// Version is the version that the write would have made: a store chooses it before it sends
// the write. Use Version only as an argument of [Resolve]: do not compare it with other
// versions, and do not name it in a write. Version is zero if the store does not know it.
//
// The outcome of an InDoubtError is [Unknown], even if an error that it wraps has another
// outcome.
type InDoubtError struct {
	Version Version
	Err     error
}

func (e *InDoubtError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *InDoubtError) Unwrap() error { return e.Err }

// Outcome returns Unknown.
func (e *InDoubtError) Outcome() Outcome { return Unknown }

// WithoutHint returns the version without the hint that a store may append for its own use
// after an "@": the ETag of an object, for example. Two versions name the same state if and
// only if they are equal without their hints.
//
// Versions from a Get, from a conflict, and from a Put whose reply arrived can be compared
// as they are. One kind of version lacks the hint: the version of a Put whose reply was
// lost, if other writes have superseded it. Callers rarely need WithoutHint, because
// [Resolve] compares the versions without their hints itself.
func (v Version) WithoutHint() Version {
	bare, _, _ := strings.Cut(string(v), "@")
	return Version(bare)
}

// AttemptedVersion returns the version that a failed write would have made, for [Resolve].
// The version is zero if err does not contain it; see [InDoubtError].
func AttemptedVersion(err error) Version {
	var unknown *InDoubtError
	if errors.As(err, &unknown) {
		return unknown.Version
	}
	return ""
}

// Resolution is what [Resolve] found out about in-doubt writes: writes whose outcome was
// unknown.
type Resolution int

const (
	// ResolutionUnknown: the store cannot find out whether one of the writes was applied. The
	// register is no longer in the state that the writes named, or the store cannot distinguish
	// these writes from those of other programs.
	ResolutionUnknown Resolution = iota

	// ResolutionApplied: one of the writes was applied and is durable, and the register is
	// in the state that this write made. The other writes that were passed to [Resolve]
	// can never be applied.
	ResolutionApplied

	// ResolutionSuperseded: one of the writes was applied, and other writes have replaced
	// its state. The other writes that were passed to [Resolve] can never be applied.
	ResolutionSuperseded

	// ResolutionPending: the register is still in the state that the writes named. None of them
	// has been applied. Each of them may still be applied, until another write replaces that
	// state. The caller may send the same change again.
	ResolutionPending

	// ResolutionNotApplied: none of the writes was applied, and none ever will be. Another write
	// superseded the state that they named.
	ResolutionNotApplied
)

// String returns the resolution in words.
func (f Resolution) String() string {
	switch f {
	case ResolutionApplied:
		return "applied"
	case ResolutionSuperseded:
		return "applied and superseded"
	case ResolutionPending:
		return "not applied yet"
	case ResolutionNotApplied:
		return "never applied"
	}
	return "cannot be known"
}

// ResolveResult is the answer of [Resolve].
type ResolveResult struct {
	Resolution Resolution

	// Write names the write that was applied: it is one of the versions that were passed to
	// Resolve. Write is zero if Resolution is neither ResolutionApplied nor
	// ResolutionSuperseded.
	Write Version

	// Current is the state of the register that Resolve has read. If Resolution is
	// ResolutionApplied, the next write can name Current.Version.
	Current Entry
}

// Resolve reads a register once and finds out whether writes with an unknown outcome were applied.
// All these writes named the version prev; a zero prev means that the register was absent. The last
// argument lists the versions that these writes would have made; [AttemptedVersion] returns such a
// version. A zero version means a write whose version is not known: its resolution is always
// [ResolutionPending] or [ResolutionUnknown]. If the list is empty, Resolve reports whether the
// register still has the version prev.
//
// At most one write can replace the state prev, so one answer is enough for all writes.
// A resolution other than ResolutionPending and ResolutionUnknown is final. Resolve
// never mistakes the write of another program for one of these writes, even if the two
// writes have the same value.
//
// An error means that the register could not be read, and the resolution is ResolutionUnknown. An
// error that matches [ErrCorrupt] also means that the register no longer has the version prev, so
// none of the writes can be applied from now on.
//
// If s is not a [Resolver], Resolve calls Get. If the current version is neither prev nor the
// version of one of the writes, the resolution is ResolutionUnknown. It is also ResolutionUnknown
// if the register is absent and prev is zero: one of the writes may have created the register, and
// another program may have deleted it since.
//
// [PutAndResolve] is the loop that most callers need.
func Resolve(ctx context.Context, s Store, key string, prev Version, writes ...Version) (ResolveResult, error) {
	if settler, ok := As[Resolver](s); ok {
		return settler.Resolve(ctx, key, prev, writes...)
	}
	value, v, err := s.Get(ctx, key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return ResolveResult{}, err
	}
	found := ResolveResult{Current: Entry{Key: key, Value: value, Version: v}}
	for _, write := range writes {
		if write != "" && write.WithoutHint() == v.WithoutHint() {
			found.Resolution, found.Write = ResolutionApplied, write
			return found, nil
		}
	}
	same := v.WithoutHint() == prev.WithoutHint()
	switch {
	case same && (v != "" || len(writes) == 0):
		found.Resolution = ResolutionPending
	case !same && len(writes) == 0:
		found.Resolution = ResolutionNotApplied
	}
	return found, nil
}

// PutAndResolve writes value if the current version is prev, like Put. It retries until the outcome
// is known or the context ends. After an unknown outcome it calls [Resolve]. While the register
// still has the version prev, PutAndResolve sends the same value again, with growing random pauses
// of up to two seconds. Give the context a deadline: if the store cannot be reached, PutAndResolve
// retries until the context ends.
//
//   - ResolutionApplied, nil error: Current is the state that the write made. All tries have
//     the same value, so it does not matter which of them was applied.
//   - ResolutionSuperseded, nil error: the write was applied, and Current is a later state.
//   - ResolutionNotApplied, nil error: a conflict. Current is the state that the write
//     found.
//   - ResolutionNotApplied with an error: the write was refused. Either the reason was not
//     a conflict, or it was a conflict whose state could not be read.
//   - ResolutionPending or ResolutionUnknown: the error has the outcome Unknown.
//
// PutAndResolve sends the write that takes effect between its call and its return. So a holder that
// counts the time of its lease from the call never trusts the lease for too long.
func PutAndResolve(ctx context.Context, s Store, key string, prev Version, value []byte) (ResolveResult, error) {
	v, err := s.Put(ctx, key, prev, value)
	return ResolvePut(ctx, s, key, prev, value, v, err)
}

// ResolvePut continues a [PutAndResolve] whose first Put the caller has sent itself. The arguments
// v and err are the results of that Put. Use ResolvePut if the first attempt needs a different time
// limit.
func ResolvePut(ctx context.Context, s Store, key string, prev Version, value []byte, v Version, err error) (ResolveResult, error) {
	return resolveWrite(ctx, s, Entry{key, value, v}, prev, err, func() (Version, error) { return s.Put(ctx, key, prev, value) })
}

// DeleteAndResolve deletes a key if its current version is prev. It retries like [PutAndResolve],
// and has the same results. After ResolutionApplied, Current of the result describes an absent
// register.
func DeleteAndResolve(ctx context.Context, s Store, key string, prev Version) (ResolveResult, error) {
	return ResolveDelete(ctx, s, key, prev, s.Delete(ctx, key, prev))
}

// ResolveDelete continues a [DeleteAndResolve] whose first Delete the caller has sent itself. The
// argument err is the result of that Delete.
func ResolveDelete(ctx context.Context, s Store, key string, prev Version, err error) (ResolveResult, error) {
	return resolveWrite(ctx, s, Entry{Key: key}, prev, err, func() (Version, error) { return "", s.Delete(ctx, key, prev) })
}

// resolveWrite sends a write again, after a first try that returned err, until the outcome
// is known. made is the state that the write makes, with the version from the first try.
func resolveWrite(ctx context.Context, s Store, made Entry, prev Version, err error, send func() (Version, error)) (ResolveResult, error) {
	var attempts []Version
	var lost error // of the first try whose outcome was unknown
	for try := 1; ; try++ {
		if err == nil {
			return ResolveResult{Resolution: ResolutionApplied, Write: made.Version, Current: made}, nil
		}
		if OutcomeOf(err) == Unknown {
			attempts = append(attempts, AttemptedVersion(err))
			lost = cmp.Or(lost, err)
		}
		found, over := resolveAfter(ctx, s, made.Key, prev, attempts, err)
		if over || backoff.Wait(ctx, try, time.Millisecond, maxResolvePause) != nil {
			return found.orError(err, lost)
		}
		made.Version, err = send()
	}
}

// resolveAfter finds out what the register holds after a try that failed with cause. It
// reports whether PutAndResolve is over: false means that it must send the same value
// again.
func resolveAfter(ctx context.Context, s Store, key string, prev Version, attempts []Version, cause error) (found ResolveResult, over bool) {
	certain := OutcomeOf(cause) == NotApplied
	conflict := certain && errors.Is(cause, ErrConflict)
	if len(attempts) == 0 {
		var met *ConflictError
		if errors.As(cause, &met) && met.HasCurrent {
			return ResolveResult{Resolution: ResolutionNotApplied, Current: Entry{Key: key, Value: met.Value, Version: met.Version}}, true
		}
		if !conflict {
			return ResolveResult{Resolution: ResolutionNotApplied}, true
		}
	}
	for try := 1; ; try++ {
		found, err := Resolve(ctx, s, key, prev, attempts...)
		switch {
		case err == nil && found.Resolution == ResolutionPending:
			return found, certain && !conflict && !errors.Is(cause, ErrUnavailable)
		case err == nil, errors.Is(err, ErrCorrupt):
			return found, true
		case len(attempts) == 0:
			return ResolveResult{Resolution: ResolutionNotApplied}, true
		case backoff.Wait(ctx, try, time.Millisecond, maxResolvePause) != nil:
			return found, true
		}
	}
}

// orError returns what PutAndResolve returns when its last try has failed with cause. lost
// is the error of a try whose outcome was unknown, if there was one.
func (s ResolveResult) orError(cause, lost error) (ResolveResult, error) {
	switch {
	case s.Resolution == ResolutionApplied, s.Resolution == ResolutionSuperseded, s.Resolution == ResolutionNotApplied && s.Current.Key != "":
		return s, nil
	case s.Resolution == ResolutionNotApplied, lost == nil:
		// The store certainly refused every try, even if the condition would hold now.
		s.Resolution = ResolutionNotApplied
		return s, cause
	}
	if OutcomeOf(cause) == NotApplied {
		// It says nothing of the tries before it, and must not look like a conflict.
		cause = fmt.Errorf("%w; then: %v", lost, cause)
	}
	return s, MarkUnknown(cause)
}

// maxResolvePause is the longest pause of PutAndResolve.
const maxResolvePause = 2 * time.Second

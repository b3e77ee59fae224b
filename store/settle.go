package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// UnknownError says that a write may have been applied, or may still be applied later.
// Version is the version that the write would have made: a store chooses it before it
// sends the write. Pass it to [Settle] and use it for nothing else: do not compare it
// with other versions, and do not name it in a write. It is zero where the store does not
// know it.
//
// Its outcome is [Unknown], whatever outcome the errors that it wraps state.
type UnknownError struct {
	Version Version
	Err     error
}

func (e *UnknownError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *UnknownError) Unwrap() error { return e.Err }

// Outcome is Unknown.
func (e *UnknownError) Outcome() Outcome { return Unknown }

// Bare returns the version without the hint that a store may append for its own use after
// an "@": the ETag of an object, for example. Two versions name the same state if and
// only if their bare versions are equal.
//
// Versions from a Get, from a conflict, and from a Put whose reply arrived can be
// compared as they are. Only one version lacks the hint: that of a Put whose reply was
// lost and that other writes have superseded. So callers rarely need Bare: [Settle]
// compares for them.
func (v Version) Bare() Version {
	bare, _, _ := strings.Cut(string(v), "@")
	return Version(bare)
}

// AttemptOf returns the version that a failed write would have made, for [Settle]. It is
// zero where the error does not carry it (see [UnknownError]).
func AttemptOf(err error) Version {
	var unknown *UnknownError
	if errors.As(err, &unknown) {
		return unknown.Version
	}
	return ""
}

// Fate is what [Settle] found out about writes whose outcome was unknown.
type Fate int

const (
	// FateUnknown: the store cannot find out whether one of the writes was applied. The
	// register is no longer in the state that the writes named, or the store cannot tell
	// its own writes from those of others.
	FateUnknown Fate = iota

	// FateApplied: one of the writes was applied and is durable, and the register is
	// in the state that it made. The others can never be applied.
	FateApplied

	// FateSuperseded: one of the writes was applied, and other writes have followed.
	// The remaining ones can never be applied.
	FateSuperseded

	// FateNotYet: the register is still in the state that the writes named. None of them
	// has been applied. Each of them may still be, until another write follows that
	// state. The caller may send the same change again.
	FateNotYet

	// FateNever: none of the writes was applied, and none ever will be. Another write
	// superseded the state that they named.
	FateNever
)

// String returns the fate in words.
func (f Fate) String() string {
	switch f {
	case FateApplied:
		return "applied"
	case FateSuperseded:
		return "applied and superseded"
	case FateNotYet:
		return "not applied yet"
	case FateNever:
		return "never applied"
	}
	return "cannot be known"
}

// Settlement is what [Settle] found out.
type Settlement struct {
	Fate Fate

	// Write is the write that was applied, by the version that was passed to Settle;
	// zero unless Fate is FateApplied or FateSuperseded.
	Write Version

	// Current is the state of the register that was read. With FateApplied, its
	// version is the one to write against next.
	Current Entry
}

// Settle reads a register once and finds out what became of writes whose outcome was
// unknown. All of them named the state prev (zero: absent). The argument writes holds the
// versions that they would have made, from [AttemptOf]. A zero version stands for a write
// whose version is not known: its fate is always FateNotYet or FateUnknown. Without
// writes, Settle tells whether the register is still in the state prev.
//
// At most one write can follow a state, so one answer is enough for all of them. A fate
// other than FateNotYet and FateUnknown is final. Settle never mistakes another program's
// write for one of these, not even where both wrote the same value.
//
// An error means that the register could not be read, and the fate is FateUnknown. An
// error that matches [ErrCorrupt] also means that the state prev is gone, so that none of
// the writes can be applied any more.
//
// Settle reads a store that is no [Settler] with Get. If the state is neither prev nor
// one that a write would have made, the fate is FateUnknown. It is also FateUnknown where
// the register is absent and prev says absent: a write may have created it, and another
// deleted it since.
//
// [PutAndSettle] is the loop that most callers need.
func Settle(ctx context.Context, s Store, key string, prev Version, writes ...Version) (Settlement, error) {
	if settler, ok := As[Settler](s); ok {
		return settler.Settle(ctx, key, prev, writes...)
	}
	value, v, err := s.Get(ctx, key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Settlement{}, err
	}
	found := Settlement{Current: Entry{Key: key, Value: value, Version: v}}
	for _, write := range writes {
		if write != "" && write.Bare() == v.Bare() {
			found.Fate, found.Write = FateApplied, write
			return found, nil
		}
	}
	same := v.Bare() == prev.Bare()
	switch {
	case same && (v != "" || len(writes) == 0):
		found.Fate = FateNotYet
	case !same && len(writes) == 0:
		found.Fate = FateNever
	}
	return found, nil
}

// PutAndSettle replaces the state prev by value, and retries until the outcome is known
// or the context ends. After an unknown outcome it calls [Settle]. While the register is
// still in the state prev it sends the same value again, with growing random pauses of up
// to two seconds. Give the context a deadline: a store that cannot be reached is retried
// until then.
//
//   - FateApplied, nil error: Current is the state that the write made. All tries have
//     the same value, so it does not matter which of them was applied.
//   - FateSuperseded, nil error: the write was applied, and Current is a later state.
//   - FateNever, nil error: a conflict. Current is the state that was in the way.
//   - FateNever with an error: the write was refused, for another reason or by a
//     conflict whose state could not be read.
//   - FateNotYet or FateUnknown: the error is an unknown outcome.
//
// The write that was applied was sent between the call and the return. A caller that
// may trust it for a limited time (the holder of a lease) counts from the call.
func PutAndSettle(ctx context.Context, s Store, key string, prev Version, value []byte) (Settlement, error) {
	v, err := s.Put(ctx, key, prev, value)
	return SettlePut(ctx, s, key, prev, value, v, err)
}

// SettlePut is the rest of [PutAndSettle] after its first Put, which returned v and err:
// for callers that give the first try another time than what may follow.
func SettlePut(ctx context.Context, s Store, key string, prev Version, value []byte, v Version, err error) (Settlement, error) {
	return settleWrite(ctx, s, Entry{key, value, v}, prev, err, func() (Version, error) { return s.Put(ctx, key, prev, value) })
}

// DeleteAndSettle deletes the state prev as [PutAndSettle] replaces it. It also ends as
// that does. With FateApplied, Current is absent.
func DeleteAndSettle(ctx context.Context, s Store, key string, prev Version) (Settlement, error) {
	return SettleDelete(ctx, s, key, prev, s.Delete(ctx, key, prev))
}

// SettleDelete is the rest of [DeleteAndSettle] after its first Delete, which returned err.
func SettleDelete(ctx context.Context, s Store, key string, prev Version, err error) (Settlement, error) {
	return settleWrite(ctx, s, Entry{Key: key}, prev, err, func() (Version, error) { return "", s.Delete(ctx, key, prev) })
}

// settleWrite sends a write again, after a first try that returned err, until the outcome
// is known. made is the state that the write makes, with the version from the first try.
func settleWrite(ctx context.Context, s Store, made Entry, prev Version, err error, send func() (Version, error)) (Settlement, error) {
	var attempts []Version
	var lost error // of the first try whose outcome was unknown
	for pause := time.Millisecond; ; pause = min(2*pause, maxSettlePause) {
		if err == nil {
			return Settlement{Fate: FateApplied, Write: made.Version, Current: made}, nil
		}
		if OutcomeOf(err) == Unknown {
			attempts = append(attempts, AttemptOf(err))
			lost = cmp.Or(lost, err)
		}
		found, over := settleAfter(ctx, s, made.Key, prev, attempts, err)
		if over || sleepUpTo(ctx, pause) != nil {
			return found.orError(err, lost)
		}
		made.Version, err = send()
	}
}

// settleAfter finds out what a try that failed with cause has left in the register. It
// reports whether PutAndSettle is over: false means that it must send the same value
// again.
func settleAfter(ctx context.Context, s Store, key string, prev Version, attempts []Version, cause error) (found Settlement, over bool) {
	certain := OutcomeOf(cause) == NotApplied
	conflict := certain && errors.Is(cause, ErrConflict)
	if len(attempts) == 0 {
		var met *ConflictError
		if errors.As(cause, &met) && met.Known {
			return Settlement{Fate: FateNever, Current: Entry{Key: key, Value: met.Value, Version: met.Version}}, true
		}
		if !conflict {
			return Settlement{Fate: FateNever}, true
		}
	}
	for pause := time.Millisecond; ; pause = min(2*pause, maxSettlePause) {
		found, err := Settle(ctx, s, key, prev, attempts...)
		switch {
		case err == nil && found.Fate == FateNotYet:
			return found, certain && !conflict && !errors.Is(cause, ErrUnavailable)
		case err == nil, errors.Is(err, ErrCorrupt):
			return found, true
		case len(attempts) == 0:
			return Settlement{Fate: FateNever}, true
		case sleepUpTo(ctx, pause) != nil:
			return found, true
		}
	}
}

// orError returns what PutAndSettle returns when its last try has failed with cause. lost
// is the error of a try whose outcome was unknown, if there was one.
func (s Settlement) orError(cause, lost error) (Settlement, error) {
	switch {
	case s.Fate == FateApplied, s.Fate == FateSuperseded, s.Fate == FateNever && s.Current.Key != "":
		return s, nil
	case s.Fate == FateNever, lost == nil:
		// The store certainly refused every try, even if nothing is in the way now.
		s.Fate = FateNever
		return s, cause
	}
	if OutcomeOf(cause) == NotApplied {
		// It says nothing of the tries before it, and must not look like a conflict.
		cause = fmt.Errorf("%w; then: %v", lost, cause)
	}
	return s, MarkUnknown(cause)
}

// maxSettlePause is the longest pause of PutAndSettle.
const maxSettlePause = 2 * time.Second

// sleepUpTo waits for a random part of d.
func sleepUpTo(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(rand.N(d))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

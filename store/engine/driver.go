package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Driver sends the single requests of a backend, each once. It never decides whether a
// write was applied, and never repeats one.
//
// All methods may be called from any number of goroutines. Keys were checked by
// [store.CheckKey]. Errors match the sentinels of package store; the engine adds the
// operation and the key.
type Driver interface {
	// Read returns what is stored under a key, a tombstone too. It must see every write
	// that the server acknowledged before the Read started. If nothing is stored, the error
	// matches [store.ErrNotFound]; if what is stored is no envelope, [store.ErrCorrupt].
	//
	// If seen is not empty and is still the current tag, Read may return [ErrUnchanged],
	// which saves the transfer of the body. A driver may ignore seen.
	Read(ctx context.Context, key string, seen Tag) (Stored, error)

	// Write stores e under a key, in one atomic step of the server, on the condition that the
	// current state is still the state on. If on is absent, the condition is that nothing is
	// stored under the key. It returns the tag of the state that it wrote. The condition compares
	// on.Tag, or on.ID if the server gives no tags.
	//
	// The error states what is known:
	//   - [ConditionFailedError], or another error that matches [store.ErrConflict]: the
	//     server answered that the condition does not hold.
	//   - [ErrBusy]: the server refused for now. Nothing was written, and the same
	//     request may succeed soon: throttling, another write in flight.
	//   - another error whose [store.OutcomeOf] is [store.NotApplied]: nothing was written,
	//     and a retry does not help.
	//   - everything else is unknown: no reply, a broken connection, a 5xx.
	Write(ctx context.Context, key string, on Stored, e Envelope) (Tag, error)

	// List yields the keys below prefix, which is empty or a valid key, as [store.Lister]
	// describes, without tombstones.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
}

// A Remover is a driver that can remove a key without a condition, a tombstone too. The
// engine removes only the registers of its probe, and those that [Store.Erase] names.
// Without a Remover they remain as tombstones.
type Remover interface {
	Remove(ctx context.Context, key string) error
}

// Tag is the server's own name of one state of a register: an ETag, a generation. If the
// server gives none it is empty, and the driver compares [Envelope.ID].
type Tag string

// Stored is an envelope that was read from the store. The zero value means that nothing
// is stored.
type Stored struct {
	Envelope
	Tag Tag

	// Written is the time of the write and Now the time of the reply, both by the server's
	// clock. They are zero if the server does not report them.
	Written, Now time.Time
}

// Absent reports whether nothing is stored.
func (s Stored) Absent() bool { return s.Nonce == "" }

// ConditionFailedError is the error of a write whose condition did not hold. It matches
// [store.ErrConflict].
type ConditionFailedError struct {
	// HasCurrent says that Current is the state that the write found; absent if nothing was
	// stored.
	HasCurrent bool
	Current    Stored
}

func (*ConditionFailedError) Error() string          { return "the condition does not hold" }
func (*ConditionFailedError) Is(target error) bool   { return target == store.ErrConflict }
func (*ConditionFailedError) Outcome() store.Outcome { return store.NotApplied }

var (
	// ErrBusy: the server refused for now, and wrote nothing; see [Driver]. A driver
	// wraps it, or joins it to the server's error.
	ErrBusy error = busyError{}

	// ErrUnchanged: the state whose tag was passed to [Driver.Read] is still the current
	// one.
	ErrUnchanged = errors.New("not changed")
)

type busyError struct{}

func (busyError) Error() string          { return store.ErrUnavailable.Error() + ": the server is busy" }
func (busyError) Is(target error) bool   { return target == store.ErrUnavailable }
func (busyError) Outcome() store.Outcome { return store.NotApplied }

// ID identifies the state: its number, if the backend numbers its states, and its nonce. It
// is never used twice for a key.
func (e *Envelope) ID() string {
	if e.Number == 0 {
		return e.Nonce
	}
	return strconv.FormatUint(e.Number, 10) + "-" + e.Nonce
}

// lineage is the nonce of the state and those of the states before it, newest first.
func (e *Envelope) lineage() []string { return append([]string{e.Nonce}, e.Predecessors...) }

// follow makes e the successor of base.
func (e *Envelope) follow(base Stored, numbered bool) {
	e.Predecessors, e.Number = nil, 0
	if !base.Absent() {
		lineage := base.lineage()
		e.Predecessors = lineage[:min(len(lineage), maxPredecessors)]
	}
	if numbered {
		e.Number = base.Number + 1
	}
}

// Version returns the version of the state: its ID, the nonces of the states before it, and
// the server's tag after an @. The ID alone makes it unique. The nonces of earlier states
// let the engine resolve a write that named this version. The tag is a hint that saves a
// read.
func (s Stored) Version() store.Version {
	text := s.ID()
	if len(s.Predecessors) > 0 {
		text += "." + s.PredecessorText()
	}
	if s.Tag != "" {
		text += "@" + string(s.Tag)
	}
	return store.Version(text)
}

// parse returns the state that a version names, without its value.
func (s *Store) parse(v store.Version) (Stored, error) {
	if v == "" {
		return Stored{}, nil
	}
	path, tag, _ := strings.Cut(string(v), "@")
	id, past, _ := strings.Cut(path, ".")
	e, err := ParseID(id, past)
	// Each state has exactly one version text, since callers compare versions as texts.
	if err != nil || (e.Number > 0) != s.o.Numbered || (tag != "") && !s.o.Tags || strings.HasSuffix(string(v), "@") || strings.HasSuffix(path, ".") {
		return Stored{}, fmt.Errorf("%w: %.200q is not a version of %s", store.ErrVersion, v, s.o.Traits.Name)
	}
	return Stored{Envelope: e, Tag: Tag(tag)}, nil
}

// PredecessorText returns the nonces of the earlier states as one text. Backends that keep an
// envelope in columns or attributes store this text.
func (e *Envelope) PredecessorText() string { return strings.Join(e.Predecessors, ".") }

// ParseID returns an envelope, without a value, from its ID and its PredecessorText.
func ParseID(id, past string) (Envelope, error) {
	e := Envelope{Nonce: id}
	if i := len(id) - nonceSize - 1; i > 0 && id[i] == '-' {
		e.Number, _ = strconv.ParseUint(id[:i], 10, 64)
		e.Nonce = id[i+1:]
	}
	if past != "" {
		e.Predecessors = strings.Split(past, ".")
	}
	if err := e.check(); err != nil || e.ID() != id {
		return Envelope{}, fmt.Errorf("%w: the stored ID %.80q with the earlier states %.80q is damaged", store.ErrCorrupt, id, past)
	}
	return e, nil
}

// check reports what is wrong with the nonces of an envelope.
func (e *Envelope) check() error {
	if !isNonce(e.Nonce) || len(e.Predecessors) > maxPredecessors || slices.ContainsFunc(e.Predecessors, func(n string) bool { return !isNonce(n) }) {
		return errors.New("a nonce of the register is damaged")
	}
	return nil
}

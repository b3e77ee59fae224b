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

// A Driver sends the single requests of a backend, each request once. It never decides
// whether a write was applied, and never repeats a write.
//
// All methods may be called from any number of goroutines. The engine has checked all
// keys with [store.CheckKey]. The errors of a driver match the errors of package store.
// The engine adds the operation and the key to them.
type Driver interface {
	// Read returns what is stored under a key; that can be a tombstone. Read must see every
	// write that the server acknowledged before the Read started. If nothing is stored, the
	// error matches [store.ErrNotFound]. If the stored bytes are not an envelope, the error
	// matches [store.ErrCorrupt]. If the connection breaks, or the server does not answer, the
	// error matches [store.ErrUnavailable]: then the engine repeats the Read.
	//
	// The caller passes the tag that it knows as seen. If this tag is not empty and is still
	// current, Read may return [ErrUnchanged], which saves the transfer of the body. A driver may
	// ignore the tag.
	Read(ctx context.Context, key string, seen Tag) (Stored, error)

	// Write stores the envelope e under a key, in one atomic step of the server. The argument on is
	// the condition: the current state must still be this state. If [Stored.Absent] is true for it,
	// nothing must be stored under the key. Write returns the tag of the state that it wrote. The
	// server compares the Tag of the condition. If the server gives no tags, it compares the ID.
	//
	// The error says what the driver knows:
	//   - [ConditionFailedError], or another error that matches [store.ErrConflict]: the
	//     server answered that the condition is not true.
	//   - [ErrBusy]: the server refused the request, for example because of throttling
	//     or of another write in progress. Nothing was written, and the same request
	//     may succeed soon.
	//   - another error whose [store.OutcomeOf] is [store.NotApplied]: nothing was written,
	//     and a retry does not help.
	//   - any other error: the outcome is unknown. Examples are a lost reply, a broken
	//     connection, and a status 5xx. The error of these matches [store.ErrUnavailable].
	Write(ctx context.Context, key string, on Stored, e Envelope) (Tag, error)

	// List yields the keys below prefix as [store.Lister] describes, without the keys of
	// tombstones. The prefix is empty or a valid key.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
}

// A Remover is a driver that can remove a register or a tombstone without a condition.
// The engine removes only the registers of its probe, and the registers that
// [Store.Erase] names. If the driver is not a Remover, the registers of the probe
// remain as tombstones.
type Remover interface {
	Remove(ctx context.Context, key string) error
}

// Tag is the server's own name of one state of a register, for example an ETag or a
// generation. If the server gives no tags, Tag is empty, and the driver compares
// [Envelope.ID].
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

// ConditionFailedError is the error of a write whose condition was not true. It matches
// [store.ErrConflict].
type ConditionFailedError struct {
	// HasCurrent says that Current is the state that the write found. If nothing was stored,
	// Current is the zero value.
	HasCurrent bool
	Current    Stored
}

func (*ConditionFailedError) Error() string          { return "the condition of the write is not true" }
func (*ConditionFailedError) Is(target error) bool   { return target == store.ErrConflict }
func (*ConditionFailedError) Outcome() store.Outcome { return store.NotApplied }

var (
	// ErrBusy: the server refused the request, wrote nothing, and may accept the same
	// request soon; see [Driver]. A driver wraps ErrBusy, or joins it to the server's
	// error.
	ErrBusy error = busyError("the server is busy")

	// ErrUnchanged: the tag that was passed to [Driver.Read] is still the tag of the
	// current state.
	ErrUnchanged = errors.New("not changed")
)

// Busy returns an error with this text that matches [ErrBusy], for a reason other than a busy server.
func Busy(text string) error { return busyError(text) }

type busyError string

func (e busyError) Error() string { return store.ErrUnavailable.Error() + ": " + string(e) }
func (e busyError) Is(target error) bool {
	return target == ErrBusy || target == store.ErrUnavailable
}
func (busyError) Outcome() store.Outcome { return store.NotApplied }

// ID returns a text that identifies the state: its number, if the backend numbers its states, and
// its nonce. Two states of a key never have the same ID.
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

// Version returns the version of the state. It consists of the ID of the state, the nonces of the
// states before it, and the server's tag after an @. The ID alone makes the version unique. The
// nonces of earlier states let the engine resolve a write that named this version. The tag is a
// hint that saves a read.
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

// ParseID is the inverse of [Envelope.ID] and [Envelope.PredecessorText]. The envelope that it
// returns has no value.
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

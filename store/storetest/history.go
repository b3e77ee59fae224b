package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

// A History records the calls of any number of callers on a store, and their results. It checks that they
// agree with the contract. The calls of each key must be linearizable, no version may be used twice, and
// each reported outcome must be true. The zero value is empty and ready for use. Its methods may be
// called from any number of goroutines.
//
// Record all calls on a register from its creation, because the history assumes that the register is
// absent at first. A write of unknown outcome may be applied at any later time, or never; the check tries
// every possibility.
type History struct {
	mu    sync.Mutex
	clock int64 // counts starts and ends of calls: the order in which they happened
	calls []*call
}

// call is one call as its caller saw it.
type call struct {
	kind       callKind
	key        string
	start, end int64 // end is never if the effect of the call may follow later
	prev       store.Version
	version    store.Version // written, or seen; zero means absent
	value      string        // written, or seen
	known      bool          // of a refusal: it carries the state that it found; of a read: it returned the value
}

const never = math.MaxInt64

type callKind int

const (
	callVoid    callKind = iota // says nothing
	callRead                    // saw the state (version, value)
	callPut                     // was applied
	callDelete                  // was applied
	callRefused                 // found a state that is not prev
	callMaybePut
	callMaybeDelete
)

func (c *call) String() string {
	state := showEntry(store.Entry{Version: c.version, Value: []byte(c.value)})
	span := fmt.Sprintf("[%d-%d] ", c.start, c.end)
	if c.end == never {
		span = fmt.Sprintf("[%d-?] ", c.start)
	}
	switch c.kind {
	case callRead:
		return span + "get: " + state
	case callPut:
		return span + fmt.Sprintf("put on %q: wrote %s", c.prev, state)
	case callDelete:
		return span + fmt.Sprintf("delete of %q: done", c.prev)
	case callRefused:
		if c.known {
			return span + fmt.Sprintf("write on %q: refused, found %s", c.prev, state)
		}
		return span + fmt.Sprintf("write on %q: refused", c.prev)
	case callMaybePut:
		return span + fmt.Sprintf("put on %q of %s: outcome unknown", c.prev, show([]byte(c.value)))
	case callMaybeDelete:
		return span + fmt.Sprintf("delete of %q: outcome unknown", c.prev)
	}
	return span + "call without a result"
}

// Record returns a store that passes every call on to s and records it. One history can record
// the calls of several stores with the same registers. It does not record List and Watch, because
// they neither read nor write one register. It also does not record GetUncommitted, because this
// call may return a state that never took effect.
func (h *History) Record(s store.Store) store.Store {
	return store.Intercept(s, func(ctx context.Context, op *store.Op, next store.Handler) error {
		switch op.Kind {
		case store.OpGet, store.OpGetAge, store.OpGetIfChanged, store.OpPut, store.OpPutUnsynced, store.OpDelete:
		default:
			return next(ctx, op)
		}
		c := h.begin(op)
		err := next(ctx, op)
		h.finish(c, op, err)
		return err
	})
}

// Len returns the number of calls recorded so far.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.calls)
}

func (h *History) begin(op *store.Op) *call {
	c := &call{key: op.Key, end: never, prev: op.Prev.WithoutHint()}
	switch op.Kind {
	case store.OpPut, store.OpPutUnsynced:
		c.kind, c.value = callMaybePut, string(op.Value)
	case store.OpDelete:
		c.kind = callMaybeDelete
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	c.start = h.clock
	h.calls = append(h.calls, c)
	return c
}

func (h *History) finish(c *call, op *store.Op, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	if !op.Kind.Write() {
		c.end = h.clock
		c.finishRead(op, err)
		return
	}
	var conflict *store.ConflictError
	switch store.OutcomeOf(err) {
	case store.Unknown: // it stays what begin made it
		return
	case store.Applied:
		c.version = op.Version.WithoutHint()
		if c.kind == callMaybePut {
			c.kind = callPut
		} else {
			c.kind, c.version = callDelete, ""
		}
	case store.NotApplied:
		c.kind, c.value = callVoid, ""
		if errors.Is(err, store.ErrConflict) {
			c.kind = callRefused
		}
		if errors.As(err, &conflict) && conflict.HasCurrent {
			c.known, c.version, c.value = true, conflict.Version.WithoutHint(), string(conflict.Value)
		}
	}
	c.end = h.clock
}

func (c *call) finishRead(op *store.Op, err error) {
	switch {
	case err != nil && errors.Is(err, store.ErrNotFound):
		c.kind = callRead
	case err != nil:
	case op.Kind == store.OpGetIfChanged && !op.Changed:
		c.kind, c.version = callRead, op.Prev.WithoutHint()
	default:
		c.kind, c.version, c.value, c.known = callRead, op.Version.WithoutHint(), string(op.Value), true
	}
}

// If one register for each key can explain all recorded calls, Check returns nil. Otherwise
// it returns an error that names the first call for which there is no explanation. Calls
// that have not returned yet count as writes with an unknown outcome.
func (h *History) Check() error {
	h.mu.Lock()
	keys := make(map[string][]call)
	for _, c := range h.calls {
		if c.kind != callVoid {
			keys[c.key] = append(keys[c.key], *c)
		}
	}
	h.mu.Unlock()
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := checkRegister(keys[key]); err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// callCases are the rules of contexts and outcomes.
func callCases() []testCase {
	return []testCase{
		{"CancelledGet", "A read under a context that has ended fails with the context's error. It is not \"not found\". (A waiter that takes a read error for absence takes the lock from its holder.)", func(e *env) {
			e.create("job", "one")
			ended := e.ended()
			for _, key := range []string{"job", "absent"} {
				_, v, err := e.s.Get(ended, key)
				if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrNotFound) || v != "" {
					e.errorf("get %q: got version %q and error %v, want the context's error", key, v, err)
				}
			}
		}},
		{"CancelledPut", "A put under a context that has ended already is not applied, now or later, and its error says so.", func(e *env) {
			v := e.create("job", "one")
			ended := e.ended()
			_, err := e.s.Put(ended, "job", v, []byte("two"))
			e.wantNotSent("put", err)
			_, err = e.s.Put(ended, "absent", "", []byte("two"))
			e.wantNotSent("create", err)
			time.Sleep(time.Millisecond)
			e.expect("job", v, "one")
			e.expectAbsent("absent")
		}},
		{"CancelledDelete", "A delete under a context that has ended already is not applied, now or later, and its error says so.", func(e *env) {
			v := e.create("job", "one")
			e.wantNotSent("delete", e.s.Delete(e.ended(), "job", v))
			time.Sleep(time.Millisecond)
			e.expect("job", v, "one")
		}},
		{"CancelledAfter", "The context bounds the call, not its effect: a register outlives the context of its write.", func(e *env) {
			ctx, cancel := context.WithCancel(e.ctx)
			v, err := e.s.Put(ctx, "job", "", []byte("one"))
			cancel()
			if err != nil {
				e.fatalf("create: %v", err)
			}
			time.Sleep(time.Millisecond)
			e.expect("job", v, "one")
			e.put("job", v, "two")
		}},
		{"DeadlinesTellTheTruth", "When a context ends in the middle of a call, the store reports the true outcome: applied, not applied now or later, or unknown.", caseDeadlines},
		{"ErrorsNameTheKey", "An error of a store is a store.OpError, which names the operation, the key as the caller passed it, and the store by the name in its traits. The text contains that name once. (Programs use it to distinguish a failed write from a failed read.)", func(e *env) {
			named := func(what, key string, write bool, err error) {
				var op *store.OpError
				name := store.TraitsOf(e.s).Name
				if errors.As(err, &op) && name != "" && (op.Store != name || strings.Count(err.Error(), name) != 1) {
					e.errorf("%s %q: got the error %q of the store %q, want the store %q, once", what, key, err, op.Store, name)
				}
				if !errors.As(err, &op) || op.Key != key || op.Op.Write() != write || op.Op.Read() == write {
					e.errorf("%s %q: got the error %v, want a store.OpError with the operation and the key", what, key, err)
				}
			}
			_, _, err := e.s.Get(e.ctx, "absent-17")
			named("get", "absent-17", false, err)
			v := e.create("job-17", "one")
			_, err = e.s.Put(e.ctx, "job-17", "", []byte("two"))
			named("put", "job-17", true, err)
			w := e.put("job-17", v, "two")
			named("delete", "job-17", true, e.s.Delete(e.ctx, "job-17", v))
			e.expect("job-17", w, "two")
		}},
	}
}

// ended returns a context that has ended.
func (e *env) ended() context.Context {
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	return ctx
}

func (e *env) wantNotSent(what string, err error) {
	switch {
	case err == nil:
		e.errorf("%s succeeded under a context that had ended", what)
	case store.OutcomeOf(err) != store.NotApplied:
		e.errorf("%s: nothing was sent, but the outcome is %q: %v", what, store.OutcomeOf(err), err)
	case !errors.Is(err, context.Canceled):
		e.errorf("%s: got %v, want the context's error", what, err)
	}
}

// caseDeadlines runs writers under contexts that end at any moment of a call: after a
// fraction to a multiple of its usual time. The history then compares every outcome with
// what is read later.
func caseDeadlines(e *env) {
	start := time.Now()
	e.create("measured", "x")
	usual := max(time.Since(start), 4*time.Microsecond)
	var h History
	e.race(min(e.Racers, 8), func(i int, s store.Store) {
		s = h.Record(s)
		for n := range 2 * e.Rounds {
			key := fmt.Sprint("job-", n%2)
			_, v, err := s.Get(e.ctx, key)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				e.errorf("get: %v", err)
				return
			}
			ctx, cancel := context.WithTimeout(e.ctx, usual/8<<((i+n)%7))
			if n%7 == 6 && v != "" {
				_ = s.Delete(ctx, key, v) // its outcome is in the history
			} else {
				_, _ = s.Put(ctx, key, v, fmt.Appendf(nil, "%d by %d", n, i))
			}
			cancel()
		}
	})
	final := h.Record(e.s)
	for n := range 2 {
		if _, _, err := final.Get(e.ctx, fmt.Sprint("job-", n)); err != nil && !errors.Is(err, store.ErrNotFound) {
			e.errorf("get: %v", err)
		}
	}
	e.checkHistory(&h)
}

func (e *env) checkHistory(h *History) {
	if err := h.Check(); err != nil {
		e.errorf("%v", err)
	}
}

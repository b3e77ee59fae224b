package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store"
)

// callCases are the rules of contexts and outcomes.
func callCases() []testCase {
	return []testCase{
		{"CancelledGet", "A read with a context that has ended returns the context's error, not ErrNotFound. (If a waiter treats a failed read as an absent record, it takes the lock from its holder.)", func(e *env) {
			e.create("job", "one")
			ended := e.ended()
			for _, key := range []string{"job", "absent"} {
				_, v, err := e.s.Get(ended, key)
				if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrNotFound) || v != "" {
					e.Errorf("Get of %q: got version %q and the error %v, want the context's error", key, v, err)
				}
			}
		}},
		{"CancelledPut", "If the context has ended before a put, the put is never applied, and its error has the outcome NotApplied.", func(e *env) {
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
		{"CancelledDelete", "If the context has ended before a delete, the delete is never applied, and its error has the outcome NotApplied.", func(e *env) {
			v := e.create("job", "one")
			e.wantNotSent("delete", e.s.Delete(e.ended(), "job", v))
			time.Sleep(time.Millisecond)
			e.expect("job", v, "one")
		}},
		{"CancelledAfter", "The context bounds only the call: a register exists also after the end of the context of its write.", func(e *env) {
			ctx, cancel := context.WithCancel(e.ctx)
			v, err := e.s.Put(ctx, "job", "", []byte("one"))
			cancel()
			e.Must("create", err)
			time.Sleep(time.Millisecond)
			e.expect("job", v, "one")
			e.put("job", v, "two")
		}},
		{"DeadlinesTellTheTruth", "If a context ends during a write, the error has the true outcome: Applied, NotApplied (now and later) or Unknown.", caseDeadlines},
		{"CausesAreNoAnswers", "The cause of a context can be the error of another call. If it ends a call, the error of the call does not look like an answer: it does not match ErrNotFound, ErrConflict or any other error that says what the store found or refused.", caseCauses},
		{"ErrorsNameTheKey", "An error of a store is a store.OpError. It has the operation, the key that the caller passed, and the name in the Traits of the store. The text contains this name once. (Programs use the operation to distinguish a failed write from a failed read.)", func(e *env) {
			named := func(what, key string, write bool, err error) {
				var op *store.OpError
				name := store.TraitsOf(e.s).Name
				if errors.As(err, &op) && name != "" && (op.Store != name || strings.Count(err.Error(), name) != 1) {
					e.Errorf("%s %q: the error %q has the store %q, want the store %q once in the text", what, key, err, op.Store, name)
				}
				if !errors.As(err, &op) || op.Key != key || op.Op.Write() != write || op.Op.Read() == write {
					e.Errorf("%s %q: got the error %v, want a store.OpError with the operation and the key", what, key, err)
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
	e.WantRefused(what+" with a context that has ended", err, context.Canceled)
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
				e.Errorf("get: %v", err)
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
			e.Errorf("get: %v", err)
		}
	}
	e.checkHistory(&h)
}

// caseCauses interrupts calls that would succeed.
func caseCauses(e *env) {
	start := time.Now()
	e.create("measured", "x")
	usual := time.Since(start)
	e.each(3*min(4*e.Rounds, suitetest.Moments), func(i int) {
		key := fmt.Sprint("job-", i)
		v := e.create(key, "one")
		deleted := false
		err := suitetest.Interrupt(e.ctx, i/3, usual, func(ctx context.Context) (err error) {
			switch i % 3 {
			case 0:
				_, _, err = e.s.Get(ctx, key)
			case 1:
				_, err = e.s.Put(ctx, key, v, []byte("two"))
			default:
				err = e.s.Delete(ctx, key, v)
				deleted = err == nil
			}
			return err
		})
		e.OK(fmt.Sprintf("%s of %q", []string{"Get", "Put", "Delete"}[i%3], key), err)
		if deleted {
			e.expectAbsent(key)
		}
	})
}

func (e *env) checkHistory(h *History) {
	if err := h.Check(); err != nil {
		e.Errorf("%v", err)
	}
}

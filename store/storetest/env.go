package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/internal/registerrules"
	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store"
)

// env is the environment of a case: a fresh store, a second handle on it, and methods that
// expect success. A method that fails ends the case, so it must be called on the goroutine
// of the case, or in a function that each runs. Racers use the stores themselves, and
// Errorf.
type env struct {
	*suitetest.Recorder
	Options
	t      *testing.T
	ctx    context.Context
	cancel context.CancelFunc
	s      store.Store // the handle for writes
	other  store.Store // the handle for reads: s itself, or another
	open   func(t *testing.T) store.Store
}

// handle returns the store that the i-th racer uses.
func (e *env) handle(i int) store.Store {
	return [...]store.Store{e.s, e.other}[i%2]
}

// need returns an ability of a store, or ends the case: the store does not have what the case checks.
func need[A any](e *env, s store.Store) A {
	a, ok := store.As[A](s)
	if !ok {
		e.Absent("the store does not implement " + reflect.TypeFor[A]().Name())
	}
	return a
}

// each runs f for 0 to n-1: with Options.Parallel up to eight calls at the same time, since
// a write can take seconds on a store that mostly waits, else one after the other. If a
// method fails in f, the case ends after the calls that still run.
func (e *env) each(n int, f func(i int)) {
	if !e.Parallel {
		for i := range n {
			f(i)
		}
		return
	}
	var finished atomic.Int64
	workers := min(n, 8)
	e.race(workers, func(i int, _ store.Store) {
		for ; i < n; i += workers {
			f(i)
			finished.Add(1)
		}
	})
	if finished.Load() < int64(n) {
		runtime.Goexit() // a method failed, and has reported why
	}
}

// rule makes a case of a rule that holdfast doctor checks too.
func rule(check func(*registerrules.Space, context.Context) error) func(*env) {
	return func(e *env) {
		s := &registerrules.Space{Stores: [2]store.Store{e.s, e.other}, Racers: e.Racers, Rounds: e.Rounds, RetryBusy: true, OnLoser: func(err error) {
			e.Errorf("a call that lost the race returned %v (%v), want a conflict", err, store.OutcomeOf(err))
		}}
		if err := check(s, e.ctx); err != nil {
			e.Fatalf("%v", err)
		}
	}
}

// state returns the state of key; a zero version means absent.
func (e *env) state(key string) store.Entry {
	value, v, err := e.other.Get(e.ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		if v != "" || len(value) != 0 {
			e.Errorf("Get of the absent key %q returned the value %s and the version %q with its error, want neither", key, show(value), v)
		}
		return store.Entry{Key: key}
	case err != nil:
		e.Fatalf("get %q: %v", key, err)
	case v == "":
		e.Fatalf("Get of %q returned a value and a zero version; a zero version means absent", key)
	}
	return store.Entry{Key: key, Value: value, Version: v}
}

// expect checks the state of key. A zero version means absent.
func (e *env) expect(key string, v store.Version, value string) {
	got := e.state(key)
	if got.Version != v || string(got.Value) != value {
		e.Fatalf("get %q: got %s, want %s", key, showEntry(got), showEntry(store.Entry{Key: key, Value: []byte(value), Version: v}))
	}
}

func (e *env) expectAbsent(key string) { e.expect(key, "", "") }

// put writes against prev and checks that the result can be read.
func (e *env) put(key string, prev store.Version, value string) store.Version {
	v, err := e.s.Put(e.ctx, key, prev, []byte(value))
	if err != nil {
		e.Fatalf("Put of %q on its current version %q: got the error %v (%v), want success", key, prev, err, store.OutcomeOf(err))
	}
	if v == "" {
		e.Fatalf("Put of %q returned no error and a zero version; a zero version means absent", key)
	}
	if v == prev {
		e.Fatalf("Put of %q returned the version %q that it replaced, want a new version", key, v)
	}
	return v
}

func (e *env) create(key, value string) store.Version { return e.put(key, "", value) }

func (e *env) delete(key string, prev store.Version) {
	if err := e.s.Delete(e.ctx, key, prev); err != nil {
		e.Fatalf("Delete of %q with its current version %q: got the error %v (%v), want success", key, prev, err, store.OutcomeOf(err))
	}
}

// refused checks that a write failed as a conflict, that the conflict carries no wrong
// state, and that the register did not change.
func (e *env) refused(what string, err error, want store.Entry) {
	e.conflict(what, err, want)
	e.expect(want.Key, want.Version, string(want.Value))
}

// conflict checks the error of a refused write that found the state want.
func (e *env) conflict(what string, err error, want store.Entry) {
	switch {
	case err == nil:
		e.Errorf("%s succeeded, want a conflict", what)
		return
	case !errors.Is(err, store.ErrConflict):
		e.Errorf("%s: the error does not match ErrConflict: %v", what, err)
	case store.OutcomeOf(err) != store.NotApplied:
		e.Errorf("%s: the error of a conflict has the outcome %q, want NotApplied: %v", what, store.OutcomeOf(err), err)
	}
	var c *store.ConflictError
	if !errors.As(err, &c) || !c.HasCurrent {
		return
	}
	if c.Version != want.Version || !bytes.Equal(c.Value, want.Value) {
		e.Errorf("%s: the conflict carries the state %s, but the register has the state %s", what,
			showEntry(store.Entry{Value: c.Value, Version: c.Version}), showEntry(want))
	}
}

func entry(key string, v store.Version, value string) store.Entry {
	return store.Entry{Key: key, Version: v, Value: []byte(value)}
}

// show returns a value for people, shortened.
func show(value []byte) string {
	if len(value) > 40 {
		return fmt.Sprintf("%q... (%d bytes)", value[:40], len(value))
	}
	return fmt.Sprintf("%q", value)
}

func showEntry(e store.Entry) string {
	if e.Version == "" && len(e.Value) == 0 {
		return "absent"
	}
	return fmt.Sprintf("%s version %q", show(e.Value), e.Version)
}

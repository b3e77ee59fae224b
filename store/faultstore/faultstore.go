// Package faultstore is a decorator that injects the faults of networks and servers into any
// store: lost requests and replies, writes that take effect late, delays, and outages.
//
// # Use
//
//	s := faultstore.New(memstore.New(), faultstore.MustParse("put job #3 lose; read * %0.1 fail"))
//	// ... run the code to test on s ...
//	if rules := s.Unmatched(); len(rules.Rules) > 0 {
//		t.Errorf("no call matched %v", rules)
//	}
//
// These are the parts:
//
//   - A [Schedule] chooses the calls that get a fault: by operation, key and number, or by a seed
//     and probabilities. [MustParse] reads its text; [Schedule.String] describes the form.
//     [Random] returns a schedule with every kind of fault.
//   - [Store.Set] replaces the schedule during a test, for example to end an outage.
//   - [Store.Injected] returns the injected faults as a schedule without probabilities. If a test
//     fails under a seed, it can print this schedule, to replay the same faults.
//   - [Store.Unmatched] returns the rules that no call has matched. A test with such a rule
//     should fail.
//
// # What it keeps
//
// A store with injected faults still keeps the contract of package store. If it loses a reply, the
// outcome is unknown. It reports "not applied" only if the store below has not applied the write.
// Like a network, it can apply a write with an unknown outcome after the call has returned. So a
// test shows whether the code under test handles everything that the contract allows.
//
// # Time
//
// Delays and late writes use the timers of package time, and no call waits while it holds a
// mutex. So inside a bubble of testing/synctest a day of faults takes no real time. If the
// schedule gives a late write a time, a timer starts a goroutine that applies the write.
// [Store.Drain] and [Store.Close] wait for these goroutines.
package faultstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

// ErrInjected: the store below did not fail; this package has injected the error.
var ErrInjected = errors.New("injected fault")

// Store passes calls on to another store, with faults. It has exactly the abilities
// of that store. Its methods may be called from any number of goroutines.
type Store struct {
	store.Store // passes through call

	mu         sync.Mutex
	schedule   Schedule
	matched    []int            // for each rule, the number of calls that its Op and Key have matched
	met        []bool           // for each rule, whether it decided about a call
	calls      map[identity]int // the number of calls so far
	produced   []Rule
	late       []*lateWrite // not started yet, oldest first
	running    []*lateWrite // begun
	lostWrites map[store.Version]*lostWrite
	closed     bool

	storeName string // of the store below
}

// identity is the operation and key by which calls are counted.
type identity struct {
	op  store.Kind
	key string
}

// New returns inner with the faults of the schedule. It panics if the schedule is not
// valid; see [Schedule.Check].
func New(inner store.Store, schedule Schedule) *Store {
	s := &Store{storeName: store.TraitsOf(inner).Name}
	s.Store = store.Intercept(inner, s.call)
	s.Set(schedule)
	return s
}

// As looks for an ability of the store below. The calls of the ability also get faults. As can also
// find s itself.
func (s *Store) As(target any) bool {
	if t, ok := target.(**Store); ok {
		*t = s
		return true
	}
	return s.Store.(interface{ As(target any) bool }).As(target)
}

// Set replaces the schedule. An empty schedule ends all faults. Set also clears the counts of calls
// and the record of [Store.Injected]. Late writes still take effect. After [Store.Close], a call of
// Set has no effect. It panics if the schedule is not valid.
func (s *Store) Set(schedule Schedule) {
	if err := schedule.Check(); err != nil {
		panic("faultstore: " + err.Error())
	}
	schedule.Rules = slices.Clone(schedule.Rules)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.set(schedule)
	}
}

// set is called with the mutex held.
func (s *Store) set(schedule Schedule) {
	s.schedule = schedule
	s.matched = make([]int, len(schedule.Rules))
	s.met = make([]bool, len(schedule.Rules))
	s.calls = make(map[identity]int)
	s.produced = nil
}

// Injected returns the faults that were injected since the schedule was set. The result is
// a schedule that names each call by its operation, key and number. It injects the same
// faults again if the calls with the same operation and key come in the same order.
func (s *Store) Injected() Schedule {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Schedule{Rules: slices.Clone(s.produced)}
}

// Unmatched returns the rules that have had no effect since the schedule was set. Either no call
// had the operation, key and number of the rule, or the fault of another rule came first. A
// frequent cause is a misspelt key. If Unmatched returns a rule, let the test fail, because the
// test does not test what its schedule says. If a rule had no effect only because of its Chance,
// Unmatched does not return the rule.
func (s *Store) Unmatched() Schedule {
	s.mu.Lock()
	defer s.mu.Unlock()
	unmet := Schedule{Seed: s.schedule.Seed}
	for i, r := range s.schedule.Rules {
		if !s.met[i] {
			unmet.Rules = append(unmet.Rules, r)
		}
	}
	return unmet
}

// call carries out an operation with the faults of the schedule.
func (s *Store) call(ctx context.Context, op *store.Op, next store.Handler) error {
	if ctx.Err() != nil || !sent(op) {
		return next(ctx, op) // there is no request that could be lost
	}
	if op.Kind == store.OpResolve {
		next = s.resolveHandler(next)
	}
	p := s.plan(op)
	for _, l := range p.due {
		s.finish(context.WithoutCancel(ctx), l)
	}
	if backoff.Sleep(ctx, p.before) != nil {
		return s.unknown(op, store.Cause(ctx), new(lostWrite))
	}
	fault := fmt.Errorf("%w: %w (%s)", store.ErrUnavailable, ErrInjected, p.fault)
	switch p.fault.Action {
	case Fail:
		return &store.OpError{Op: op.Kind, Key: op.Key, Store: s.storeName, Err: store.MarkNotApplied(fault)}
	case Drop:
		return s.unknown(op, fault, new(lostWrite))
	case Late:
		f := new(lostWrite)
		if op.Kind.Write() {
			s.postpone(ctx, op, next, p.fault, f)
		}
		return s.unknown(op, fault, f)
	}
	answer := *op
	err := next(ctx, &answer)
	if p.after > 0 && backoff.Sleep(ctx, p.after) != nil {
		return s.unknown(op, store.Cause(ctx), lostWriteOf(&answer, err))
	}
	if p.fault.Action == Lose {
		return s.unknown(op, fault, lostWriteOf(&answer, err))
	}
	*op = answer
	return err
}

// sent reports whether the operation is valid. The store refuses an invalid one before
// anything is sent.
func sent(op *store.Op) bool {
	switch {
	case op.Kind.Lists() && op.Key == "":
		return true
	case op.Kind == store.OpPut || op.Kind == store.OpPutUnsynced:
		return store.CheckPut(op.Key, op.Value) == nil
	case op.Kind == store.OpDelete:
		return store.CheckDelete(op.Key, op.Prev) == nil
	}
	return store.CheckKey(op.Key) == nil
}

// unknown returns the error of a call whose outcome is hidden. The error of a write names a
// version by which [Store.resolveHandler] finds its outcome.
func (s *Store) unknown(op *store.Op, err error, f *lostWrite) error {
	if !op.Kind.Write() {
		return &store.OpError{Op: op.Kind, Key: op.Key, Store: s.storeName, Err: store.MarkUnknown(err)}
	}
	return &store.OpError{Op: op.Kind, Key: op.Key, Store: s.storeName, Err: &store.InDoubtError{Version: s.name(f), Err: err}}
}

// plan holds the faults of one call.
type plan struct {
	before, after time.Duration
	fault         Rule         // with an Action, if there is a fault
	due           []*lateWrite // the late writes that take effect before it
}

// plan counts a call and decides what happens to it.
func (s *Store) plan(op *store.Op) plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	who := identity{op.Kind, op.Key}
	if op.Kind.Lists() {
		who.key = "" // the text of a schedule cannot express the empty prefix
	}
	s.calls[who]++
	n := s.calls[who]
	var p plan
	for i, r := range s.schedule.Rules {
		if !r.matches(op) {
			continue
		}
		s.matched[i]++
		if m := s.matched[i]; m < r.First || r.Last > 0 && m > r.Last {
			continue
		}
		delays := r.Action == Delay || r.Action == DelayReply
		if !delays && p.fault.Action != "" {
			continue
		}
		s.met[i] = true
		exact, ok := s.schedule.decide(i, who, n)
		if !ok {
			continue
		}
		s.produced = append(s.produced, exact)
		switch r.Action {
		case Delay:
			p.before += exact.Wait
		case DelayReply:
			p.after += exact.Wait
		default:
			p.fault = exact
		}
	}
	p.due = s.takeDue(op)
	return p
}

// matches reports whether the rule applies to such calls.
func (r Rule) matches(op *store.Op) bool {
	if r.Key != "" && r.Key != op.Key {
		return false
	}
	switch r.Op {
	case "", AnyOp, op.Kind:
		return true
	case ReadOp:
		return !op.Kind.Write() && op.Kind != store.OpWatch
	case WriteOp:
		return op.Kind.Write()
	}
	return false
}

// lateWrite is a write whose call has returned and that will be applied later.
type lateWrite struct {
	op        store.Op
	next      store.Handler
	timer     *time.Timer // of a write that waits for a time
	calls     int         // how many more calls on its key the write waits for; 0: it waits for no call
	lostWrite *lostWrite
	done      chan struct{} // closed when it was carried out
}

func (s *Store) postpone(ctx context.Context, op *store.Op, next store.Handler, r Rule, f *lostWrite) {
	l := &lateWrite{op: *op, next: next, calls: r.Calls, lostWrite: f, done: make(chan struct{})}
	l.op.Value = bytes.Clone(op.Value) // the caller may change the slice now
	ctx = context.WithoutCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return // like the late writes that Close drops
	}
	f.late = l
	s.late = append(s.late, l)
	if r.Wait > 0 {
		l.timer = time.AfterFunc(r.Wait, func() {
			if s.claim(l) {
				s.finish(ctx, l)
			}
		})
	}
}

// takeDue claims the late writes that wait for this call. It is called with the
// mutex held.
func (s *Store) takeDue(op *store.Op) (due []*lateWrite) {
	if op.Kind.Lists() {
		return nil
	}
	s.late = slices.DeleteFunc(s.late, func(l *lateWrite) bool {
		if l.op.Key != op.Key || l.calls == 0 {
			return false
		}
		l.calls--
		if l.calls == 0 {
			due = append(due, l)
		}
		return l.calls == 0
	})
	s.running = append(s.running, due...)
	return due
}

// claim reports whether the caller must carry out the late write: no other goroutine has
// started or dropped it.
func (s *Store) claim(l *lateWrite) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.late, l)
	if i < 0 {
		return false
	}
	s.late = slices.Delete(s.late, i, i+1)
	s.running = append(s.running, l)
	return true
}

// finish carries out a late write that was claimed. No caller waits for its answer.
func (s *Store) finish(ctx context.Context, l *lateWrite) {
	done := lostWriteOf(&l.op, l.next(ctx, &l.op))
	s.mu.Lock()
	done.late = l
	*l.lostWrite = *done
	s.running = slices.DeleteFunc(s.running, func(r *lateWrite) bool { return r == l })
	s.mu.Unlock()
	close(l.done)
}

// Pending returns the number of late writes that have not yet been carried out.
func (s *Store) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.late) + len(s.running)
}

// Drain carries out all late writes now, in the order in which they were sent, and waits for the
// late writes that have already begun. If the context ends first, Drain returns the context's
// error.
func (s *Store) Drain(ctx context.Context) error {
	for {
		s.mu.Lock()
		var l *lateWrite
		if len(s.late) > 0 {
			l = s.late[0]
		}
		s.mu.Unlock()
		if l == nil {
			return s.resolve(ctx)
		}
		if ctx.Err() != nil {
			return store.Cause(ctx)
		}
		if s.claim(l) {
			l.stop()
			s.finish(ctx, l)
		}
	}
}

// resolve waits for the late writes that have begun.
func (s *Store) resolve(ctx context.Context) error {
	s.mu.Lock()
	running := slices.Clone(s.running)
	s.mu.Unlock()
	for _, l := range running {
		select {
		case <-l.done:
		case <-ctx.Done():
			return store.Cause(ctx)
		}
	}
	return nil
}

func (l *lateWrite) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// Close drops the late writes that have not begun: they never take effect. It waits for the
// late writes that have begun. Later calls pass through without faults. Close does not
// close the store below. The error is always nil.
func (s *Store) Close() error {
	s.mu.Lock()
	s.set(Schedule{})
	dropped := s.late
	s.late, s.closed = nil, true
	s.mu.Unlock()
	for _, l := range dropped {
		l.stop()
		close(l.done)
	}
	return s.resolve(context.Background())
}

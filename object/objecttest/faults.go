package objecttest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

// Fault is the effect of a fault on a call of a [Faulty] bucket.
type Fault int

const (
	// Pass: the call has no fault.
	Pass Fault = iota

	// Fail: the bucket below does not get the call. The caller gets an error whose outcome is
	// unknown.
	Fail

	// Lose: the bucket below carries out the call. The caller gets the same error as with Fail.
	Lose

	// Repeat: the bucket below gets the call twice, as if a proxy had repeated it. The caller gets
	// the second answer.
	Repeat

	// Late: the caller gets the same error as with Fail. The bucket below gets the call
	// later, when [Faults.Deliver] is called.
	Late

	// Cut: the process has died. The bucket below does not get this call, nor any later call. The
	// same is true for all other buckets with the same [Faults].
	Cut
)

// ErrFault is the error of a call that got a fault. It matches store.ErrUnavailable.
var ErrFault = fmt.Errorf("%w: a fault of the test", store.ErrUnavailable)

// Call is one call, for which [Faults] chooses a fault.
type Call struct {
	N    int        // number of the call, from 1
	Op   store.Kind // get, stat, put, delete, copy or list; for a table of items, also update or scan
	Key  string     // for a copy, the destination; for a list, the prefix
	Dead bool       // an earlier call was Cut
}

// Write reports whether the call changes something.
func (c Call) Write() bool { return c.Op.Write() }

// Faults chooses the faults of one process. The calls of all buckets with the same Faults are numbered
// together. Any number of goroutines may use a Faults.
type Faults struct {
	decide func(Call) Fault

	mu    sync.Mutex
	n     int
	calls []Call
	dead  bool
	late  []func()
}

// NewFaults returns a Faults that calls the function decide to choose the fault of each call. Several
// goroutines may call decide at the same time. If decide is nil, no call has a fault.
func NewFaults(decide func(Call) Fault) *Faults { return &Faults{decide: decide} }

// Nth returns a function for [NewFaults] that chooses this fault for the n-th call.
func Nth(n int, fault Fault) func(Call) Fault {
	return func(c Call) Fault {
		if c.N == n {
			return fault
		}
		return Pass
	}
}

// maxCalls is how many calls are remembered.
const maxCalls = 10_000

// Len returns the number of calls so far, including calls after a Cut.
func (f *Faults) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// Calls returns the first 10,000 calls.
func (f *Faults) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.calls...)
}

// Deliver carries out the calls with the fault Late, each once.
func (f *Faults) Deliver() {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	for _, call := range late {
		call()
	}
}

// Call carries out a call with its fault. It is for decorators of a bucket or a table. Depending on the
// fault, Call calls the function run not at all, once or twice. If the fault is Late, [Faults.Deliver]
// calls run later, with a context that does not end with ctx.
func (f *Faults) Call(ctx context.Context, op store.Kind, key string, run func(context.Context) error) error {
	f.mu.Lock()
	f.n++
	c := Call{N: f.n, Op: op, Key: key, Dead: f.dead}
	if len(f.calls) < maxCalls {
		f.calls = append(f.calls, c)
	}
	f.mu.Unlock()
	fault := Pass
	if f.decide != nil && !c.Dead {
		fault = f.decide(c)
	}
	failed := &store.OpError{Op: op, Key: key, Err: ErrFault}
	switch {
	case c.Dead || fault == Cut:
		f.mu.Lock()
		f.dead = true
		f.mu.Unlock()
		return failed
	case fault == Pass:
		return run(ctx)
	case !c.Write() || fault == Fail:
		return failed
	case fault == Repeat:
		_ = run(ctx)
		return run(ctx)
	case fault == Late:
		f.mu.Lock()
		f.late = append(f.late, func() { _ = run(context.WithoutCancel(ctx)) })
		f.mu.Unlock()
		return failed
	}
	if err := run(ctx); store.OutcomeOf(err) == store.NotApplied && !errors.Is(err, store.ErrConflict) {
		return err // it was refused before it was sent
	}
	return failed
}

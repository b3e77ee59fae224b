package objecttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Fault is what happens to a call of a [Faulty] bucket.
type Fault int

const (
	// Pass: nothing happens to the call.
	Pass Fault = iota

	// Fail: the bucket below does not get the call. The caller gets an error of unknown
	// outcome.
	Fail

	// Lose: the bucket below carries the call out. The caller gets the same error as with
	// Fail.
	Lose

	// Repeat: the bucket below gets the call twice, as by a proxy. The caller gets the
	// second answer.
	Repeat

	// Late: the caller gets the same error as with Fail. The bucket below gets the call
	// later, when [Faulty.Deliver] is called.
	Late

	// Cut: the process has died. The bucket below gets neither this call nor any later
	// one.
	Cut
)

// ErrFault is the error of a call that met a fault. It matches store.ErrUnavailable.
var ErrFault = fmt.Errorf("%w: a fault of the test", store.ErrUnavailable)

// Call is a call of a [Faulty] bucket.
type Call struct {
	N    int        // from 1
	Op   store.Kind // get, stat, put, delete, copy, list
	Key  string     // of a copy the destination, of a list the prefix
	Dead bool       // a call before it was Cut
}

// Write reports whether the call changes something.
func (c Call) Write() bool { return c.Op.Write() }

// Faulty is a bucket whose calls meet faults, for tests of what stands above. Reads get
// their fault as an error: Lose, Repeat and Late make no other difference to them.
type Faulty struct {
	below  object.Bucket
	decide func(Call) Fault

	mu    sync.Mutex
	n     int
	calls []Call
	dead  bool
	late  []func()
}

var (
	_ object.Bucket    = (*Faulty)(nil)
	_ object.Copier    = (*Faulty)(nil)
	_ object.Describer = (*Faulty)(nil)
)

// NewFaulty returns a bucket in which decide tells what becomes of each call. decide may
// be called by several goroutines at once. Nil lets all calls pass.
func NewFaulty(below object.Bucket, decide func(Call) Fault) *Faulty {
	return &Faulty{below: below, decide: decide}
}

// Nth returns a decision: the n-th call meets the fault.
func Nth(n int, fault Fault) func(Call) Fault {
	return func(c Call) Fault {
		if c.N == n {
			return fault
		}
		return Pass
	}
}

// maxCalls is how many calls a bucket remembers.
const maxCalls = 10_000

// Len returns the number of calls so far, those of a dead process too.
func (f *Faulty) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// Calls returns the first 10,000 calls.
func (f *Faulty) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.calls...)
}

// Deliver carries out the calls that are late, and forgets them.
func (f *Faulty) Deliver() {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	for _, call := range late {
		call()
	}
}

// call runs a call with its fault. write may be called several times.
func (f *Faulty) call(op store.Kind, key string, run func() error) error {
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
		return run()
	case !c.Write() || fault == Fail:
		return failed
	case fault == Repeat:
		_ = run()
		return run()
	case fault == Late:
		f.mu.Lock()
		f.late = append(f.late, func() { _ = run() })
		f.mu.Unlock()
		return failed
	}
	if err := run(); store.OutcomeOf(err) == store.NotApplied && !errors.Is(err, store.ErrConflict) {
		return err // it was refused before it was sent
	}
	return failed
}

// Traits implements [object.Describer]. The bucket is not local: faults are those of a
// network.
func (f *Faulty) Traits() object.Traits {
	t := object.TraitsOf(f.below)
	t.Local = false
	return t
}

// Get implements [object.Bucket].
func (f *Faulty) Get(ctx context.Context, key string, opts *object.GetOptions) (r *object.Reader, err error) {
	err = f.call("get", key, func() error {
		r, err = f.below.Get(ctx, key, opts)
		return err
	})
	return r, err
}

// Stat implements [object.Bucket].
func (f *Faulty) Stat(ctx context.Context, key string) (info object.Info, err error) {
	err = f.call("stat", key, func() error {
		info, err = f.below.Stat(ctx, key)
		return err
	})
	return info, err
}

// Put implements [object.Bucket]. It reads the body into memory.
func (f *Faulty) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (info object.Info, err error) {
	all, err := io.ReadAll(body)
	if err != nil {
		return object.Info{}, &store.OpError{Op: "put", Key: key, Err: store.MarkNotApplied(err)}
	}
	err = f.call("put", key, func() error {
		info, err = f.below.Put(ctx, key, strings.NewReader(string(all)), opts)
		return err
	})
	if err != nil {
		info = object.Info{}
	}
	return info, err
}

// Copy implements [object.Copier].
func (f *Faulty) Copy(ctx context.Context, source, destination string, opts *object.CopyOptions) (info object.Info, err error) {
	err = f.call("copy", destination, func() error {
		info, err = object.Copy(ctx, f.below, source, destination, opts)
		return err
	})
	if err != nil {
		info = object.Info{}
	}
	return info, err
}

// Delete implements [object.Bucket].
func (f *Faulty) Delete(ctx context.Context, key string, opts *object.DeleteOptions) error {
	return f.call("delete", key, func() error { return f.below.Delete(ctx, key, opts) })
}

// List implements [object.Bucket].
func (f *Faulty) List(ctx context.Context, prefix string, opts *object.ListOptions) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		err := f.call("list", prefix, func() error { return nil })
		if err != nil {
			yield(object.Info{}, err)
			return
		}
		f.below.List(ctx, prefix, opts)(yield)
	}
}

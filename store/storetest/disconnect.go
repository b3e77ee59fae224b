package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// errDisconnected is the error of a request whose connection was cut, as a network reports it.
var errDisconnected = fmt.Errorf("storetest: the connection was cut: %w", io.ErrUnexpectedEOF)

// disconnectCases are the rules of calls whose connection is cut; see [Options.Intercept].
func disconnectCases() []testCase {
	return []testCase{
		{"DisconnectWrites", "If the connection is cut before or after a write takes effect, the error has the true outcome: Applied, NotApplied (now and later) or Unknown. A write never conflicts with itself.", caseDisconnectWrites},
		{"DisconnectUnavailable", "The error of a call whose connection is cut matches ErrUnavailable, for reads and for writes. (The engine repeats a read only after such an error, and a program reports that the server cannot be reached.)", func(e *env) {
			s, c := e.disconnectable()
			e.create("job", "one")
			check := func(ctx context.Context, what string, err error) {
				if err != nil && !errors.Is(err, store.ErrUnavailable) && ctx.Err() == nil {
					e.Errorf("%s: the error does not match ErrUnavailable: %v", what, err)
				}
			}
			c.each(e, "get", func(ctx context.Context, what string) {
				_, _, err := s.Get(ctx, "job")
				check(ctx, what, err)
			})
			n := 0
			c.each(e, "create", func(ctx context.Context, what string) {
				n++
				_, err := s.Put(ctx, fmt.Sprint("new-", n), "", []byte("one"))
				check(ctx, what, err)
			})
			c.each(e, "delete", func(ctx context.Context, what string) {
				n++
				key := fmt.Sprint("old-", n)
				check(ctx, what, s.Delete(ctx, key, e.create(key, "one")))
			})
		}},
		{"DisconnectReads", "A read whose connection is cut fails. It does not return ErrNotFound, and no state that never existed. (If a waiter treats a failed read as an absent record, it takes the lock from its holder.)", func(e *env) {
			s, c := e.disconnectable()
			v := e.create("job", "one")
			c.each(e, "get", func(ctx context.Context, what string) {
				value, w, err := s.Get(ctx, "job")
				switch {
				case errors.Is(err, store.ErrNotFound):
					e.Errorf("%s: the read returned ErrNotFound, but the register exists", what)
				case err == nil && (w != v || string(value) != "one"):
					e.Errorf("%s: got %s version %q, want \"one\" version %q", what, show(value), w, v)
				}
			})
		}},
	}
}

// disconnectPlan says which requests of one call are cut.
type disconnectPlan struct {
	first int  // the request that is cut, from 0
	all   bool // the later requests too
	after bool // the cut is after the request took effect, else before

	made int // the number of requests so far
	cuts int
}

// disconnector follows a plan, for requests that may be made at the same time.
type disconnector struct {
	mu sync.Mutex
	disconnectPlan
}

// set starts a new plan, and returns how many requests the last plan has cut.
func (c *disconnector) set(to disconnectPlan) (cuts int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cuts, c.disconnectPlan = c.cuts, to
	return cuts
}

// next counts a request and returns what happens to it.
func (c *disconnector) next() (cut, after bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.made
	c.made++
	if n < c.first || n > c.first && !c.all {
		return false, false
	}
	c.cuts++
	return true, c.after
}

func (c *disconnector) carry(request func() error) error {
	cut, after := c.next()
	if !cut {
		return request()
	}
	if after {
		_ = request() // its answer is lost
	}
	return errDisconnected
}

// disconnectable opens a handle whose requests can be cut.
func (e *env) disconnectable() (store.Store, *disconnector) {
	if e.Intercept == nil {
		e.Absent("Options.Intercept is not set")
	}
	c := &disconnector{disconnectPlan: disconnectNone}
	return e.Intercept(e.t, e.s, c.carry), c
}

// disconnectNone cuts nothing.
var disconnectNone = disconnectPlan{first: 1 << 30}

// each repeats a call, once for each request of the call. It cuts that request, or that one
// and all later ones, before or after it took effect.
func (c *disconnector) each(e *env, what string, call func(ctx context.Context, what string)) {
	const most = 20 // a call that repeats its requests has no bound
	patience := time.Second + 4*store.TraitsOf(e.s).MinWriteTime
	for first := range most {
		cut := false
		for i := range 4 {
			how := disconnectPlan{first: first, after: i%2 == 1, all: i/2 == 1}
			ctx, cancel := context.WithTimeout(e.ctx, patience)
			text := fmt.Sprintf("%s, request %d cut", what, first+1)
			if how.all {
				text += " and all later requests"
			}
			if how.after {
				text += ", after the request took effect"
			}
			c.set(how)
			call(ctx, text)
			cancel()
			cut = c.set(disconnectNone) > 0 || cut
		}
		if !cut {
			if first == 0 {
				e.Fatalf("%s: the store from Options.Intercept sent no request through carry", what)
			}
			return
		}
	}
}

func caseDisconnectWrites(e *env) {
	s, c := e.disconnectable()
	n := 0
	put := func(what string, create bool, put func(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error)) {
		c.each(e, what, func(ctx context.Context, what string) {
			n++
			key, value := fmt.Sprint("job-", n), fmt.Sprint("value ", n)
			var prev store.Version
			if !create {
				prev = e.create(key, "before")
			}
			v, err := put(ctx, key, prev, []byte(value))
			now := e.state(key)
			applied := string(now.Value) == value
			e.disconnectOutcome(what, applied, err)
			if err == nil && v != now.Version {
				e.Errorf("%s: the call returned version %q, but the register has version %q", what, v, now.Version)
			}
			e.disconnectResolves(what, key, prev, applied, err)
		})
	}
	put("create", true, s.Put)
	put("put", false, s.Put)
	if p, ok := store.As[store.UnsyncedPutter](s); ok {
		put("unsynced put", false, p.PutUnsynced)
	}
	c.each(e, "delete", func(ctx context.Context, what string) {
		n++
		key := fmt.Sprint("job-", n)
		err := s.Delete(ctx, key, e.create(key, "before"))
		e.disconnectOutcome(what, e.state(key).Version == "", err)
	})
}

// disconnectOutcome compares the outcome that the error of a write states with the true
// outcome.
func (e *env) disconnectOutcome(what string, applied bool, err error) {
	switch outcome := store.OutcomeOf(err); {
	case applied && errors.Is(err, store.ErrConflict) && outcome == store.NotApplied:
		e.Errorf("%s: the write was applied, but the store reported a conflict of the write with itself: %v", what, err)
	case applied && outcome == store.NotApplied:
		e.Errorf("%s: the write was applied, but its error has the outcome NotApplied: %v", what, err)
	case !applied && outcome == store.Applied:
		e.Errorf("%s: the call returned no error, but the write was not applied", what)
	}
}

// disconnectResolves checks the answer of [store.Resolve] about a write of unknown outcome.
func (e *env) disconnectResolves(what, key string, prev store.Version, applied bool, err error) {
	if err == nil || store.OutcomeOf(err) != store.Unknown {
		return
	}
	found, err := store.Resolve(e.ctx, e.other, key, prev, store.AttemptedVersion(err))
	if err != nil {
		e.Errorf("%s: Resolve: %v", what, err)
		return
	}
	switch found.Resolution {
	case store.ResolutionApplied, store.ResolutionSuperseded:
		if !applied {
			e.Errorf("%s: Resolve returned %q, but the write was not applied", what, found.Resolution)
		}
	case store.ResolutionPending, store.ResolutionNotApplied:
		if applied {
			e.Errorf("%s: Resolve returned %q, but the write was applied", what, found.Resolution)
		}
	}
}

// Package leasetest checks that leases work on a store: that package lease keeps
// its promises on it, and that the store is good enough to keep them on.
//
//	func TestLeases(t *testing.T) {
//		leasetest.Run(t, func(t *testing.T) store.Store { return newStore(t) }, nil)
//	}
//
// Package storetest checks the contract of a register, and comes first. This suite
// is what stands on it: grants, takeovers, lost replies, contention. Most of its
// cases stand for a failure that was seen in a real system; the number beside the
// rule (A1, A2, ...) is the project's own list of these.
//
// # Time
//
// Where a case needs a lease to expire, it takes leases of Options.TTL and waits for
// them. On a store in memory, run the suite in a bubble (Options.Bubble), where
// that takes no time. In real time no case fails because the machine is slow: only
// what happens too early is a fault, or not at all within Options.Patience.
package leasetest

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// Options adapt the suite to a store. The zero value suits a fast one.
type Options struct {
	// TTL is that of the leases which are to expire. Default: the shortest that is
	// allowed on the store. The cases wait for up to three of them.
	TTL time.Duration

	// Second opens another handle on the space of first, as another process would
	// have it. Nil: there is only one handle.
	Second func(t *testing.T, first store.Store) store.Store

	// Skip names cases that are not run, each with the reason. A name that is no
	// case is an error.
	Skip map[string]string

	// Contenders is how many clients compete for one lock; 0 means 8, else at
	// least 2.
	Contenders int

	// Patience is how long a case may take before its context ends; 0 means a
	// minute.
	Patience time.Duration

	// Parallel runs the cases at the same time: they mostly wait.
	Parallel bool

	// Bubble runs each case in a bubble of testing/synctest, and also checks that
	// nothing happens too late. A store that talks to anything outside its process
	// cannot be run so.
	Bubble bool
}

// checked returns o with the defaults filled in that do not depend on the store.
func (o *Options) checked(t *testing.T) Options {
	t.Helper()
	var c Options
	if o != nil {
		c = *o
	}
	if c.Contenders == 0 {
		c.Contenders = 8
	}
	if c.Contenders < 2 {
		t.Fatalf("leasetest: Options.Contenders is %d, at least 2 are needed", c.Contenders)
	}
	if c.Patience == 0 {
		c.Patience = time.Minute
	}
	known := Cases()
	for _, name := range slices.Sorted(maps.Keys(c.Skip)) {
		if !slices.Contains(known, name) {
			t.Fatalf("leasetest: Options.Skip names %q, which is no case", name)
		}
		if c.Skip[name] == "" {
			t.Fatalf("leasetest: Options.Skip gives no reason for %q", name)
		}
	}
	return c
}

// A testCase checks one rule.
type testCase struct {
	name string
	why  string // the rule, in words that explain a failure
	run  func(e *env)
}

// cases returns all cases, the plain ones first, so that the first failure is the
// simplest.
func cases() []testCase {
	return slices.Concat(grantCases(), expiryCases(), faultCases(), otherCases())
}

// Cases returns the names of all cases.
func Cases() []string {
	var names []string
	for _, c := range cases() {
		names = append(names, c.name)
	}
	return names
}

// Run checks leases on the store that open returns, each case as a subtest with a
// store of its own. open returns a fresh and empty space each time, and registers
// what is to be closed with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) store.Store, opts *Options) {
	t.Helper()
	o := opts.checked(t)
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			if reason, skipped := o.Skip[c.name]; skipped {
				t.Skip(reason)
			}
			if o.Parallel {
				t.Parallel()
			}
			var f *Failure
			var absent string
			run := func(t *testing.T) { f, absent = runCase(t, c, open, o) }
			if o.Bubble {
				synctest.Test(t, run)
			} else {
				run(t)
			}
			switch {
			case f != nil:
				t.Error(f)
			case absent != "":
				t.Skip(absent)
			}
		})
	}
}

// Failure tells of a case that failed.
type Failure struct {
	Case   string
	Rule   string   // the rule that was broken
	Errors []string // what was seen
}

// String returns the failure in several lines.
func (f *Failure) String() string {
	return fmt.Sprintf("%s\nthe rule: %s", strings.Join(f.Errors, "\n"), f.Rule)
}

// Check runs the cases like [Run], one after the other, but returns those that
// failed in place of failing t: for showing that a store is known to be wrong. With
// names, only these cases are run. It starts no subtest and no bubble, and can
// itself be called in one.
func Check(t *testing.T, open func(t *testing.T) store.Store, opts *Options, names ...string) []*Failure {
	t.Helper()
	o := opts.checked(t)
	var failures []*Failure
	for _, c := range cases() {
		if _, skipped := o.Skip[c.name]; skipped || len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		if f, _ := runCase(t, c, open, o); f != nil {
			failures = append(failures, f)
		}
	}
	return failures
}

// runCase runs one case, and returns its failure, or why the store is not asked for
// what the case checks.
func runCase(t *testing.T, c testCase, open func(t *testing.T) store.Store, o Options) (f *Failure, absent string) {
	e := newEnv(t, open, o)
	var wg sync.WaitGroup
	finished := false
	wg.Go(func() { // on a goroutine of its own, which fatalf ends
		defer e.end()
		c.run(e)
		finished = true
	})
	wg.Wait()
	errs, absent := e.rec.result()
	if !finished && len(errs) == 0 && absent == "" {
		t.FailNow() // t was failed on the wrong goroutine
	}
	if len(errs) == 0 {
		return nil, absent
	}
	return &Failure{Case: c.name, Rule: c.why, Errors: errs}, ""
}

// recorder collects what a case reports.
type recorder struct {
	mu     sync.Mutex
	errs   []string
	absent string
}

// maxErrors bounds what one case reports.
const maxErrors = 10

func (r *recorder) errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, fmt.Sprintf(format, args...))
	}
}

func (r *recorder) skip(absent string) {
	r.mu.Lock()
	r.absent = absent
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *recorder) result() (errs []string, absent string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.errs), r.absent
}

// newEnv opens a store for one case.
func newEnv(t *testing.T, open func(t *testing.T) store.Store, o Options) *env {
	e := &env{Options: o, rec: &recorder{}}
	e.a = open(t)
	e.b = e.a
	if o.Second != nil {
		e.b = o.Second(t, e.a)
	}
	if e.TTL == 0 {
		traits := store.TraitsOf(e.a)
		e.TTL = max(lease.MinRemoteTTL, traits.MinTTL)
		if traits.Local {
			e.TTL = max(lease.MinLocalTTL, traits.MinTTL)
		}
	}
	e.long = max(e.TTL, time.Minute)
	e.ctx, e.cancel = context.WithTimeout(t.Context(), o.Patience)
	return e
}

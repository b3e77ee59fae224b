// Package leasetest checks that package lease keeps its promises on a store.
//
//	func TestLeases(t *testing.T) {
//		leasetest.Run(t, func(t *testing.T) store.Store { return newStore(t) }, nil)
//	}
//
// Run package storetest first: it checks the contract of a register. This suite checks grants, takeovers,
// lost replies and contention. Most of its cases reproduce a failure of a real system.
//
// # Time
//
// If a case needs a lease that expires, it takes a lease of Options.TTL and waits. For a store in memory,
// run the suite in a bubble (Options.Bubble), where waiting takes no time. A slow machine makes no case
// fail in real time. A case fails only if an event comes too early, or not within Options.CaseTimeout.
package leasetest

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// Options adapt the suite to a store. The zero value suits a fast store.
type Options struct {
	// TTL is the TTL of the leases that expire during a case. Default: the shortest TTL that the
	// store allows. A case waits for up to three TTLs.
	TTL time.Duration

	// Second opens another store with the same registers, as another process does. The parameter is the
	// first store. Nil: there is only one store.
	Second func(t *testing.T, first store.Store) store.Store

	// Skip names the cases that Run does not run, each with the reason. If a name is
	// not the name of a case, the test fails.
	Skip map[string]string

	// Contenders is the number of clients that compete for one lock: at least 2. 0
	// means 8.
	Contenders int

	// CaseTimeout is the time after which the context of a case ends; 0 means a minute.
	CaseTimeout time.Duration

	// Parallel runs the cases at the same time. Most of their time they wait, so this
	// is faster.
	Parallel bool

	// Bubble runs each case in a bubble of testing/synctest, and also checks that
	// nothing happens too late. A store that communicates with anything outside its
	// process cannot run in a bubble.
	Bubble bool
}

// checked returns o with the defaults filled in that do not depend on the store.
func (o *Options) checked(t *testing.T) Options {
	t.Helper()
	c := *cmp.Or(o, &Options{})
	suitetest.Default(t, "leasetest", "Contenders", &c.Contenders, 8, 2)
	suitetest.Default(t, "leasetest", "Patience", &c.CaseTimeout, time.Minute, 1)
	suitetest.CheckSkips(t, "leasetest", c.Skip, Cases())
	return c
}

// A testCase checks one rule.
type testCase struct {
	Name string
	Why  string // the rule, in words that explain a failure
	Run  func(e *env)
}

// cases returns all cases, the plain ones first, so that the first failure is the
// simplest.
func cases() []suitetest.Case[*env] {
	return suitetest.Cases[*env](grantCases(), expiryCases(), faultCases(), sessionCases(), memberCases(), electionCases(), otherCases())
}

// Cases returns the names of all cases.
func Cases() []string { return suitetest.Names(cases()) }

// Run checks leases on the stores that open returns. Each case is a subtest with its own store. Each call
// of open returns a new, empty store. The function open must also register the functions that close its
// stores, with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) store.Store, opts *Options) {
	t.Helper()
	o := opts.checked(t)
	suitetest.Run(t, cases(), suitetest.Options{Skip: o.Skip, Parallel: o.Parallel, Bubble: o.Bubble}, setup(open, o))
}

// Failure describes a case that failed.
type Failure = suitetest.Failure

// Check runs the cases like [Run], one after the other. A failed case does not fail t: Check returns the
// failures. Use Check to show that a wrong store fails the suite. If the caller passes names, Check runs
// only these cases. Check starts no subtest and no bubble, so a test can call it in a bubble.
func Check(t *testing.T, open func(t *testing.T) store.Store, opts *Options, names ...string) []*Failure {
	t.Helper()
	o := opts.checked(t)
	return suitetest.Check(t, cases(), suitetest.Options{Skip: o.Skip}, setup(open, o), names...)
}

// setup opens a store for one case.
func setup(open func(t *testing.T) store.Store, o Options) suitetest.Setup[*env] {
	return func(t *testing.T, rec *suitetest.Recorder) (*env, func()) {
		e := &env{Options: o, Recorder: rec}
		e.a, e.b = suitetest.Open(t, open, o.Second)
		if e.TTL == 0 {
			traits := store.TraitsOf(e.a)
			e.TTL = max(lease.MinRemoteTTL, traits.MinTTL)
			if traits.Local {
				e.TTL = max(lease.MinLocalTTL, traits.MinTTL)
			}
		}
		e.long = max(e.TTL, time.Minute)
		e.ctx, e.cancel = context.WithTimeout(t.Context(), o.CaseTimeout)
		return e, e.end
	}
}

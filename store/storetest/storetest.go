// Package storetest checks that a store obeys the contract of package store.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { return newStore(t) }, nil)
//	}
//
// # What it checks
//
// Each case checks one rule of the contract, and its failure states the rule. Run the suite for a
// backend as it is, under [store.Prefix], and for every decorator. A decorator must keep the
// contract and the abilities of the store below it. The suite skips the cases of abilities that a
// store does not offer.
//
// A store that passes is not proven to be correct. No test can show that a race never happens, or which
// data survives a power cut. But most of the cases come from failures of real systems.
//
// # Histories
//
// A [History] records the calls of concurrent callers and their results. [History.Check] finds out
// whether one register for each key explains them. The suite uses it. Other tests can use it for real
// work on a store, also with faults.
package storetest

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store"
)

// Options adapt the suite to a store. The zero value suits a fast store.
type Options struct {
	// Reopen opens another store with the same registers, as another process does. The parameter is the
	// first store. If Reopen is set, half of the competing goroutines use the second store. The suite
	// also writes with each of the two stores, and reads with the other. Nil: there is only one store.
	Reopen func(t *testing.T, first store.Store) store.Store

	// Intercept opens another store with the same registers. The parameter is the first store. This
	// store calls the function carry for each request. It passes a function that sends the request and
	// receives the answer. To cut the connection, carry returns an error before or after it calls the
	// function. A backend over HTTP gives this store an [http.RoundTripper] that calls the function
	// carry. Several goroutines may call carry. Without Intercept the suite cannot check two rules: that
	// the store reports the true outcome of a failed write, and that a write does not become its own
	// conflict. The names of these cases begin with Disconnect.
	Intercept func(t *testing.T, first store.Store, carry func(request func() error) error) store.Store

	// Skip names the cases that this store is known to fail, each with the reason. If a
	// name is not the name of a case, the test fails.
	Skip map[string]string

	// With VerifySkips, Run also runs the cases of Skip. If one of them passes, the test
	// fails, because the exception is no longer necessary.
	VerifySkips bool

	// Racers is the number of goroutines that compete: at least 2. 0 means 16.
	Racers int

	// Rounds is the number of times that each race runs; 0 means 25. Set 1 for a store whose writes take
	// seconds.
	Rounds int

	// Keys is the number of keys in the test of a long listing. 0 means 1,100, which is more than one
	// page of any known store.
	Keys int

	// MaxKey is the length of the longest key that the store accepts, in bytes; 0 means
	// [store.MaxKey]. A store below a prefix accepts only shorter keys.
	MaxKey int

	// CaseTimeout is the time after which the context of a case ends; 0 means a minute.
	CaseTimeout time.Duration

	// Parallel runs the cases at the same time, and also the writes of a case to different
	// keys. Use it for stores that mostly wait.
	Parallel bool

	// Bubble runs each case in a bubble of testing/synctest, where the waits of a store
	// take no real time. A store that communicates with anything outside its process cannot
	// run in a bubble.
	Bubble bool
}

// checked returns o with its defaults filled in.
func (o *Options) checked(t *testing.T) Options {
	t.Helper()
	c := *cmp.Or(o, &Options{})
	suitetest.Default(t, "storetest", "Racers", &c.Racers, 16, 2)
	suitetest.Default(t, "storetest", "Rounds", &c.Rounds, 25, 1)
	suitetest.Default(t, "storetest", "Keys", &c.Keys, 1100, 1)
	suitetest.Default(t, "storetest", "MaxKey", &c.MaxKey, store.MaxKey, 128)
	if c.MaxKey > store.MaxKey {
		t.Fatalf("storetest: Options.MaxKey is %d; it must be at most %d", c.MaxKey, store.MaxKey)
	}
	suitetest.Default(t, "storetest", "CaseTimeout", &c.CaseTimeout, time.Minute, 1)
	suitetest.CheckSkips(t, "storetest", c.Skip, Cases())
	return c
}

// A testCase checks one rule.
type testCase struct {
	Name string
	Why  string // the rule, in words that explain a failure
	Run  func(e *env)
}

// cases returns all cases, in the order in which they run. The simple cases are first, so
// that the first failure is the simplest.
func cases() []suitetest.Case[*env] {
	return suitetest.Cases[*env](
		basicCases(), versionCases(), valueCases(), keyCases(), callCases(), resolveCases(), raceCases(),
		watchCases(), listCases(), unsyncedCases(), readCases(), decoratorCases(), presenceCases(), wakeCases(), disconnectCases(),
	)
}

// Cases returns the names of all cases.
func Cases() []string { return suitetest.Names(cases()) }

// Run checks the stores that the function open returns. Each case is a subtest with its own store. Each
// call of open returns a new, empty store. The function open must also register the functions that close
// its stores, with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) store.Store, opts *Options) {
	t.Helper()
	o := opts.checked(t)
	suitetest.Run(t, cases(), suitetest.Options{Skip: o.Skip, VerifySkips: o.VerifySkips, Parallel: o.Parallel, Bubble: o.Bubble}, setup(open, o))
}

// Failure describes a case that failed.
type Failure = suitetest.Failure

// Check runs the cases like [Run]. A failed case does not fail t: Check returns the failures. Use Check
// to test this suite, or to show that a wrong store fails it. Only a failure in the function open fails
// t.
//
// If the caller passes names, Check runs only these cases. The cases run one after the
// other, even if Options.Parallel is set. Options.Bubble has no effect: Check starts no
// subtest, so a test can call it in a bubble.
func Check(t *testing.T, open func(t *testing.T) store.Store, opts *Options, names ...string) []*Failure {
	t.Helper()
	o := opts.checked(t)
	return suitetest.Check(t, cases(), suitetest.Options{Skip: o.Skip}, setup(open, o), names...)
}

// setup opens the stores of a case.
func setup(open func(t *testing.T) store.Store, o Options) suitetest.Setup[*env] {
	return func(t *testing.T, rec *suitetest.Recorder) (*env, func()) {
		e := &env{Options: o, t: t, Recorder: rec, open: open}
		e.s, e.other = suitetest.Open(t, open, o.Reopen)
		e.ctx, e.cancel = context.WithTimeout(t.Context(), o.CaseTimeout)
		return e, e.cancel
	}
}

// Package storetest checks that a store keeps the contract of package store.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { return newStore(t) }, nil)
//	}
//
// # What it checks
//
// Each case stands for one rule of the contract, and says which when it fails. Run
// it for a backend as it is, under [store.Prefix], and for every decorator: a
// decorator must keep the contract, and the abilities, of the store below it.
// Abilities that a store does not offer are not asked of it.
//
// A pass does not prove a store right: no test can show that a race never happens,
// nor what a power cut leaves behind. But most of the cases stand for a failure
// that was seen in a real system.
//
// # Histories
//
// A [History] records what concurrent callers did to a store and saw in it, and
// [History.Check] tells whether one register for each key explains it. The suite
// uses it; so can any test that runs real work on a store, under faults too.
package storetest

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Options adapt the suite to a store. The zero value suits a fast one.
type Options struct {
	// Second opens another handle on the space of first, as another process would
	// have it. Where it is given, half of the racers use it, and what one handle
	// wrote is read through the other. Nil: there is only one handle.
	Second func(t *testing.T, first store.Store) store.Store

	// Skip names cases that this store is known to fail, each with the reason. A
	// name that is no case is an error.
	Skip map[string]string

	// VerifySkips runs the cases of Skip too, and fails when one of them passes: an
	// exception that is no longer needed is to be removed.
	VerifySkips bool

	// Racers is the number of goroutines that compete; 0 means 16, else at least 2.
	Racers int

	// Rounds is how often a race is repeated; 0 means 25. Stores whose writes take
	// seconds set 1.
	Rounds int

	// Keys is the number of keys of the long listing; 0 means 1,100, which is more
	// than a page of any known store.
	Keys int

	// MaxKey is the longest key that this space takes, in bytes; 0 means
	// [store.MaxKey]. A space below a prefix takes less.
	MaxKey int

	// Patience is how long a case may take before its context ends; 0 means a
	// minute.
	Patience time.Duration

	// Parallel runs the cases at the same time, for stores that mostly wait.
	Parallel bool

	// Bubble runs each case in a bubble of testing/synctest, where stores that wait
	// take no time. A store that talks to anything outside its process cannot be run
	// so.
	Bubble bool
}

// checked returns o with its defaults filled in.
func (o *Options) checked(t *testing.T) Options {
	t.Helper()
	var c Options
	if o != nil {
		c = *o
	}
	for _, d := range []struct {
		name     string
		value    *int
		def, min int
	}{
		{"Racers", &c.Racers, 16, 2},
		{"Rounds", &c.Rounds, 25, 1},
		{"Keys", &c.Keys, 1100, 1},
		{"MaxKey", &c.MaxKey, store.MaxKey, 128},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
		if *d.value < d.min {
			t.Fatalf("storetest: Options.%s is %d, at least %d is needed", d.name, *d.value, d.min)
		}
	}
	if c.MaxKey > store.MaxKey {
		t.Fatalf("storetest: Options.MaxKey is %d, no key is longer than %d", c.MaxKey, store.MaxKey)
	}
	if c.Patience == 0 {
		c.Patience = time.Minute
	}
	known := Cases()
	for _, name := range slices.Sorted(maps.Keys(c.Skip)) {
		if !slices.Contains(known, name) {
			t.Fatalf("storetest: Options.Skip names %q, which is no case", name)
		}
		if c.Skip[name] == "" {
			t.Fatalf("storetest: Options.Skip gives no reason for %q", name)
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

// cases returns all cases, in the order in which they run: the plain ones first, so
// that the first failure is the simplest.
func cases() []testCase {
	return slices.Concat(
		basicCases(), versionCases(), valueCases(), keyCases(), callCases(), raceCases(),
		watchCases(), listCases(), volatileCases(), readCases(), decoratorCases(), presenceCases(),
	)
}

// Cases returns the names of all cases.
func Cases() []string {
	var names []string
	for _, c := range cases() {
		names = append(names, c.name)
	}
	return names
}

// Run checks the store that open returns, each case as a subtest with a store of
// its own. open returns a fresh and empty space each time, and registers what is
// to be closed with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) store.Store, opts *Options) {
	t.Helper()
	o := opts.checked(t)
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			if o.Parallel {
				t.Parallel()
			}
			reason, skipped := o.Skip[c.name]
			if skipped && !o.VerifySkips {
				t.Skip(reason)
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
			case skipped && f == nil:
				t.Errorf("this case passes, remove it from Options.Skip (%q)", reason)
			case skipped:
				t.Skipf("%s\nfails as expected: %s", reason, f)
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
	Rule   string   // the rule of the contract that was broken
	Errors []string // what was seen
}

// String returns the failure in several lines.
func (f *Failure) String() string {
	return fmt.Sprintf("%s\nthe rule: %s", strings.Join(f.Errors, "\n"), f.Rule)
}

// Check runs the cases like [Run], but returns those that failed in place of
// failing t. It is for testing this suite, and for showing that a store is known to
// be wrong. Only what goes wrong in open fails t.
//
// With names, only these cases are run. Options.Bubble and Options.Parallel have no
// effect: Check starts no subtest, and so can itself be called in a bubble.
func Check(t *testing.T, open func(t *testing.T) store.Store, opts *Options, names ...string) []*Failure {
	t.Helper()
	o := opts.checked(t)
	var failures []*Failure
	for _, c := range cases() {
		if len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		if _, skipped := o.Skip[c.name]; skipped {
			continue
		}
		if f, _ := runCase(t, c, open, o); f != nil {
			failures = append(failures, f)
		}
	}
	return failures
}

// runCase runs one case on a recorder, and returns its failure, or why the store
// is not asked for what the case checks.
func runCase(t *testing.T, c testCase, open func(t *testing.T) store.Store, o Options) (f *Failure, absent string) {
	e := newEnv(t, open, o)
	done := make(chan struct{})
	finished := false
	go func() { // on a goroutine of its own, which Fatalf ends
		defer close(done)
		defer e.cancel()
		c.run(e)
		finished = true
	}()
	<-done
	errs, absent := e.rec.result()
	if !finished && len(errs) == 0 && absent == "" {
		// t.FailNow was called on the wrong goroutine, by an opener.
		t.FailNow()
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

// maxErrors bounds what one case reports; races can fail thousands of times.
const maxErrors = 10

func (r *recorder) errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch len(r.errs) {
	case maxErrors:
		r.errs = append(r.errs, "(and more)")
	case maxErrors + 1:
	default:
		r.errs = append(r.errs, fmt.Sprintf(format, args...))
	}
}

// skip ends the calling goroutine.
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

// Package suitetest runs the cases of the suites that check stores, buckets and leases:
// storetest, objecttest, leasetest.
//
// A case checks one rule, in its own environment, and reports failures to a [Recorder].
// The report of a failed case states the rule. So a suite can run as subtests, and can
// itself be tested with broken implementations.
package suitetest

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// Case checks one rule in an environment E.
type Case[E any] struct {
	Name string
	Why  string // the rule, in words that explain a failure
	Run  func(E)
}

// Cases joins cases of a package's own type.
func Cases[E any, C ~struct {
	Name string
	Why  string
	Run  func(E)
}](lists ...[]C) (all []Case[E]) {
	for _, list := range lists {
		for _, c := range list {
			all = append(all, Case[E](c))
		}
	}
	return all
}

// Names returns the names of the cases.
func Names[E any](cases []Case[E]) []string {
	names := make([]string, len(cases))
	for i := range cases {
		names[i] = cases[i].Name
	}
	return names
}

// Options say how cases are run.
type Options struct {
	Skip        map[string]string // cases that are not run, each with the reason
	VerifySkips bool              // they are run too, and one that passes is an error
	Parallel    bool              // all at the same time
	Bubble      bool              // each in a bubble of testing/synctest
}

// CheckSkips fails t if Skip names what is no case, or gives no reason.
func CheckSkips(t *testing.T, suite string, skip map[string]string, known []string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(skip)) {
		if !slices.Contains(known, name) {
			t.Fatalf("%s: Options.Skip names %q, which is no case", suite, name)
		}
		if skip[name] == "" {
			t.Fatalf("%s: Options.Skip gives no reason for %q", suite, name)
		}
	}
}

// Default sets a number, or a time, of a suite's options that is zero to its default, and
// fails t if another value is below the least.
func Default[N ~int | ~int64](t *testing.T, suite, option string, value *N, normal, least N) {
	t.Helper()
	if *value == 0 {
		*value = normal
	}
	if *value < least {
		t.Fatalf("%s: Options.%s is %v, at least %v is needed", suite, option, *value, least)
	}
}

// Open returns two handles on a new space: the second is another one if second can open it.
func Open[S any](t *testing.T, open func(t *testing.T) S, second func(t *testing.T, first S) S) (a, b S) {
	t.Helper()
	a = open(t)
	if second == nil {
		return a, a
	}
	return a, second(t, a)
}

// Race calls f with 0 to n-1, all at once, and returns when all calls have returned.
func Race(n int, f func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-start
			f(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

// Setup makes the environment of a case, and says how to end it.
type Setup[E any] func(t *testing.T, rec *Recorder) (env E, end func())

// Run runs the cases as subtests.
func Run[E any](t *testing.T, cases []Case[E], o Options, setup Setup[E]) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if o.Parallel {
				t.Parallel()
			}
			reason, skipped := o.Skip[c.Name]
			var f *Failure
			var why string // it is not asked for
			run := func(t *testing.T) { f, why = c.run(t, setup) }
			switch {
			case skipped && !o.VerifySkips:
				why = reason
			case o.Bubble:
				synctest.Test(t, run)
			default:
				run(t)
			}
			switch {
			case skipped && o.VerifySkips && f == nil:
				t.Errorf("this case passes, remove it from Options.Skip (%q)", reason)
			case skipped && o.VerifySkips:
				why = fmt.Sprintf("%s\nfails as expected: %s", reason, f)
			case f != nil:
				t.Error(f)
			}
			if why != "" {
				// The caller excluded the case with a reason, or the implementation does
				// not claim the ability: "passed" would be wrong.
				t.Skip(why)
			}
		})
	}
}

// Check runs the cases, or with names only those, and returns those that failed. It
// starts no subtest and no bubble.
func Check[E any](t *testing.T, cases []Case[E], o Options, setup Setup[E], names ...string) []*Failure {
	t.Helper()
	var failures []*Failure
	for _, c := range cases {
		if _, skipped := o.Skip[c.Name]; skipped || len(names) > 0 && !slices.Contains(names, c.Name) {
			continue
		}
		if f, _ := c.run(t, setup); f != nil {
			failures = append(failures, f)
		}
	}
	return failures
}

// run runs one case, and returns its failure, or why the case does not apply.
func (c *Case[E]) run(t *testing.T, setup Setup[E]) (f *Failure, absent string) {
	rec := &Recorder{}
	env, end := setup(t, rec)
	done := make(chan struct{})
	finished := false
	go func() { // on its own goroutine, which Fatalf ends
		defer close(done)
		defer end()
		c.Run(env)
		finished = true
	}()
	<-done
	errs, absent := rec.result()
	if !finished && len(errs) == 0 && absent == "" {
		t.FailNow() // it was called on the wrong goroutine, by an opener
	}
	if len(errs) == 0 {
		return nil, absent
	}
	return &Failure{Case: c.Name, Rule: c.Why, Errors: errs}, ""
}

// Failure describes a case that failed.
type Failure struct {
	Case   string
	Rule   string   // the rule that was broken
	Errors []string // what was seen
}

// String returns the failure in several lines.
func (f *Failure) String() string {
	return fmt.Sprintf("%s\nthe rule: %s", strings.Join(f.Errors, "\n"), f.Rule)
}

// Recorder collects what a case reports. Errorf may be called by any goroutine, the
// others only by that of the case.
type Recorder struct {
	mu     sync.Mutex
	errs   []string
	absent string
}

// maxErrors bounds what one case reports; races can fail thousands of times.
const maxErrors = 10

// Errorf reports an error.
func (r *Recorder) Errorf(format string, args ...any) {
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

// Fatalf reports an error and ends the case.
func (r *Recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// Absent ends the case: it does not apply here.
func (r *Recorder) Absent(why string) {
	r.mu.Lock()
	r.absent = why
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *Recorder) result() (errs []string, absent string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.errs), r.absent
}

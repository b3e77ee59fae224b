// Package suitetest runs the cases of the suites that check stores, buckets and leases:
// storetest, objecttest, leasetest.
//
// A case checks one rule, in its own environment, and reports failures to a [Recorder].
// The report of a failed case states the rule. So a suite can run as subtests, and can
// itself be tested with broken implementations.
package suitetest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/store"
)

// Case checks one rule in an environment E.
type Case[E any] struct {
	Name string
	Why  string // the rule as a text for the report of a failure
	Run  func(E)
}

// Cases converts the cases of a package to the type [Case], and joins them.
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

// Options say how [Run] runs the cases.
type Options struct {
	Skip        map[string]string // cases that do not run, each with the reason
	VerifySkips bool              // cases in Skip run, too, and a success of such a case is an error
	Parallel    bool              // all cases run at the same time
	Bubble      bool              // each case runs in a bubble of testing/synctest
}

// CheckSkips fails t if Skip names an unknown case, or gives no reason.
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

// Default sets an option of a suite to its default if the option is zero. If the option is less than the
// least value, Default fails t.
func Default[N ~int | ~int64](t *testing.T, suite, option string, value *N, normal, least N) {
	t.Helper()
	*value = cmp.Or(*value, normal)
	if *value < least {
		t.Fatalf("%s: Options.%s is %v, at least %v is needed", suite, option, *value, least)
	}
}

// Open returns two handles on a new space. If the function second is nil, both are the same handle.
func Open[S any](t *testing.T, open func(t *testing.T) S, second func(t *testing.T, first S) S) (a, b S) {
	t.Helper()
	a = open(t)
	if second == nil {
		return a, a
	}
	return a, second(t, a)
}

// Race calls f with the numbers 0 to n-1, all at the same time, and returns when all calls have returned.
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

// Setup creates the environment of a case, and returns a function that ends it.
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

// Check runs the cases one after the other, and returns those that failed. If names are given, it runs
// only these cases. It starts no subtest and no bubble.
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
	Errors []string // errors that the case reported
}

// String returns the failure in several lines.
func (f *Failure) String() string {
	return fmt.Sprintf("%s\nthe rule: %s", strings.Join(f.Errors, "\n"), f.Rule)
}

// Recorder collects the reports of a case. Any goroutine may call Errorf. Only the goroutine of the case
// may call the other methods.
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

// Must ends the case if a call returned an error.
func (r *Recorder) Must(what string, err error) {
	if err != nil {
		r.Fatalf("%s: %v (%v)", what, err, store.OutcomeOf(err))
	}
}

// OK reports the error of a call, and returns whether there was none. Any goroutine may call it.
func (r *Recorder) OK(what string, err error) bool {
	if err != nil {
		r.Errorf("%s: %v (%v)", what, err, store.OutcomeOf(err))
	}
	return err == nil
}

// ErrOf returns the error of a call whose other result does not count.
func ErrOf[T any](_ T, err error) error { return err }

// WantErr reports an error that does not match the error want.
func (r *Recorder) WantErr(what string, err, want error) {
	if !errors.Is(err, want) {
		r.Errorf("%s: got the error %v, want %q", what, err, want)
	}
}

// WantRefused reports an error that does not match the error want, or whose outcome is not NotApplied.
func (r *Recorder) WantRefused(what string, err, want error) {
	if !errors.Is(err, want) || store.OutcomeOf(err) != store.NotApplied {
		r.Errorf("%s: got the error %v (%v), want %q and the outcome NotApplied", what, err, store.OutcomeOf(err), want)
	}
}

// Absent ends the case, because it does not apply to this implementation.
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

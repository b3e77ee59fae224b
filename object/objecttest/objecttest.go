// Package objecttest checks that a bucket keeps the contract of package object.
//
//	func TestBucket(t *testing.T) {
//		objecttest.Run(t, func(t *testing.T) object.Bucket { return newBucket(t) }, nil)
//	}
//
// Each case stands for one rule of the contract, and says which when it fails.
//
// A bucket need not have every ability, but it must not pretend: what it lacks is
// named in [Options], and the suite checks that the bucket refuses it with
// [errors.ErrUnsupported] and changes nothing. An ability that is named there and
// works is an error as well.
package objecttest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/object"
)

// Options adapt the suite to a bucket. The zero value suits a fast one.
type Options struct {
	// Second opens another handle on the space of first, as another process would
	// have it. Where it is given, half of the racers use it, and what one handle
	// wrote is read through the other.
	Second func(t *testing.T, first object.Bucket) object.Bucket

	// Lacks names abilities that this bucket does not have, each with the reason.
	Lacks map[object.Ability]string

	// Skip names cases that this bucket is known to fail, each with the reason. A
	// name that is no case is an error.
	Skip map[string]string

	// VerifySkips runs the cases of Skip too, and fails when one of them passes.
	VerifySkips bool

	// Racers is the number of goroutines that compete; 0 means 16, else at least 2.
	Racers int

	// Rounds is how often a race is repeated; 0 means 25.
	Rounds int

	// Keys is the number of keys of the long listing; 0 means 1,100, which is more
	// than a page of any known store.
	Keys int

	// Large is the size of the large body in bytes; 0 means 1 MiB. To be of use it
	// is above the size from which the bucket uploads in parts.
	Large int

	// Patience is how long a case may take before its context ends; 0 means a
	// minute.
	Patience time.Duration
}

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
		{"Large", &c.Large, 1 << 20, 1 << 10},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
		if *d.value < d.min {
			t.Fatalf("objecttest: Options.%s is %d, at least %d is needed", d.name, *d.value, d.min)
		}
	}
	if c.Patience == 0 {
		c.Patience = time.Minute
	}
	known := Cases()
	for _, name := range slices.Sorted(maps.Keys(c.Skip)) {
		if !slices.Contains(known, name) {
			t.Fatalf("objecttest: Options.Skip names %q, which is no case", name)
		}
		if c.Skip[name] == "" {
			t.Fatalf("objecttest: Options.Skip gives no reason for %q", name)
		}
	}
	for a, reason := range c.Lacks {
		if !slices.Contains(object.Abilities(), a) || reason == "" {
			t.Fatalf("objecttest: Options.Lacks names %q with the reason %q", a, reason)
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

func cases() []testCase {
	return slices.Concat(basicCases(), readCases(), conditionCases(), copyCases(), listCases(), callCases(), raceCases())
}

// Cases returns the names of all cases.
func Cases() []string {
	var names []string
	for _, c := range cases() {
		names = append(names, c.name)
	}
	return names
}

// Run checks the buckets that open returns, each a new and empty one, by all cases
// of the suite, as subtests of t.
func Run(t *testing.T, open func(t *testing.T) object.Bucket, opts *Options) {
	t.Helper()
	o := opts.checked(t)
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			reason, skipped := o.Skip[c.name]
			if skipped && !o.VerifySkips {
				t.Skip(reason)
			}
			f, absent := runCase(t, c, open, o)
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

// Check runs the cases like [Run], or only those that are named, but returns those
// that failed in place of failing t. It is for testing this suite, and for showing
// that a bucket is known to be wrong.
func Check(t *testing.T, open func(t *testing.T) object.Bucket, opts *Options, names ...string) []*Failure {
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

// runCase returns the failure of a case, or why the bucket is not asked for what it
// checks.
func runCase(t *testing.T, c testCase, open func(t *testing.T) object.Bucket, o Options) (f *Failure, absent string) {
	e := newEnv(t, open, o)
	done := make(chan struct{})
	finished := false
	go func() { // on a goroutine of its own, which fatalf ends
		defer close(done)
		defer e.cancel()
		c.run(e)
		finished = true
	}()
	<-done
	errs, absent := e.rec.result()
	if !finished && len(errs) == 0 && absent == "" {
		t.FailNow() // called on the wrong goroutine, by an opener
	}
	if len(errs) == 0 {
		return nil, absent
	}
	return &Failure{Case: c.name, Rule: c.why, Errors: errs}, ""
}

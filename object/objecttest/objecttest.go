// Package objecttest checks that a bucket obeys the contract of package object.
//
//	func TestBucket(t *testing.T) {
//		objecttest.Run(t, func(t *testing.T) object.Bucket { return newBucket(t) }, nil)
//	}
//
// Each case checks one rule of the contract, and names that rule when it fails.
//
// A bucket need not have every ability. Name the missing abilities in [Options]. The suite then checks
// that such a call returns [errors.ErrUnsupported] and changes nothing. If such an ability works, the
// suite fails.
package objecttest

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/object"
)

// Options adapt the suite to a bucket. The zero value is for a fast bucket.
type Options struct {
	// Reopen opens a second handle on the same objects, as another process would do. If Reopen is not
	// nil, half of the racers use the second handle. The suite then also reads through one handle what
	// the other handle wrote.
	Reopen func(t *testing.T, first object.Bucket) object.Bucket

	// Unsupported names abilities that this bucket does not have, each with the reason.
	Unsupported map[object.Ability]string

	// Skip names cases that this bucket is known to fail, each with the reason. If a name is not the
	// name of a case, the test fails.
	Skip map[string]string

	// With VerifySkips, Run also runs the cases of Skip. If one of them passes, the test fails.
	VerifySkips bool

	// Racers is the number of goroutines that compete. It is at least 2; 0 means 16.
	Racers int

	// Rounds is the number of times that each race runs; 0 means 25.
	Rounds int

	// Keys is the number of keys in the test of a long listing. 0 means 1,100, which is more than one
	// page of any known store.
	Keys int

	// Large is the size of the large body in bytes; 0 means 1 MiB. Set it to more than the size from
	// which the bucket uploads in parts.
	Large int
}

func (o *Options) checked(t *testing.T) Options {
	t.Helper()
	c := *cmp.Or(o, &Options{})
	suitetest.Default(t, "objecttest", "Racers", &c.Racers, 16, 2)
	suitetest.Default(t, "objecttest", "Rounds", &c.Rounds, 25, 1)
	suitetest.Default(t, "objecttest", "Keys", &c.Keys, 1100, 1)
	suitetest.Default(t, "objecttest", "Large", &c.Large, 1<<20, 1<<10)
	suitetest.CheckSkips(t, "objecttest", c.Skip, Cases())
	for a, reason := range c.Unsupported {
		if !slices.Contains(object.Abilities(), a) || reason == "" {
			t.Fatalf("objecttest: Options.Unsupported names %q with the reason %q", a, reason)
		}
	}
	return c
}

// A testCase checks one rule.
type testCase struct {
	Name string
	Why  string // the rule, in words that explain a failure
	Run  func(e *env)
}

func cases() []suitetest.Case[*env] {
	return suitetest.Cases[*env](basicCases(), readCases(), conditionCases(), copyCases(), listCases(), callCases(), uploadCases(), raceCases())
}

// Cases returns the names of all cases.
func Cases() []string { return suitetest.Names(cases()) }

// Run runs all cases of the suite as subtests of t. Each call of open must return a new and empty
// bucket.
func Run(t *testing.T, open func(t *testing.T) object.Bucket, opts *Options) {
	t.Helper()
	o := opts.checked(t)
	suitetest.Run(t, cases(), suitetest.Options{Skip: o.Skip, VerifySkips: o.VerifySkips}, setup(open, o))
}

// Failure is a case that failed.
type Failure = suitetest.Failure

// Check runs the cases like [Run]. If names are given, it runs only these cases. It returns the cases
// that failed, and does not fail t. Use Check to test this suite, or to show that a wrong bucket fails
// it.
func Check(t *testing.T, open func(t *testing.T) object.Bucket, opts *Options, names ...string) []*Failure {
	t.Helper()
	o := opts.checked(t)
	return suitetest.Check(t, cases(), suitetest.Options{Skip: o.Skip}, setup(open, o), names...)
}

// setup opens what a case works with.
func setup(open func(t *testing.T) object.Bucket, o Options) suitetest.Setup[*env] {
	return func(t *testing.T, rec *suitetest.Recorder) (*env, func()) {
		e := &env{Options: o, t: t, Recorder: rec}
		e.b, e.other = suitetest.Open(t, open, o.Reopen)
		e.ctx, e.cancel = context.WithTimeout(t.Context(), time.Minute)
		return e, e.cancel
	}
}

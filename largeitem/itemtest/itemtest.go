// Package itemtest checks that a table keeps the contract of [largeitem.Table].
//
//	func TestTable(t *testing.T) {
//		itemtest.Run(t, func(t *testing.T) largeitem.Table { return newTable(t) }, nil)
//	}
//
// Each case checks one rule of the contract, and names that rule when it fails. [Faulty]
// makes the calls of a table fail.
package itemtest

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/largeitem"
)

// Options adapt the suite to a table. The zero value suits a fast one.
type Options struct {
	// Reopen opens another handle on the table of first, as another process would have
	// it. Where it is given, half of the racers use it, and what one handle wrote is read
	// through the other.
	Reopen func(t *testing.T, first largeitem.Table) largeitem.Table

	// Add returns an expression for [largeitem.Change] that adds n to the number attr, and
	// Above one for [largeitem.Condition] that holds where the number attr is above n. Nil:
	// the table has no expressions.
	Add, Above func(attr string, n int) any

	// Skip names cases that this table is known to fail, each with the reason. A name
	// that is no case is an error.
	Skip map[string]string

	// Racers is the number of goroutines that compete; 0 means 8, else at least 2.
	Racers int

	// Rounds is how often a race is repeated; 0 means 20.
	Rounds int

	// Items is the number of items of the long scan; 0 means 1,100.
	Items int

	// Large is the size of the largest item that the table keeps, in bytes, counted by
	// [largeitem.Schema].ItemSize, of ASCII text; 0 means that of its schema.
	Large int
}

func (o *Options) checked(t *testing.T) Options {
	t.Helper()
	c := *cmp.Or(o, &Options{})
	suitetest.Default(t, "itemtest", "Racers", &c.Racers, 8, 2)
	suitetest.Default(t, "itemtest", "Rounds", &c.Rounds, 20, 1)
	suitetest.Default(t, "itemtest", "Items", &c.Items, 1100, 3)
	suitetest.CheckSkips(t, "itemtest", c.Skip, Cases())
	return c
}

// A testCase checks one rule.
type testCase struct {
	Name string
	Why  string // the rule, in words that explain a failure
	Run  func(e *env)
}

func cases() []suitetest.Case[*env] {
	return suitetest.Cases[*env](basicCases(), conditionCases(), callCases(), scanCases(), raceCases())
}

// Cases returns the names of all cases.
func Cases() []string { return suitetest.Names(cases()) }

// Run checks the tables that open returns, each a new and empty one, by all cases of the
// suite, as subtests of t.
func Run(t *testing.T, open func(t *testing.T) largeitem.Table, opts *Options) {
	t.Helper()
	o := opts.checked(t)
	suitetest.Run(t, cases(), suitetest.Options{Skip: o.Skip}, setup(open, o))
}

// Failure is a case that failed.
type Failure = suitetest.Failure

// Check runs the cases like [Run], or only those that are named, but returns those that
// failed in place of failing t. It is for testing this suite, and for showing that a table
// is known to be wrong.
func Check(t *testing.T, open func(t *testing.T) largeitem.Table, opts *Options, names ...string) []*Failure {
	t.Helper()
	o := opts.checked(t)
	return suitetest.Check(t, cases(), suitetest.Options{Skip: o.Skip}, setup(open, o), names...)
}

// setup opens what a case works with.
func setup(open func(t *testing.T) largeitem.Table, o Options) suitetest.Setup[*env] {
	return func(t *testing.T, rec *suitetest.Recorder) (*env, func()) {
		e := &env{Options: o, rec: rec}
		e.t, e.other = suitetest.Open(t, open, o.Reopen)
		e.ctx, e.cancel = context.WithTimeout(t.Context(), time.Minute)
		var err error
		if e.schema, err = e.t.Schema(e.ctx); err != nil {
			t.Fatalf("itemtest: schema: %v", err)
		}
		if e.schema.MaxItem == 0 {
			e.schema.MaxItem = largeitem.MaxItem
		}
		if e.Large == 0 {
			e.Large = e.schema.MaxItem
		}
		return e, e.cancel
	}
}

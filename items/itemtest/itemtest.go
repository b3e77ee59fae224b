// Package itemtest checks that a table obeys the contract of [largeitem.Table].
//
//	func TestTable(t *testing.T) {
//		itemtest.Run(t, func(t *testing.T) largeitem.Table { return newTable(t) }, nil)
//	}
//
// Each case checks one rule of the contract. If a case fails, its message names the rule. [Faulty]
// makes the calls of a table fail.
package itemtest

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/items/largeitem"
)

// Options adapt the suite to a table. The zero value suits a fast table.
type Options struct {
	// Reopen opens a second handle on the same table, as another process would do. If Reopen is not nil,
	// half of the competing goroutines use the second handle. The suite then also reads through one
	// handle what the other handle wrote.
	Reopen func(t *testing.T, first largeitem.Table) largeitem.Table

	// Add returns an expression for [largeitem.Change] that adds n to the number in the attribute
	// attr. Above returns an expression for [largeitem.Condition] that holds if the number in attr
	// is greater than n. Nil means that the table has no expressions.
	Add, Above func(attr string, n int) any

	// Skip maps the names of cases that this table is known to fail to the reasons. If a name is
	// not the name of a case, the test fails.
	Skip map[string]string

	// Racers is the number of goroutines that compete in a race, at least 2; 0 means 8.
	Racers int

	// Rounds is the number of times that each race runs; 0 means 20.
	Rounds int

	// Items is the number of items in the test of a long scan; 0 means 1,100.
	Items int

	// Large is the size in bytes of the largest item of ASCII text that the table can store.
	// [largeitem.Schema].ItemSize counts the bytes. 0 means the MaxItem of the table's schema.
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

// Run runs all cases of the suite as subtests of t. Each call of open must return a new and empty
// table.
func Run(t *testing.T, open func(t *testing.T) largeitem.Table, opts *Options) {
	t.Helper()
	o := opts.checked(t)
	suitetest.Run(t, cases(), suitetest.Options{Skip: o.Skip}, setup(open, o))
}

// Failure is a case that failed.
type Failure = suitetest.Failure

// Check runs the cases like [Run]. If names are given, it runs only these cases. It returns the
// cases that failed, and does not fail t. Use Check to test this suite, or to show that a table is
// wrong.
func Check(t *testing.T, open func(t *testing.T) largeitem.Table, opts *Options, names ...string) []*Failure {
	t.Helper()
	o := opts.checked(t)
	return suitetest.Check(t, cases(), suitetest.Options{Skip: o.Skip}, setup(open, o), names...)
}

// setup opens what a case works with.
func setup(open func(t *testing.T) largeitem.Table, o Options) suitetest.Setup[*env] {
	return func(t *testing.T, rec *suitetest.Recorder) (*env, func()) {
		e := &env{Options: o, Recorder: rec}
		e.t, e.other = suitetest.Open(t, open, o.Reopen)
		e.ctx, e.cancel = context.WithTimeout(t.Context(), time.Minute)
		var err error
		if e.schema, err = e.t.Schema(e.ctx); err != nil {
			t.Fatalf("itemtest: schema: %v", err)
		}
		e.schema.MaxItem = cmp.Or(e.schema.MaxItem, largeitem.MaxItem)
		e.Large = cmp.Or(e.Large, e.schema.MaxItem)
		return e, e.cancel
	}
}

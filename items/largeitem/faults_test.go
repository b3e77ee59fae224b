package largeitem_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/items/itemtest"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// scenario is one operation on one item.
type scenario struct {
	name   string
	before string // what the item is before; "" if there is none
	after  string // what the operation makes of it
	setup  func(w *world)
	run    func(ctx context.Context, s *largeitem.Store, table largeitem.Table) error
}

var k1 = key("a/b=!c")

const old = `item body=old image=pic title="t"`

func setupOld(w *world) { w.create(k1, attrs{"title": "t"}, texts("body", "old", "image", "pic")) }

func ignore(_ *largeitem.Result, err error) error { return err }

// scenarios are all operations. Each has an item before it, or none.
var scenarios = []scenario{
	{"create", "", "item body=new image=pic2 title=\"t\"", nil, func(ctx context.Context, s *largeitem.Store, _ largeitem.Table) error {
		return ignore(s.Create(ctx, k1, attrs{"title": "t"}, texts("body", "new", "image", "pic2"), nil))
	}},
	{"update", old, "item body=new image=pic title=\"t\"", setupOld, func(ctx context.Context, s *largeitem.Store, _ largeitem.Table) error {
		return ignore(s.Update(ctx, k1, largeitem.Change{}, texts("body", "new"), nil))
	}},
	{"update all", old, "item body=new image=pic2 note=\"n\" title=\"u\"", setupOld, func(ctx context.Context, s *largeitem.Store, _ largeitem.Table) error {
		return ignore(s.Update(ctx, k1, largeitem.Change{Set: attrs{"title": "u", "note": "n"}}, large{"body": stream("new"), "image": stream("pic2")}, nil))
	}},
	{"update, one kept", old, "item body=new image=pic title=\"t\"", setupOld, func(ctx context.Context, s *largeitem.Store, _ largeitem.Table) error {
		return ignore(s.Update(ctx, k1, largeitem.Change{}, texts("body", "new", "image", "pic"), nil))
	}},
	{"update, one removed", old, "item body=new title=\"t\"", setupOld, func(ctx context.Context, s *largeitem.Store, _ largeitem.Table) error {
		return ignore(s.Update(ctx, k1, largeitem.Change{Remove: []string{"image"}}, texts("body", "new"), nil))
	}},
	{"update, one new", old, "item body=old extra=x image=pic title=\"t\"", setupOld, func(ctx context.Context, s *largeitem.Store, _ largeitem.Table) error {
		return ignore(s.Update(ctx, k1, largeitem.Change{}, texts("extra", "x"), nil))
	}},
	{"update without large attributes", old, "item image=pic title=\"u\"", setupOld, func(ctx context.Context, s *largeitem.Store, _ largeitem.Table) error {
		return ignore(s.Update(ctx, k1, largeitem.Change{Set: attrs{"title": "u"}, Remove: []string{"body"}}, nil, nil))
	}},
	{"upsert of nothing", "", "item body=new title=\"u\"", nil, func(ctx context.Context, s *largeitem.Store, _ largeitem.Table) error {
		return ignore(s.Upsert(ctx, k1, largeitem.Change{Set: attrs{"title": "u"}}, texts("body", "new"), nil))
	}},
	{"upsert", old, "item body=new image=pic title=\"u\"", setupOld, func(ctx context.Context, s *largeitem.Store, _ largeitem.Table) error {
		return ignore(s.Upsert(ctx, k1, largeitem.Change{Set: attrs{"title": "u"}}, texts("body", "new"), nil))
	}},
	{"replace of nothing", "", "item body=new", nil, func(ctx context.Context, s *largeitem.Store, _ largeitem.Table) error {
		return ignore(s.Replace(ctx, k1, nil, texts("body", "new"), nil))
	}},
	{"replace", old, "item body=new note=\"n\"", setupOld, func(ctx context.Context, s *largeitem.Store, _ largeitem.Table) error {
		return ignore(s.Replace(ctx, k1, attrs{"note": "n"}, texts("body", "new"), nil))
	}},
	{"replace, one kept", old, "item body=new image=pic", setupOld, func(ctx context.Context, s *largeitem.Store, _ largeitem.Table) error {
		return ignore(s.Replace(ctx, k1, nil, texts("body", "new", "image", "pic"), nil))
	}},
	{"delete", old, "", setupOld, func(ctx context.Context, s *largeitem.Store, _ largeitem.Table) error {
		return ignore(s.Delete(ctx, k1, nil))
	}},
	{"delete of what was read", old, "", setupOld, func(ctx context.Context, s *largeitem.Store, _ largeitem.Table) error {
		item, err := s.GetMeta(ctx, k1)
		if err != nil {
			return store.MarkNotApplied(err)
		}
		return ignore(s.Delete(ctx, k1, &largeitem.DeleteOptions{Base: item}))
	}},
	{"prepare and commit", old, "item body=new image=pic title=\"v\"", setupOld, func(ctx context.Context, s *largeitem.Store, table largeitem.Table) error {
		return twoSteps(ctx, s, table, true)
	}},
	{"prepare and commit a new item", "", "item body=new image=pic title=\"v\"", nil, func(ctx context.Context, s *largeitem.Store, table largeitem.Table) error {
		return twoSteps(ctx, s, table, true)
	}},
	{"prepare and abort", old, old, setupOld, func(ctx context.Context, s *largeitem.Store, table largeitem.Table) error {
		return twoSteps(ctx, s, table, false)
	}},
}

// twoSteps is a program that writes the item itself. It returns the outcome of its write.
func twoSteps(ctx context.Context, s *largeitem.Store, table largeitem.Table, write bool) error {
	p, err := s.Prepare(ctx, k1, texts("body", "new", "image", "pic"), nil)
	if err != nil {
		return err
	}
	if !write {
		return p.Abort(ctx)
	}
	change, cond := p.Change(), p.Condition()
	change.Set["title"] = "v"
	_, err = table.Update(ctx, k1, change, &cond)
	switch store.OutcomeOf(err) {
	case store.NotApplied:
		if abortErr := p.Abort(ctx); errors.Is(abortErr, largeitem.ErrCommitted) {
			return nil // a repeated request: the first copy was applied
		}
		return err
	case store.Unknown:
		if _, commitErr := p.Commit(ctx); commitErr == nil {
			return nil
		}
		return store.MarkUnknown(err)
	}
	if _, err := p.Commit(ctx); err != nil && store.OutcomeOf(err) != store.Unknown {
		return err
	}
	return nil
}

// schedule has the fault of the first calls, and of all that follow.
type schedule struct {
	faults []objecttest.Fault
	rest   objecttest.Fault
}

func (s schedule) decide(c objecttest.Call) objecttest.Fault {
	if c.N <= len(s.faults) {
		return s.faults[c.N-1]
	}
	return s.rest
}

// schedules are all combinations of these faults in the first n calls, each with the rest
// passing and, where something failed, with the process dead afterwards.
func schedules(n int, faults ...objecttest.Fault) (all []schedule) {
	var add func(s []objecttest.Fault)
	add = func(s []objecttest.Fault) {
		if len(s) > 0 {
			all = append(all, schedule{slices.Clone(s), objecttest.Pass}, schedule{slices.Clone(s), objecttest.Cut})
		}
		if len(s) == n {
			return
		}
		for _, f := range faults {
			add(append(s, f))
		}
	}
	add(nil)
	// Those that only end in passing calls are there without that end already.
	return slices.DeleteFunc(all, func(s schedule) bool {
		return s.rest == objecttest.Pass && s.faults[len(s.faults)-1] == objecttest.Pass
	})
}

// removing are options with which the most is removed.
func removing() *largeitem.Options {
	return &largeitem.Options{RemoveSuperseded: true, RemoveYoung: true, RemoveFailed: true, Parallel: 1}
}

// TestEveryCallFaulty: whatever fails, and wherever the process dies, what an item refers
// to is there, and the outcome that a caller got is what happened.
func TestEveryCallFaulty(t *testing.T) {
	all := slices.Concat(
		schedules(4, objecttest.Pass, objecttest.Fail, objecttest.Lose),
		schedules(3, objecttest.Pass, objecttest.Late, objecttest.Repeat, objecttest.Lose),
	)
	for n := range 12 { // single faults further on
		pass := make([]objecttest.Fault, n)
		for _, f := range []objecttest.Fault{objecttest.Fail, objecttest.Lose, objecttest.Late, objecttest.Repeat, objecttest.Cut} {
			all = append(all, schedule{append(slices.Clone(pass), f), objecttest.Pass})
		}
		all = append(all, schedule{append(slices.Clone(pass), objecttest.Lose), objecttest.Cut}, schedule{append(slices.Clone(pass), objecttest.Late), objecttest.Cut})
	}
	for _, c := range scenarios {
		t.Run(c.name, func(t *testing.T) {
			for _, s := range all {
				synctest.Test(t, func(t *testing.T) { runFaulty(t, c, s) })
				if t.Failed() {
					t.Fatalf("with the faults %v, then %v", s.faults, s.rest)
				}
			}
		})
	}
}

func runFaulty(t *testing.T, c scenario, s schedule) {
	w := newWorld(t, nil)
	if c.setup != nil {
		c.setup(w)
	}
	expectText(t, "before", w.contents(k1), c.before)
	faults := objecttest.NewFaults(s.decide)
	table := itemtest.NewFaulty(w.table, faults)
	err := c.run(t.Context(), w.open(table, faults.Bucket(w.bucket), removing()), table)
	outcome := store.OutcomeOf(err)
	for _, when := range []string{"at once", "when late calls have come"} {
		now := w.contents(k1)
		switch {
		case now != c.before && now != c.after:
			t.Errorf("%s: the item is %s", when, now)
		case outcome == store.Applied && now != c.after, outcome == store.NotApplied && now != c.before:
			t.Errorf("%s: the outcome is %v (%v), and the item is %q", when, outcome, err, now)
		}
		faults.Deliver()
	}
	if err != nil && c.before != "" && !strings.Contains(err.Error(), "a fault of the test") && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the error does not tell its cause: %v", err)
	}
	sweepUp(t, w)
}

// sweepUp shows that a sweep removes all that is left over, and nothing else.
func sweepUp(t *testing.T, w *world) {
	t.Helper()
	before := w.contents(k1)
	time.Sleep(largeitem.DefaultOrphanAge + time.Second)
	if _, err := w.store.Sweep(t.Context(), nil); err != nil {
		t.Errorf("sweep: %v", err)
	}
	if left := w.orphans(); len(left) > 0 {
		t.Errorf("a sweep has left %q", left)
	}
	expectText(t, "the item after a sweep", w.contents(k1), before)
}

package largeitem_test

import (
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// prepare prepares new contents of the item of setupOld.
func (w *world) prepare(opts *largeitem.WriteOptions) *largeitem.PreparedWrite {
	w.t.Helper()
	p, err := w.store.Prepare(w.t.Context(), k1, texts("body", "new", "image", "pic"), opts)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// apply is the caller's own write.
func (w *world) apply(p *largeitem.PreparedWrite) error {
	change, cond := p.Change(), p.Condition()
	_, err := w.table.Update(w.t.Context(), k1, change, &cond)
	return err
}

// TestPrepare: what is prepared is in the bucket, and the item is as it was.
func TestPrepare(t *testing.T) {
	w := newWorld(t, removing())
	setupOld(w)
	p := w.prepare(nil)
	if puts := p.Puts(); len(puts) != 2 || puts[0].Attr != "body" || !puts[0].Uploaded || puts[1].Attr != "image" || puts[1].Uploaded {
		t.Errorf("puts: %+v", puts)
	}
	refs, set := p.References(), p.Change().Set
	if len(refs) != 2 || len(set) != 2 || set["body"] != refs["body"] || set["image"] != refs["image"] {
		t.Errorf("references %q, change %q", refs, set)
	}
	cond := p.Condition()
	if !cond.Exists || len(cond.Equal) != 2 || cond.Equal["image"] != refs["image"] || cond.Equal["body"] == refs["body"] {
		t.Errorf("the condition is %+v", cond)
	}
	maps.DeleteFunc(cond.Equal, func(string, any) bool { return true }) // the caller's own copy
	expectText(t, "the item", w.contents(k1), old)
	if err := w.apply(p); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r, err := p.Commit(t.Context())
		if err != nil || len(r.Superseded) != 1 || r.Removed != 1 {
			t.Errorf("commit: %+v, %v", r, err)
		}
		if err := p.Abort(t.Context()); !errors.Is(err, largeitem.ErrCommitted) {
			t.Errorf("abort of what was committed: %v", err)
		}
	}
	expectText(t, "the item", w.contents(k1), "item body=new image=pic title=\"t\"")
	if left := w.orphans(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// TestPrepareNew: where there is no item, the write must create it.
func TestPrepareNew(t *testing.T) {
	w := newWorld(t, nil)
	p := w.prepare(nil)
	if cond := p.Condition(); !cond.Absent || cond.Exists || len(cond.Equal) > 0 {
		t.Errorf("the condition is %+v", cond)
	}
	other := w.prepare(nil)
	for i, p := range []*largeitem.PreparedWrite{other, p} {
		if err := w.apply(p); (i == 0) != (err == nil) {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if err := p.Abort(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := other.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if left := w.orphans(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// TestCommitOfNothing: Commit and Abort remove nothing that they do not know to be unused.
func TestCommitOfNothing(t *testing.T) {
	w := newWorld(t, removing())
	setupOld(w)
	p := w.prepare(nil)
	before := len(w.objects())
	if _, err := p.Commit(t.Context()); store.OutcomeOf(err) != store.Unknown || err == nil {
		t.Errorf("commit before the write: %v (%v)", err, store.OutcomeOf(err))
	}
	if len(w.objects()) != before {
		t.Error("it has removed something")
	}
	if err := w.apply(p); err != nil {
		t.Fatal(err)
	}
	w.update(w.store, "newer")
	if _, err := p.Commit(t.Context()); store.OutcomeOf(err) != store.Unknown {
		t.Errorf("commit after another write: %v", err)
	}
	expectText(t, "the item", w.contents(k1), "item body=newer image=pic title=\"t\"")

	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		unreadable := w.process(func(c objecttest.Call) objecttest.Fault {
			if c.N > 3 { // get, the marker, put
				return objecttest.Fail
			}
			return objecttest.Pass
		}, removing())
		if err := w.store.ClaimPrefix(t.Context()); err != nil {
			t.Fatal(err)
		}
		p, err := unreadable.Prepare(t.Context(), k1, texts("body", "x"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.apply(p); err != nil {
			t.Fatal(err)
		}
		_, commitErr := p.Commit(t.Context())
		if err := p.Abort(t.Context()); store.OutcomeOf(err) != store.Unknown || store.OutcomeOf(commitErr) != store.Unknown {
			t.Errorf("an item that cannot be read: %v, %v", err, commitErr)
		}
		expectText(t, "the item", w.contents(k1), "item body=x")
	})
}

// TestPrepareWithBase: an item that was read saves the read, and is what the write is
// conditional on.
func TestPrepareWithBase(t *testing.T) {
	w := newWorld(t, nil)
	setupOld(w)
	item, err := w.store.GetMeta(t.Context(), k1)
	if err != nil {
		t.Fatal(err)
	}
	w.update(w.store, "other")
	p := w.prepare(&largeitem.WriteOptions{Base: item})
	if err := w.apply(p); !errors.Is(err, store.ErrConflict) {
		t.Errorf("got %v", err)
	}
	if err := p.Abort(t.Context()); err != nil {
		t.Error(err)
	}
	expectText(t, "the item", w.contents(k1), "item body=other image=pic title=\"t\"")
}

// TestCommitAfterAbort: what Abort has removed is missed by Commit, if the write was made
// after all.
func TestCommitAfterAbort(t *testing.T) {
	w := newWorld(t, removing())
	setupOld(w)
	p := w.prepare(nil)
	if err := p.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.apply(p); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Commit(t.Context()); !errors.Is(err, largeitem.ErrMissing) || store.OutcomeOf(err) != store.Applied {
		t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
	}
}

// TestCommitLate: after the deadline Commit looks for what the item refers to, and not for
// what another writer has replaced.
func TestCommitLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, removing())
		p, err := w.store.Prepare(t.Context(), k1, texts("body", "new", "image", "pic"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.apply(p); err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.Update(t.Context(), k1, largeitem.Change{}, texts("image", "newer"), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Hour)
		if _, err := p.Commit(t.Context()); err != nil {
			t.Error(err)
		}
		expectText(t, "the item", w.contents(k1), "item body=new image=newer")
	})
}

// TestDeadlineOfASleepingMachine: the deadline is compared by the wall clock, which continues
// while the machine sleeps; and it does not move into the future when that clock is set back.
func TestDeadlineOfASleepingMachine(t *testing.T) {
	w := newWorld(t, nil)
	setupOld(w)
	if d := w.prepare(nil).Deadline(); d != d.Round(0) {
		t.Errorf("the deadline %v is by a clock that stands still while the machine sleeps", d)
	}
}

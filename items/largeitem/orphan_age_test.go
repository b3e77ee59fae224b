package largeitem_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

func graceOf(d time.Duration) *largeitem.Options { return &largeitem.Options{OrphanAge: d} }

// refusedGrace checks that a call was refused for the orphan age of the table, before it did
// anything, and that the error says the table's orphan age.
func refusedGrace(t *testing.T, what string, err error, table time.Duration) {
	t.Helper()
	var g *largeitem.OrphanAgeError
	if !errors.As(err, &g) || !errors.Is(err, store.ErrMisconfigured) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("%s: got %v (%v), want a OrphanAgeError", what, err, store.OutcomeOf(err))
		return
	}
	if g.Table != table || !strings.Contains(err.Error(), table.String()) || !strings.Contains(err.Error(), "ChangeOrphanAge") {
		t.Errorf("%s: %v, want the table's grace %v and what changes it", what, err, table)
	}
}

// TestShortSweepDuringSlowWrite: a sweep with a shorter orphan age than that of a writer cannot
// remove what the writer is about to refer to.
func TestShortSweepDuringSlowWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		slowly := w.process(func(c objecttest.Call) objecttest.Fault {
			if c.Op == "put" && c.Key == k1.String() {
				time.Sleep(10 * time.Hour) // within half of the default
			}
			return objecttest.Pass
		}, nil)
		done := make(chan error)
		go func() {
			_, err := slowly.Create(t.Context(), k1, nil, texts("body", "new"), nil)
			done <- err
		}()
		time.Sleep(5 * time.Hour)
		swept, err := w.open(w.table, w.bucket, graceOf(time.Hour)).Sweep(t.Context(), nil)
		refusedGrace(t, "a sweep", err, 24*time.Hour)
		if swept.Deleted > 0 {
			t.Errorf("%d objects removed", swept.Deleted)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		expectText(t, "the item", w.contents(k1), "item body=new")
	})
}

// TestGraceOfTable: the first program says the orphan age of a table. A writer may have a shorter
// one, and a sweep a longer one. One that says none has that of the table.
func TestGraceOfTable(t *testing.T) {
	w := newWorld(t, graceOf(48*time.Hour))
	w.create(k1, nil, texts("body", "new"))
	for grace, writes := range map[time.Duration]bool{0: true, time.Hour: true, 48 * time.Hour: true, 49 * time.Hour: false} {
		s := w.open(w.table, w.bucket, graceOf(grace))
		before := len(w.objects())
		_, err := s.Replace(t.Context(), k1, nil, texts("body", "newer "+grace.String()), nil)
		if writes && err != nil {
			t.Errorf("a write with %v: %v", grace, err)
		} else if !writes {
			refusedGrace(t, "a write", err, 48*time.Hour)
			if n := len(w.objects()); n != before {
				t.Errorf("%d objects were uploaded", n-before)
			}
			refusedGrace(t, "Mark", s.ClaimPrefix(t.Context()), 48*time.Hour)
		}
		_, err = s.Sweep(t.Context(), nil)
		if sweeps := grace == 0 || grace >= 48*time.Hour; sweeps && err != nil {
			t.Errorf("a sweep with %v: %v", grace, err)
		} else if !sweeps {
			refusedGrace(t, "a sweep", err, 48*time.Hour)
		}
	}
}

// TestGraceIsTheTables: a program that says no orphan age takes as long as the table allows, and
// keeps objects for as long.
func TestGraceIsTheTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graceOf(48*time.Hour))
		if err := w.store.ClaimPrefix(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := w.open(w.table, w.bucket, nil)
		for took, fits := range map[time.Duration]bool{23 * time.Hour: true, 24 * time.Hour: false} {
			body := &slow{strings.NewReader("text"), took, 1}
			if _, err := s.Replace(t.Context(), k1, nil, large{"body": {Body: onlyReader{body}}}, nil); (err == nil) != fits {
				t.Errorf("an upload of %v: %v", took, err)
			}
		}
		p, err := s.Prepare(t.Context(), k1, texts("body", "prepared"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Until(p.Deadline()); d.Round(time.Second) != 24*time.Hour {
			t.Errorf("the deadline of what is prepared is in %v", d)
		}
		time.Sleep(47 * time.Hour)
		if swept, err := s.Sweep(t.Context(), nil); err != nil || swept.TooYoung == 0 {
			t.Errorf("%+v, %v", swept, err)
		}
	})
}

// TestMarkerWithoutGrace: a marker that says no orphan age, as those of earlier versions, means
// for the default.
func TestMarkerWithoutGrace(t *testing.T) {
	w := newWorld(t, nil)
	schema, err := w.table.Schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := `{"table":"` + schema.ID + `","name":"` + schema.Name + `"}`
	if _, err := w.bucket.Put(t.Context(), "items/.table", strings.NewReader(text), nil); err != nil {
		t.Fatal(err)
	}
	w.create(k1, nil, texts("body", "new"))
	_, err = w.open(w.table, w.bucket, graceOf(25*time.Hour)).Replace(t.Context(), k1, nil, texts("body", "newer"), nil)
	refusedGrace(t, "a write", err, 24*time.Hour)
	_, err = w.open(w.table, w.bucket, graceOf(23*time.Hour)).Sweep(t.Context(), nil)
	refusedGrace(t, "a sweep", err, 24*time.Hour)
	if _, err := w.store.Sweep(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if err := w.store.ChangeOrphanAge(t.Context(), 2*time.Hour); err != nil {
		t.Error(err)
	}
}

// TestLongerGrace: a longer orphan age holds at once, also for a sweep that is under way.
func TestLongerGrace(t *testing.T) {
	for _, scan := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, graceOf(2*time.Hour))
			for i := range 3 {
				w.create(key(fmt.Sprint("gone", i)), nil, texts("body", "new"))
			}
			time.Sleep(3 * time.Hour)
			entered, goOn := make(chan bool), make(chan bool)
			first := true
			faults := objecttest.NewFaults(func(c objecttest.Call) objecttest.Fault {
				if c.Op == "list" && first {
					first = false
					close(entered)
					<-goOn
				}
				return objecttest.Pass
			})
			done := make(chan error)
			go func() {
				_, err := w.open(w.table, faults.Bucket(w.bucket), nil).Sweep(t.Context(), &largeitem.SweepOptions{Scan: scan})
				done <- err
			}()
			<-entered
			if err := w.store.ChangeOrphanAge(t.Context(), 48*time.Hour); err != nil {
				t.Error(err)
			}
			p, err := w.open(w.table, w.bucket, nil).Prepare(t.Context(), k1, texts("body", "slow"), nil)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Hour) // longer than the sweep's orphan age
			goOn <- true
			if scan {
				// The time of the scan's beginning counts, so that nothing new is old.
				if err := <-done; err != nil {
					t.Error(err)
				}
			} else {
				refusedGrace(t, "the sweep", <-done, 48*time.Hour)
			}
			cond := p.Condition()
			if _, err := w.table.Update(t.Context(), k1, p.Change(), &cond); err != nil {
				t.Fatal(err)
			}
			expectText(t, "the item", w.contents(k1), "item body=slow")
		})
	}
}

// TestShorterGrace: a shorter orphan age holds for a sweep only when no write can be under way any
// more that began with the longer one; a writer hears of it before its next write.
func TestShorterGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graceOf(48*time.Hour))
		free := w.open(w.table, w.bucket, nil)
		for _, s := range []*largeitem.Store{w.store, free} {
			if err := s.ClaimPrefix(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w.create(key("other"), nil, texts("body", "new"))
		p, err := free.Prepare(t.Context(), k1, texts("body", "slow"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := free.ChangeOrphanAge(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24*time.Hour - time.Minute)
		short := w.open(w.table, w.bucket, graceOf(time.Hour))
		_, err = short.Sweep(t.Context(), nil)
		refusedGrace(t, "a sweep soon after", err, 48*time.Hour)
		change, cond := p.Change(), p.Condition()
		if _, err := w.table.Update(t.Context(), k1, change, &cond); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		_, err = w.store.Replace(t.Context(), key("other"), nil, texts("body", "newer"), nil)
		refusedGrace(t, "a write of a program that has the longer grace", err, time.Hour)
		body := onlyReader{&slow{strings.NewReader("text"), time.Hour, 1}}
		if _, err := free.Replace(t.Context(), key("other"), nil, large{"body": {Body: body}}, nil); err == nil || !strings.Contains(err.Error(), "30m0s") {
			t.Errorf("an upload of an hour, in a program that has the table's grace: %v", err)
		}
		time.Sleep(46 * time.Hour)
		_, err = short.Sweep(t.Context(), nil)
		refusedGrace(t, "a sweep just before", err, 48*time.Hour)
		time.Sleep(2 * time.Hour)
		if _, err := short.Sweep(t.Context(), nil); err != nil {
			t.Errorf("a sweep after: %v", err)
		}
		expectText(t, "the item", w.contents(k1), "item body=slow")
	})
}

// TestChangeGraceTwice: of two shorter graces in a row, the longest orphan age that a write can
// have begun with counts.
func TestChangeGraceTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graceOf(48*time.Hour))
		if err := w.store.ChangeOrphanAge(t.Context(), time.Hour); !errors.Is(err, store.ErrMisconfigured) {
			t.Errorf("of a table without a marker: %v", err)
		}
		if err := w.store.ClaimPrefix(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, d := range []time.Duration{4 * time.Hour, 2 * time.Hour, 2 * time.Hour} {
			if err := w.store.ChangeOrphanAge(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			_, err := w.open(w.table, w.bucket, graceOf(2*time.Hour)).Sweep(t.Context(), nil)
			refusedGrace(t, "a sweep", err, 48*time.Hour)
			time.Sleep(time.Hour)
		}
		for _, d := range []time.Duration{time.Minute, -time.Hour, 1 << 62} {
			if err := w.store.ChangeOrphanAge(t.Context(), d); !errors.Is(err, largeitem.ErrInvalid) {
				t.Errorf("%v: %v", d, err)
			}
		}
	})
}

// TestChangeGraceMeets: a change that was written over, or whose reply was lost, is reported as
// what it is.
func TestChangeGraceMeets(t *testing.T) {
	w := newWorld(t, nil)
	if err := w.store.ClaimPrefix(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := w.process(onFirst("put", func() {
		if err := w.store.ChangeOrphanAge(t.Context(), 30*time.Hour); err != nil {
			t.Error(err)
		}
	}), nil)
	if err := other.ChangeOrphanAge(t.Context(), 40*time.Hour); !errors.Is(err, store.ErrConflict) {
		t.Errorf("another was faster: %v", err)
	}
	lossy := w.process(func(c objecttest.Call) objecttest.Fault {
		if c.Op == "put" {
			return objecttest.Lose
		}
		return objecttest.Pass
	}, nil)
	if err := lossy.ChangeOrphanAge(t.Context(), 50*time.Hour); err != nil {
		t.Errorf("the reply was lost: %v", err)
	}
	_, err := w.open(w.table, w.bucket, graceOf(49*time.Hour)).Sweep(t.Context(), nil)
	refusedGrace(t, "a sweep", err, 50*time.Hour)
}

// TestLongerGraceOfEarlierUploads: a longer orphan age is none for what was uploaded before: a
// sweep that began with the shorter one can have removed it.
func TestLongerGraceOfEarlierUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graceOf(2*time.Hour))
		if err := w.store.ClaimPrefix(t.Context()); err != nil {
			t.Fatal(err)
		}
		uploads := 0
		s := w.process(func(c objecttest.Call) objecttest.Fault {
			if c.Op != "put" || !strings.Contains(c.Key, "attr=") {
				return objecttest.Pass
			}
			if uploads++; uploads == 1 {
				if err := w.store.ChangeOrphanAge(t.Context(), 48*time.Hour); err != nil {
					t.Error(err)
				}
				time.Sleep(90 * time.Minute)
			}
			return objecttest.Pass
		}, nil)
		if _, err := s.Create(t.Context(), k1, nil, texts("body", "new"), nil); err != nil || uploads != 2 {
			t.Errorf("%d uploads, want 2: %v", uploads, err)
		}
	})
}

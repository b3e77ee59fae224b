package largeitem_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// slow is a body that takes its time, as often as times says.
type slow struct {
	*strings.Reader
	d     time.Duration
	times int
}

func (s *slow) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err == io.EOF && s.times > 0 {
		s.times--
		time.Sleep(s.d)
	}
	return n, err
}

// onlyReader cannot seek.
type onlyReader struct{ io.Reader }

// TestUploadTakesLong: an item does not refer to an object that a sweep may already look at.
// What can be read again is uploaded again; for the rest the write fails, and nothing is left.
func TestUploadTakesLong(t *testing.T) {
	const half = largeitem.DefaultOrphanAge / 2
	for _, c := range []struct {
		name    string
		d       time.Duration
		times   int
		seeks   bool
		uploads int
		err     string
	}{
		{"just in time", half - time.Second, 1, false, 1, ""},
		{"too long, a stream", half, 1, false, 1, "cannot read the body a second time"},
		{"too long once", half, 1, true, 2, ""},
		{"too long always", half, 100, true, 4, "took longer than 12h0m0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				w.create(k1, nil, texts("body", "old", "image", "pic"))
				uploads := 0
				s := w.process(func(c objecttest.Call) objecttest.Fault {
					if c.Op == "put" && strings.Contains(c.Key, "attr=body/") {
						uploads++
					}
					return objecttest.Pass
				}, nil)
				var body io.Reader = &slow{strings.NewReader("newer"), c.d, c.times}
				if !c.seeks {
					body = onlyReader{body}
				}
				_, err := s.Update(t.Context(), k1, largeitem.Change{}, large{"body": {Body: body}, "extra": largeitem.Text("x")}, nil)
				want := "item body=newer extra=x image=pic"
				if c.err != "" {
					want = "item body=old image=pic"
					if err == nil || store.OutcomeOf(err) != store.NotApplied || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), "half of the orphan age") {
						t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
					}
				} else if err != nil {
					t.Error(err)
				}
				expectText(t, "the item", w.contents(k1), want)
				if uploads != c.uploads {
					t.Errorf("%d uploads, want %d", uploads, c.uploads)
				}
				if left := w.orphans(); len(left) > 1 || len(left) == 1 && !strings.Contains(left[0], "attr=body/") {
					t.Errorf("%q is left", left)
				}
				if _, err := w.store.Sweep(t.Context(), nil); err != nil {
					t.Error(err)
				}
				expectText(t, "after a sweep", w.contents(k1), want)
			})
		})
	}
}

// TestItemWriteTakesLong: the write of the item is answered when a sweep can already have
// removed the objects: they are looked for before the write counts as made.
func TestItemWriteTakesLong(t *testing.T) {
	for name, removed := range map[string]bool{"they are there": false, "they are not": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				stats := 0
				s := w.process(func(c objecttest.Call) objecttest.Fault {
					if c.Op == "put" && c.Key == k1.String() {
						time.Sleep(25 * time.Hour) // longer than any write may be under way
						if removed {
							if _, err := w.store.Sweep(t.Context(), nil); err != nil {
								t.Error(err)
							}
						}
					}
					if c.Op == "stat" {
						stats++
					}
					return objecttest.Pass
				}, nil)
				_, err := s.Create(t.Context(), k1, nil, texts("body", "new"), nil)
				switch {
				case stats != 1:
					t.Errorf("%d looks", stats)
				case removed && (!errors.Is(err, largeitem.ErrMissing) || store.OutcomeOf(err) != store.Applied || !strings.Contains(err.Error(), `"body"`)):
					t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
				case !removed && err != nil:
					t.Error(err)
				}
			})
		})
	}
}

// TestPreparedTooLate: Commit looks for the objects, too.
func TestPreparedTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p, err := w.store.Prepare(t.Context(), k1, texts("body", "new"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Until(p.Deadline()); d > largeitem.DefaultOrphanAge/2 || d < largeitem.DefaultOrphanAge/2-time.Second {
			t.Errorf("the deadline is in %v", d)
		}
		time.Sleep(25 * time.Hour)
		if _, err := w.store.Sweep(t.Context(), nil); err != nil {
			t.Error(err)
		}
		change, cond := p.Change(), p.Condition()
		if _, err := w.table.Update(t.Context(), k1, change, &cond); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Commit(t.Context()); !errors.Is(err, largeitem.ErrMissing) || store.OutcomeOf(err) != store.Applied {
			t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
		}
	})
}

// bornBucket says that its objects are as old as the beginning of an upload that the caller
// does not know of.
type bornBucket struct {
	object.Bucket
	age time.Duration
}

func (b bornBucket) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	info, err := b.Bucket.Put(ctx, key, body, opts)
	info.Modified = info.Now.Add(-b.age)
	return info, err
}

func (b bornBucket) Traits() object.Traits { return object.TraitsOf(b.Bucket) }

// TestAgeByTheBucketsClock: the age that the bucket returns counts, if it is the larger one.
func TestAgeByTheBucketsClock(t *testing.T) {
	for age, ok := range map[time.Duration]bool{time.Hour: true, 12 * time.Hour: false, -time.Hour: true} {
		w := newWorld(t, nil)
		s := w.open(w.table, bornBucket{w.bucket, age}, nil)
		_, err := s.Create(t.Context(), k1, nil, large{"body": stream("new")}, nil)
		if ok != (err == nil) || !ok && store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("an object that is %v old: %v", age, err)
		}
	}
}

// TestContextEnds: a call ends with its context, at every request, and leaves nothing behind
// that the item refers to, nor anything that it could have removed.
func TestContextEnds(t *testing.T) {
	for _, c := range scenarios {
		t.Run(c.name, func(t *testing.T) {
			for n := 1; n < 10; n++ {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, nil)
					if c.setup != nil {
						c.setup(w)
					}
					ctx, cancel := context.WithCancelCause(t.Context())
					broken := errors.New("the caller has lost its patience")
					faults := objecttest.NewFaults(func(call objecttest.Call) objecttest.Fault {
						if call.N == n {
							cancel(broken)
						}
						return objecttest.Pass
					})
					table := w.faultyTable(faults)
					began := time.Now()
					err := c.run(ctx, w.open(table, faults.Bucket(w.bucket), removing()), table)
					outcome := store.OutcomeOf(err)
					if err != nil && !errors.Is(err, broken) {
						t.Errorf("call %d: %v", n, err)
					}
					if d := time.Since(began); d > 10*time.Second {
						t.Errorf("call %d: it took %v", n, d)
					}
					now := w.contents(k1)
					if now != c.before && now != c.after || outcome == store.Applied && now != c.after || outcome == store.NotApplied && now != c.before {
						t.Errorf("call %d: %v (%v), and the item is %q", n, err, outcome, now)
					}
				})
			}
		})
	}
}

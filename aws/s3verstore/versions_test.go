package s3verstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// TestLateStartSeenBefore: TestLateStart, for a store that knew the register before.
// What it has seen is gone, superseded by a start of which only older versions tell
// than the one that became visible late.
func TestLateStartSeenBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		h := hand{t, b}
		first := h.write("FIRST", "", 1, "", 0)
		h.confirm("CONFIRMSFIRST", first, 1)
		last, prev, seen := first, "FIRST", ""
		for n := uint64(2); n <= 6; n++ {
			nonce := fmt.Sprint("LEFT", n)
			seen = last
			last, prev = h.write(nonce, prev, n, last, n-1), nonce
		}
		s := open(t, b, nil)
		if value, _ := get(t, s, "k"); value != "LEFT6" {
			t.Fatalf("read %q, want LEFT6", value)
		}
		for n := uint64(7); n <= 12; n++ {
			nonce := fmt.Sprint("LEFT", n)
			last, prev = h.write(nonce, prev, n, last, n-1), nonce
		}
		b.Remove("bucket", "k!!", seen)
		late := h.write("LATE", "FIRST", 2, first, 1)
		h.confirm("CONFIRMSLATE", late, 2)
		if value, _ := get(t, s, "k"); value != "LATE" {
			t.Errorf("read %q, want LATE", value)
		}
	})
}

// TestSecondCopy: a PUT is applied twice within L, the second time after somebody went
// on from it. When it is judged, which takes long, a later start has had the first copy
// removed; the second one, which is void, tells nothing of what became of it.
func TestSecondCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		mustPut(t, open(t, b, nil), "k", "", "0")
		time.Sleep(time.Minute)
		s, other := open(t, b, nil), open(t, b, nil)
		_, v := get(t, s, "k")
		b.Plan(func(q awstest.Request) awstest.Fault {
			if q.Op == "PutObject" && strings.Contains(string(q.Body), "\nV 2 ") {
				return awstest.Fault{Twice: true, Between: time.Second, After: 3 * time.Second}
			}
			return awstest.Fault{}
		})
		done := make(chan error, 1)
		go func() {
			_, err := s.Put(t.Context(), "k", v, []byte("1"))
			done <- err
		}()
		time.Sleep(100 * time.Millisecond)
		_, now, err := other.Peek(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, other, "k", now, "2")
		for _, w := range live(b, "k!!")[:3] {
			b.Remove("bucket", "k!!", w.ID)
		}
		if err := <-done; store.OutcomeOf(err) != store.Unknown {
			t.Errorf("somebody went on from it, and it is told to be %v: %v", store.OutcomeOf(err), err)
		}
	})
}

// TestEarlyCopy: a PUT is applied twice, and the first copy shows up long after L, when
// a write that came between the two was confirmed by somebody who could not see it. The
// second copy does not count by itself, so that the first does not make it count.
func TestEarlyCopy(t *testing.T) {
	for name, rivals := range map[string]bool{"with a rival": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer drain()
				b := newBucket()
				mustPut(t, open(t, b, nil), "k", "", "0")
				time.Sleep(time.Minute)
				s, rival := open(t, b, nil), open(t, b, nil)
				_, v := get(t, s, "k")
				_, _ = get(t, rival, "k")
				b.Plan(func(q awstest.Request) awstest.Fault {
					switch {
					case q.Op == "PutObject" && strings.Contains(string(q.Body), "jtrue"):
						return awstest.Fault{Twice: true, Early: 6500 * time.Millisecond, Between: time.Second}
					case q.Op == "PutObject" && !strings.Contains(string(q.Body), "\nV "):
						return awstest.Fault{Hidden: 1500 * time.Millisecond}
					}
					return awstest.Fault{}
				})
				errs := make([]error, 2)
				var wg sync.WaitGroup
				wg.Go(func() {
					_, errs[0] = s.Put(t.Context(), "k", v, []byte("true"))
				})
				if rivals {
					wg.Go(func() {
						time.Sleep(100 * time.Millisecond)
						_, errs[1] = rival.Put(t.Context(), "k", v, []byte("false"))
					})
				}
				wg.Wait()
				if won := errs[0] == nil; won == rivals || errs[1] != nil {
					t.Errorf("the write: %v; the rival's: %v", errs[0], errs[1])
				}
			})
		})
	}
}

// TestNothingShown: a listing that shows nothing of a register, as a server may answer
// while versions are removed, is no reason to refuse a write.
func TestNothingShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		v := mustPut(t, open(t, b, nil), "k", "", "0")
		n := 0
		b.ListNothing = func(awstest.Request) bool { n++; return n == 1 }
		mustPut(t, open(t, b, nil), "k", v, "1")
	})
}

// TestWarmAndCold is TestHistories with a client made anew for every operation, or one
// that all share, and listings that show nothing now and then.
func TestWarmAndCold(t *testing.T) {
	histories(t, rounds(4, 1000), 5, 8, 11, func(t *testing.T, seed int, b *awstest.S3, rnd *rand.Rand) func() func() store.Store {
		b.ListNothing = func(q awstest.Request) bool { return !q.URL.Query().Has("key-marker") && rnd.IntN(25) == 0 }
		shared := open(t, b, nil)
		next := func() store.Store { return shared }
		if seed%2 == 0 {
			next = func() store.Store { return open(t, b, nil) }
		}
		return func() func() store.Store { return next }
	})
}

// TestVandal: somebody removes versions by hand that others build on, and puts data of
// his own on top. The lock can become unreadable, and then says so; it never has two
// owners. (What nobody has built on, nobody can miss.)
func TestVandal(t *testing.T) {
	var grants, removed, corrupt atomic.Int64
	for seed := range rounds(3, 600) {
		synctest.Test(t, func(t *testing.T) {
			defer drain()
			rnd := newRand(uint64(seed), 21)
			b := newBucket()
			b.Plan(trouble(rnd))
			b.PageSize = 3 + rnd.IntN(5)
			var log fight
			var wg sync.WaitGroup
			for c := range 3 {
				client := leases(t, b, &lease.Options{TTL: time.Minute})
				own := newRand(uint64(seed), uint64(c+22))
				wg.Go(func() {
					for range 3 {
						log.round(t, client, own)
					}
				})
			}
			wg.Go(func() { vandal(b, rnd, &removed) })
			wg.Wait()
			grants.Add(int64(log.grants()))
			b.Plan(nil)
			for _, w := range live(b, "lock/job!!") {
				if bytes.HasPrefix(w.Body, []byte("vandal")) {
					b.Remove("bucket", "lock/job!!", w.ID)
				}
			}
			_, _, err := open(t, b, nil).Get(t.Context(), "lock/job")
			if errors.Is(err, store.ErrCorrupt) {
				corrupt.Add(1)
			} else if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
	t.Logf("%d grants, %d versions removed, %d locks unreadable", grants.Load(), removed.Load(), corrupt.Load())
	if grants.Load() == 0 || removed.Load() == 0 {
		t.Error("something never happened")
	}
}

// vandal removes versions that others build on, and confirmations.
func vandal(b *awstest.S3, rnd *rand.Rand, removed *atomic.Int64) {
	for range 6 {
		time.Sleep(time.Duration(rnd.Int64N(int64(3 * time.Minute))))
		if rnd.IntN(4) == 0 {
			foreign := put(b, "lock/job!!", "vandal's data", nil)
			time.Sleep(time.Duration(rnd.Int64N(int64(30 * time.Second))))
			b.Remove("bucket", "lock/job!!", foreign)
			continue
		}
		all := live(b, "lock/job!!")
		if len(all) == 0 {
			continue
		}
		w := all[rnd.IntN(len(all))]
		fields := bytes.Fields(w.Body)
		built := !bytes.Contains(w.Body, []byte("\nV "))
		for _, other := range all {
			built = built || other.ID != w.ID && len(fields) > 3 && bytes.Count(other.Body, fields[2]) == 1 || bytes.Contains(other.Body, fmt.Appendf(nil, "%q", w.ID))
		}
		if built {
			b.Remove("bucket", "lock/job!!", w.ID)
			removed.Add(1)
		}
	}
}

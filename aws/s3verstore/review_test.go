package s3verstore_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// TestLateStartSeenBefore: TestLateStart, for a store that knew the register before.
// What it has seen is gone, superseded by a start of which only older versions tell
// than the one that became visible late.
func TestLateStartSeenBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		h := hand{t, b}
		first := h.write("FIRST", "", 1, nil, 0)
		h.confirm("CONFIRMSFIRST", first, 1)
		last, prev, seen := first, "FIRST", (*stored)(nil)
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
		b.remove(seen)
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
		b.setPlan(func(q request) plan {
			if q.op == "PUT" && strings.Contains(q.body, "\nV 2 ") {
				return plan{twice: true, between: time.Second, after: 3 * time.Second}
			}
			return plan{}
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
		for _, w := range b.live("k!!")[:3] {
			b.remove(w)
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
				b.setPlan(func(q request) plan {
					switch {
					case q.op == "PUT" && strings.Contains(q.body, "jtrue"):
						return plan{twice: true, early: 6500 * time.Millisecond, between: time.Second}
					case q.op == "PUT" && !strings.Contains(q.body, "\nV "):
						return plan{hidden: 1500 * time.Millisecond}
					}
					return plan{}
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

package s3verstore_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/store"
)

// hand puts entries of the register k by hand, as if their PUTs had broken the
// assumption.
type hand struct {
	t *testing.T
	b *awstest.S3
}

// write puts a write, and returns its version. The snapshot may be empty.
func (h hand) write(nonce, prev string, number uint64, snapshot string, snapshotN uint64) (id string) {
	h.t.Helper()
	body, err := s3verstore.Written("k", nonce, prev, number, snapshot, snapshotN, 0, 5*time.Second, []byte(nonce))
	if err != nil {
		h.t.Fatal(err)
	}
	return put(h.b, "k!!", string(body), nil)
}

// confirm puts a confirmation.
func (h hand) confirm(nonce string, snapshot string, number uint64) (id string) {
	h.t.Helper()
	body, err := s3verstore.Confirmed("k", nonce, snapshot, number, 0, 5*time.Second)
	if err != nil {
		h.t.Fatal(err)
	}
	return put(h.b, "k!!", string(body), nil)
}

// TestEchoes: a snapshot, and an entry that follows and names it, get duplicates long after
// the first versions were removed. The duplicates are not the snapshot and are rejected.
func TestEchoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		h := hand{t, b}
		old := h.write("OLD", "", 1, "", 0)
		confirmed := h.confirm("CONFIRMSOLD", old, 1)
		now := h.write("NOW", "OLD", 2, old, 1)
		h.confirm("CONFIRMSNOW", now, 2)
		b.Remove("bucket", "k!!", old)
		b.Remove("bucket", "k!!", confirmed)
		for range 2 {
			h.write("OLD", "", 1, "", 0)
			h.write("STALE", "OLD", 2, old, 1)
			h.confirm("CONFIRMSOLD", old, 1)
		}
		s := open(t, b, nil)
		value, v := get(t, s, "k")
		if value != "NOW" {
			t.Errorf("read %q, want NOW", value)
		}
		mustPut(t, s, "k", v, "next")
		if value, _ := get(t, open(t, b, nil), "k"); value != "next" {
			t.Errorf("read %q, want next", value)
		}
	})
}

// TestLateStart: a snapshot becomes visible so late that other clients have continued from
// another entry. The late entries of these clients then name, or follow, superseded
// entries. The register stays readable in each case.
func TestLateStart(t *testing.T) {
	for writes := range 12 {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket()
			h := hand{t, b}
			first := h.write("FIRST", "", 1, "", 0)
			h.confirm("CONFIRMSFIRST", first, 1)
			last, prev := first, "FIRST"
			for n := uint64(2); n <= 6; n++ {
				nonce := fmt.Sprint("LEFT", n)
				last, prev = h.write(nonce, prev, n, last, n-1), nonce
			}
			late := h.write("LATE", "FIRST", 2, first, 1)
			h.confirm("CONFIRMSLATE", late, 2)

			s, want := open(t, b, nil), "LATE"
			for i := range writes {
				_, v := get(t, s, "k")
				want = fmt.Sprint(i)
				mustPut(t, s, "k", v, want)
			}
			h.write("LEFT7", prev, 7, last, 6)
			other := open(t, b, nil)
			value, v := get(t, other, "k")
			if value != want {
				t.Errorf("after %d writes: read %q, want %q", writes, value, want)
			}
			for i := range 12 {
				v = mustPut(t, other, "k", v, fmt.Sprint(i))
			}
			if left := len(live(b, "k!!")); left > 20 {
				t.Errorf("after %d writes: %d versions are left", writes, left)
			}
		})
	}
}

// TestForeignStays: what is among the old versions of a register and is none of its
// entries is not removed with them.
func TestForeignStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		foreign := put(b, "k!!", "a person's data", nil)
		h := hand{t, b}
		first := h.write("FIRST", "", 1, "", 0)
		h.confirm("CONFIRMSFIRST", first, 1)
		s := open(t, b, nil)
		_, v := get(t, s, "k")
		for i := range 30 {
			v = mustPut(t, s, "k", v, fmt.Sprint(i))
		}
		all := live(b, "k!!")
		if len(all) > 15 || all[0].ID != foreign {
			t.Errorf("%d versions are left, the first is %q", len(all), all[0].Body)
		}
	})
}

// TestLateStartSeenBefore: TestLateStart, for a store that knew the register before.
// The entries that it has seen were superseded and removed. Only versions that are earlier
// in the log than the late snapshot show this.
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

// TestSecondCopy: a PUT is applied twice within L. Between the two versions, another client
// continues from the first. Then a client with a later snapshot removes the first. The second is
// rejected, but does not show the outcome of the PUT.
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
		_, now, err := other.GetUncommitted(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, other, "k", now, "2")
		for _, w := range live(b, "k!!")[:3] {
			b.Remove("bucket", "k!!", w.ID)
		}
		if err := <-done; store.OutcomeOf(err) != store.Unknown {
			t.Errorf("another client went on from it, and it is told to be %v: %v", store.OutcomeOf(err), err)
		}
	})
}

// TestEarlyCopy: a PUT is applied twice, and the first duplicate becomes visible long after
// L. A client that did not see it has confirmed a write between the two. Without the first
// duplicate, the second is rejected. So the outcome of the PUT must not be a success.
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

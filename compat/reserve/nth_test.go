package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// nth makes the n-th call of a writer fail: checks, writes of rows, and the operation.
type nth struct {
	what  string // "lose", "fail", "hang before", "hang after"
	left  atomic.Int32
	table reserve.Table
}

// dead is longer than any test: the writer has died.
const dead = 24 * time.Hour

// call carries out one call.
func (n *nth) call(f func() error) error {
	if n.left.Add(-1) != 0 {
		return f()
	}
	switch n.what {
	case "fail":
		return errLost
	case "lose":
		_ = f()
		return errLost
	case "hang before":
		time.Sleep(dead)
		return errLost
	}
	err := f()
	time.Sleep(dead)
	return errors.Join(errLost, err)
}

func (n *nth) Insert(ctx context.Context, row reserve.Row) (p reserve.WriteResult, err error) {
	err = n.call(func() (err error) { p, err = n.table.Insert(ctx, row); return err })
	return p, err
}

func (n *nth) Replace(ctx context.Context, seen, row reserve.Row) (p reserve.WriteResult, err error) {
	err = n.call(func() (err error) { p, err = n.table.Replace(ctx, seen, row); return err })
	return p, err
}

// TestEachCallGoesWrong: each call of a writer fails in turn, or its answer is lost, or the
// writer dies before or after it. The next writer gets its turn when the time of the row is
// over, or finds the object; and the object is never written twice.
func TestEachCallGoesWrong(t *testing.T) {
	for name, open := range map[string]func() reserve.Table{
		"rows":     func() reserve.Table { return newTable() },
		"register": func() reserve.Table { return reserve.NewStoreTable(new(memstore.Store)) },
	} {
		for _, what := range []string{"lose", "fail", "hang before", "hang after"} {
			for _, before := range []string{"nothing", "a row of another state", "a dead holder", "a released row"} {
				t.Run(fmt.Sprintf("%s, %s, %s", name, what, before), func(t *testing.T) {
					for n := 1; ; n++ {
						hit := false
						synctest.Test(t, func(t *testing.T) { hit = eachCall(t, open(), what, before, n) })
						if !hit {
							if n < 4 {
								t.Errorf("a write takes %d calls", n-1)
							}
							return
						}
					}
				})
			}
		}
	}
}

func eachCall(t *testing.T, tab reserve.Table, what, before string, n int) (hit bool) {
	b := newBucket()
	v := b.write(t, "k", "0")
	prepare := reserve.Row{Key: "k", Version: v, Generation: 3, Timeout: timeout, TTL: time.Now().Add(time.Hour).Unix()}
	switch before {
	case "a row of another state":
		prepare.Version = "another"
	case "a released row":
		prepare.Timeout = 0
	}
	if before != "nothing" {
		if _, err := tab.Insert(t.Context(), prepare); err != nil {
			t.Fatal(err)
		}
	}
	var writes atomic.Int32
	write := func(body string) func(context.Context) error {
		return func(ctx context.Context) error {
			writes.Add(1)
			return b.put("k", body)(ctx)
		}
	}
	faulty := &nth{what: what, table: tab}
	faulty.left.Store(int32(n))
	first := make(chan error, 1)
	go func() {
		r := reserver(t, faulty)
		first <- r.Do(t.Context(), "k", v, func(ctx context.Context) error {
			return faulty.call(func() error { return reserve.CheckVersion(b, "k", v)(ctx) })
		}, func(ctx context.Context) error {
			return faulty.call(func() error { return write("first")(ctx) })
		})
	}()
	var firstErr error
	select {
	case firstErr = <-first:
	case <-time.After(10 * timeout):
		firstErr = errors.New("it died")
	}
	start := time.Now()
	err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", v, write("second"))
	if waited := time.Since(start); waited > rule+reserve.TestInterval+1 {
		t.Errorf("call %d: the next writer waited %v", n, waited)
	}
	body, _, readErr := object.ReadAll(t.Context(), b.Bucket, "k", 100, nil)
	if readErr != nil {
		t.Fatal(readErr)
	}
	conflict := errors.Is(err, store.ErrConflict)
	switch {
	case err != nil && !conflict:
		t.Errorf("call %d: the next writer: %v", n, err)
	case writes.Load() != 1, conflict && string(body) != "first", err == nil && string(body) != "second":
		t.Errorf("call %d: %d writes; first: %v; second: %v; the object is %q", n, writes.Load(), firstErr, err, body)
	case firstErr == nil && string(body) != "first", store.OutcomeOf(firstErr) == store.NotApplied && string(body) == "first":
		t.Errorf("call %d: first: %v (%v); the object is %q", n, firstErr, store.OutcomeOf(firstErr), body)
	}
	time.Sleep(2 * dead) // the first one wakes up, and does no harm
	if writes.Load() != 1 {
		t.Errorf("call %d: %d writes at the end", n, writes.Load())
	}
	return faulty.left.Load() <= 0
}

package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

func wantCalls(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("requests to the table: got %q, want %q", got, want)
	}
}

func TestOperationCostsOneCheckAndOneRow(t *testing.T) {
	b, tab := newBucket(), newTable()
	r := reserver(t, tab)
	var v object.Version
	for i, body := range []string{"one", "two", "three"} {
		err := r.ForBucket(b).Do(t.Context(), "k", v, b.put("k", body))
		if n := b.count(); err != nil || n != 1 {
			t.Errorf("write %d: %d checks, %v", i, n, err)
		}
		wantCalls(t, tab.reset(), "insert")
		row, ok := tab.row("k", v)
		if !ok || row.Timeout != timeout || row.Nonce == "" || row.Generation < 1<<32 || row.Generation >= 1<<62 {
			t.Errorf("the row is %+v", row)
		}
		if left := time.Until(time.Unix(row.TTL, 0)); left < time.Hour-2*time.Second || left > time.Hour {
			t.Errorf("the table may remove the row in %v", left)
		}
		info, err := b.Bucket.Stat(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		v = info.Version
	}
}

func TestWrongStateCostsOneCheck(t *testing.T) {
	b, tab := newBucket(), newTable()
	b.write(t, "k", "there")
	for _, v := range []object.Version{"", "another"} {
		err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", v, func(context.Context) error { t.Error("it operated"); return nil })
		var conflict *object.ConflictError
		if !errors.As(err, &conflict) || store.OutcomeOf(err) != store.NotApplied || b.count() != 1 {
			t.Errorf("%q: got %v", v, err)
		}
	}
	wantCalls(t, tab.reset())
}

// TestRowOutlivesItsOperation: a writer that checked the object before another one wrote
// it meets that writer's row.
func TestRowOutlivesItsOperation(t *testing.T) {
	for _, release := range []bool{false, true} {
		testRowOutlives(t, release)
	}
}

func testRowOutlives(t *testing.T, release bool) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		r, err := reserve.New(tab, &reserve.Options{Timeout: timeout, ReleaseApplied: release})
		if err != nil {
			t.Fatal(err)
		}
		v := b.write(t, "k", "old")
		checked := make(chan struct{})
		slow := func(ctx context.Context) error {
			err := reserve.CheckVersion(b, "k", v)(ctx)
			select {
			case <-checked: // the second check
			default:
				close(checked)
				time.Sleep(timeout / 4)
			}
			return err
		}
		done := make(chan error)
		go func() { done <- reserver(t, tab).Do(t.Context(), "k", v, slow, b.put("k", "stale")) }()
		<-checked
		if err := r.ForBucket(b).Do(t.Context(), "k", v, b.put("k", "new")); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, store.ErrConflict) || b.body(t, "k") != "new" {
			t.Errorf("the stale writer: %v; the object is %q", err, b.body(t, "k"))
		}
	})
}

func TestCertainFailureReleasesTheRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		start := time.Now()
		var first reserve.Row
		err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", "", func(context.Context) error {
			first, _ = tab.row("k", "")
			return errNothingDone
		})
		if !errors.Is(err, errNothingDone) {
			t.Fatal(err)
		}
		wantCalls(t, tab.reset(), "insert", "replace")
		if free, ok := tab.row("k", ""); !ok || free.Timeout != 0 || free.Generation != first.Generation+1 || free.Nonce != first.Nonce || free.TTL == 0 {
			t.Errorf("the released row is %+v, before it was %+v", free, first)
		}
		b.count()
		if err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", "", b.put("k", "x")); err != nil {
			t.Fatal(err)
		}
		// Check, insert, check, take over, check.
		wantCalls(t, tab.reset(), "insert", "replace")
		if n := b.count(); n != 3 || time.Since(start) != 0 {
			t.Errorf("%d checks, %v", n, time.Since(start))
		}
	})
}

// TestUnknownOutcomeKeepsTheRow: others wait for it, the writer itself too.
func TestUnknownOutcomeKeepsTheRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, same := range []bool{false, true} {
			b, tab := newBucket(), newTable()
			r := reserver(t, tab)
			lost := errors.New("who knows")
			if err := r.ForBucket(b).Do(t.Context(), "k", "", func(context.Context) error { return lost }); err != lost {
				t.Fatal(err)
			}
			start := time.Now()
			if !same {
				r = reserver(t, tab)
			}
			if err := r.ForBucket(b).Do(t.Context(), "k", "", b.put("k", "x")); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(start); waited <= rule || waited > rule+reserve.TestInterval+1 {
				t.Errorf("the same Reserver %v: it waited %v", same, waited)
			}
		}
	})
}

// TestUnknownOutcomeAfterAnOutageKeepsTheRow: a Reserver need not wait for a row that was lost in an outage of the
// table, since no operation followed. It waits for the next row of that writer.
func TestUnknownOutcomeAfterAnOutageKeepsTheRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		tab.put(foreign("k", "", 7))
		start := time.Now()
		tab.fault = func(_ int, op string) fault {
			return fault{fail: op == "insert" && time.Since(start) > 0 && time.Since(start) < rule}
		}
		r := reserver(t, tab).ForBucket(b)
		if err := r.Do(t.Context(), "k", "", func(context.Context) error { return errLost }); !errors.Is(err, errLost) {
			t.Fatal(err)
		}
		began := time.Now()
		if err := r.Do(t.Context(), "k", "", b.put("k", "x")); err != nil || time.Since(began) < rule {
			t.Errorf("the next operation ended after %v: %v", time.Since(began), err)
		}
	})
}

// TestSuccessMakesAStateFreeForItsReserver: a state that returns need not be waited for
// by the Reserver whose operation on it is over.
func TestSuccessMakesAStateFreeForItsReserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		r := reserver(t, tab).ForBucket(b)
		start := time.Now()
		for range 3 {
			if err := r.Do(t.Context(), "k", "", b.put("k", "x")); err != nil {
				t.Fatal(err)
			}
			if err := b.Delete(t.Context(), "k", nil); err != nil {
				t.Fatal(err)
			}
		}
		if time.Since(start) != 0 {
			t.Errorf("it took %v", time.Since(start))
		}
	})
}

// TestReleaseAfterSuccess: with the option any other Reserver gets a state that returns at
// once; and the row still outlives the operation.
func TestReleaseAfterSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		start := time.Now()
		for range 3 {
			r, err := reserve.New(tab, &reserve.Options{ReleaseApplied: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.ForBucket(b).Do(t.Context(), "k", "", b.put("k", "x")); err != nil {
				t.Fatal(err)
			}
			if err := b.Delete(t.Context(), "k", nil); err != nil {
				t.Fatal(err)
			}
		}
		if time.Since(start) != 0 {
			t.Errorf("it took %v", time.Since(start))
		}
		wantCalls(t, tab.reset(), "insert", "replace", "insert", "replace", "replace", "insert", "replace", "replace")
		if row, ok := tab.row("k", ""); !ok || row.Timeout != 0 {
			t.Errorf("the row is %+v, %v", row, ok)
		}
	})
}

func TestWaiterWaitsByTheRowsTimeout(t *testing.T) {
	for _, of := range []time.Duration{0, 70 * time.Millisecond, timeout, 20 * time.Second, time.Hour} {
		t.Run(of.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, tab := newBucket(), newTable()
				row := foreign("k", "", 0)
				row.Timeout = of
				tab.put(row)
				start := time.Now()
				if err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", "", b.put("k", "x")); err != nil {
					t.Fatal(err)
				}
				waited, least := time.Since(start), 3*of
				if of > 0 && waited <= least || waited > least+reserve.TestInterval+1 {
					t.Errorf("it waited %v", waited)
				}
				if got, _ := tab.row("k", ""); got.Generation != 1 || got.Timeout != timeout || got.Nonce == "" {
					t.Errorf("the row is %+v", got)
				}
			})
		})
	}
}

func TestWaitEndsWhenTheObjectChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		row := foreign("k", "", 0)
		row.Timeout = 20 * time.Second
		tab.put(row)
		time.AfterFunc(time.Second, func() { b.write(t, "k", "theirs") })
		start := time.Now()
		err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", "", b.put("k", "ours"))
		if waited := time.Since(start); !errors.Is(err, store.ErrConflict) || waited > 2*time.Second {
			t.Errorf("after %v: %v", waited, err)
		}
	})
}

// TestWaiterNoticesARelease: long before it could take the row over.
func TestWaiterNoticesARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		row := foreign("k", "", 7)
		row.Timeout = 20 * time.Second
		tab.put(row)
		time.AfterFunc(time.Second, func() {
			row.Generation, row.Timeout = 8, 0
			tab.put(row)
		})
		start := time.Now()
		if err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", "", b.put("k", "ours")); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited > 6*time.Second {
			t.Errorf("it waited %v", waited)
		}
	})
}

// TestTableIsDownDuringAWait: the waiter continues to wait, and gets its turn.
func TestTableIsDownDuringAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		row := foreign("k", "", 7)
		row.Timeout = 20 * time.Second
		tab.put(row)
		start := time.Now()
		tab.fault = func(int, string) fault {
			since := time.Since(start)
			return fault{fail: since > time.Second && since < 59*time.Second}
		}
		if err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", "", b.put("k", "ours")); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited > time.Minute+reserve.TestInterval+1 {
			t.Errorf("it waited %v", waited)
		}
	})
}

// TestShortTriesWinInTheEnd: what one call has seen counts for the next one.
func TestShortTriesWinInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		r := reserver(t, tab).ForBucket(b)
		tab.put(foreign("k", "", 0))
		start := time.Now()
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
			err := r.Do(ctx, "k", "", b.put("k", "x"))
			cancel()
			if err == nil {
				break
			}
			var waiting *reserve.WaitError
			if !errors.As(err, &waiting) || !errors.Is(err, context.DeadlineExceeded) || store.OutcomeOf(err) != store.NotApplied {
				t.Fatal(err)
			}
			if left := rule - time.Since(start); waiting.Row.Timeout != timeout || waiting.Remaining != left {
				t.Errorf("it says %v, %+v; left: %v", waiting, waiting.Row, left)
			}
		}
		if waited := time.Since(start); waited <= rule || waited > rule+reserve.TestInterval+1 {
			t.Errorf("it waited %v", waited)
		}
	})
}

// TestLostReplyOfARow: the writer finds its own row, and its time counts from the first
// try.
func TestLostReplyOfARow(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault fault
		calls []string
	}{
		{"applied", fault{lose: true}, []string{"insert", "insert"}},
		{"not applied", fault{fail: true}, []string{"insert", "insert"}},
		{"applied slowly", fault{lose: true, after: timeout * 6 / 10}, []string{"insert", "insert", "replace"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, tab := newBucket(), newTable()
				tab.fault = func(n int, _ string) fault {
					if n == 1 {
						return c.fault
					}
					return fault{}
				}
				start := time.Now()
				err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", "", func(ctx context.Context) error {
					deadline, _ := ctx.Deadline()
					switch left := deadline.Sub(start); {
					case len(c.calls) == 2 && left != timeout:
						t.Errorf("the operation may take until %v after the first try", left)
					case len(c.calls) == 3 && time.Until(deadline) != timeout:
						t.Errorf("the operation has %v", time.Until(deadline))
					}
					return b.put("k", "x")(ctx)
				})
				if err != nil {
					t.Fatal(err)
				}
				wantCalls(t, tab.reset(), c.calls...)
			})
		})
	}
}

// TestLostReplyOfATakeOver is the same for a row that was taken over.
func TestLostReplyOfATakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		row := foreign("k", "", 5)
		row.Timeout = 0
		tab.put(row)
		tab.fault = func(n int, _ string) fault { return fault{lose: n == 2} }
		if err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", "", b.put("k", "x")); err != nil {
			t.Fatal(err)
		}
		wantCalls(t, tab.reset(), "insert", "replace", "replace")
		if got, _ := tab.row("k", ""); got.Generation != 6 {
			t.Errorf("the row is %+v", got)
		}
	})
}

// TestTableDown: the operation is not started, and what may have been written is released
// as soon as it can be.
func TestTableDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		tab.fault = func(n int, op string) fault { return fault{lose: op == "insert"} }
		r := reserver(t, tab).ForBucket(b)
		err := r.Do(t.Context(), "k", "", func(context.Context) error { t.Error("it operated"); return nil })
		if !errors.Is(err, store.ErrConflict) && err == nil {
			t.Error("it succeeded")
		}
		if !errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("got %v, %v", err, store.OutcomeOf(err))
		}
		if row, _ := tab.row("k", ""); row.Timeout != 0 {
			t.Errorf("the row is %+v", row)
		}
		// Neither release nor anything else can be seen: the same Reserver need not wait.
		tab.remove("k", "")
		tab.fault = func(int, string) fault { return fault{lose: true} }
		if err := r.Do(t.Context(), "k", "", b.put("k", "x")); err == nil {
			t.Error("it succeeded")
		}
		row, _ := tab.row("k", "")
		row.Timeout = timeout // as if the release had never arrived
		tab.put(row)
		tab.fault = nil
		start := time.Now()
		if err := r.Do(t.Context(), "k", "", b.put("k", "x")); err != nil || time.Since(start) > time.Millisecond {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// TestTakeOverMissesANewRowOfTheSameGeneration: the table removed the row that a waiter
// waits for, and a live writer has a new one which begins at 0 as well.
func TestTakeOverMissesANewRowOfTheSameGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		tab.put(foreign("k", "", 0))
		var fresh time.Time
		tab.fault = func(n int, op string) fault {
			if op == "replace" && fresh.IsZero() {
				fresh = time.Now()
				row := foreign("k", "", 0)
				row.TTL++
				row.Tag = fmt.Sprint(row.TTL)
				tab.rows[tab.id(row)] = row
			}
			return fault{}
		}
		if err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", "", b.put("k", "x")); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(fresh); fresh.IsZero() || waited <= rule {
			t.Errorf("it waited %v for the new row", waited)
		}
	})
}

func TestRowRemovedWhileAWaiterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		tab.put(foreign("k", "", 0))
		tab.fault = func(n int, op string) fault {
			if op == "replace" {
				delete(tab.rows, tab.id(reserve.Row{Key: "k"}))
			}
			return fault{}
		}
		if err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", "", b.put("k", "x")); err != nil {
			t.Fatal(err)
		}
		if row, _ := tab.row("k", ""); row.Generation < 1<<32 {
			t.Errorf("the row is %+v", row)
		}
	})
}

// TestSlowTableRenewsTheRow: an operation never starts with less than half of its time.
func TestSlowTableRenewsTheRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		tab.fault = func(n int, _ string) fault {
			if n == 1 {
				return fault{after: timeout * 6 / 10}
			}
			return fault{}
		}
		err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", "", func(ctx context.Context) error {
			if deadline, _ := ctx.Deadline(); time.Until(deadline) != timeout {
				t.Errorf("the operation has %v", time.Until(deadline))
			}
			return nil
		})
		if n := b.count(); err != nil || n != 2 {
			t.Errorf("%d checks, %v", n, err)
		}
		wantCalls(t, tab.reset(), "insert", "replace")

		tab.remove("k", "")
		tab.fault = func(int, string) fault { return fault{after: timeout} }
		err = reserver(t, tab).ForBucket(b).Do(t.Context(), "k", "", func(context.Context) error { t.Error("it operated"); return nil })
		if !errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("a table that is always slow: %v", err)
		}
		if row, _ := tab.row("k", ""); row.Timeout != 0 {
			t.Errorf("the row is %+v", row)
		}
	})
}

// TestObjectIsCheckedAfterATakeOver: the holder's write may have been applied at the last
// moment.
func TestObjectIsCheckedAfterATakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		tab.put(foreign("k", "", 0))
		tab.fault = func(_ int, op string) fault {
			if op == "replace" && tab.rows[tab.id(reserve.Row{Key: "k"})].Nonce == "" {
				b.write(t, "k", "theirs")
			}
			return fault{}
		}
		err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", "", b.put("k", "ours"))
		if !errors.Is(err, store.ErrConflict) || b.body(t, "k") != "theirs" {
			t.Errorf("got %v; the object is %q", err, b.body(t, "k"))
		}
		if row, _ := tab.row("k", ""); row.Timeout != 0 {
			t.Errorf("it keeps the row %+v", row)
		}
	})
}

// TestLateWriteIsRefusedByTheStoresCondition: the operation of a writer whose time was
// over is applied after another writer's commit. Only the store can refuse it: without
// its condition the commit is lost.
func TestLateWriteIsRefusedByTheStoresCondition(t *testing.T) {
	for _, condition := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b, tab := newBucket(), newTable()
			v := b.write(t, "k", "old")
			write := func(body string) error {
				opts := &object.PutOptions{IfMatch: v}
				if !condition {
					opts = nil
				}
				_, err := b.Put(context.Background(), "k", strings.NewReader(body), opts)
				return err
			}
			late := make(chan error, 1)
			err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", v, func(ctx context.Context) error {
				time.AfterFunc(time.Minute, func() { late <- write("late") })
				<-ctx.Done()
				return context.Cause(ctx)
			})
			if !errors.Is(err, reserve.ErrExpired) || store.OutcomeOf(err) != store.Unknown {
				t.Errorf("got %v", err)
			}
			if err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", v, func(context.Context) error { return write("new") }); err != nil {
				t.Fatal(err)
			}
			if err := <-late; errors.Is(err, store.ErrConflict) != condition {
				t.Errorf("the late write: %v", err)
			}
			if got := b.body(t, "k"); (got == "new") != condition {
				t.Errorf("with the condition %v the object is %q", condition, got)
			}
		})
	}
}

// TestQueueSharesOneCheck: of a hundred goroutines that create an object one does, and one
// other checks for all.
func TestQueueSharesOneCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		r := reserver(t, tab).ForBucket(b)
		var won, lost atomic.Int32
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				switch err := r.Do(t.Context(), "k", "", func(ctx context.Context) error {
					time.Sleep(50 * time.Millisecond)
					return b.put("k", "x")(ctx)
				}); {
				case err == nil:
					won.Add(1)
				case errors.Is(err, store.ErrConflict):
					lost.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := b.count(); won.Load() != 1 || lost.Load() != 99 || n != 2 {
			t.Errorf("%d won, %d lost, %d checks", won.Load(), lost.Load(), n)
		}
		wantCalls(t, tab.reset(), "insert")
	})
}

// TestHerdOfWaiters counts what a hundred waiters cost whose row's holder has died: those of
// object_store, which check every 100 ms and take the row over at the same instant, and ours.
func TestHerdOfWaiters(t *testing.T) {
	const waiters = 100
	for _, c := range []struct {
		name                   string
		processes              int // 0: object_store
		leastChecks, leastRows int
		mostChecks, mostRows   int
	}{
		{"object_store", 0, 60_498, 200, 60_498, 200},
		{"one process", 1, 40, 4, 80, 8},
		{"a hundred processes", waiters, 40 * waiters, 4 * waiters, 60 * waiters, 8 * waiters},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, tab := newBucket(), newTable()
				tab.fault = func(int, string) fault { return fault{before: 5 * time.Millisecond, after: 5 * time.Millisecond} }
				row := foreign("k", "", 0)
				row.Timeout = reserve.DefaultTimeout
				tab.put(row)
				operate := func(ctx context.Context) error {
					time.Sleep(20 * time.Millisecond)
					return b.put("k", "x")(ctx)
				}
				reservers := make([]*reserve.BucketReserver, c.processes)
				for i := range reservers {
					r, err := reserve.New(tab, nil)
					if err != nil {
						t.Fatal(err)
					}
					reservers[i] = r.ForBucket(b)
				}
				start := time.Now()
				var won atomic.Int32
				var all sync.WaitGroup
				for i := range waiters {
					all.Go(func() {
						var err error
						if c.processes == 0 {
							err = objectStore(tab, "k", "", reserve.DefaultTimeout, reserve.CheckVersion(b, "k", ""), operate)
						} else {
							err = reservers[i%c.processes].Do(t.Context(), "k", "", operate)
						}
						if err == nil {
							won.Add(1)
						} else if !errors.Is(err, store.ErrConflict) {
							t.Error(err)
						}
					})
				}
				all.Wait()
				took := time.Since(start)
				checks, rows := b.count(), len(tab.reset())
				t.Logf("%d waiters, %s: %d checks and %d writes of rows in %v", waiters, c.name, checks, rows, took)
				if won.Load() != 1 || checks < c.leastChecks || checks > c.mostChecks || rows < c.leastRows || rows > c.mostRows {
					t.Errorf("%d won, %d checks, %d writes of rows", won.Load(), checks, rows)
				}
				if most := 3*reserve.DefaultTimeout + time.Second; took > most {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestOperationThatIgnoresItsContext does not stop the line.
func TestOperationThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		r := reserver(t, tab).ForBucket(b)
		start := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			_ = r.Do(t.Context(), "k", "", func(ctx context.Context) error {
				time.Sleep(time.Hour)
				return context.Cause(ctx)
			})
		})
		synctest.Wait()
		if err := r.Do(t.Context(), "k", "", b.put("k", "x")); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited <= rule || waited > rule+reserve.TestInterval+1 {
			t.Errorf("it waited %v", waited)
		}
		all.Wait()
	})
}

// TestWriterThatSleptAfterItsCheck: another writer has committed meanwhile, and the table
// has removed its row.
func TestWriterThatSleptAfterItsCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		slow := func(ctx context.Context) error {
			err := reserve.CheckVersion(b, "k", "")(ctx)
			if err == nil {
				if err := reserver(t, tab).ForBucket(b).Do(ctx, "k", "", b.put("k", "theirs")); err != nil {
					t.Error(err)
				}
				time.Sleep(2 * time.Hour)
				tab.remove("k", "")
			}
			return err
		}
		err := reserver(t, tab).Do(t.Context(), "k", "", slow, b.put("k", "stale"))
		if !errors.Is(err, store.ErrConflict) || b.body(t, "k") != "theirs" {
			t.Errorf("got %v; the object is %q", err, b.body(t, "k"))
		}
	})
}

// TestMachineThatSlept: its monotonic clock stopped, and the time of its operation is
// over.
func TestMachineThatSlept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reserver(t, newTable())
		var slept atomic.Int64
		r.SetClock(func() sysclock.Reading {
			return sysclock.Reading{Mono: time.Now(), Wall: time.Now().Round(0), Suspended: time.Duration(slept.Load())}
		})
		start := time.Now()
		err := r.ForBucket(newBucket()).Do(t.Context(), "k", "", func(ctx context.Context) error {
			slept.Store(int64(10 * time.Minute))
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if took := time.Since(start); !errors.Is(err, reserve.ErrExpired) || took > timeout/10 {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

func TestEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tab := newBucket(), newTable()
		r := reserver(t, tab).ForBucket(b)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := r.Do(ctx, "k", "", func(context.Context) error { t.Error("it operated"); return nil })
		if !errors.Is(err, context.Canceled) || store.OutcomeOf(err) != store.NotApplied || b.count() != 0 {
			t.Errorf("before the call: %v", err)
		}
		// While another goroutine works.
		ctx, cancel = context.WithCancel(t.Context())
		err = r.Do(t.Context(), "k", "", func(context.Context) error {
			time.AfterFunc(time.Millisecond, cancel)
			err := r.Do(ctx, "k", "", func(context.Context) error { t.Error("it operated"); return nil })
			if !errors.Is(err, context.Canceled) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("in line: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		// While its row is written, and the answer is lost: it is released.
		ctx, cancel = context.WithCancel(t.Context())
		tab.fault = func(_ int, op string) fault {
			cancel()
			return fault{lose: op == "insert"}
		}
		err = r.Do(ctx, "l", "", func(context.Context) error { t.Error("it operated"); return nil })
		if row, ok := tab.row("l", ""); err == nil || store.OutcomeOf(err) != store.NotApplied || !ok || row.Timeout != 0 {
			t.Errorf("while the row was written: %v; %+v", err, row)
		}
	})
}

func TestCheckThatFails(t *testing.T) {
	b, tab := newBucket(), newTable()
	down := fmt.Errorf("%w: no answer", store.ErrUnavailable)
	err := reserver(t, tab).Do(t.Context(), "k", "", func(context.Context) error { return down }, b.put("k", "x"))
	if !errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("got %v", err)
	}
	wantCalls(t, tab.reset())
	if err := reserver(t, tab).ForBucket(b).Do(t.Context(), "", "", b.put("k", "x")); !errors.Is(err, store.ErrKey) {
		t.Errorf("got %v", err)
	}
}

// TestGenerationsStayBelowTheEnd: object_store panics at the end of 64 bits.
func TestGenerationsStayBelowTheEnd(t *testing.T) {
	b, tab := newBucket(), newTable()
	for _, g := range []uint64{1<<63 - 1, 1<<64 - 1} {
		row := foreign("k", "", g)
		row.Timeout = 0
		tab.put(row)
		if err := reserver(t, tab).ForBucket(b).Do(t.Context(), "k", "", func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if got, _ := tab.row("k", ""); got.Generation < 1<<32 || got.Generation >= 1<<62 {
			t.Errorf("after %d: %+v", g, got)
		}
	}
}

// contradictory is a table that refuses to replace the row that it shows.
type contradictory struct{ row reserve.Row }

func (c contradictory) Insert(context.Context, reserve.Row) (reserve.WriteResult, error) {
	return reserve.WriteResult{}, &reserve.ConflictError{HasRow: true, Row: c.row}
}

func (c contradictory) Replace(context.Context, reserve.Row, reserve.Row) (reserve.WriteResult, error) {
	return reserve.WriteResult{}, &reserve.ConflictError{HasRow: true, Row: c.row}
}

func TestTableThatContradictsItself(t *testing.T) {
	err := reserver(t, contradictory{reserve.Row{Key: "k", Generation: 1}}).ForBucket(newBucket()).Do(t.Context(), "k", "", func(context.Context) error { return nil })
	if !errors.Is(err, store.ErrUnsafe) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("got %v", err)
	}
}

// TestSlowClock: a writer whose clock is behind the table's writes rows that the table
// keeps for as long as others wait for them.
func TestSlowClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		ahead := clockAhead{tab, 2 * time.Hour}
		r := reserver(t, ahead).ForBucket(newBucket())
		for _, calls := range [][]string{{"insert", "replace"}, {"insert"}} {
			key := strings.Join(calls, "-")
			if err := r.Do(t.Context(), key, "", func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
			wantCalls(t, tab.reset(), calls...)
			row, _ := tab.row(key, "")
			if left := time.Until(time.Unix(row.TTL, 0)) - ahead.by; left < rule {
				t.Errorf("the table removes the row in %v", left)
			}
		}
	})
}

type clockAhead struct {
	*table
	by time.Duration
}

func (c clockAhead) Insert(ctx context.Context, row reserve.Row) (reserve.WriteResult, error) {
	p, err := c.table.Insert(ctx, row)
	p.Now = p.Now.Add(c.by)
	return p, err
}

func (c clockAhead) Replace(ctx context.Context, seen, row reserve.Row) (reserve.WriteResult, error) {
	p, err := c.table.Replace(ctx, seen, row)
	p.Now = p.Now.Add(c.by)
	return p, err
}

func TestOptionsHaveBounds(t *testing.T) {
	for _, o := range []reserve.Options{
		{Timeout: -1}, {Timeout: time.Millisecond}, {Timeout: 25 * time.Hour}, {Timeout: time.Second + 1},
		{MaxClockSkewRate: 1}, {MaxClockSkewRate: -3}, {MaxClockSkewRate: 101},
		{TTL: time.Minute}, {TTL: -1}, {TTL: 400 * 24 * time.Hour}, {Timeout: time.Hour, TTL: 3 * time.Hour},
	} {
		if _, err := reserve.New(newTable(), &o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := reserve.New(nil, nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("no table: %v", err)
	}
	r, err := reserve.New(newTable(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if o := r.Options(); o.Timeout != 20*time.Second || o.MaxClockSkewRate != 3 || o.TTL != time.Hour {
		t.Errorf("the defaults are %+v", o)
	}
	if r, err = reserve.New(newTable(), &reserve.Options{Timeout: time.Hour}); err != nil || r.Options().TTL != 6*time.Hour {
		t.Errorf("got %+v, %v", r.Options(), err)
	}
}

// TestQueueSharesNoOldCheck: a goroutine that came while another one's check was under way
// checks for itself: the state may have returned before it came.
func TestQueueSharesNoOldCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reserver(t, newTable())
		fine := func(context.Context) error { return nil }
		slow := func(context.Context) error {
			time.Sleep(time.Second)
			return &object.ConflictError{Key: "k"}
		}
		var all sync.WaitGroup
		all.Go(func() {
			if err := r.Do(t.Context(), "k", "", slow, fine); !errors.Is(err, store.ErrConflict) {
				t.Error(err)
			}
		})
		synctest.Wait()
		if err := r.Do(t.Context(), "k", "", fine, fine); err != nil {
			t.Error(err)
		}
		all.Wait()
	})
}

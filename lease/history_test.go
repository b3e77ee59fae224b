package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// historyKey is where the older part of the history of the lock "job" is.
const historyKey = ".holdfast/history/lock/job"

// onHistory makes a script that does f to the requests for registers of histories.
func onHistory(f fault) func(*store.Op) fault {
	return only(func(op *store.Op) bool { return strings.HasPrefix(op.Key, ".holdfast/history/") }, f)
}

// TestHistory: a reader sees what happened, in order, and each entry once.
func TestHistory(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		a := client(t, st, &lease.Options{History: true, Holder: "ada"})
		b := client(t, st, &lease.Options{Holder: "bob"})
		var want []string
		for range 30 {
			for who, c := range map[string]*party{"ada": a, "bob": b} {
				g := mustTry(t, c, "job")
				mustRelease(t, g)
				want = append(want, fmt.Sprint("granted ", g.Token(), who), fmt.Sprint("released ", g.Token(), who))
			}
			synctest.Wait()
		}
		all, err := b.History(t.Context(), "job")
		must(t, err)
		// The first grant may be before the history, if bob made it.
		var got []string
		for i, e := range all[1:] {
			if e.Missing != 0 || i > 0 && e.Seq != all[i].Seq+1 {
				t.Fatalf("entry %d is %+v", i, e)
			}
			got = append(got, fmt.Sprint(e.Kind, " ", e.Token, e.Holder))
		}
		if all[0].Kind != lease.HistoryBegun || len(want)-len(got) > 2 || !slices.Equal(got, want[len(want)-len(got):]) {
			t.Errorf("the history has %d entries, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
		}
	})
}

// TestHistoryOfOperators: what other clients do to a holder is in the history.
func TestHistoryOfOperators(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		holder := client(t, st, &lease.Options{History: true, Holder: "ada"})
		operator := client(t, st, &lease.Options{Holder: "eve"})
		if _, err := operator.History(t.Context(), "job"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the history of no lock: %v", err)
		}
		g := mustTry(t, holder, "job")
		_, err := operator.RequestYield(t.Context(), "job", &lease.YieldOptions{Reason: "upgrade"})
		must(t, err)
		<-g.YieldRequested()
		must(t, g.RefuseYield(t.Context(), "no"))
		_, err = operator.Break(t.Context(), "job", g.Token(), &lease.BreakOptions{Reason: "it hangs"})
		must(t, err)
		<-g.Context().Done()
		_ = g.Release(t.Context())
		mustTry(t, client(t, st, &lease.Options{Holder: "bob", ManualRenewal: true}), "job")
		taken := mustAcquire(t, holder, "job")
		mustRelease(t, taken)
		all, err := operator.History(t.Context(), "job")
		must(t, err)
		var got []string
		for _, e := range all {
			got = append(got, fmt.Sprintf("%s %d %s %s %s", e.Kind, e.Token-g.Token(), e.Holder, e.By, e.Reason))
		}
		want := []string{
			fmt.Sprintf("begun %d   ", -g.Token()),
			"granted 0 ada  ",
			"yield requested 0 ada eve upgrade",
			"yield refused 0 ada eve no",
			"broken 0 ada eve it hangs",
			"released 0 ada  ",
			"granted 2 bob  ",
			"taken over 2 bob ada the earlier holder did not renew while a waiter watched for 30s",
			"granted 3 ada  ",
			"released 3 ada  ",
		}
		if !slices.Equal(got, want) {
			t.Errorf("the history is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		_, err = operator.Sweep(t.Context(), &lease.SweepOptions{OlderThan: time.Hour})
		must(t, err)
	})
}

// TestHistoryRequests: the history costs at most one request for each grant, at any time, whether processes
// live long or take one grant each, and whether the moves succeed. Requests for leases are as without.
func TestHistoryRequests(t *testing.T) {
	const grants = 200
	longHolder := strings.Repeat("a long name ", 20)
	for _, c := range []struct {
		name    string
		holder  string
		script  func(*store.Op) fault
		oneEach bool // a process for each grant
		atLeast int  // requests for the history
	}{
		{"one client", "ada@db1 pid 4711", nil, false, grants / 4},
		{"a client for each grant", "ada@db1 pid 4711", nil, true, grants / 4},
		{"long names", longHolder, nil, false, grants / 2},
		{"no move succeeds", longHolder, onHistory(fail), false, grants / 4},
		{"every reply of a move is lost", longHolder, onHistory(lose), true, grants / 4},
		{"moves conflict with themselves", longHolder, onHistory(repeat), true, grants / 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				counts := map[bool]int{}
				for _, history := range []bool{false, true} {
					w := newWire(st)
					of, moves, worst := 0, 0, 0
					var mu sync.Mutex
					w.set(func(op *store.Op) fault {
						mu.Lock()
						defer mu.Unlock()
						if strings.HasPrefix(op.Key, ".holdfast/history/") {
							moves++
						} else {
							of++
						}
						if c.script != nil {
							return c.script(op)
						}
						return pass
					})
					name := fmt.Sprint("job", history)
					open := func() *lease.Client { return client(t, w, &lease.Options{History: history, Holder: c.holder}) }
					one := open()
					for i := range grants {
						mustRelease(t, mustTry(t, one, name))
						if c.oneEach {
							end(one)
							one = open()
						}
						synctest.Wait()
						mu.Lock()
						worst = max(worst, moves-(i+1))
						mu.Unlock()
					}
					end(one)
					counts[history] = of
					if worst > 0 || history && moves < c.atLeast || !history && moves > 0 {
						t.Errorf("%d requests for the history of %d grants, at worst %d more than grants", moves, grants, worst)
					}
					t.Logf("history %v: %d requests for leases, %d for the history, %d grants", history, of, moves, grants)
				}
				if counts[true] != counts[false] {
					t.Errorf("%d requests for leases with the history, %d without", counts[true], counts[false])
				}
			})
		})
	}
}

// TestHistoryDelaysNoLease: a store that hangs, fails or answers wrongly for registers of histories, and one
// that ignores contexts, changes no time of a lease and loses none.
func TestHistoryDelaysNoLease(t *testing.T) {
	run := func(t *testing.T, history bool, script func(*store.Op) fault) (took, closing time.Duration) {
		bubble(t, func(t *testing.T, st store.Store) {
			w := newWire(st)
			w.deafness = func() time.Duration { return 10 * time.Minute }
			w.set(script)
			c := client(t, w, &lease.Options{History: history, Holder: "ada"})
			began := time.Now()
			for range 50 {
				g := mustTry(t, c, "job")
				time.Sleep(time.Minute)
				must(t, g.Err())
				mustRelease(t, g)
			}
			took = time.Since(began)
			g := mustTry(t, c, "job")
			began = time.Now()
			end(c)
			closing = time.Since(began)
			wantLost := g.Err()
			if !errors.Is(wantLost, lease.ErrClosed) {
				t.Errorf("the grant ended with %v", wantLost)
			}
			wantState(t, client(t, st, nil), "job", lease.Free)
		})
		return took, closing
	}
	want, _ := run(t, false, nil)
	for name, f := range map[string]fault{"no answer": hang, "late": hangLate, "deaf": deaf, "refused": fail, "lost": drop} {
		t.Run(name, func(t *testing.T) {
			if took, closing := run(t, true, onHistory(f)); took != want || closing > time.Second {
				t.Errorf("50 grants took %v, want %v; the close took %v", took, want, closing)
			}
		})
	}
}

// TestFailedMoveKeepsEntries: entries whose move has failed stay in the record.
func TestFailedMoveKeepsEntries(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		moves := 0
		w.set(func(op *store.Op) fault {
			if op.Key == historyKey && op.Kind.Write() {
				moves++
				return fail
			}
			return pass
		})
		c := client(t, w, &lease.Options{History: true, Holder: "ada"})
		for range 5 {
			mustRelease(t, mustTry(t, c, "job"))
			synctest.Wait()
		}
		all, err := c.History(t.Context(), "job")
		if moves == 0 || len(all) != 11 || err != nil {
			t.Errorf("%d moves failed, and the history has %d entries, want 11, %v", moves, len(all), err)
		}
	})
}

// TestHistoryOfACopy: a copied lock has a history of its own, which begins with the copy.
func TestHistoryOfACopy(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		from := client(t, st, &lease.Options{History: true, Holder: "ada"})
		mustRelease(t, mustTry(t, from, "job"))
		to := client(t, memstore.New(), &lease.Options{Holder: "eve"})
		for _, changed := range []bool{true, false} {
			r, err := to.CopyLock(t.Context(), from, "job", nil)
			if err != nil || r.Changed != changed {
				t.Fatalf("the copy: %+v, %v", r, err)
			}
		}
		mustRelease(t, mustTry(t, to, "job"))
		all, err := to.History(t.Context(), "job")
		must(t, err)
		var got []string
		for _, e := range all {
			got = append(got, fmt.Sprint(e.Kind, e.Holder, e.By, e.Missing))
		}
		if want := []string{"begun0", "copiedeve0", "grantedeve0", "releasedeve0"}; !slices.Equal(got, want) {
			t.Errorf("the history is %q, want %q", got, want)
		}
	})
}

// TestHistoryAndSweep: a sweep removes the history with its lock.
func TestHistoryAndSweep(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		c := client(t, w, &lease.Options{History: true})
		for range 20 {
			mustRelease(t, mustTry(t, c, "job"))
			synctest.Wait()
		}
		if _, _, err := st.Get(t.Context(), historyKey); err != nil {
			t.Fatal(err)
		}
		for name, err := range c.List(t.Context(), "") {
			if name != "job" || err != nil {
				t.Errorf("the list has %q, %v", name, err)
			}
		}
		time.Sleep(2 * time.Hour)
		w.set(onHistory(fail))
		if n, err := c.Sweep(t.Context(), &lease.SweepOptions{OlderThan: time.Hour}); n != 1 || err == nil {
			t.Errorf("swept %d, %v, although the history could not be removed", n, err)
		}
		w.set(nil)
		if n, err := c.Sweep(t.Context(), &lease.SweepOptions{OlderThan: time.Hour}); n != 0 || err != nil {
			t.Errorf("swept %d, %v, and only the history was left", n, err)
		}
		if _, err := c.History(t.Context(), "job"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("after the sweep: %v", err)
		}
		mustRelease(t, mustTry(t, c, "job"))
		all, err := c.History(t.Context(), "job")
		if len(all) != 3 || err != nil || all[0].Kind != lease.HistoryBegun || all[0].Missing != 0 {
			t.Errorf("the next history is %+v, %v", all, err)
		}
	})
}

// TestSweepKeepsHistoryOfATakenLock: another client takes the lock before some request of a sweep, and uses it so
// often that it moves entries. No entry of this client is lost, and no earlier one if the lock's record stayed.
func TestSweepKeepsHistoryOfATakenLock(t *testing.T) {
	for _, before := range []string{"get lock/job 1", "delete lock/job 1", "get " + historyKey + " 1", "get lock/job 2", "delete " + historyKey + " 1"} {
		t.Run(before, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				other := client(t, st, &lease.Options{History: true, Holder: "ada"})
				use := func() {
					for range 20 {
						mustRelease(t, mustTry(t, other, "job"))
						synctest.Wait()
					}
				}
				use()
				time.Sleep(2 * time.Hour)
				seen, done := map[string]int{}, false
				sweeper := client(t, store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
					call := fmt.Sprint(op.Kind, " ", op.Key)
					if seen[call]++; fmt.Sprint(call, " ", seen[call]) == before {
						use()
						done = true
					}
					return next(ctx, op)
				}), nil)
				n, err := sweeper.Sweep(t.Context(), &lease.SweepOptions{OlderThan: time.Hour})
				must(t, err)
				if !done {
					t.Fatalf("the sweep has no such request: %v", seen)
				}
				all, err := other.History(t.Context(), "job")
				must(t, err)
				want := 1 + 2*40 // the begin, and both uses
				if n == 1 {
					want = 1 + 40 // the begin and the second use
				}
				if all = all[max(0, len(all)-want):]; len(all) < want || all[0].Kind != lease.HistoryBegun || all[0].Missing > 0 || all[want-1].Seq != all[0].Seq+uint64(want)-1 {
					t.Errorf("swept %d; the history is %+v, want %d entries", n, all, want)
				}
			})
		})
	}
}

// TestUnreadableHistory: a lock works whatever its history is, and History reports what it cannot read.
func TestUnreadableHistory(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, &lease.Options{History: true})
		put := func(key, value string) {
			t.Helper()
			_, v, err := st.Get(t.Context(), key)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
			must(t, errOf(st.Put(t.Context(), key, v, []byte(value))))
		}
		put("lock/job", `{"holdfast":1,"kind":"lease","name":"job","state":"free","token":7,"ttl_ms":1000,"nonce":"n","history":{"from":1,"last":"x"}}`)
		put(historyKey, "not a history")
		if all, err := c.History(t.Context(), "job"); len(all) != 0 || !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("the history is %+v, %v", all, err)
		}
		for range 10 {
			mustRelease(t, mustTry(t, client(t, st, &lease.Options{History: true}), "job"))
			synctest.Wait()
		}
		if all, err := c.History(t.Context(), "job"); len(all) != 21 || err != nil {
			t.Errorf("the history has %d entries, %v", len(all), err)
		}
		put("lock/job", `not a lock`)
		if all, err := c.History(t.Context(), "job"); len(all) < 5 || !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("the history beside an unreadable lock is %+v, %v", all, err)
		}
	})
}

// historyLedger notes what happens to the record of the lock "job", as the store sees it. It knows nothing of the
// code that writes histories.
type historyLedger struct {
	mu      sync.Mutex
	entries []string // of the history that is kept now
}

func (l *historyLedger) store(inner store.Store) store.Store {
	return store.Intercept(inner, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if op.Key != "lock/job" || op.Kind != store.OpPut {
			return next(ctx, op)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		before, _, _ := inner.Get(ctx, op.Key)
		if err := next(ctx, op); err != nil {
			return err
		}
		l.note(before, op.Value)
		return nil
	})
}

func (l *historyLedger) note(before, after []byte) {
	var was, is struct {
		State, Grant, Holder string
		Token                uint64
		History              map[string]any
	}
	if before != nil && json.Unmarshal(before, &was) != nil || json.Unmarshal(after, &is) != nil {
		l.entries = append(l.entries, "unreadable")
		return
	}
	if was.History == nil && is.History != nil {
		l.entries = []string{"begun"}
	}
	if is.History == nil {
		return
	}
	taken := was.State == "held" || was.State == "broken"
	over := taken && (is.State == "free" || is.Grant != was.Grant)
	switch {
	case over && is.State == "held":
		l.entries = append(l.entries, "taken over "+was.Holder)
	case over:
		l.entries = append(l.entries, "over "+was.Holder)
	case was.State == "held" && is.State == "broken":
		l.entries = append(l.entries, fmt.Sprint("broken ", was.Token, was.Holder))
	}
	if is.State == "held" && (over || !taken) {
		l.entries = append(l.entries, fmt.Sprint("granted ", is.Token, is.Holder))
	}
}

// as returns an entry as the ledger has it.
func (l *historyLedger) as(e lease.HistoryEntry) string {
	switch e.Kind {
	case lease.HistoryReleased, lease.HistoryLost:
		return "over " + e.Holder
	case lease.HistoryTakenOver:
		return "taken over " + e.Holder
	case lease.HistoryBroken, lease.HistoryGranted:
		return fmt.Sprint(e.Kind, " ", e.Token, e.Holder)
	}
	return string(e.Kind)
}

// check compares the history with the ledger: each entry of the history is the one of the ledger with
// that number, and each number is in the history once or counted as missing. The caller holds l.mu.
func (l *historyLedger) check(t *testing.T, all []lease.HistoryEntry) (told, missing int) {
	t.Helper()
	if len(l.entries) == 0 {
		return 0, 0
	}
	at := 0
	for _, e := range all {
		at += int(e.Missing)
		missing += int(e.Missing)
		if e.Kind == lease.HistoryUnrecorded && e.Missing > 0 {
			continue
		}
		if at >= len(l.entries) || l.as(e) != l.entries[at] {
			t.Fatalf("entry %d is told as %+v; the ledger has\n%s", at, e, strings.Join(l.entries, "\n"))
		}
		at++
		told++
	}
	if at != len(l.entries) {
		t.Fatalf("%d entries are told or missing; the ledger has %d:\n%s", at, len(l.entries), strings.Join(l.entries, "\n"))
	}
	return told, missing
}

// TestHistoryAgreesWithLedger: clients that are killed, and whose requests and replies are lost, write the
// history that the store has seen.
func TestHistoryAgreesWithLedger(t *testing.T) {
	told, missing := 0, 0
	for seed := range uint64(8) {
		bubble(t, func(t *testing.T, st store.Store) {
			l := &historyLedger{}
			n, m := histories(t, l, l.store(st), rand.New(rand.NewPCG(seed, 7)))
			told, missing = told+n, missing+m
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d entries told, %d missing", told, missing)
	if told < 500 || missing < 20 || missing > told {
		t.Errorf("%d entries told, %d missing: the test does not test both", told, missing)
	}
}

// histories lets some clients use the lock, and checks the history from time to time.
func histories(t *testing.T, l *historyLedger, st store.Store, random *rand.Rand) (told, missing int) {
	reader := client(t, st, &lease.Options{Holder: "reader"})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	defer wg.Wait()
	defer close(stop)
	for i := range 3 {
		own := rand.New(rand.NewPCG(random.Uint64(), uint64(i)))
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					oneProcess(t, st, own, fmt.Sprintf("client %d.%d", i, n))
				}
			}
		})
	}
	for range 10 {
		time.Sleep(time.Duration(random.IntN(60)) * time.Second)
		if random.IntN(4) == 0 {
			if info, err := reader.Inspect(t.Context(), "job"); err == nil {
				_, _ = reader.Break(t.Context(), "job", info.Record.Token, &lease.BreakOptions{Immediate: random.IntN(2) == 0})
			}
		}
		func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			all, err := reader.History(t.Context(), "job")
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
			told, missing = l.check(t, all)
		}()
	}
	return told, missing
}

// oneProcess is a process that takes the lock a few times over a bad network, and may be killed.
func oneProcess(t *testing.T, st store.Store, random *rand.Rand, name string) {
	w := newWire(st)
	var mu sync.Mutex
	dead, worse, network := false, random.IntN(3), rand.New(rand.NewPCG(random.Uint64(), 1))
	w.set(func(op *store.Op) fault {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case dead:
			return drop
		case op.Kind == store.OpWatch || network.IntN(10) >= worse:
			return pass
		}
		return []fault{drop, lose, fail, repeat}[network.IntN(4)]
	})
	c, err := lease.New(w, &lease.Options{TTL: 10 * time.Second, Holder: name, History: random.IntN(4) > 0})
	if err != nil {
		t.Error(err)
		return
	}
	lease.SetClock(c, bubbleClocks)
	kill := random.IntN(3) == 0
	grants := 1 + random.IntN(8)
	h, err := c.Handle("job", nil)
	report(t, err)
	for n := range grants {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		g, err := h.Acquire(ctx)
		cancel()
		if err != nil {
			time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
			continue
		}
		time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
		if kill && n == grants-1 {
			mu.Lock()
			dead = true
			mu.Unlock()
			break
		}
		_ = g.Release(t.Context())
	}
	_ = c.Close(t.Context())
}

// TestEarlierProgramsIgnoreHistories: programs that know no history see the locks of the store as before, and keep
// the field of the history.
func TestEarlierProgramsIgnoreHistories(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, &lease.Options{History: true})
		for range 10 {
			mustRelease(t, mustTry(t, c, "job"))
			synctest.Wait()
		}
		keys := map[string]bool{}
		for key, err := range store.List(t.Context(), st, "") {
			must(t, err)
			keys[key] = true
		}
		if want := map[string]bool{"lock/job": true, historyKey: true}; !maps.Equal(keys, want) {
			t.Errorf("the store has the keys %v, want %v", keys, want)
		}
	})
}

package faultstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// open returns a store with faults and the store below it.
func open(t *testing.T, schedule string) (*faultstore.Store, *memstore.Store) {
	t.Helper()
	m := memstore.New()
	s := faultstore.New(m, faultstore.MustParse(schedule))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, m
}

// TestUnmet: Unmatched returns exactly the rules that no call has matched.
func TestUnmet(t *testing.T) {
	s := faultstore.New(memstore.New(), faultstore.MustParse(
		"put job #1 lose; put jbo lose; get job fail; put job #9 drop; put job %1e-9 fail; put * #1 fail; put job delay 1ns; seed 7"))
	defer s.Close()
	for range 2 {
		_, _ = s.Put(t.Context(), "job", "", []byte("x"))
	}
	// The first rule takes the first put, so that nothing is left for the fault of "put * #1".
	if got, want := s.Unmatched().String(), "put jbo lose; get job fail; put job #9 drop; put * #1 fail; seed 7"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.Set(faultstore.MustParse("get job fail"))
	_, _, _ = s.Get(t.Context(), "job")
	if got := s.Unmatched(); len(got.Rules) > 0 {
		t.Errorf("got %q, want nothing", got)
	}
}

func create(t *testing.T, s store.Store, key, value string) store.Version {
	t.Helper()
	v, err := s.Put(t.Context(), key, "", []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// want checks the value of a key; an empty one means absent.
func want(t *testing.T, s store.Store, key, value string) {
	t.Helper()
	got, _, err := s.Get(t.Context(), key)
	if err != nil && !errors.Is(err, store.ErrNotFound) || string(got) != value {
		t.Errorf("%q: got %q and error %v, want %q", key, got, err, value)
	}
}

func wantFault(t *testing.T, err error, outcome store.Outcome) {
	t.Helper()
	var op *store.OpError
	if !errors.Is(err, faultstore.ErrInjected) || !errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != outcome || !errors.As(err, &op) {
		t.Errorf("got %v (%v), want an injected fault, %v", err, store.OutcomeOf(err), outcome)
	}
}

func TestFail(t *testing.T) {
	s, m := open(t, "put job fail; get job fail")
	_, err := s.Put(t.Context(), "job", "", []byte("one"))
	wantFault(t, err, store.NotApplied)
	if !strings.Contains(err.Error(), "put job #1 fail") {
		t.Errorf("the error does not name the fault: %v", err)
	}
	want(t, m, "job", "")
	_, v, err := s.Get(t.Context(), "job")
	wantFault(t, err, store.NotApplied)
	if v != "" || errors.Is(err, store.ErrNotFound) {
		t.Errorf("a failed read returns version %q and error %v", v, err)
	}
	create(t, s, "other", "one")
}

func TestDrop(t *testing.T) {
	s, m := open(t, "put job drop")
	_, err := s.Put(t.Context(), "job", "", []byte("one"))
	wantFault(t, err, store.Unknown)
	want(t, m, "job", "")
}

func TestLose(t *testing.T) {
	s, m := open(t, "put job #1 lose; delete * lose; get job #2 lose; put refused lose")
	v, err := s.Put(t.Context(), "job", "", []byte("one"))
	wantFault(t, err, store.Unknown)
	if v != "" {
		t.Errorf("after a lost reply Put returned the version %q", v)
	}
	want(t, m, "job", "one")
	_, v, err = s.Get(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	value, w, err := s.Get(t.Context(), "job")
	wantFault(t, err, store.Unknown)
	if w != "" || value != nil {
		t.Errorf("after a lost reply Get returned %q, version %q", value, w)
	}
	// The sender's second try conflicts with its own first one. The store does not know
	// that.
	if _, err := s.Put(t.Context(), "job", "", []byte("one")); !errors.Is(err, store.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	wantFault(t, s.Delete(t.Context(), "job", v), store.Unknown)
	want(t, m, "job", "")
	// If the reply to a refused write is lost, the caller learns of no conflict.
	create(t, m, "refused", "one")
	_, err = s.Put(t.Context(), "refused", "", []byte("two"))
	wantFault(t, err, store.Unknown)
	if errors.Is(err, store.ErrConflict) {
		t.Errorf("the error of a lost reply says conflict: %v", err)
	}
}

func TestLateOnRequest(t *testing.T) {
	s, m := open(t, "put job #1 late")
	value := []byte("one")
	_, err := s.Put(t.Context(), "job", "", value)
	wantFault(t, err, store.Unknown)
	copy(value, "XXX") // the caller may change the slice after the call
	want(t, s, "job", "")
	if s.Pending() != 1 {
		t.Errorf("%d writes are pending, want 1", s.Pending())
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, m, "job", "one")
	if s.Pending() != 0 {
		t.Errorf("%d writes are pending, want none", s.Pending())
	}
}

func TestLateOvertaken(t *testing.T) {
	s, m := open(t, "put job #1 late")
	_, err := s.Put(t.Context(), "job", "", []byte("late"))
	wantFault(t, err, store.Unknown)
	create(t, s, "job", "faster")
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, m, "job", "faster")
}

func TestLateAfterCalls(t *testing.T) {
	s, m := open(t, "put job #1 late +2")
	_, err := s.Put(t.Context(), "job", "", []byte("one"))
	wantFault(t, err, store.Unknown)
	create(t, s, "other", "x") // calls on other keys do not count
	want(t, s, "job", "")
	want(t, m, "job", "")
	want(t, s, "job", "one") // the second call finds it
}

func TestLateAfterTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := open(t, "put * late 2s; delete job late 1h")
		ctx, cancel := context.WithCancel(t.Context())
		_, err := s.Put(ctx, "job", "", []byte("one"))
		cancel() // the end of the context does not withdraw the write
		wantFault(t, err, store.Unknown)
		time.Sleep(2*time.Second - 1)
		synctest.Wait()
		want(t, m, "job", "")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		want(t, m, "job", "one")

		_, v, _ := m.Get(t.Context(), "job")
		wantFault(t, s.Delete(t.Context(), "job", v), store.Unknown)
		if err := s.Close(); err != nil { // drops it
			t.Error(err)
		}
		time.Sleep(2 * time.Hour)
		want(t, m, "job", "one")
		create(t, s, "after", "close")
	})
}

// TestCloseWaits checks that Close waits for a late write that has begun.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memstore.New()
		slow := store.Intercept(m, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if op.Kind == store.OpPut {
				time.Sleep(time.Minute)
			}
			return next(ctx, op)
		})
		s := faultstore.New(slow, faultstore.MustParse("put job late 1s"))
		for _, end := range []func() error{func() error { return s.Drain(t.Context()) }, s.Close} {
			_, v, _ := m.Get(t.Context(), "job")
			value := fmt.Sprintf("after %q", v)
			_, err := s.Put(t.Context(), "job", v, []byte(value))
			wantFault(t, err, store.Unknown)
			time.Sleep(2 * time.Second) // it has begun
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := s.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("drain with too little time: %v", err)
			}
			cancel()
			if err := end(); err != nil {
				t.Error(err)
			}
			want(t, m, "job", value)
		}
	})
}

func TestDrainOrder(t *testing.T) {
	s, m := open(t, "write job #2-4 late 1h")
	v := create(t, s, "job", "one")
	for i := range 3 {
		_, err := s.Put(t.Context(), "job", v, []byte(strconv.Itoa(i)))
		wantFault(t, err, store.Unknown)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, m, "job", "0") // the first that was sent; the others came too late
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := open(t, "put * delay 2s; put * delay-reply 3s; get * delay 1s")
		start := time.Now()
		create(t, s, "job", "one")
		if got := time.Since(start); got != 5*time.Second {
			t.Errorf("the put took %v, want 5s", got)
		}
		want(t, s, "job", "one")
		if got := time.Since(start); got != 6*time.Second {
			t.Errorf("put and get took %v, want 6s", got)
		}
		for i, c := range []struct {
			timeout time.Duration
			applied bool
		}{{time.Second, false}, {3 * time.Second, true}} {
			ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
			key := strconv.Itoa(i)
			_, err := s.Put(ctx, key, "", []byte("one"))
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || store.OutcomeOf(err) != store.Unknown {
				t.Errorf("timeout %v: got %v (%v), want the context's error, unknown", c.timeout, err, store.OutcomeOf(err))
			}
			if _, _, err := m.Get(t.Context(), key); (err == nil) != c.applied {
				t.Errorf("timeout %v: applied %v, want %v", c.timeout, err == nil, c.applied)
			}
		}
	})
}

func TestRuleMatching(t *testing.T) {
	s, _ := open(t, "read b fail; put * #2-3 fail; get a #2- drop; list * #1 fail; watch a fail")
	ctx := t.Context()
	ok := func(err error) bool { return !errors.Is(err, faultstore.ErrInjected) }
	get := func(key string) bool { _, _, err := s.Get(ctx, key); return ok(err) }
	put := func(key string) bool { _, err := s.Put(ctx, key, "", nil); return ok(err) }
	list := func() bool {
		for _, err := range store.List(ctx, s, "") {
			return ok(err)
		}
		return true
	}
	w, _ := store.As[store.Watcher](s)
	for i, step := range []struct {
		name string
		got  bool
		want bool
	}{
		{"get a", get("a"), true}, {"get a", get("a"), false}, {"get a", get("a"), false}, {"get b", get("b"), false}, {"get c", get("c"), true},
		{"put a", put("a"), true}, {"put b", put("b"), false}, {"put a", put("a"), false}, {"put a", put("a"), true},
		{"list", list(), false}, {"list", list(), true},
		{"watch a", ok(w.Watch(ctx, "a", "x")), false}, {"watch b", ok(w.Watch(ctx, "b", "x")), true},
	} {
		if step.got != step.want {
			t.Errorf("step %d, %s: passed on %v, want %v", i+1, step.name, step.got, step.want)
		}
	}
}

// TestNotSent checks that a call that is refused before it is sent gets no fault and is not
// counted.
func TestNotSent(t *testing.T) {
	s, m := open(t, "* * drop")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v := create(t, m, "job", "one")
	for name, err := range map[string]error{
		"cancelled":   func() error { _, err := s.Put(ctx, "job", v, nil); return err }(),
		"invalid key": func() error { _, err := s.Put(t.Context(), "job/", v, nil); return err }(),
		"too large":   func() error { _, err := s.Put(t.Context(), "job", v, make([]byte, store.MaxValue+1)); return err }(),
		"no version":  s.Delete(t.Context(), "job", ""),
	} {
		if err == nil || errors.Is(err, faultstore.ErrInjected) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: got %v (%v), want not applied and no fault", name, err, store.OutcomeOf(err))
		}
	}
	if got := s.Injected().String(); got != "" {
		t.Errorf("faults on calls that were never sent: %s", got)
	}
}

func TestSet(t *testing.T) {
	s, _ := open(t, "* * fail")
	_, _, err := s.Get(t.Context(), "job")
	wantFault(t, err, store.NotApplied)
	s.Set(faultstore.Schedule{}) // the network heals
	create(t, s, "job", "one")
	if got := s.Injected().String(); got != "" {
		t.Errorf("the record was kept: %s", got)
	}
	s.Set(faultstore.MustParse("get job #1 fail"))
	_, _, err = s.Get(t.Context(), "job")
	wantFault(t, err, store.NotApplied)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.Set(faultstore.MustParse("* * fail"))
	want(t, s, "job", "one")
}

func TestAs(t *testing.T) {
	s, _ := open(t, "")
	p, err := store.Prefix(s, "some/prefix")
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := store.As[*faultstore.Store](s); !ok || got != s {
		t.Errorf("got %v, %v, want the store itself", got, ok)
	}
	if got, ok := store.As[*faultstore.Store](p); ok {
		t.Errorf("a decorator hands out %v", got)
	}
	if got := store.TraitsOf(p); !got.ConflictCarriesState {
		t.Errorf("the traits are hidden: %+v", got)
	}
}

// work makes the same calls in the same order each time, and returns their results.
func work(t *testing.T, s store.Store, seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 0))
	versions := make(map[string]store.Version)
	names := map[store.Version]int{"": 0} // versions hold a nonce; their order is the same
	var log []string
	for i := range 150 {
		key := "job " + strconv.Itoa(r.IntN(3))
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+r.IntN(20))*time.Millisecond)
		var v store.Version
		var err error
		switch r.IntN(4) {
		case 0:
			_, v, err = s.Get(ctx, key)
		case 1:
			err = s.Delete(ctx, key, versions[key])
		case 2:
			v, err = s.Put(ctx, key, versions[key], []byte(strconv.Itoa(i)))
		case 3:
			for _, lerr := range store.List(ctx, s, "") {
				err = lerr
			}
			v = versions[key]
		}
		cancel()
		versions[key] = v
		var c *store.ConflictError
		if errors.As(err, &c) {
			versions[key] = c.Version
		}
		if _, ok := names[versions[key]]; !ok {
			names[versions[key]] = len(names)
		}
		log = append(log, fmt.Sprintf("%d %s %d %v %v %v", i, key, names[versions[key]], store.OutcomeOf(err), errors.Is(err, faultstore.ErrInjected), time.Now().UnixNano()))
	}
	return log
}

// TestReplay checks that the record of a seeded run, read back from its text, injects the
// same faults again.
func TestReplay(t *testing.T) {
	faults := 0
	for seed := range uint64(40) {
		run := func(schedule faultstore.Schedule) (log []string, produced faultstore.Schedule) {
			synctest.Test(t, func(t *testing.T) {
				s := faultstore.New(memstore.New(), schedule)
				log = work(t, s, seed)
				produced = s.Injected()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return log, produced
		}
		first, produced := run(faultstore.Random(seed))
		again, err := faultstore.Parse(produced.String())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		faults += len(again.Rules)
		second, produced2 := run(again)
		for i := range first {
			if first[i] != second[i] {
				t.Fatalf("seed %d: the replay differs:\n%s\n%s\nschedule: %s", seed, first[i], second[i], again)
			}
		}
		if produced.String() != produced2.String() {
			t.Fatalf("seed %d: the replay produced\n%s\nwant\n%s", seed, produced2, produced)
		}
	}
	if faults < 400 {
		t.Errorf("only %d faults in all", faults)
	}
}

// TestSeedIgnoresOtherKeys checks that the fault of a call does not depend on calls on
// other keys.
func TestSeedIgnoresOtherKeys(t *testing.T) {
	fates := func(others int) (log []string) {
		synctest.Test(t, func(t *testing.T) {
			s := faultstore.New(memstore.New(), faultstore.MustParse("* * %0.3 drop; seed 11"))
			for range 100 {
				for i := range others {
					_, _, _ = s.Get(t.Context(), fmt.Sprint("other-", i))
				}
				_, _, err := s.Get(t.Context(), "job")
				log = append(log, fmt.Sprint(errors.Is(err, faultstore.ErrInjected)))
			}
		})
		return log
	}
	if a, b := strings.Join(fates(0), " "), strings.Join(fates(3), " "); a != b || !strings.Contains(a, "true") || !strings.Contains(a, "false") {
		t.Errorf("got\n%s, with others\n%s", a, b)
	}
}

// TestFaultsKeepTheContract runs many callers on a store under all faults at once. One
// register for each key must explain their results, unknown outcomes included.
func TestFaultsKeepTheContract(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			var h storetest.History
			s := faultstore.New(memstore.New(), faultstore.Random(seed))
			var wg sync.WaitGroup
			for i := range 4 {
				recorded := h.Record(s)
				wg.Go(func() { hammer(t.Context(), recorded, rand.New(rand.NewPCG(seed, uint64(i)))) })
			}
			wg.Wait()
			if err := s.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			s.Set(faultstore.Schedule{})
			for i := range 2 {
				_, _, _ = h.Record(s).Get(t.Context(), "job-"+strconv.Itoa(i))
			}
			if err := h.Check(); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func hammer(ctx context.Context, s store.Store, r *rand.Rand) {
	versions := make(map[string]store.Version)
	for range 60 {
		key := "job-" + strconv.Itoa(r.IntN(2))
		ctx, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(30))*time.Millisecond)
		v := versions[key]
		switch p := r.IntN(10); {
		case p < 4:
			if _, w, err := s.Get(ctx, key); err == nil || errors.Is(err, store.ErrNotFound) {
				versions[key] = w
			}
		case p < 6 && v != "":
			if s.Delete(ctx, key, v) == nil {
				versions[key] = ""
			}
		default:
			// There are few values, so that a value does not identify an unknown write.
			if w, err := s.Put(ctx, key, v, []byte(strconv.Itoa(r.IntN(3)))); err == nil {
				versions[key] = w
			}
		}
		cancel()
		time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
	}
}

package leaderlock_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/holdfast-go/holdfast/adapters/leaderlock"
	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

const election = "prod/invoices"

const key = "leader/" + election

func newLock(t *testing.T, st store.Store) *leaderlock.Lock {
	t.Helper()
	l, err := leaderlock.New(st, election, "host", nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// recordOf is what an elector writes for a candidate.
func recordOf(l resourcelock.Interface) resourcelock.LeaderElectionRecord {
	now := metav1.Now()
	return resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity(), LeaseDurationSeconds: 15, AcquireTime: now, RenewTime: now}
}

// freeRecord is what an elector writes to free the record.
func freeRecord() resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1, AcquireTime: metav1.Now(), RenewTime: metav1.Now()}
}

// lead makes a candidate the leader as an elector does, and returns its token.
func lead(t *testing.T, l *leaderlock.Lock) uint64 {
	t.Helper()
	_, _, err := l.Get(t.Context())
	if apierrors.IsNotFound(err) {
		err = l.Create(t.Context(), recordOf(l))
	} else if err == nil {
		err = l.Update(t.Context(), recordOf(l))
	}
	if err != nil {
		t.Fatal(err)
	}
	l.RecordEvent("became leader")
	token, err := l.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func get(t *testing.T, l resourcelock.Interface) (*resourcelock.LeaderElectionRecord, string) {
	t.Helper()
	ler, raw, err := l.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return ler, string(raw)
}

func TestCompareAndSwap(t *testing.T) {
	st := memstore.New()
	a, b := newLock(t, st), newLock(t, st)
	if err := a.Update(t.Context(), recordOf(a)); err == nil {
		t.Error("an Update without a read succeeded")
	}
	for _, l := range []*leaderlock.Lock{a, b} {
		if _, _, err := l.Get(t.Context()); !apierrors.IsNotFound(err) {
			t.Fatalf("Get of an absent record: %v", err)
		}
	}
	if err := a.Create(t.Context(), recordOf(a)); err != nil {
		t.Fatal(err)
	}
	if err := b.Create(t.Context(), recordOf(b)); !apierrors.IsAlreadyExists(err) {
		t.Errorf("the second Create: %v", err)
	}
	if ler, _ := get(t, b); ler.HolderIdentity != a.Identity() || ler.LeaseDurationSeconds != 15 {
		t.Errorf("the record is %+v", ler)
	}
	// Each of a's writes replaces its own last write, without a read between them.
	for range 3 {
		if err := a.Update(t.Context(), recordOf(a)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Update(t.Context(), recordOf(b)); !apierrors.IsConflict(err) {
		t.Errorf("an Update over a record that was renewed since: %v", err)
	}
	if err := st.Delete(t.Context(), key, version(t, st)); err != nil {
		t.Fatal(err)
	}
	if err := a.Update(t.Context(), recordOf(a)); !apierrors.IsConflict(err) {
		t.Errorf("an Update over a record that was removed: %v", err)
	}
}

func version(t *testing.T, st store.Store) store.Version {
	t.Helper()
	_, v, err := st.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestRawRecord: the raw record differs after each write, although the record is the same.
func TestRawRecord(t *testing.T) {
	a := newLock(t, memstore.New())
	lead(t, a)
	before, raw := get(t, a)
	if _, again := get(t, a); again != raw {
		t.Error("the raw record differs without a write")
	}
	if err := a.Update(t.Context(), *before); err != nil {
		t.Fatal(err)
	}
	after, renewed := get(t, a)
	if renewed == raw {
		t.Error("the raw record is the same after a renewal")
	}
	// The control: what LeaseLock of client-go returns.
	if asJSON(t, before) != asJSON(t, after) {
		t.Error("the records differ: this test shows nothing")
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTokens: the token stays the same during a term, and rises with each term.
func TestTokens(t *testing.T) {
	st := memstore.New()
	a, b := newLock(t, st), newLock(t, st)
	if _, err := a.Token(t.Context()); !errors.Is(err, leaderlock.ErrNotLeading) {
		t.Errorf("the token of a candidate: %v", err)
	}
	first := lead(t, a)
	if err := a.Update(t.Context(), recordOf(a)); err != nil { // with LeaderTransitions 0, as the elector wrote it
		t.Fatal(err)
	}
	if ler, _ := get(t, a); ler.LeaderTransitions != int(first) {
		t.Errorf("LeaderTransitions is %d after a renewal, want %d", ler.LeaderTransitions, first)
	}
	second := lead(t, b)
	if second <= first {
		t.Errorf("the token of the second leader is %d, of the first one %d", second, first)
	}
	if token, err := a.Token(t.Context()); token != first || err != nil { // a knows nothing yet
		t.Errorf("got %d, %v", token, err)
	}
	get(t, a)
	if _, err := a.Token(t.Context()); !errors.Is(err, leaderlock.ErrNotLeading) {
		t.Errorf("the token of a candidate that has read the record of another: %v", err)
	}
	b.RecordEvent("stopped leading")
	if _, err := b.Token(t.Context()); !errors.Is(err, leaderlock.ErrNotLeading) {
		t.Errorf("the token after the end of the term: %v", err)
	}
	if third := lead(t, b); third <= second {
		t.Errorf("the token of the third term is %d, of the second one %d", third, second)
	}

	// The work of an ended term never gets the token of a later term.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Token(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the token for the context of an earlier term: %v", err)
	}

	// The tokens rise over a removal, although client-go begins with LeaderTransitions 0 again.
	b.RecordEvent("stopped leading")
	highest := lead(t, b)
	if err := st.Delete(t.Context(), key, version(t, st)); err != nil {
		t.Fatal(err)
	}
	if token := lead(t, newLock(t, st)); token <= highest {
		t.Errorf("the token after a removal is %d, before it %d", token, highest)
	}
}

func mustGet(t *testing.T, st store.Store) string {
	t.Helper()
	value, _, err := st.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

// TestLeadsAgain: an elector that another leader has replaced must stop before it leads again. The elector of
// client-go would continue, with the context of its first term.
func TestLeadsAgain(t *testing.T) {
	st := memstore.New()
	a, b := newLock(t, st), newLock(t, st)
	lead(t, a)
	second := lead(t, b)
	if err := b.Update(t.Context(), freeRecord()); err != nil {
		t.Fatal(err)
	}
	get(t, a)
	before := mustGet(t, st)
	if err := a.Update(t.Context(), recordOf(a)); !errors.Is(err, leaderlock.ErrNotLeading) {
		t.Errorf("a leads again in its first term: %v", err)
	}
	if mustGet(t, st) != before {
		t.Error("the record has changed")
	}
	a.RecordEvent("stopped leading")
	if token := lead(t, a); token <= second {
		t.Errorf("the token of the third term is %d, of the second one %d", token, second)
	}

	// The same if the record was removed, because another candidate may have led since.
	if err := st.Delete(t.Context(), key, version(t, st)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // before and after a read
		if err := a.Create(t.Context(), recordOf(a)); !errors.Is(err, leaderlock.ErrNotLeading) {
			t.Errorf("a creates a record during its term: %v", err)
		}
		if _, _, err := a.Get(t.Context()); !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
}

// TestFreesOnlyItsOwn: an elector that has not noticed that it was replaced frees the record after a Get. The error must
// not be a conflict: later versions of client-go then repeat the call at once.
func TestFreesOnlyItsOwn(t *testing.T) {
	st := memstore.New()
	a, b := newLock(t, st), newLock(t, st)
	lead(t, a)
	lead(t, b)
	get(t, a)
	if err := a.Update(t.Context(), freeRecord()); !errors.Is(err, leaderlock.ErrNotLeading) || apierrors.IsConflict(err) {
		t.Errorf("a frees the record of b: %v", err)
	}
	if ler, _ := get(t, b); ler.HolderIdentity != b.Identity() {
		t.Errorf("the record is %+v", ler)
	}
	if err := b.Update(t.Context(), freeRecord()); err != nil {
		t.Errorf("b frees its record: %v", err)
	}
}

// TestFreesAfterItsWork: after a failed renewal, the elector frees the record before it ends the context of the work.
// Another candidate would lead meanwhile. If the work was cancelled, it has ended before.
func TestFreesAfterItsWork(t *testing.T) {
	var fails error
	st := store.Intercept(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
		if fails != nil && op.Kind == store.OpPut {
			return fails
		}
		return next(ctx, op)
	})
	l := newLock(t, st)
	lead(t, l)
	renewed, _ := get(t, l)
	for _, fails = range []error{store.ErrUnavailable, errors.Join(store.ErrUnavailable, context.Canceled)} { // the second: a connection was closed
		if err := l.Update(t.Context(), *renewed); err == nil {
			t.Fatal("the renewal does not fail")
		}
		fails = nil
		if err := l.Update(t.Context(), freeRecord()); !errors.Is(err, leaderlock.ErrNotLeading) {
			t.Errorf("after a failed renewal: %v", err)
		}
		if err := l.Update(t.Context(), *renewed); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Update(t.Context(), freeRecord()); err != nil {
		t.Errorf("after a renewal: %v", err)
	}
}

// TestLateSuccess: a write that is known to be applied only later than a tenth of LeaseDuration is no success: the other
// candidates have seen it long ago.
func TestLateSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pause time.Duration
		st := store.Intercept(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
			err := next(ctx, op)
			if op.Kind == store.OpPut {
				time.Sleep(pause) // the process is stopped
			}
			return err
		})
		a := newLock(t, st)
		pause = 1400 * time.Millisecond
		lead(t, a)
		pause = 1600 * time.Millisecond
		if err := a.Update(t.Context(), recordOf(a)); !apierrors.IsTimeout(err) {
			t.Errorf("a write that took %v: %v", pause, err)
		}
		// The record is its own: the next write succeeds.
		pause = 0
		if err := a.Update(t.Context(), recordOf(a)); err != nil {
			t.Error(err)
		}
		// A candidate does not rely on the time at which a record was freed.
		pause = time.Minute
		if err := a.Update(t.Context(), freeRecord()); err != nil {
			t.Error(err)
		}

		// A late success does not begin a term either.
		b := newLock(t, st)
		get(t, b)
		if err := b.Update(t.Context(), recordOf(b)); !apierrors.IsTimeout(err) {
			t.Errorf("got %v", err)
		}
		if _, err := b.Token(t.Context()); !errors.Is(err, leaderlock.ErrNotLeading) {
			t.Errorf("got %v", err)
		}
	})
}

// TestTrust: a term is trusted for nine tenths of LeaseDuration, from when its last write was sent. Then no call sends a
// request until the elector has stopped.
func TestTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := faultstore.New(memstore.New(), faultstore.Schedule{})
		a := newLock(t, faults)
		leaderlock.SetClock(a, sysclock.ReadAwake) // Suspended is exact to some nanoseconds only
		lead(t, a)
		faults.Set(faultstore.MustParse("put * delay-reply 1s"))
		if err := a.Update(t.Context(), recordOf(a)); err != nil {
			t.Fatal(err)
		}
		faults.Set(faultstore.Schedule{})
		time.Sleep(leaseDuration*9/10 - time.Second - time.Nanosecond)
		if _, err := a.Token(t.Context()); err != nil {
			t.Error(err)
		}
		get(t, a)
		time.Sleep(2 * time.Nanosecond)
		if _, err := a.Token(t.Context()); !errors.Is(err, leaderlock.ErrNotLeading) {
			t.Errorf("Token returns %v", err)
		}
		if _, _, err := a.Get(t.Context()); !errors.Is(err, leaderlock.ErrNotLeading) {
			t.Errorf("Get returns %v", err)
		}
		for _, ler := range []resourcelock.LeaderElectionRecord{recordOf(a), freeRecord()} {
			if err := a.Update(t.Context(), ler); !errors.Is(err, leaderlock.ErrNotLeading) {
				t.Errorf("Update returns %v", err)
			}
		}
		a.RecordEvent("stopped leading")
		lead(t, a)
	})
}

// TestSleep: after a machine has slept for longer than LeaseDuration, another candidate leads. So no token of the term is
// valid, although Go's clock did not run.
func TestSleep(t *testing.T) {
	a := newLock(t, memstore.New())
	reading := sysclock.Read()
	leaderlock.SetClock(a, func() sysclock.Reading { return reading })
	lead(t, a)
	reading.Suspended += leaseDuration
	if token, err := a.Token(t.Context()); !errors.Is(err, leaderlock.ErrNotLeading) {
		t.Errorf("Token returns %d, %v", token, err)
	}
}

// TestLostReplyOfOneCall: a lost reply is resolved in the call, also if the write was lost too.
func TestLostReplyOfOneCall(t *testing.T) {
	for _, faults := range []string{"put * #1 lose", "put * #1 drop", "put * #1-3 drop; read * #1-2 fail", "put * #1 late"} {
		t.Run(faults, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := faultstore.New(memstore.New(), faultstore.Schedule{})
				a := newLock(t, st)
				lead(t, a)
				token := lead(t, a)
				st.Set(faultstore.MustParse(faults))
				if err := a.Update(t.Context(), recordOf(a)); err != nil {
					t.Error(err)
				}
				if rules := st.Unmatched(); len(rules.Rules) > 0 {
					t.Errorf("no call matched %v", rules)
				}
				if now, err := a.Token(t.Context()); now != token || err != nil {
					t.Errorf("the token is %d, %v, before it was %d", now, err, token)
				}
			})
		})
	}
}

// TestLostReplyOfTheFirst: the outcome of the write that makes a candidate the leader stays unknown. The elector reads the
// record as its own, and renews it.
func TestLostReplyOfTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := faultstore.New(memstore.New(), faultstore.MustParse("put * #1 lose; get * #2- fail; resolve * fail"))
		a := newLock(t, st)
		if _, _, err := a.Get(t.Context()); !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		err := a.Create(t.Context(), recordOf(a))
		if err == nil || store.OutcomeOf(err) != store.Unknown {
			t.Fatalf("got %v", err)
		}
		if _, err := a.Token(t.Context()); !errors.Is(err, leaderlock.ErrNotLeading) {
			t.Errorf("the token after an unknown outcome: %v", err)
		}
		st.Set(faultstore.Schedule{})
		if ler, _ := get(t, a); ler.HolderIdentity != a.Identity() {
			t.Errorf("the record is %+v", ler)
		}
		lead(t, a)
	})
}

// TestContexts: each call returns when its context has ended, and in its own time if the store hangs.
func TestContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := faultstore.New(memstore.New(), faultstore.Schedule{})
		a := newLock(t, st)
		calls := map[string]struct {
			do   func(context.Context) error
			most time.Duration
		}{
			"Get":    {func(ctx context.Context) error { _, _, err := a.Get(ctx); return err }, 5 * time.Second},
			"Create": {func(ctx context.Context) error { return newLock(t, st).Create(ctx, recordOf(a)) }, 1500 * time.Millisecond},
			"Update": {func(ctx context.Context) error { return a.Update(ctx, recordOf(a)) }, 1500 * time.Millisecond},
			"free":   {func(ctx context.Context) error { return a.Update(ctx, freeRecord()) }, 1500 * time.Millisecond},
		}
		for name, call := range calls {
			lead(t, a)
			before := mustGet(t, st)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := call.do(ended); !errors.Is(err, context.Canceled) || store.InDoubt(err) {
				t.Errorf("%s with an ended context: %v", name, err)
			}
			if mustGet(t, st) != before {
				t.Errorf("%s with an ended context has changed the record", name)
			}

			st.Set(faultstore.MustParse("* * delay 1h"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began := time.Now()
			if err := call.do(ctx); err == nil || time.Since(began) != time.Second {
				t.Errorf("%s whose context ends after 1 s: %v after %v", name, err, time.Since(began))
			}
			cancel()
			began = time.Now()
			if err := call.do(t.Context()); err == nil || time.Since(began) != call.most {
				t.Errorf("%s on a store that hangs: %v after %v, want %v", name, err, time.Since(began), call.most)
			}
			st.Set(faultstore.Schedule{})
		}
		// A context that ends after the call changes nothing.
		ctx, cancel := context.WithCancel(t.Context())
		lead(t, a)
		if err := a.Update(ctx, recordOf(a)); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := a.Token(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestNames: any name is its own election, or is refused.
func TestNames(t *testing.T) {
	st := memstore.New()
	for _, name := range []string{
		"a", "a/b", "ns/a/b", "Ünï/çødé/選挙", "with space", "line\nfeed\x00\x1b[31m", "a%2Fb", "..a", strings.Repeat("x", store.MaxKey-len("leader/")),
	} {
		for range 2 { // two candidates
			l, err := leaderlock.New(st, name, "host\n\x1b[31m", nil)
			if err != nil {
				t.Errorf("%q: %v", name, err)
				continue
			}
			_, _, err = l.Get(t.Context())
			switch {
			case apierrors.IsNotFound(err):
				if err := l.Create(t.Context(), recordOf(l)); err != nil {
					t.Errorf("%q: %v", name, err)
				}
			case err != nil:
				t.Errorf("%q: %v", name, err)
			default:
				if err := l.Update(t.Context(), recordOf(l)); err != nil {
					t.Errorf("%q: %v", name, err)
				}
			}
			if got := l.Describe(); strings.ContainsAny(got, "\n\x00\x1b") || name == "a/b" && got != "leader/a/b" {
				t.Errorf("%q is described as %q", name, got)
			}
		}
	}
	for _, name := range []string{"", "/", "/a", "a/", "a//b", "..", "ns/../a", "\xff", strings.Repeat("x", 1024)} {
		if _, err := leaderlock.New(st, name, "host", nil); !errors.Is(err, store.ErrKey) {
			t.Errorf("the election %.40q: %v", name, err)
		}
	}
	for _, candidate := range []string{"", "\xff", strings.Repeat("x", leaderlock.MaxCandidate+1)} {
		if _, err := leaderlock.New(st, election, candidate, nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("the candidate %.40q: %v", candidate, err)
		}
	}
	if a, b := newLock(t, st), newLock(t, st); a.Identity() == b.Identity() || !strings.HasPrefix(a.Identity(), "host_") {
		t.Errorf("two candidates are %q and %q", a.Identity(), b.Identity())
	}
	delayed := delayedStore{st}
	if _, err := leaderlock.New(delayed, election, "host", nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a store that delays its writes: %v", err)
	}
}

type delayedStore struct{ *memstore.Store }

func (delayedStore) Traits() store.Traits { return store.Traits{MinWriteTime: time.Second} }

// TestShortLease: client-go cuts a LeaseDuration below a second to zero, with which every candidate leads at once.
func TestShortLease(t *testing.T) {
	a := newLock(t, memstore.New())
	ler := recordOf(a)
	ler.LeaseDurationSeconds = 0
	if err := a.Create(t.Context(), ler); !apierrors.IsBadRequest(err) {
		t.Errorf("got %v", err)
	}
}

func TestEvents(t *testing.T) {
	var log strings.Builder
	l, err := leaderlock.New(memstore.New(), election, "host", &leaderlock.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	lead(t, l)
	for _, want := range []string{`msg="became leader"`, "election=" + election, "candidate=" + l.Identity(), "token="} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s: %s", want, &log)
		}
	}
}

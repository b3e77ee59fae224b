package leasetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
)

// otherCases are the rules for more than one lock and its holder.
func otherCases() []testCase {
	return []testCase{
		{"AcquireAll", "AcquireAll takes all of its locks or none. Two clients that name the same locks in different orders do not wait for each other for ever.", caseAll},
		{"Do", "Do runs a function under the lock, and the lock is free afterwards. If another client holds the lock, or if the lease is lost, Do returns an error.", caseDo},
		{"Once", "Of all clients, one runs the job in a period. If the run fails or its holder dies, the job runs again, but only as often as Retries allows.", caseOnce},
		{"YieldRequest", "A holder reads a request to yield with its next renewal. It keeps the lock, and can refuse. A second request changes nothing. The request ends with the grant.", caseYieldRequest},
		{"YieldRequestDead", "If the holder is dead, a request to yield does not delay the takeover.", caseYieldRequestDead},
		{"YieldRequestReplyLost", "If the reply to a renewal was lost, and a request to yield was written over it, the holder still finds its own renewal.", caseYieldRequestReplyLost},
		{"YieldRequestUnderASession", "With the next renewal of its session, a holder reads a request to yield, or that its lock was broken. The session continues.", caseYieldRequestUnderASession},
		{"Linger", "During Linger, a handle takes its lock again without a request, and with the same token. It frees the lock for a waiting acquire, and when the client is closed.", caseLinger},
		{"Unreadable", "If the value of the register is not a record of this lock, every call returns an error. No client takes this lock, and none writes over the value.", caseUnreadable},
		{"Removed", "If the record is removed from the store, the lease is lost. The holder does not write the record again, and the next token is higher.", caseRemoved},
		{"List", "List yields the names of the locks, and no other names.", caseList},
		{"Watch", "Watch yields the present state of a lock, and then each later state.", caseWatch},
		{"Sweep", "Sweep removes locks that have been free for a long time, and no held locks. Later tokens are higher than the removed tokens.", caseSweep},
	}
}

func caseAll(e *env) {
	a, b := e.client(e.a, nil), e.client(e.b, nil)
	handles := func(c *lease.Client, names ...string) (hs []*lease.Handle) {
		for _, name := range names {
			hs = append(hs, e.handle(c, name))
		}
		return hs
	}
	set, err := lease.TryAcquireAll(e.ctx, handles(a, "z", "x", "y")...)
	e.Must("TryAcquireAll", err)
	for _, name := range []string{"x", "y", "z"} {
		if g := set.Guard(name); g == nil || g.Name() != name {
			e.Fatalf("the set has no guard of %q", name)
		}
		e.holds(set.Guard(name))
		e.held(b, name)
	}
	e.Must("Release", set.Release(e.ctx))
	y := e.try(b, "y")
	e.WantErr("TryAcquireAll with a held lock", suitetest.ErrOf(lease.TryAcquireAll(e.ctx, handles(a, "x", "y", "z")...)), lease.ErrHeld)
	e.state("x", lease.Free)
	e.state("z", lease.Free)
	e.release(y)

	var wg sync.WaitGroup
	for i, names := range [][]string{{"x", "y", "z"}, {"z", "y", "x"}, {"y", "z"}} {
		hs := handles([]*lease.Client{a, b, a}[i], names...)
		wg.Go(func() {
			for range 3 {
				set, err := lease.AcquireAll(e.ctx, hs...)
				if !e.OK("AcquireAll", err) {
					return
				}
				e.OK("the set of guards ended", errors.Join(set.Err(), set.Release(e.ctx)))
			}
		})
	}
	wg.Wait()
}

func caseDo(e *env) {
	a, b := e.client(e.a, nil), e.client(e.b, nil)
	failed := errors.New("the work failed")
	err := a.Do(e.ctx, job, func(ctx context.Context, g *lease.Guard) error {
		e.holds(g)
		e.WantErr("Do with NoWait of a held lock", b.Do(e.ctx, job, func(context.Context, *lease.Guard) error { return failed }, &lease.LockOptions{NoWait: true}), lease.ErrHeld)
		return ctx.Err()
	}, nil)
	e.Must("Do", err)
	e.state(job, lease.Free)
	if err := b.Do(e.ctx, job, func(context.Context, *lease.Guard) error { return failed }, &lease.LockOptions{NoWait: true}); err != failed {
		e.Errorf("Do with NoWait: %v, want the error of the function", err)
	}
	err = a.Do(e.ctx, job, func(ctx context.Context, g *lease.Guard) error {
		_, err := b.Break(e.ctx, job, g.Token(), &lease.BreakOptions{Immediate: true})
		return errors.Join(err, failed)
	}, nil)
	if !errors.Is(err, lease.ErrLost) || !errors.Is(err, failed) {
		e.Errorf("Do whose lease was broken: got the error %v, want ErrLost and the error of the function", err)
	}
}

func caseYieldRequest(e *env) {
	c, asker := e.client(e.a, nil), e.client(e.b, nil)
	e.WantErr("RequestYield of a lock that does not exist", suitetest.ErrOf(asker.RequestYield(e.ctx, job, nil)), store.ErrNotFound)
	g := e.try(c, job)
	asked, err := asker.RequestYield(e.ctx, job, &lease.YieldOptions{Reason: "an upgrade"})
	e.Must("RequestYield", err)
	if asked.Token != g.Token() || asked.Reason != "an upgrade" || asked.Acknowledged {
		e.Errorf("RequestYield returned %+v", asked)
	}
	e.holds(g)
	e.Must("Renew", g.Renew(e.ctx))
	heard, ok := g.YieldRequest()
	if !ok || heard.Reason != "an upgrade" {
		e.Errorf("after a renewal, YieldRequest returned %+v, %v", heard, ok)
	}
	select {
	case <-g.YieldRequested():
	default:
		e.Errorf("the channel of YieldRequested is not closed after the request to yield")
	}
	e.holds(g)
	if again, err := asker.RequestYield(e.ctx, job, &lease.YieldOptions{Reason: "another"}); err != nil || again.Reason != "an upgrade" || !again.Acknowledged {
		e.Errorf("a second RequestYield returned %+v, %v; want the first request", again, err)
	}
	e.Must("Refuse", g.RefuseYield(e.ctx, "not now"))
	if again, err := asker.RequestYield(e.ctx, job, &lease.YieldOptions{Wait: true}); !errors.Is(err, lease.ErrYieldRefused) || again.RefusalReason != "not now" {
		e.Errorf("a refused RequestYield returned %+v, %v; want ErrYieldRefused", again, err)
	}
	e.release(g)
	if rec := e.state(job, lease.Free); rec.YieldRequest != nil {
		e.Errorf("the free record still has the request to yield: %+v", rec.YieldRequest)
	}
	e.WantErr("RequestYield of a free lock", suitetest.ErrOf(asker.RequestYield(e.ctx, job, nil)), lease.ErrNotHeld)
	e.release(e.try(asker, job))
}

func caseLinger(e *env) {
	c := e.client(e.a, func(o *lease.Options) { o.RenewInterval = max(e.long/20, lease.MinRenewInterval) })
	h, err := c.Handle(job, &lease.LockOptions{Linger: time.Hour})
	e.Must("Handle", err)
	var token uint64
	var version store.Version
	for i := range 3 {
		g, err := h.Acquire(e.ctx)
		e.Must("Acquire", err)
		_, v, err := e.a.Get(e.ctx, key)
		e.Must("read the record", err)
		if i > 0 && (g.Token() != token || !g.WasLastHolder()) {
			e.Errorf("during Linger the handle got token %d after token %d, and WasLastHolder is %v; want the same token and true", g.Token(), token, g.WasLastHolder())
		}
		token, version = g.Token(), v
		e.release(g)
	}
	if version == "" || e.state(job, lease.Held).Linger != time.Hour {
		e.Errorf("the record does not have the Linger of the handle")
	}
	other := e.client(e.b, nil)
	g := e.acquire(other, job)
	e.higher(g.Token(), token)
	e.release(g)
	g, err = h.Acquire(e.ctx)
	e.Must("Acquire", err)
	e.release(g)
	e.Must("Close", c.Close(e.ctx))
	e.release(e.try(other, job))
}

func caseYieldRequestUnderASession(e *env) {
	s := e.opened(e.a, nil)
	g, other := e.tryIn(s, job), e.tryIn(s, job+"-2")
	c := e.client(e.b, nil)
	_, err := c.RequestYield(e.ctx, job, &lease.YieldOptions{Reason: "an upgrade"})
	e.Must("RequestYield", err)
	e.Must("Renew", s.Renew(e.ctx))
	e.await(g.YieldRequested(), "the holder has not read the request to yield")
	if asked, ok := g.YieldRequest(); !ok || asked.Reason != "an upgrade" {
		e.Errorf("YieldRequest returned %+v, %v", asked, ok)
	}
	e.Must("Refuse", g.RefuseYield(e.ctx, "not now"))
	e.WantErr("a refused RequestYield under a session", suitetest.ErrOf(c.RequestYield(e.ctx, job, nil)), lease.ErrYieldRefused)
	_, err = c.Break(e.ctx, job, g.Token(), nil)
	e.Must("Break", err)
	e.Must("Renew", s.Renew(e.ctx))
	e.await(g.Context().Done(), "the holder has not read that its lock was broken")
	e.lost(g, lease.ErrBroken)
	e.release(e.acquire(c, job)) // freed by the session, whose grace is none
	if other.Err() != nil || s.Err() != nil {
		e.Errorf("the break of one lock has ended its session (%v) or another lock (%v)", s.Err(), other.Err())
	}
	e.Must("Close", s.Close(e.ctx))
	e.release(e.try(c, job+"-2"))
}

func caseYieldRequestDead(e *env) {
	e.try(e.client(e.a, e.silent), job)
	h := e.handle(e.client(e.b, e.short), job)
	if _, err := h.TryAcquire(e.ctx); !errors.Is(err, lease.ErrHeld) {
		e.Fatalf("TryAcquire: %v", err)
	}
	began := time.Now()
	e.pause(e.TTL / 2)
	_, err := e.client(e.b, e.short).RequestYield(e.ctx, job, nil)
	e.Must("RequestYield", err)
	g, err := h.Acquire(e.ctx)
	e.Must("Acquire", err)
	e.between("the takeover from a dead holder with a request to yield came", time.Since(began), e.TTL, expiry(e.TTL)+e.TTL/3)
	e.release(g)
}

func caseYieldRequestReplyLost(e *env) {
	e.readBack()
	asker, asking := e.client(e.b, nil), false
	fs := e.faulty()
	st := store.Intercept(fs, func(ctx context.Context, op *store.Op, next store.Handler) error {
		err := next(ctx, op)
		if op.Kind.Write() && asking {
			asking = false
			if _, askErr := asker.RequestYield(ctx, job, nil); askErr != nil {
				e.Errorf("RequestYield: %v", askErr)
			}
		}
		return err
	})
	g := e.try(e.client(st, func(o *lease.Options) { o.ManualRenewal = true }), job)
	fs.Set(first(faultstore.WriteOp, faultstore.Lose))
	asking = true
	e.Must("Renew", g.Renew(e.ctx))
	if _, ok := g.YieldRequest(); !ok {
		e.Errorf("the holder has not read the request to yield")
	}
	e.holds(g)
	e.release(g)
}

func caseOnce(e *env) {
	period := lease.Yearly(nil) // the case does not last until the next one
	retry := &lease.LockOptions{Retries: 2}
	once := func(c *lease.Client, result error, ran bool, want lease.RunOutcome, tries int) {
		r, err := c.Once(e.ctx, job, period, func(context.Context, *lease.Guard) error { return result }, retry)
		if ran && result != nil && err == result {
			err = nil
		}
		e.Must("Once", err)
		if r.Ran != ran || r.Last.Outcome != want || r.Last.Attempts != tries {
			e.Errorf("Once: Ran is %v, the outcome is %s, the number of attempts is %d; want %v, %s, %d", r.Ran, r.Last.Outcome, r.Last.Attempts, ran, want, tries)
		}
	}
	a, b := e.client(e.a, nil), e.client(e.b, nil)
	once(a, errors.New("the first try"), true, lease.RunFailed, 1)

	h, err := e.client(e.a, func(o *lease.Options) { o.TTL, o.ManualRenewal, o.NoPresence = e.TTL, true, true }).Handle(job, &lease.LockOptions{Period: period, Retries: retry.Retries})
	e.Must("Handle", err)
	g, err := h.TryAcquire(e.ctx)
	e.Must("TryAcquire for the second attempt, which then dies", err)
	e.WantErr("Once with NoWait while the job runs", suitetest.ErrOf(b.Once(e.ctx, job, period, func(context.Context, *lease.Guard) error { return nil }, &lease.LockOptions{NoWait: true, Retries: 2})), lease.ErrHeld)
	once(b, nil, true, lease.RunDone, 3) // waits for the lease to expire
	if g.Err() == nil {
		e.Errorf("the next run began before the end of the lease of the dead run")
	}
	once(a, nil, false, lease.RunDone, 3)
	once(b, nil, false, lease.RunDone, 3)
	info, err := b.Inspect(e.ctx, job)
	e.Must("Inspect", err)
	if run := info.Record.Run; run == nil || run.Outcome != lease.RunDone || run.Began.IsZero() || run.Ended.Before(run.Began) {
		e.Errorf("the record has the run %+v", run)
	}
}

func caseUnreadable(e *env) {
	g := e.try(e.client(e.a, nil), job)
	value, _, err := e.a.Get(e.ctx, key)
	e.Must("read the record", err)
	e.release(g)
	for i, bad := range []string{
		"", "{}", "null", "held", `{"holdfast":1}`, `{"holdfast":2,"kind":"lease"}`, `{"holdfast":3,"kind":"lease"}`, `{"holdfast":1,"kind":"floor","token":7}`,
		string(value), // of another lock
		string(value[:len(value)/2]),
	} {
		name := "bad-" + string(rune('a'+i))
		v, err := e.a.Put(e.ctx, "lock/"+name, "", []byte(bad))
		e.Must("write what is no record", err)
		c := e.client(e.b, nil)
		_, tryErr := c.TryAcquire(e.ctx, name, nil)
		_, waitErr := c.Acquire(e.ctx, name, nil)
		_, seeErr := c.Inspect(e.ctx, name)
		for what, err := range map[string]error{"TryAcquire": tryErr, "Acquire": waitErr, "Inspect": seeErr} {
			e.WantErr(fmt.Sprintf("%s of %q", what, bad), err, store.ErrCorrupt)
		}
		if value, now, err := e.a.Get(e.ctx, "lock/"+name); err != nil || now != v || string(value) != bad {
			e.Errorf("the unreadable value %q was changed to %q (error: %v)", bad, value, err)
		}
	}
}

func caseRemoved(e *env) {
	g := e.try(e.client(e.a, nil), job)
	_, v, err := e.a.Get(e.ctx, key)
	e.Must("read the record", err)
	e.Must("remove the record", e.a.Delete(e.ctx, key, v))
	e.WantErr("Renew after the removal of the record", g.Renew(e.ctx), lease.ErrRemoved)
	e.lost(g, lease.ErrRemoved)
	e.WantErr("Release after the removal of the record", g.Release(e.ctx), lease.ErrLost)
	_, _, err = e.b.Get(e.ctx, key)
	e.WantErr("after the release, a read of the removed record", err, store.ErrNotFound)
	e.pause(2 * time.Millisecond) // tokens start at the time in microseconds
	e.higher(e.try(e.client(e.b, nil), job).Token(), g.Token())
}

func caseList(e *env) {
	if _, ok := store.As[store.Lister](e.a); !ok {
		e.Absent("this store cannot list its keys")
	}
	want := []string{"a", "a/b", "ab", "c/d ü"}
	c := e.client(e.a, nil)
	for _, name := range want {
		e.try(c, name)
	}
	_, err := e.a.Put(e.ctx, "checkpoint/x", "", []byte("no lock"))
	e.Must("Put", err)
	for prefix, want := range map[string][]string{"": want, "a": {"a/b"}} {
		var got []string
		for name, err := range e.client(e.b, nil).List(e.ctx, prefix) {
			e.Must("List", err)
			got = append(got, name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			e.Errorf("the names below %q are %q, want %q", prefix, got, want)
		}
	}
}

func caseWatch(e *env) {
	c := e.client(e.a, nil)
	var g *lease.Guard
	step := 0
	for info, err := range e.client(e.b, nil).Watch(e.ctx, job) {
		e.Must("Watch", err)
		switch {
		case step == 0 && info.Version == "":
			g = e.try(c, job)
		case step == 1 && info.Record.State == lease.Held && info.Record.Token == g.Token():
			e.release(g)
		case step == 2 && info.Record.State == lease.Free:
			return
		default:
			e.Fatalf("Watch yielded %+v at step %d", info, step)
		}
		step++
	}
}

func caseSweep(e *env) {
	if _, ok := store.As[store.Lister](e.a); !ok {
		e.Absent("this store cannot list its keys")
	}
	c := e.client(e.a, nil)
	e.release(e.try(c, job))
	e.release(e.try(c, "young"))
	e.try(c, "held")
	token := e.age(job, 3*time.Hour, time.Now().Add(-time.Minute))
	e.age("held", 3*time.Hour, time.Now())
	e.release(e.try(c, "ahead"))
	e.age("ahead", 3*time.Hour, time.Now().Add(time.Hour))
	reported := 0
	o := &lease.SweepOptions{OlderThan: 2 * time.Hour, DryRun: true, OnLock: func(name string, removed bool, err error) {
		if errors.Is(err, lease.ErrTokenInFuture) && name == "ahead" && !removed {
			reported++
		}
	}}
	for _, dry := range []bool{true, false} {
		o.DryRun = dry
		if n, err := e.client(e.b, nil).Sweep(e.ctx, o); n != 1 || err != nil {
			e.Fatalf("Sweep with DryRun %v returned %d locks and the error %v; want 1 lock", dry, n, err)
		}
		_, _, err := e.b.Get(e.ctx, key)
		if absent := errors.Is(err, store.ErrNotFound); absent == dry {
			e.Errorf("after a Sweep with DryRun %v, a read of the record returned %v", dry, err)
		}
	}
	e.state("young", lease.Free)
	e.state("held", lease.Held)
	e.state("ahead", lease.Free)
	if reported != 2 {
		e.Errorf("two calls of Sweep should report ErrTokenInFuture, but %d did", reported)
	}
	if floor, _, err := e.b.Get(e.ctx, ".holdfast/floor"); err != nil || !strings.Contains(string(floor), strconv.FormatUint(token, 10)) {
		e.Errorf("the token floor is %q (error: %v); want a floor with the token %d", floor, err, token)
	}
	g := e.try(e.client(e.b, func(o *lease.Options) { o.CheckTokenFloor = true }), job)
	e.higher(g.Token(), token)
}

// age makes a record look as if it had been written earlier, with the token of a lock
// that was made at the time first.
func (e *env) age(name string, by time.Duration, first time.Time) (token uint64) {
	value, v, err := e.a.Get(e.ctx, "lock/"+name)
	e.Must("read the record", err)
	var fields map[string]any
	e.Must("decode the record", json.Unmarshal(value, &fields))
	fields["renewed"] = time.Now().Add(-by).UTC()
	token = uint64(first.UnixMicro())
	fields["token"] = token
	value, err = json.Marshal(fields)
	e.Must("encode the record", err)
	_, err = e.a.Put(e.ctx, "lock/"+name, v, value)
	e.Must("write the record", err)
	return token
}

package leasetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// grantCases are the rules of holders without any fault.
func grantCases() []testCase {
	return []testCase{
		{"AcquireRelease", "TryAcquire takes a free lock, and the record then names the holder. Release frees the lock in the store and ends the guard.", caseAcquireRelease},
		{"Held", "If a call does not get the lock, its error has the holder, the token and the longest time of the wait.", caseHeld},
		{"TokensRise", "Each grant has a higher token than all earlier grants of the lock, for every client and after every kind of end.", caseTokensRise},
		{"TwoHandles", "Two handles exclude each other: handles of one client, of two clients with the same Holder, and of clients with two Stores.", func(e *env) {
			c := e.client(e.a, nil)
			g := e.try(c, job)
			e.held(c, job)
			e.held(e.client(e.a, nil), job)
			e.held(e.client(e.b, nil), job)
			e.try(e.client(e.b, nil), job+"-2") // a lock of another name is another lock
			e.release(g)
			e.release(e.try(e.client(e.b, nil), job))
		}},
		{"Reentrant", "All guards of one handle share one grant. The grant ends when the last guard is released.", caseReentrant},
		{"WasLastHolder", "WasLastHolder is true exactly when no other handle has held the lock since this handle's last grant.", caseWasLastHolder},
		{"Data", "Every client reads the bytes that the last SetData stored, also after the end of the grant.", caseData},
		{"AcquireWaits", "Acquire waits for a held lock, and gets the lock when the holder releases it.", func(e *env) {
			holder := e.try(e.client(e.a, nil), job)
			waiting := make(chan struct{})
			var once sync.Once
			c := e.client(e.b, func(o *lease.Options) {
				o.OnEvent = func(ev lease.Event) {
					if ev.Kind == lease.EventWaiting {
						once.Do(func() { close(waiting) })
					}
				}
			})
			var wg sync.WaitGroup
			wg.Go(func() {
				if g, err := c.Acquire(e.ctx, job, nil); e.OK("Acquire", err) {
					e.higher(g.Token(), holder.Token())
				}
			})
			defer wg.Wait()
			e.await(waiting, "the client sent no EventWaiting")
			e.release(holder)
		}},
		{"Contexts", "The context of an acquire bounds only the wait. If it is cancelled later, the lease continues, and a release works. If it is cancelled during the wait, the waiter leaves no entry in the queue.", caseContexts},
		{"ReleaseTwice", "A second release changes nothing, above all not the grant of the next holder.", func(e *env) {
			g := e.try(e.client(e.a, nil), job)
			e.release(g)
			next := e.try(e.client(e.b, nil), job)
			e.release(g)
			e.holds(next)
		}},
		{"History", "The history of a lock has each grant and each release of it, once and in order, with the token and the holder.", caseHistory},
		{"Contenders", "The lock has at most one holder at a time. All clients increment a counter under the lock: no increment is lost, and the tokens rise with the counter.", caseContenders},
	}
}

func caseHistory(e *env) {
	keep := func(o *lease.Options) { o.History = true }
	a, b := e.client(e.a, keep), e.client(e.b, nil)
	var want []string
	for i := range 8 {
		g := e.try([]*lease.Client{a, a, b}[i%3], job)
		e.release(g)
		want = append(want, fmt.Sprint("granted ", g.Token(), " leasetest"), fmt.Sprint("released ", g.Token(), " leasetest"))
	}
	e.Must("Close", a.Close(e.ctx)) // after the moves of entries
	all, err := b.History(e.ctx, job)
	e.Must("History", err)
	if len(all) < 3 {
		e.Fatalf("the history is %+v", all)
	}
	at := 0
	for i, entry := range all[1:] {
		if entry.Seq != all[i].Seq+1+entry.Missing {
			e.Errorf("the history does not count its entries: %+v follows %+v", entry, all[i])
		}
		// On a slow store, a try that was given up may have made another grant.
		told := fmt.Sprint(entry.Kind, " ", entry.Token, " ", entry.Holder)
		if next := slices.Index(want, told); next >= 0 && next < at {
			e.Errorf("the history has %q too late or twice: %+v", told, all)
		} else if next >= 0 {
			at = next + 1
		}
	}
	if at < len(want) {
		e.Errorf("the history ends with %+v, want %q", all[len(all)-1], want[len(want)-1])
	}
}

func caseAcquireRelease(e *env) {
	c := e.client(e.a, func(o *lease.Options) { o.Holder = "ada@db1" })
	g := e.try(c, job)
	e.holds(g)
	if g.Context().Err() != nil {
		e.Errorf("the context of a new guard has ended: %v", context.Cause(g.Context()))
	}
	if rec := e.state(job, lease.Held); rec.Name != job || rec.Holder != "ada@db1" || rec.TTL != e.long || rec.Grant == "" || rec.Nonce == "" {
		e.Errorf("TryAcquire wrote the wrong record %+v", rec)
	}
	e.release(g)
	rec := e.state(job, lease.Free)
	if rec.Token != g.Token() {
		e.Errorf("the free record has token %d, want the token of the last grant, %d", rec.Token, g.Token())
	}
	if !errors.Is(g.Err(), lease.ErrReleased) || errors.Is(g.Err(), lease.ErrLost) || g.Context().Err() == nil {
		e.Errorf("Err of a released guard returned %v, want ErrReleased", g.Err())
	}
}

func caseHeld(e *env) {
	c := e.client(e.a, func(o *lease.Options) { o.Holder = "the other" })
	g := e.try(c, job)
	held := e.held(e.client(e.b, nil), job)
	rec := held.Record
	if held.Name != job || rec.Token != g.Token() || rec.Holder != "the other" || rec.TTL != e.long || rec.State != lease.Held || rec.Granted.IsZero() {
		e.Errorf("TryAcquire of a held lock returned the error %+v", held)
	}
	if held.Store != store.TraitsOf(e.b).Name {
		e.Errorf("the error names the store %q, want %q", held.Store, store.TraitsOf(e.b).Name)
	}
	if held.Wait <= 0 || held.Wait > expiry(e.long) {
		e.Errorf("the error's Wait is %v, want up to %v", held.Wait, expiry(e.long))
	}
	if text := held.Error(); !strings.Contains(text, "the other") || !strings.Contains(text, fmt.Sprint(g.Token())) {
		e.Errorf("the text of the error is %q", text)
	}
}

func caseTokensRise(e *env) {
	a, b := e.client(e.a, nil), e.client(e.b, nil)
	var last uint64
	above := func(what string, token uint64) {
		if token <= last {
			e.Errorf("%s: the grant has token %d, the grant before had token %d; want a higher token", what, token, last)
		}
		last = token
	}
	h := e.handle(a, job)
	for range 3 {
		g := e.take(h)
		above("the same handle", g.Token())
		e.release(g)
		g = e.try(b, job)
		above("another client", g.Token())
		if err := g.Renew(e.ctx); err != nil || g.Token() != last {
			e.Errorf("after a renewal the guard has token %d, before it had %d, and Renew returned %v", g.Token(), last, err)
		}
		rec, err := a.Break(e.ctx, job, g.Token(), &lease.BreakOptions{Immediate: true})
		e.Must("Break", err)
		above("broken", rec.Token)
	}
	g := e.try(e.client(e.a, e.silent), job)
	above("after a break", g.Token())
	above("after a takeover", e.acquire(b, job).Token())
}

func caseReentrant(e *env) {
	c := e.client(e.a, nil)
	h := e.handle(c, job)
	one := e.take(h)
	two := e.take(h)
	three, err := h.Acquire(e.ctx)
	e.Must("Acquire of a handle that holds", err)
	if two.Token() != one.Token() || three.Token() != one.Token() {
		e.Errorf("the guards of one grant have the tokens %d, %d and %d, want the same token", one.Token(), two.Token(), three.Token())
	}
	e.release(one)
	e.WantErr("Err of a released guard", one.Err(), lease.ErrReleased)
	e.release(three)
	e.holds(two)
	e.held(e.client(e.b, nil), job)
	e.release(two)
	e.state(job, lease.Free)
	four := e.take(h)
	e.release(one) // a late release of an old guard touches nothing
	e.higher(four.Token(), one.Token())
	e.holds(four)
}

func caseWasLastHolder(e *env) {
	h := e.handle(e.client(e.a, nil), job)
	cycle := func(what string, want bool) {
		g := e.take(h)
		if g.WasLastHolder() != want {
			e.Errorf("%s: WasLastHolder is %v, want %v", what, g.WasLastHolder(), want)
		}
		e.release(g)
	}
	cycle("the first grant of a handle", false)
	cycle("no other holder in between", true)
	e.release(e.try(e.client(e.b, nil), job))
	cycle("another one in between", false)
	cycle("no other holder in between", true)
}

func caseData(e *env) {
	c := e.client(e.a, nil)
	g := e.try(c, job)
	if data := g.Data(); data != nil {
		e.Errorf("a new lock has the data %q, want none", data)
	}
	for _, want := range []string{"text with ü and \n", "\xff\x00binary", ""} {
		e.Must("SetData", g.SetData(e.ctx, []byte(want)))
		if got := e.state(job, lease.Held).Data; got == nil || string(got) != want {
			e.Errorf("the record has the data %q, want %q", got, want)
		}
	}
	e.Must("SetData", g.SetData(e.ctx, []byte("kept")))
	e.Must("Renew", g.Renew(e.ctx))
	e.release(g)
	e.WantErr("SetData of a released guard", g.SetData(e.ctx, nil), lease.ErrReleased)
	g = e.try(e.client(e.b, nil), job)
	if got := string(g.Data()); got != "kept" {
		e.Errorf("the next grant has the data %q, want the data of the grant before", got)
	}
	if err := g.SetData(e.ctx, make([]byte, store.MaxValue)); !errors.Is(err, store.ErrTooLarge) || g.Err() != nil {
		e.Errorf("SetData with too much data returned %v, and Guard.Err returned %v; want an error and nil", err, g.Err())
	}
	e.Must("SetData", g.SetData(e.ctx, nil))
	if got := e.state(job, lease.Held).Data; got != nil {
		e.Errorf("the record still has the removed data %q", got)
	}
}

func caseContexts(e *env) {
	c := e.client(e.a, nil)
	ctx, cancel := context.WithCancel(e.ctx)
	g, err := c.Acquire(ctx, job, nil)
	e.Must("Acquire", err)
	cancel()
	e.holds(g)

	// A wait that is given up.
	ctx, cancel = context.WithTimeout(e.ctx, min(e.TTL, e.CaseTimeout)/4)
	defer cancel()
	_, err = e.client(e.b, nil).Acquire(ctx, job, nil)
	e.WantErr("Acquire whose context ended", err, context.DeadlineExceeded)
	e.holds(g)

	ctx, cancel = context.WithCancel(e.ctx)
	cancel()
	if err := g.Release(ctx); err != nil {
		e.Errorf("Release with a context that has ended: got the error %v, want nil", err)
	}
	e.state(job, lease.Free)
	e.WantErr("TryAcquire with a context that has ended", suitetest.ErrOf(c.TryAcquire(ctx, job, nil)), context.Canceled)
	e.state(job, lease.Free)
}

// tally is what the contenders write: a counter, and the token it was written with.
type tally struct {
	N     int
	Token uint64
}

func caseContenders(e *env) {
	const each = 4
	var wg sync.WaitGroup
	for i := range e.Contenders {
		st := e.store(i)
		c := e.client(st, nil)
		wg.Go(func() {
			for range each {
				g, err := c.Acquire(e.ctx, job, nil)
				if !e.OK("Acquire", err) {
					return
				}
				e.raise(st, g)
				e.OK("Release", g.Release(e.ctx))
			}
		})
	}
	wg.Wait()
	value, _, err := e.b.Get(e.ctx, "counter")
	e.Must("read the counter", err)
	var t tally
	e.Must("decode the counter", json.Unmarshal(value, &t))
	if want := each * e.Contenders; t.N != want {
		e.Errorf("the counter has the value %d after %d increments", t.N, want)
	}
}

// raise adds one to the counter by a read and a write. It is called by racers.
func (e *env) raise(st store.Store, g *lease.Guard) {
	value, v, err := st.Get(e.ctx, "counter")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		e.Errorf("read the counter: %v", err)
		return
	}
	var t tally
	if err == nil {
		e.OK(fmt.Sprintf("the counter is %q", value), json.Unmarshal(value, &t))
	}
	if t.Token >= g.Token() {
		e.Errorf("the grant has token %d, but the counter has token %d; want a higher token", g.Token(), t.Token)
	}
	value, err = json.Marshal(tally{t.N + 1, g.Token()})
	if err == nil {
		_, err = st.Put(e.ctx, "counter", v, value)
	}
	e.OK("another client changed the counter at the same time", err)
}

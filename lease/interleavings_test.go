package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// actors are processes that act on one lock, in an order that a test gives, over a
// network on which one request fails.
type actors struct {
	t       *testing.T
	what    string
	wires   []*wire
	clients []*lease.Client
	guards  map[string]*lease.Guard // by step
	tickets []lease.Ticket
	token   uint64
}

// bound is what a call may take: the time of a release, twice where a claim is made
// harmless first, and what the package comment adds.
const bound = 2*lease.DefaultReleaseTimeout + 2*time.Second

// do carries out one step: a verb, the number of the actor, and for a ticket its number.
func (a *actors) do(step string) {
	verb, who := step[:len(step)-1], int(step[len(step)-1]-'A')
	c := a.clients[who]
	ctx, cancel := context.WithTimeout(a.t.Context(), 5*time.Second)
	defer cancel()
	began := time.Now()
	var ticket lease.Ticket
	if len(a.tickets) > 0 {
		ticket = a.tickets[len(a.tickets)-1]
		if strings.HasPrefix(verb, "old") {
			verb, ticket = verb[len("old"):], a.tickets[0]
		}
	}
	var next lease.Ticket
	var err error
	switch name := string(rune('A' + who)); verb {
	case "acquire":
		var g *lease.Guard
		if g, err = c.Acquire(ctx, "job", nil); err == nil {
			a.granted(name, g, false)
		}
	case "attach":
		var g *lease.Guard
		if g, err = c.Attach(ctx, ticket); err == nil {
			a.granted(name, g, true)
		}
	case "renewticket":
		next, err = c.RenewTicket(ctx, ticket, func(t lease.Ticket) error {
			a.tickets = append(a.tickets, t)
			return nil
		})
	case "freeticket":
		err = c.ReleaseTicket(ctx, ticket)
	case "break", "breaknow":
		var info lease.Info
		if info, err = c.Inspect(ctx, "job"); err == nil {
			_, err = c.Break(ctx, "job", info.Record.Token, &lease.BreakOptions{Immediate: verb == "breaknow"})
		}
	case "close":
		err = c.Close(ctx)
	case "sleep":
		time.Sleep(9 * time.Second)
		began = time.Now()
	default:
		g := a.guards[name]
		if g == nil {
			return // it did not come so far
		}
		switch verb {
		case "detach":
			next, err = g.Detach(ctx)
		case "renew":
			err = g.Renew(ctx)
		case "data":
			err = g.SetData(ctx, []byte(step))
		case "release":
			err = g.Release(ctx)
		default:
			a.t.Fatalf("step %q", step)
		}
	}
	if took := time.Since(began); took > bound {
		a.t.Errorf("%s: %s took %v", a.what, step, took)
	}
	if next.Name != "" {
		a.tickets = append(a.tickets, next)
	}
	if changed := new(lease.TicketError); errors.As(err, &changed) {
		a.tickets = append(a.tickets, changed.Ticket)
	}
	a.believers(step)
}

func (a *actors) granted(name string, g *lease.Guard, attached bool) {
	a.guards[name] = g
	if g.Token() < a.token || g.Token() == a.token && !attached {
		a.t.Errorf("%s: token %d after %d", a.what, g.Token(), a.token)
	}
	a.token = g.Token()
}

func (a *actors) believers(step string) {
	var all []string
	for name, g := range a.guards {
		if g.Err() == nil {
			all = append(all, fmt.Sprint(name, " with token ", g.Token()))
		}
	}
	if len(all) > 1 {
		slices.Sort(all)
		a.t.Errorf("%s: after %s believe %v", a.what, step, all)
	}
}

// The orders of what can be done with a lease and with copies of its ticket. No break is
// with immediate effect unless the holder has ended.
var orders = []string{
	"acquireA detachA attachB oldattachC renewB acquireD releaseB acquireD",
	"acquireA detachA attachB attachC detachB oldattachC attachC oldfreeticketD releaseC",
	"acquireA detachA renewticketB oldrenewticketC attachC oldattachD renewC releaseC",
	"acquireA detachA renewticketB sleepA sleepA attachC oldattachD acquireD",
	"acquireA detachA freeticketB oldattachC acquireD oldfreeticketC renewD releaseD",
	"acquireA detachA closeA attachB closeB oldattachC acquireC",
	"acquireA detachA breakD attachB freeticketC acquireC",
	"acquireA detachA attachB breakD renewB oldfreeticketC releaseB acquireC",
	"acquireA breakD detachA attachB acquireC",
	"acquireA breakD releaseA breaknowD acquireB renewA releaseA dataB releaseB",
	"acquireA breakD closeA acquireB detachB breakC attachC acquireD",
	"acquireA sleepA sleepA dataA detachA attachB dataB releaseB acquireC",
	"acquireA releaseA acquireB breakD releaseB oldattachC acquireA detachA attachB releaseB",
	"acquireA closeA breaknowD acquireB detachB closeB freeticketC acquireC",
	"acquireA renewA dataA breakD dataA releaseA acquireB dataB detachB oldattachC",
}

// However requests fail, and in whichever order a lease is renewed, released, broken,
// detached and taken up with tickets and copies of them: at most one believes, tokens
// rise, each call returns in time, and the lock can be taken again.
func TestOneFaultInEachOrderOfCalls(t *testing.T) {
	faults := map[fault]string{drop: "not arrive", fail: "be refused", lose: "lose its reply", repeat: "be repeated", hang: "hang", hangLate: "arrive late", deaf: "ignore its context"}
	for _, order := range orders {
		for f, name := range faults {
			for n := 1; ; n++ {
				if raceEnabled && n%4 != 0 {
					continue
				}
				what := fmt.Sprintf("%s, where request %d would %s", order, n, name)
				if !inOrder(t, what, strings.Fields(order), n, f) {
					break
				}
			}
		}
	}
}

// inOrder reports whether there were as many as n requests.
func inOrder(t *testing.T, what string, steps []string, n int, f fault) bool {
	var count atomic.Int64
	bubble(t, func(t *testing.T, st store.Store) {
		a := &actors{t: t, what: what, guards: map[string]*lease.Guard{}}
		for i := range 4 {
			w := newWire(hidden{st})
			w.deafness = func() time.Duration { return 100 * time.Second }
			w.set(func(op *store.Op) fault {
				if count.Add(1) != int64(n) {
					return pass
				}
				return f
			})
			a.wires = append(a.wires, w)
			a.clients = append(a.clients, client(t, w, &lease.Options{TTL: 10 * time.Second, Holder: fmt.Sprint(i)}))
		}
		for _, step := range steps {
			a.do(step)
		}
		for _, w := range a.wires {
			w.set(nil)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for name, g := range a.guards {
			_ = g.Release(ctx)
			if g.Err() == nil {
				t.Errorf("%s: %s believes after its release", what, name)
			}
		}
		g, err := client(t, st, nil).Acquire(ctx, "job", nil)
		if err != nil {
			t.Errorf("%s: in the end: %v", what, err)
			return
		}
		a.granted("end", g, false)
		time.Sleep(2 * time.Minute) // what is late arrives
		if err := g.Err(); err != nil {
			t.Errorf("%s: the last holder: %v", what, err)
		}
		mustRelease(t, g)
		for _, w := range a.wires {
			w.after.Wait()
		}
	})
	return count.Load() >= int64(n)
}

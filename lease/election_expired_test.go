package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// A leader that died is reported as expired a TTL after its last renewal, by those who watch and by a
// single question, on a store that pushes nothing; and one that lives is not, whatever the clocks say.
func TestLeaderThatDiedExpires(t *testing.T) {
	for _, pushes := range []bool{false, true} {
		for name, lead := range map[string]func(t *testing.T, c *lease.Client) (*lease.Election, error){
			"a plain lease":   func(t *testing.T, c *lease.Client) (*lease.Election, error) { return c.Election("job", nil) },
			"under a session": func(t *testing.T, c *lease.Client) (*lease.Election, error) { return open(t, c).Election("job", nil) },
		} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T, st store.Store) {
					if !pushes {
						st = hidden{st}
					}
					w := newWire(st)
					leads := client(t, w, nil)
					slow := newClocks() // an hour behind
					slow.change(func(c *clocks) { c.jumped = -time.Hour })
					lease.SetClock(leads, slow.read)
					e, err := lead(t, leads)
					must(t, err)
					g := mustCampaign(t, e, "value")
					died := time.Time{}
					time.AfterFunc(10*ttl, func() {
						died = time.Now()
						w.set(everything(drop))
					})
					states := []lease.LeaderState{}
					ctx, cancel := context.WithTimeout(t.Context(), 15*ttl)
					defer cancel()
					observer, reads := newWire(st), 0
					for l, err := range client(t, observer, nil).Observe(ctx, "job") {
						if ctx.Err() != nil {
							break
						}
						states = append(states, l.State)
						switch l.State {
						case lease.LeaderActive:
							if err != nil || !died.IsZero() {
								t.Errorf("%v: %+v", err, l)
							}
						case lease.LeaderExpired:
							took := time.Since(died)
							reads = observer.requests()
							if !errors.Is(err, lease.ErrNoLeader) || l.Token != g.Token() || string(l.Value) != "value" {
								t.Errorf("%v: %+v", err, l)
							}
							if took < ttl/2 || took > ttl+3*lease.DefaultMaxPoll {
								t.Errorf("expired %v after the leader died", took)
							}
						}
					}
					if n := observer.requests() - reads; n > 60 { // three in each TTL, or more by MaxPoll
						t.Errorf("%d reads of an expired leader in four TTLs", n)
					}
					if len(states) != 2 {
						t.Errorf("observed %q", states)
					}
					began := time.Now()
					l, err := client(t, st, nil).Leader(t.Context(), "job")
					if took := time.Since(began); !errors.Is(err, lease.ErrNoLeader) || l.State != lease.LeaderExpired || took > ttl+ttl/5 {
						t.Errorf("Leader after %v: %+v, %v", took, l, err)
					}
				})
			})
		}
	}
}

// A leader whose clock is behind is not taken for dead: a question about it is answered with its next
// renewal.
func TestLeaderWhoseClockIsBehind(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		leads := client(t, hidden{st}, nil)
		slow := newClocks()
		slow.change(func(c *clocks) { c.jumped = -time.Hour })
		lease.SetClock(leads, slow.read)
		g := mustCampaign(t, election(t, leads, "job"), "value")
		time.Sleep(5 * ttl)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		asks := client(t, hidden{st}, nil)
		if l, err := asks.Leader(ctx, "job"); !errors.Is(err, context.DeadlineExceeded) || l.Token != g.Token() {
			t.Errorf("Leader: %+v, %v", l, err)
		}
	})
}

// Leader watches a leader whose clock is behind until its next renewal, and no longer.
func TestLeaderIsFoundByItsRenewal(t *testing.T) {
	for _, under := range []bool{false, true} { // a session
		bubble(t, func(t *testing.T, st store.Store) {
			leads, behind := client(t, st, nil), newClocks()
			behind.change(func(c *clocks) { c.jumped = -time.Hour })
			lease.SetClock(leads, behind.read)
			var from candidates = leads
			if under {
				from = open(t, leads)
			}
			g := mustCampaign(t, election(t, from, "job"), "leader")
			for range 5 {
				time.Sleep(ttl + time.Second)
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 10*ttl)
				l, err := client(t, hidden{st}, nil).Leader(ctx, "job")
				cancel()
				if took := time.Since(began); err != nil || l.Token != g.Token() || took > ttl {
					t.Errorf("under a session %v: the leader has token %d, %v, after %v; want %d, within the TTL", under, l.Token, err, took, g.Token())
				}
			}
		})
	}
}

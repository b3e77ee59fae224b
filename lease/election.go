package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// ErrNoLeader says that no candidate leads now.
var ErrNoLeader = store.NewError("no leader", store.NotApplied)

// Election is one candidate for the leadership of one name. The candidate leads while it
// holds the lock of that name. Its value is in the lock's record, and is written
// with the claim. So a reader gets the value and the token of one leader, and never the
// value of one with the token of another. An Election owns no goroutine and needs no
// closing. It may be used by any number of goroutines, and is one candidate for all of
// them; two Elections exclude each other.
//
// The name is an ordinary lock. A program that takes it with [Client.Acquire] leads
// without a campaign, and the record keeps the value of the leader before it. So use a name for
// elections alone.
type Election struct {
	h    *Handle
	slot chan struct{} // taken during a campaign, so that one value is current at a time

	mu    sync.Mutex
	guard *Guard // of the last campaign that was won
}

// Election returns a candidate for the leadership of name, on a lease of its own, which
// costs one renewal each Options.RenewInterval while it leads. It sends nothing. A program that
// leads one thing needs no more. The errors are those of [Client.Handle]. Of the options
// OnYieldRequest is accepted, and of a session Fair, too.
func (c *Client) Election(name string, o *LockOptions) (*Election, error) {
	return c.election(name, nil, o)
}

// Election returns a candidate for the leadership of name under the session, which renews it
// with all its other locks. When the session is over the candidate cannot lead again: its
// campaigns fail with the cause. It is otherwise like [Client.Election].
//
// With [LockOptions.Fair] the candidates of an election lead in the order in which their
// campaigns began, if all of them are fair. A candidate that is not fair leads when the queue is
// empty. A leader that resigns hands the lock over, and does not know the
// value of the next one. So the next leader has no value at first: it writes its own, in one
// more request, before its Campaign returns.
func (s *Session) Election(name string, o *LockOptions) (*Election, error) {
	return s.c.election(name, s, o)
}

func (c *Client) election(name string, s *Session, o *LockOptions) (*Election, error) {
	h, err := c.handle(name, s, o, methodLead)
	if err != nil {
		return nil, err
	}
	return &Election{h: h, slot: make(chan struct{}, 1)}, nil
}

// Name returns the name that the candidate campaigns for.
func (e *Election) Name() string { return e.h.name }

// Campaign waits until the candidate leads, and returns the guard of its term: its
// context ends when the term does, and its token fences the leader's work. The value, any
// bytes, can be read as soon as the candidate leads; nil is no value. The call costs the
// requests of [Handle.Acquire], and its errors are those. More than [MaxData] bytes are
// refused with [store.ErrTooLarge] before anything is sent. The context bounds the
// campaign alone.
//
// A candidate that leads already proclaims the value, and gets the guard that it has.
// Of several calls at the same time one campaigns, and the others wait for it.
func (e *Election) Campaign(ctx context.Context, value []byte) (*Guard, error) {
	if len(value) > MaxData {
		return nil, (&Record{Name: e.h.name}).setData(value)
	}
	select {
	case e.slot <- struct{}{}:
		defer func() { <-e.slot }()
	case <-ctx.Done():
		return nil, cancelled(ctx, e.h.name, e.h.ended(ctx, nil))
	}
	if guard := e.term(); guard != nil && guard.Err() == nil {
		if err := guard.SetData(ctx, value); err == nil {
			return guard, nil
		} else if guard.Err() == nil {
			return nil, err
		} // else the leadership is lost by now
	}
	value = bytes.Clone(value)
	e.h.campaign.Store(&value)
	for {
		guard, err := e.h.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		if err := e.introduce(ctx, guard, value); err != nil {
			err = errors.Join(err, guard.Release(ctx))
			if over := e.h.under != nil && e.h.under.Err() != nil; errors.Is(err, ErrLost) && !over && ctx.Err() == nil {
				continue // the term was over before any reader knew of it
			}
			return nil, err
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.guard = guard
		return guard, nil
	}
}

// introduce writes the value of a leader into the record, if it does not stand there: the session
// that hands the lock over knows neither the value of the next leader nor its name for people.
func (e *Election) introduce(ctx context.Context, guard *Guard, value []byte) error {
	set, last := e.h.c.set, e.h.known()
	handed := last != nil && last.rec != nil && last.rec.Grant == guard.g.id && last.rec.Holder != set.Holder
	if !handed && bytes.Equal(guard.Data(), value) {
		return nil
	}
	return guard.rewrite(ctx, func(r *Record) error {
		r.Holder = set.Holder
		return r.setData(value)
	}, func() bool { return bytes.Equal(guard.Data(), value) })
}

// term returns the guard of the last campaign that was won, nil if none was.
func (e *Election) term() *Guard {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.guard
}

// Proclaim replaces the value of the leader, durably; the term and its token stay. It is
// [Guard.SetData] on the guard of the campaign, with its errors: a [*LostError] after the
// loss of the leadership, [ErrReleased] after [Election.Resign]. Before the first campaign
// was won the error matches [ErrNotHeld].
func (e *Election) Proclaim(ctx context.Context, value []byte) error {
	guard := e.term()
	if guard == nil {
		return fmt.Errorf("election %q: %w: the candidate has not led yet", e.h.name, ErrNotHeld)
	}
	return guard.SetData(ctx, value)
}

// Resign ends the term: its context first, then the lock is released, so that a candidate
// that waits leads next. It is [Guard.Release] on the guard of the campaign: the end of
// ctx does not stop it, a second call returns the same, and so does one after a loss. A
// candidate that never led has nothing to resign from: nil. A campaign under way continues.
func (e *Election) Resign(ctx context.Context) error {
	guard := e.term()
	if guard == nil {
		return nil
	}
	return guard.Release(ctx)
}

// lead is [Client.Lead], and reports whether it ends with a term of f, and not with a campaign.
func (e *Election) lead(ctx context.Context, value []byte, f func(ctx context.Context, g *Guard) error) (elected bool, _ error) {
	for {
		guard, err := e.Campaign(ctx, value)
		if err != nil {
			return false, err
		}
		asked := false
		err = guard.do(ctx, func(ctx context.Context, g *Guard) error {
			defer func() { asked = errors.Is(context.Cause(ctx), ErrYieldRequested) }()
			return f(ctx, g)
		})
		// The guard was released, and says the same again.
		lost := errors.Is(guard.Release(ctx), ErrLost)
		if !lost && !asked || ctx.Err() != nil {
			return true, err
		}
	}
}

// Lead campaigns for the leadership of name with value, and runs f in the calling goroutine while
// this client leads, like [Handle.Do]. It is for a service that has to run on one machine at a
// time, for ever. It accepts the options of [Client.Election]. The guard is for the token, and for
// [Guard.SetData], which changes the value.
//
// The context of f ends when the leadership is lost, or when a waiter asks the leader to yield (see
// [Client.RequestYield]). Lead waits until f has returned. It then campaigns again with the same value,
// whatever f returned, so f can run many times, one after the other. A leader that was
// asked to yield leaves the lock to others for Options.MaxPoll first.
//
// Lead ends when
//
//   - f returns while it leads, or has resigned. The candidate resigns, and the error is that
//     of [Handle.Do]; nil if f returned nil.
//   - ctx ends. The context of f ends with it, with its cause, and the lease lasts until f has
//     returned. If f returned nil, so does Lead; else the error matches the cause of ctx.
//     In a campaign the error is that of [Handle.Acquire], which matches the cause, too.
//   - a campaign fails: the client or the session was closed ([ErrClosed]), the session was
//     lost ([ErrLost]), or the error is one that waiting does not mend. Errors of the store
//     that may pass are waited out, within Options.StoreTimeout.
func (c *Client) Lead(ctx context.Context, name string, value []byte, f func(ctx context.Context, g *Guard) error, o *LockOptions) error {
	e, err := c.Election(name, o)
	if err != nil {
		return err
	}
	_, err = e.lead(ctx, value, f)
	return err
}

// Lead is [Client.Lead] under the session, with the options of [Session.Election], for as long as
// the session lasts. The loss of the session does not end it: Lead continues with a lease of its
// own, without Fair. After [Session.Close] the error matches [ErrClosed].
func (s *Session) Lead(ctx context.Context, name string, value []byte, f func(ctx context.Context, g *Guard) error, o *LockOptions) error {
	e, err := s.Election(name, o)
	if err != nil {
		return err
	}
	elected, err := e.lead(ctx, value, f)
	if elected || ctx.Err() != nil || !errors.Is(s.Err(), ErrLost) {
		return err
	}
	return s.c.Lead(ctx, name, value, f, &LockOptions{OnYieldRequest: e.h.opts.OnYieldRequest})
}

// LeaderState is what is known of a leader.
type LeaderState string

// The states of a [Leader].
const (
	// LeaderActive: it leads, as far as is known.
	LeaderActive LeaderState = "elected"

	// LeaderExpired: the record names it, and it leads no more: it has not renewed its lease for
	// its TTL, or it is known to be dead. No other candidate has taken its place.
	LeaderExpired LeaderState = "expired"

	// LeaderNone: the record names no leader.
	LeaderNone LeaderState = "none"
)

// Leader says who leads, as one read of the lock's record shows it.
type Leader struct {
	Name   string // of the election
	State  LeaderState
	Value  []byte    // what the leader campaigned with, or has proclaimed; nil if nothing
	Token  uint64    // of the leader's term; a higher one is of a later term
	Holder string    // Options.Holder of the leader, for people
	Since  time.Time // when the term began, by the leader's wall clock, for people
}

// Leader reads who leads the election name, in one request. Where the leader holds the lock
// under a session of another client it takes two. If the leader is over or its session was
// removed, Leader reads the lock once more. Without
// a leader the error matches [ErrNoLeader]: the lock has no record, is free, was broken, or the
// leader is over, and then the state is [LeaderExpired], with whose term it was. A leader is over whose
// session was closed or revoked, that is dead where the store knows of processes or of the age of
// records, and that has not renewed its lease for its TTL while this client knew of it.
//
// If the last renewal of the leader is longer ago than its TTL by the wall clocks of its machine and
// of this one, Leader watches it until it renews its lease, or the TTL has passed: so it can take that
// long. If ctx ends before, the error matches its cause, and Leader is who is named. If the clock of the
// leader's machine is ahead, a leader that died is named for as long as that.
//
// A leader whose term was broken may continue until its
// deadline. Leader changes nothing: it revokes no session. What is read can be over when the
// call returns, so that work which depends on it needs the token.
func (c *Client) Leader(ctx context.Context, name string) (Leader, error) {
	h, err := c.Handle(name, nil)
	if err != nil {
		return Leader{Name: name}, err
	}
	s, err := h.inspect(ctx)
	for err == nil && s.rec != nil && s.rec.State == Held {
		s = h.note(s)
		var over, lasts bool
		var doubt time.Duration
		if over, lasts, doubt, err = h.dead(ctx, s); err != nil || lasts && doubt == 0 {
			break
		}
		if doubt > 0 {
			if err := sleep(ctx, doubt); err != nil {
				leader, _ := leaderOf(name, s.rec, false)
				return leader, fmt.Errorf("election %q: whether its leader is dead: %w", name, err)
			}
		}
		// The lock may have passed on before its session ended or was removed.
		last := s
		if s, err = h.inspect(ctx); err == nil && s.version == last.version && doubt == 0 {
			if over {
				return leaderOf(name, s.rec, true)
			}
			break
		}
	}
	if err != nil {
		return Leader{Name: name}, err
	}
	return leaderOf(name, s.rec, false)
}

// dead reports whether the holder of a lock in the state s is known to be dead, or to have
// closed its session; and else whether it is known to have held the lock since s was read, and
// when to look again if it is overdue by the wall clocks. It writes nothing.
func (h *Handle) dead(ctx context.Context, s *seen) (dead, lasts bool, doubt time.Duration, _ error) {
	of, now := h, s
	if s.rec.Session != "" {
		if h.c.trusts(s.rec.Session) {
			return false, true, 0, nil
		}
		var err error
		if of, err = h.c.sessionHandle(s.rec.Session); err != nil {
			return false, false, 0, fmt.Errorf("%s: %w: %w", h, store.ErrCorrupt, err)
		}
		if now, err = of.inspect(ctx); err != nil || now.rec == nil {
			return false, false, 0, err
		}
		now = of.note(now)
	}
	v := of.evaluateGrant(ctx, now)
	dead = now.rec.State != Held || v.open
	if !dead && h.c.clock.wall().Sub(now.rec.Renewed) > h.c.set.expiry(now.rec.TTL) {
		doubt = max(min(v.wait, h.c.set.mostPoll(now.rec.TTL)), time.Millisecond)
	}
	return dead, !dead, doubt, nil
}

// leaderOf returns who leads by the record of a lock, nil if there is none, and by whether its holder
// is known to be over.
func leaderOf(name string, r *Record, over bool) (Leader, error) {
	if r == nil || r.State != Held {
		return Leader{Name: name, State: LeaderNone}, fmt.Errorf("election %q: %w", name, ErrNoLeader)
	}
	leader := Leader{Name: name, State: LeaderActive, Value: r.Data, Token: r.Token, Holder: r.Holder, Since: r.Granted}
	if over {
		leader.State = LeaderExpired
		return leader, fmt.Errorf("election %q: %w: %s (token %d) is dead, or has not renewed its lease for its TTL", name, ErrNoLeader, r.Holder, r.Token)
	}
	return leader, nil
}

// Observe yields who leads the election name, and then every change that it sees: another
// leader, another value, or no leader, which is the error [ErrNoLeader]. Renewals are no
// change. The changes come in their order; one that is followed by another at once can be
// missed, and the last is not. The value and the token of each are those of one read. On a
// store that reports changes they come at once; on any other Observe reads every
// Options.MaxPoll, jittered, and at least three times in the leader's TTL; and of a leader under
// a session the record of that, too.
//
// A leader that does not renew its lease for its TTL, on this machine's clock from the first sight of
// the last renewal on, or that is known to be dead before, is no leader any more: the Leader that comes
// with the error is [LeaderExpired]. Observe writes nothing.
//
// Errors of the store are yielded, and the observation continues. It ends when the loop is
// left or ctx ends. The last thing yielded is then the cause of the end of ctx, or
// [ErrClosed].
func (c *Client) Observe(ctx context.Context, name string) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		h, err := c.Handle(name, nil)
		if err != nil {
			yield(Leader{Name: name}, err)
			return
		}
		ctx, cancel := c.bind(ctx)
		defer cancel(nil)
		w := &waiter{h: h, wake: make(chan struct{}, 1)}
		l := &waitQueue{}
		told := "" // what was yielded last
		for {
			s, err := h.inspect(ctx)
			over, wait := false, c.set.MaxPoll
			if err == nil {
				s = h.note(s)
				over, wait, err = h.isExpired(ctx, s)
			}
			if ctx.Err() != nil {
				yield(Leader{Name: name}, fmt.Errorf("lock %q: %w", name, context.Cause(ctx)))
				return
			}
			if err != nil {
				if !yield(Leader{Name: name}, err) {
					return
				}
				l.waits, l.until = false, time.Now().Add(wait)
			} else {
				leader, err := leaderOf(name, s.rec, over)
				now := string(leader.State)
				if leader.State != LeaderNone {
					now += fmt.Sprint(s.rec.Grant, leader.Token, " ", string(leader.Value))
				}
				if now != told && !yield(leader, err) {
					return
				}
				told = now
				p := c.set.MaxPoll
				if s.rec != nil {
					p = c.set.mostPoll(s.rec.TTL)
				}
				l.polls = polls{least: p, most: p, early: p, random: c.random, waited: 1}
				h.beginPause(l, h.held(s, wait))
			}
			h.await(ctx, l, w)
		}
	}
}

// isExpired reports whether the holder of a lock in the state s is known to be over, and how long
// it takes at the most to know more. It writes nothing.
func (h *Handle) isExpired(ctx context.Context, s *seen) (over bool, wait time.Duration, err error) {
	switch {
	case s.rec == nil || s.rec.State != Held:
		return false, h.c.set.expiry(h.c.set.TTL), nil
	case s.rec.Session == "":
		v := h.evaluateGrant(ctx, s)
		if v.open {
			v.wait = h.c.set.rereadDelay(s.rec.TTL)
		}
		return v.open, max(v.wait, time.Millisecond), nil
	}
	over, _, err = h.c.isDead(ctx, s.rec.Session, h.name, s.rec.TTL, s.at)
	return over, h.c.set.rereadDelay(s.rec.TTL), err
}

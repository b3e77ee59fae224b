package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/holding"
	"github.com/holdfast-go/holdfast/lease/internal/waiting"
	"github.com/holdfast-go/holdfast/store"
)

// ErrNoLeader: no candidate leads now.
var ErrNoLeader = store.NewError("no leader", store.NotApplied)

// Election is one candidate of an election. The candidate leads while it holds the lock with the
// name of the election. When it takes the lock, it also writes its value into the record of the
// lock. So one read returns the value and the token of the same leader. An Election starts no
// goroutine and needs no Close. Any number of goroutines may use it; together they are one
// candidate. Two Elections exclude each other.
//
// The name is an ordinary lock. A program that takes this lock with [Client.Acquire] leads
// without a campaign, and the record keeps the value of the earlier leader. So do not use the
// name for other locks.
type Election struct {
	h    *Handle
	slot chan struct{} // taken during a campaign, so that one value is current at a time

	mu    sync.Mutex
	guard *Guard // of the last campaign that was won
}

// Election returns a candidate for the election with the given name. The candidate has its own
// lease. A leader sends one renewal in each Options.RenewInterval. The call of Election sends no
// request. It returns the same errors as [Client.Handle]. Of the lock options, Election accepts
// only OnYieldRequest.
func (c *Client) Election(name string, o *LockOptions) (*Election, error) {
	return c.election(name, nil, o)
}

// Election returns a candidate under the session, for the election with the given name. The renewal
// of the session also renews the leadership. When the session is over, the candidate cannot lead
// again, and its campaigns fail with the cause of the session's context. In all other respects it
// is like [Client.Election]. It also accepts the option Fair.
//
// With [LockOptions.Fair], candidates lead in the order in which their campaigns began, if all of
// them are fair. A candidate that is not fair leads only when the queue is empty. When a leader
// resigns, its write makes the next candidate the leader. This write cannot contain the value of
// the next leader. So the next leader writes its value with one more request before its Campaign
// returns. Until then readers see no value.
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

// Name returns the name of the election.
func (e *Election) Name() string { return e.h.k.Name() }

// Campaign waits until the candidate leads, and returns the guard of its term. The context of the
// guard ends with the term, and its token fences the leader's work. The value can be any bytes; nil
// is no value. Readers see the value as soon as the candidate leads. If the value has more than
// [MaxData] bytes, Campaign sends no request, and the error matches [store.ErrTooLarge]. Campaign
// sends the same requests and returns the same errors as [Handle.Acquire]. The context bounds only
// the campaign.
//
// If the candidate already leads, Campaign writes the value with [Election.Proclaim] and returns
// the present guard. If several goroutines call Campaign, one of them campaigns and the others
// wait for it.
func (e *Election) Campaign(ctx context.Context, value []byte) (*Guard, error) {
	if len(value) > MaxData {
		return nil, lockrec.SetData((&Record{Name: e.h.k.Name()}), value)
	}
	select {
	case e.slot <- struct{}{}:
		defer func() { <-e.slot }()
	case <-ctx.Done():
		return nil, holding.Cancelled(ctx, e.h.k.Name(), e.h.k.Ended(ctx, nil))
	}
	if guard := e.term(); guard != nil && guard.Err() == nil {
		if err := guard.SetData(ctx, value); err == nil {
			return guard, nil
		} else if guard.Err() == nil {
			return nil, err
		} // else the leadership is lost by now
	}
	value = bytes.Clone(value)
	e.h.k.Campaign(value)
	for {
		guard, err := e.h.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		if err := e.introduce(ctx, guard, value); err != nil {
			err = errors.Join(err, guard.Release(ctx))
			if over := e.h.k.Under != nil && e.h.k.Under.Err() != nil; errors.Is(err, ErrLost) && !over && ctx.Err() == nil {
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
	holder := e.h.space().Set.Holder
	if guard.b.Grant().Record().Holder == holder && bytes.Equal(guard.Data(), value) {
		return nil
	}
	return guard.rewrite(ctx, func(r *Record) error {
		r.Holder = holder
		return lockrec.SetData(r, value)
	}, func() bool { return bytes.Equal(guard.Data(), value) })
}

// term returns the guard of the last campaign that was won, nil if none was.
func (e *Election) term() *Guard {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.guard
}

// Proclaim replaces the value of the leader, durably. The term and its token do not change.
// Proclaim calls [Guard.SetData] of the guard of the campaign, and returns its errors: a
// [*LostError] after the loss of the leadership, and [ErrReleased] after [Election.Resign].
// Before the first successful campaign the error matches [ErrNotHeld].
func (e *Election) Proclaim(ctx context.Context, value []byte) error {
	guard := e.term()
	if guard == nil {
		return fmt.Errorf("election %q: %w: this candidate has never been the leader", e.h.k.Name(), ErrNotHeld)
	}
	return guard.SetData(ctx, value)
}

// Resign ends the term. First it ends the context of the guard. Then it releases the lock, so that
// a waiting candidate leads next. Resign calls [Guard.Release] of the guard of the campaign: it
// also works after the end of its context, and a second call returns the same error. If the
// candidate never led, Resign returns nil. Resign does not stop a campaign in progress.
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

// Lead campaigns with a value in the election with the given name, and runs f in the calling
// goroutine while this client leads, like [Handle.Do]. The other clients can read the value of the
// leader. Use Lead for a service that always runs on one machine. Lead accepts the options of
// [Client.Election]. Use the guard for its token, and for [Guard.SetData], which changes the value.
//
// The context of f ends when the leadership is lost, or when a waiter asks the leader to yield (see
// [Client.RequestYield]). Lead waits until f has returned, and campaigns again with the same value.
// It ignores the result of f. So f can run many times, one run after the other. After a request to
// yield, Lead waits for Options.MaxPoll before it campaigns again, so that another candidate can
// take the lock.
//
// Lead ends in these cases:
//
//   - f returns while the candidate still leads, or f has released the guard and returns. Lead
//     resigns, and returns the error of [Handle.Do].
//   - The caller's context ends while f runs. The context of f ends with the same cause, and the
//     lease lasts until f has returned. If f returned nil, Lead returns nil. Otherwise the error
//     matches that cause.
//   - The caller's context ends during a campaign. Lead returns the error of [Handle.Acquire],
//     which contains the [store.Cause] of the context.
//   - A campaign fails. The client or the session was closed ([ErrClosed]), the session was lost
//     ([ErrLost]), or the error is permanent. After temporary errors of the store, Lead tries
//     again, within Options.StoreTimeout.
func (c *Client) Lead(ctx context.Context, name string, value []byte, f func(ctx context.Context, g *Guard) error, o *LockOptions) error {
	e, err := c.Election(name, o)
	if err != nil {
		return err
	}
	_, err = e.lead(ctx, value, f)
	return err
}

// Lead does the same as [Client.Lead], but under the session. It accepts the options of
// [Session.Election]. If the session is lost, Lead continues with its own lease and without Fair.
// After [Session.Close] the error matches [ErrClosed].
func (s *Session) Lead(ctx context.Context, name string, value []byte, f func(ctx context.Context, g *Guard) error, o *LockOptions) error {
	e, err := s.Election(name, o)
	if err != nil {
		return err
	}
	elected, err := e.lead(ctx, value, f)
	if elected || ctx.Err() != nil || !errors.Is(s.Err(), ErrLost) {
		return err
	}
	return s.c.Lead(ctx, name, value, f, &LockOptions{OnYieldRequest: YieldPolicy(e.h.k.Opts.OnYieldRequest)})
}

// LeaderState is the state of a leader, as far as the reader knows.
type LeaderState string

// The states of a [Leader].
const (
	// LeaderActive: the candidate leads, as far as the reader knows.
	LeaderActive LeaderState = "elected"

	// LeaderExpired: the candidate in the record no longer leads. It has not renewed its
	// lease for its TTL, or it is known to be dead. No other candidate leads yet.
	LeaderExpired LeaderState = "expired"

	// LeaderNone: the record names no leader.
	LeaderNone LeaderState = "none"
)

// Leader describes a leader, from one read of the lock's record.
type Leader struct {
	Name   string // name of the election
	State  LeaderState
	Value  []byte    // value of the last Campaign or Proclaim; nil if there is none
	Token  uint64    // token of the term; a later term has a higher token
	Holder string    // Options.Holder of the leader, for people
	Since  time.Time // start of the term, by the leader's wall clock, for people
}

// Leader reads who leads the election with the given name. It sends one request. If the leader
// holds the lock under a session of another client, Leader sends a second request. If that session
// is over or has no record, Leader reads the lock once more.
//
// If no candidate leads, the error matches [ErrNoLeader]: the lock has no record, is free, was
// broken, or its holder no longer leads. In the last case Leader also returns the candidate in the
// record, with the state LeaderExpired. A holder no longer leads if its session was closed or
// revoked, or if the store reports that it is dead. It also no longer leads if it has not renewed
// its lease during a TTL in which this client watched the record.
//
// If, by the wall clocks, the leader's last renewal is older than its TTL, Leader watches the
// record until the next renewal, but at most for the TTL. If the context ends earlier, the error contains
// its [store.Cause], and the result is the leader in the record. For example, if the clock of a
// leader's machine is 10 s ahead, Leader can return the leader for 10 s longer after its death.
//
// Leader changes nothing, and revokes no session. A leader whose grant was broken may continue
// until its deadline. A leader can also lose its term before the call returns. So work that depends
// on the leader needs the leader's token.
func (c *Client) Leader(ctx context.Context, name string) (Leader, error) {
	of, err := c.space.Lock(name)
	if err != nil {
		return Leader{Name: name}, err
	}
	s, err := of.Inspect(ctx)
	var seen lockrec.HolderWrite
	for err == nil && s.Rec != nil && s.Rec.State == Held {
		s = of.Note(s)
		var over, lasts bool
		var doubt time.Duration
		if over, lasts, doubt, err = c.k.Peers.HolderIsDead(ctx, of, s, &seen); err != nil || lasts && doubt == 0 {
			break
		}
		if doubt > 0 {
			if err := cell.Sleep(ctx, doubt); err != nil {
				leader, _ := leaderOf(name, s.Rec, false)
				return leader, fmt.Errorf("election %q: cannot find out whether the leader is dead: %w", name, err)
			}
		}
		// The lock may have passed on before its session ended or was removed.
		last := s
		if s, err = of.Inspect(ctx); err == nil && s.Version == last.Version && doubt == 0 {
			if over {
				return leaderOf(name, s.Rec, true)
			}
			break
		}
	}
	if err != nil {
		return Leader{Name: name}, err
	}
	return leaderOf(name, s.Rec, false)
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

// Observe yields who leads the election with the given name, and then each change that it sees:
// another leader, another value, or no leader. If there is no leader, the error matches
// [ErrNoLeader]. A renewal is not a change. Observe yields changes in order. It can miss a change
// if another change follows at once, but it never misses the last change. The value and the token
// of each Leader are from the same read.
//
// If the store reports changes, Observe yields them at once. Otherwise it reads the record about
// every Options.MaxPoll, at random times, and at least three times in the leader's TTL. If the
// leader holds the lock under a session, Observe also reads the record of the session.
//
// A term is over when the leader has not renewed its lease for its TTL by this machine's clock,
// or when the leader is known to be dead. Then Observe yields the leader with the state
// LeaderExpired, and an error that matches [ErrNoLeader]. Observe writes nothing.
//
// Observe yields errors of the store and continues. It ends when the caller leaves the loop or the
// context ends. The last error contains the [store.Cause] of the context, or is [ErrClosed].
func (c *Client) Observe(ctx context.Context, name string) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		of, err := c.space.Lock(name)
		if err != nil {
			yield(Leader{Name: name}, err)
			return
		}
		ctx, cancel := c.space.Bind(ctx)
		defer cancel(nil)
		queue, w, leave := c.k.Waiting.Alone(of)
		defer leave()
		told := ""              // what was yielded last
		var ended store.Version // of the last record that was read again, since its leader is over
		for s := (*cell.Seen)(nil); ; {
			var err error
			if s == nil { // otherwise the record is certainly unchanged
				if s, err = of.Inspect(ctx); err == nil {
					s = of.Note(s)
				}
			}
			over, wait := false, c.space.Set.MaxPoll
			if err == nil {
				over, wait, err = c.k.Peers.HolderIsOver(ctx, of, s)
			}
			if ctx.Err() != nil {
				yield(Leader{Name: name}, fmt.Errorf("lock %q: %w", name, store.Cause(ctx)))
				return
			}
			if err != nil {
				if !yield(Leader{Name: name}, err) {
					return
				}
				queue.PauseFor(wait)
			} else {
				leader, err := leaderOf(name, s.Rec, over)
				now := string(leader.State)
				if leader.State != LeaderNone {
					now += fmt.Sprint(s.Rec.Grant, leader.Token, " ", string(leader.Value))
				}
				if over && now != told && s.Version != ended {
					// The leader can resign after the read of the record, and then end.
					ended, s = s.Version, nil
					continue
				}
				if now != told && !yield(leader, err) {
					return
				}
				told = now
				p := c.space.Set.MaxPoll
				if s.Rec != nil {
					p = c.space.Set.MostPoll(s.Rec.TTL)
					if s.Rec.Session != "" && !c.space.Watches() {
						wait = c.space.Set.Expiry(s.Rec.TTL) // the record of the session shows whether the leader lives
					}
				}
				queue.PollEvery(p)
				queue.BeginPause(of, waiting.Look{Wait: wait})
			}
			queue.Await(ctx, w, of, c.k.Peers.Await)
			s = queue.EndPause(ctx, of)
		}
	}
}

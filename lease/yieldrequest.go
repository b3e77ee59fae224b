package lease

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/holding"
	"github.com/holdfast-go/holdfast/lease/internal/waiting"
	"github.com/holdfast-go/holdfast/store"
)

// YieldOptions configures [Client.RequestYield].
type YieldOptions struct {
	// Reason says why the holder should yield, for people. At most [MaxReason] bytes of
	// UTF-8.
	Reason string

	// With Wait, RequestYield waits until the grant is over, its holder refuses, or the context
	// ends.
	Wait bool

	// If Wait is set, RequestYield calls OnAcknowledged once, when all requested holders have
	// read the request. When OnAcknowledged returns, RequestYield continues to wait. If the
	// grant ends before all holders have read the request, RequestYield does not call
	// OnAcknowledged. Default: none.
	OnAcknowledged func(YieldStatus)
}

// YieldStatus contains a request to yield, and describes the grant that should end.
type YieldStatus struct {
	YieldRequest
	Name       string
	Token      uint64 // token of the grant that the request is for
	Holder     string // holder of the grant that the request is for, for people
	GrantEnded bool   // the grant is over: released, broken, taken over, or its holder is dead

	// If a RequestYield with Wait finds that the grant is over, Current is the record that shows
	// this. If the lock has no record, Current is the zero Record. If the holder is dead, Current
	// is the record of the requested grant.
	Current Record
}

// RequestYield asks the holder of a lock to yield: to release the lock. The holder reads the
// request with its next renewal at the latest, and may refuse or ignore it. The work notices the
// request by [Guard.YieldRequested]. [Handle.Do] ends the context of its function. The request
// stays in the record until the grant ends. A grant has at most one request: a second call writes
// nothing, and returns the first request. Nil options mean all defaults.
//
// If the lock has several holders, RequestYield asks all of them, and none of them can refuse.
// Holders that take the lock later do not get the request; a second call also asks them.
//
// RequestYield sends a read and a write for the lock, and a read and a write for each session that
// holds the lock. With YieldOptions.Wait, RequestYield then reads the lock like a waiter. A request
// does not delay the takeover from a dead holder. A renewal that conflicts with a request to yield
// takes two requests to the store. While other clients ask the holder to yield, no lease is lost if
// every request to the store takes at most a twentieth of the TTL. At other times a tenth of the
// TTL is allowed. On a store that delays writes, a holder reads before it writes.
//
// A nil error means that the request is in the record, or that the grant has ended after the
// request. These errors are special:
//
//   - [ErrNotHeld]: the lock is free or broken.
//   - [store.ErrNotFound]: there is no such lock.
//   - [ErrYieldRefused]: the holder refuses; YieldStatus has the reason.
//   - [ErrUnresolved]: RequestYield could not find out whether the write was applied. Call it
//     again.
//
// Without Wait the call takes at most two minutes.
func (c *Client) RequestYield(ctx context.Context, name string, o *YieldOptions) (YieldStatus, error) {
	o = cmp.Or(o, &YieldOptions{})
	of, err := c.space.Lock(name)
	if err != nil {
		return YieldStatus{}, err
	}
	if err := checkReason(name, o.Reason); err != nil {
		return YieldStatus{}, err
	}
	ctx, cancel := c.space.Bind(ctx)
	defer cancel(nil)
	r, err := c.k.RequestYield(ctx, of, nil, YieldRequest{By: c.space.Set.Holder, Reason: o.Reason, At: c.space.Clock.Wall()})
	var asked YieldStatus
	if r != nil {
		asked, _ = yieldStatus(r)
	}
	if err == nil {
		err = asked.refusal()
	}
	if err == nil && o.Wait {
		return c.answer(ctx, of, asked, o.OnAcknowledged)
	}
	return asked, err
}

func checkReason(name, reason string) error {
	if len(reason) > MaxReason || !utf8.ValidString(reason) {
		return fmt.Errorf("%w: lock %q: the reason has %d bytes; it must be valid UTF-8 of at most %d bytes", store.ErrInvalid, name, len(reason), MaxReason)
	}
	return nil
}

// yieldStatus returns the request for the grants in the record.
func yieldStatus(r *Record) (YieldStatus, bool) {
	if len(lockrec.RequestedOf(r)) == 0 {
		return YieldStatus{}, false
	}
	return YieldStatus{YieldRequest: *r.YieldRequest, Name: r.Name, Token: r.Token, Holder: r.Holder}, true
}

// refusal is the error for a refused request.
func (a *YieldStatus) refusal() error {
	if a.RefusalReason == "" {
		return nil
	}
	return fmt.Errorf("lock %q: %w: %s (token %d): %s", a.Name, ErrYieldRefused, a.Holder, a.Token, a.RefusalReason)
}

// answer waits until the grant of the request is over, or its holder refuses. It calls tell once
// when the holder has read the request.
func (c *Client) answer(ctx context.Context, of *cell.Cell, asked YieldStatus, tell func(YieldStatus)) (YieldStatus, error) {
	queue, w, leave := c.k.Waiting.Alone(of)
	defer leave()
	since, told, seen := c.space.Clock.Monotonic(), tell == nil, false
	for {
		s, err := of.Read(ctx)
		wait := c.space.Set.Expiry(c.space.Set.TTL)
		if err == nil {
			heard := asked.Acknowledged
			if now, stands := yieldStatus(s.Rec); stands && now.Grant == asked.Grant && now.Grant != "" {
				asked = now
				asked.Acknowledged = asked.Acknowledged || heard
			}
			wait, err = c.isOver(ctx, of, s, &asked, since, false)
		}
		if asked.Acknowledged && !told && !asked.GrantEnded {
			told = true
			tell(asked)
		}
		switch {
		case asked.GrantEnded || asked.RefusalReason != "":
			return asked, asked.refusal()
		case err == nil:
			if !seen {
				queue.SawHeld(of.Known().Rec.TTL)
				seen = true
			}
			queue.BeginPause(of, waiting.Look{Wait: wait})
		case store.Permanent(err):
			return asked, err
		default:
			queue.PauseAfterError()
		}
		if queue.Await(ctx, w, of, c.k.Peers.Await); ctx.Err() != nil {
			return asked, holding.Cancelled(ctx, of.Name(), cmp.Or(err, error(c.lastHeld(of))))
		}
	}
}

// isOver finds out whether the grants of the request do not hold the lock any more. If they do, it
// finds out whether the sessions that hold the lock have read the request, which was written at the
// time since. It also returns how long it takes at most to know more. It writes nothing. final says that s
// has taken effect.
func (c *Client) isOver(ctx context.Context, of *cell.Cell, s *cell.Seen, asked *YieldStatus, since time.Time, final bool) (time.Duration, error) {
	r, grant := s.Rec, asked.Grant
	// A holder can release the lock after the read of the record, and then end. And a read without
	// resolving writes can show a state that never takes effect. So over reads the record again.
	over := func() (time.Duration, error) {
		now, err := of.Reread(ctx)
		switch {
		case err != nil:
			return 0, err
		case !final && now.Version != s.Version:
			return c.isOver(ctx, of, now, asked, since, true)
		}
		if asked.GrantEnded = true; now.Rec != nil {
			asked.Current = *now.Rec
		}
		return 0, nil
	}
	switch {
	case r == nil, r.State == Free, r.State == Broken, grant != "" && r.Grant != grant, grant == "" && r.State != Shared:
		return over()
	case r.State == Held && r.Session == "":
		v := of.Judge(ctx, s)
		if v.Open {
			return over()
		}
		return v.Wait, nil
	}
	ttl := cmp.Or(r.TTL, c.space.Set.TTL)
	living, heard := false, true
	members := slices.DeleteFunc(slices.Clone(lockrec.Possessors(r)), func(m Member) bool { return !lockrec.IsFor(&asked.YieldRequest, m.Grant) })
	for _, id := range lockrec.SessionsOf(members) {
		dead, checked, err := c.hasChecked(ctx, id, of.Name(), ttl, since)
		if err != nil {
			return 0, err
		}
		living, heard = living || !dead, heard && (dead || checked)
		if living && (asked.Acknowledged || !heard) {
			break // the other members add nothing
		}
	}
	if !living {
		return over()
	}
	if asked.Acknowledged = asked.Acknowledged || heard; !asked.Acknowledged {
		return c.space.Set.RereadDelay(ttl), nil
	}
	return c.space.Set.Expiry(ttl), nil
}

// lastHeld is the error of a wait for the lock, with the state that was seen last.
func (c *Client) lastHeld(of *cell.Cell) *HeldError {
	last := of.Known()
	if last == nil {
		last = &cell.Seen{}
	}
	return holding.NewHeldError(of, last, 0, "")
}

// hasChecked reports whether a session is over, and whether it is known to have checked the lock of
// that name since then.
func (c *Client) hasChecked(ctx context.Context, id, name string, ttl time.Duration, since time.Time) (dead, checked bool, _ error) {
	if own := c.k.Session(id); own != nil && own.Grant().Check() > 0 {
		return false, own.IsChecked(name), nil
	}
	dead, now, err := c.k.Peers.IsDead(ctx, id, ttl)
	if err != nil || now.Rec == nil {
		return false, false, err
	}
	// A name that is not in the record any more was read.
	return dead, !lockrec.IsNamed(now.Rec, name) && !now.At.Before(since), nil
}

// YieldRequested returns a channel that is closed when the holder reads a request to yield; see
// [Client.RequestYield]. Each grant has one such channel.
func (g *Guard) YieldRequested() <-chan struct{} { return g.b.Grant().YieldContext().Done() }

// YieldRequest returns the request to yield that the holder has read, and reports whether
// there is one.
func (g *Guard) YieldRequest() (YieldStatus, bool) {
	r := g.b.Grant().Request()
	if r == nil {
		return YieldStatus{}, false
	}
	return yieldStatus(r)
}

// yieldsOnRequest is the cause with which the context of a function ends when its holder is asked
// to yield.
func (g *Guard) yieldsOnRequest() error {
	asked, _ := g.YieldRequest()
	err := fmt.Errorf("lock %q: %w (client %s)", g.Name(), ErrYieldRequested, asked.By)
	if asked.Reason != "" {
		err = fmt.Errorf("%w: %s", err, asked.Reason)
	}
	return err
}

// RefuseYield refuses the request to yield, and writes the reason into the record. The reason has
// at most [MaxReason] bytes of UTF-8. Clients that ask the holder to yield get the refusal in a
// [YieldStatus]. This grant can get no further request to yield. The write also renews a plain
// lease. If a [Handle.Do] has already ended the context of its function because of the request,
// RefuseYield does not change that; see [IgnoreYieldRequests].
//
// If the holder has read no request, the error matches [ErrNoYieldRequest]. If the lease is lost,
// the error matches [ErrLost]. For the guards of readers and of slots, the error matches
// [store.ErrInvalid], because one holder cannot refuse for the other holders. After any other
// error, [store.OutcomeOf] says whether the refusal was certainly not written.
func (g *Guard) RefuseYield(ctx context.Context, reason string) error {
	if err := checkReason(g.Name(), reason); err != nil {
		return err
	}
	reason = cmp.Or(reason, "refused")
	switch asked, ok := g.YieldRequest(); {
	case !ok:
		return fmt.Errorf("lock %q: %w", g.Name(), ErrNoYieldRequest)
	case asked.Grant == "":
		return fmt.Errorf("%w: lock %q has several holders; all were asked to yield, and a holder cannot refuse for the other holders", store.ErrInvalid, g.Name())
	}
	return g.rewrite(ctx, func(r *Record) error {
		asked, _ := g.YieldRequest()
		asked.YieldRequest.Acknowledged, asked.YieldRequest.RefusalReason = true, reason
		r.YieldRequest = &asked.YieldRequest
		return nil
	}, func() bool {
		asked, _ := g.YieldRequest()
		return asked.RefusalReason != ""
	})
}

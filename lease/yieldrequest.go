package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/store"
)

// MaxReason is the longest reason of an ask, and of its refusal, in bytes.
const MaxReason = maxReasonText

// YieldOptions configures [Client.RequestYield].
type YieldOptions struct {
	// Reason says why, for people. At most [MaxReason] bytes of UTF-8.
	Reason string

	// Wait makes the call return only when the grant that was asked is over, when its
	// holder refuses, or when ctx ends.
	Wait bool

	// Heard is called once, by an Ask that waits, when it sees that the holder has heard of the
	// ask: with several holders that all of them have. Ask goes on waiting when it returns. It is
	// not called if the grant is over before. Default: none.
	OnAcknowledged func(YieldStatus)
}

// YieldStatus is a [YieldRequest] together with whom it was asked of.
type YieldStatus struct {
	YieldRequest
	Name       string
	Token      uint64 // of the grant that was asked
	Holder     string // whose it is, for people
	GrantEnded bool   // the grant is over: released, broken, taken over, or its holder is dead

	// Now is what stood in the record when an Ask that waits found that the grant is over. It is
	// the zero Record if the lock has none; and the record of the grant that was asked, if its
	// holder is dead.
	Current Record
}

// Ask asks the holder of the lock name to give way. The holder hears of it with its next
// renewal at the latest: see [Guard.YieldRequested], and [Handle.Do], which stops its function then.
// The holder may refuse, or take no notice. The ask stands in the record for as long as the
// grant lasts. There is one ask for a grant: a second one writes nothing, and returns the first.
//
// Of a lock that has several holders all are asked that hold it then, and none of them can refuse.
// Those that come later do not hear of the ask; a second one, when others have come, asks them, too.
//
// Ask sends a read and a write, as many again for each session that holds the lock, and with
// [YieldOptions.Wait] it goes on reading as a waiter does. An ask is no sign of life of the
// holder: a dead holder is taken over when it would have been without the ask. A renewal that
// meets an ask takes two requests: so no lease is lost by an ask where a request takes at most
// half of what the package documentation says under Time. On a store that lets writes wait, a
// holder looks before it writes.
//
// A nil error means that the ask stands in the record, or that the grant has ended since it
// did. The error matches [ErrNotHeld] if the lock is free or broken, [store.ErrNotFound] if
// there is no such lock, and [ErrYieldRefused] if the holder refuses; Asked tells why. It matches
// [ErrUnresolved] if it could not be found out whether the write was applied: then call it
// again. Without Wait the call takes at most two minutes. A nil o means all defaults.
func (c *Client) RequestYield(ctx context.Context, name string, o *YieldOptions) (YieldStatus, error) {
	if o == nil {
		o = &YieldOptions{}
	}
	h, err := c.Handle(name)
	if err != nil {
		return YieldStatus{}, err
	}
	if err := checkReason(name, o.Reason); err != nil {
		return YieldStatus{}, err
	}
	ctx, cancel := c.bind(ctx)
	defer cancel(nil)
	asked, err := h.requestYield(ctx, nil, YieldRequest{By: c.set.Holder, Reason: o.Reason, At: c.clock.wall()})
	if err == nil && o.Wait {
		return h.answer(ctx, asked, o.OnAcknowledged)
	}
	return asked, err
}

func checkReason(name, reason string) error {
	if len(reason) > MaxReason || !utf8.ValidString(reason) {
		return fmt.Errorf("%w: lock %q: a reason of %d bytes; it can have up to %d of UTF-8", store.ErrInvalid, name, len(reason), MaxReason)
	}
	return nil
}

// ask writes an ask into the record of the lock, unless one stands there. The base is what was
// seen of it, or nil.
//
// Between any two steps the holder may renew, release or lose the lock, and others may ask,
// break or take it. So the write names the version that was read, and whatever else is
// found is looked at anew. If its reply is lost it is read back; if the holder has answered
// meanwhile, the ask in its record may be another client's, which makes no difference.
func (h *Handle) requestYield(ctx context.Context, base *seen, a YieldRequest) (YieldStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*maxCall)
	defer cancel()
	if base == nil {
		var err error
		if base, err = h.inspect(ctx); err != nil {
			return YieldStatus{}, err
		}
	}
	var asked YieldStatus
	var asIs *Record
	rec, err := h.alter(ctx, base, func(s *seen) (rec *Record, err error) {
		asIs = s.rec
		rec, asked, err = canRequestYield(h.name, s, a)
		return rec, err
	})
	if rec == nil && (asked.Name == "" || asked.Acknowledged || err != nil) {
		return asked, err
	}
	// If it stands already and was not heard, who wrote it may have ended before this.
	return asked, h.c.notifySessions(ctx, h.name, sessionsOf(cmp.Or(rec, asIs).yieldRequestOf()))
}

// canRequestYield returns the record that asks what s shows to give way, or nil and the ask that
// stands there.
func canRequestYield(name string, s *seen, a YieldRequest) (*Record, YieldStatus, error) {
	r := s.rec
	switch {
	case r == nil:
		return nil, YieldStatus{}, fmt.Errorf("lock %q: %w", name, store.ErrNotFound)
	case r.State == Free:
		return nil, YieldStatus{}, fmt.Errorf("lock %q: %w: it is free (token %d)", name, ErrNotHeld, r.Token)
	case r.State == Broken:
		return nil, YieldStatus{}, fmt.Errorf("lock %q: %w: it is broken already (token %d)", name, ErrNotHeld, r.Token)
	}
	if asked, stands := r.yieldStatus(); stands && (a.OnlyIfIdle || !asked.OnlyIfIdle) && (asked.Grant != "" || !asked.isNameless() && len(r.yieldRequestOf()) == len(r.Holders)) {
		return nil, asked, asked.refusal()
	}
	next := r.writtenByOther(s.age)
	if a.Grant = r.Grant; r.State == Shared {
		a.Grant, a.Grants, next.HolderNonce = "", grantsOf(r.Holders), "" // none of them renews the record
	}
	next.YieldRequest = &a
	// Nothing is left out for it: what stands there is the holder's.
	if value, err := next.whole(); err != nil || len(value) > store.MaxValue {
		return nil, YieldStatus{}, errors.Join(fmt.Errorf("lock %q: %w: there is no room for an ask in its record", name, store.ErrTooLarge), err)
	}
	asked, _ := next.yieldStatus()
	return &next, asked, nil
}

// asked returns the ask that stands for the grants in the record.
func (r *Record) yieldStatus() (YieldStatus, bool) {
	if len(r.yieldRequestOf()) == 0 {
		return YieldStatus{}, false
	}
	return YieldStatus{YieldRequest: *r.YieldRequest, Name: r.Name, Token: r.Token, Holder: r.Holder}, true
}

// yieldRequestOf returns the holders whom the ask in the record was asked of.
func (r *Record) yieldRequestOf() []Member {
	if r == nil || r.State == Free || r.YieldRequest == nil || r.exclusive() && r.YieldRequest.Grant != r.Grant {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.possessors()), func(m Member) bool { return !r.YieldRequest.isOf(m.Grant) })
}

// isOf reports whether the ask was asked of a grant, which holds the lock.
func (a *YieldRequest) isOf(grant string) bool {
	return a.Grant == grant || a.isNameless() || a.Grant == "" && slices.Contains(a.Grants, grant)
}

// isNameless reports whether an earlier program has written the ask, of several holders without their
// names. Such an ask is one of all that hold the lock, until a program that names them writes the next
// holder into the record, or asks once more: it names those that held the lock before.
func (a *YieldRequest) isNameless() bool { return a.Grant == "" && len(a.Grants) == 0 }

func grantsOf(members []Member) (all []string) {
	for _, m := range members {
		all = append(all, m.Grant)
	}
	return all
}

// refusal is the error of an ask that was refused.
func (a *YieldStatus) refusal() error {
	if a.RefusalReason == "" {
		return nil
	}
	return fmt.Errorf("lock %q: %w: %s (token %d): %s", a.Name, ErrYieldRefused, a.Holder, a.Token, a.RefusalReason)
}

// answer waits until the grant that was asked is over, or its holder refuses. It tells once that
// the holder has heard.
func (h *Handle) answer(ctx context.Context, asked YieldStatus, tell func(YieldStatus)) (YieldStatus, error) {
	w := &waiter{h: h, wake: make(chan struct{}, 1)}
	l := &waitQueue{errors: h.c.backoff(h.c.set.MinPoll, h.c.set.MaxPoll)}
	since, told := h.c.clock.monotonic(), tell == nil
	for {
		s, err := h.readRecord(ctx)
		wait := h.c.set.expiry(h.c.set.TTL)
		if err == nil {
			heard := asked.Acknowledged
			if now, stands := s.rec.yieldStatus(); stands && now.Grant == asked.Grant && now.Grant != "" {
				asked = now
				asked.Acknowledged = asked.Acknowledged || heard
			}
			wait, err = h.isOver(ctx, s, &asked, since)
		}
		if asked.Acknowledged && !told && !asked.GrantEnded {
			told = true
			tell(asked)
		}
		switch {
		case asked.GrantEnded || asked.RefusalReason != "":
			return asked, asked.refusal()
		case err == nil:
			if l.polls.most == 0 {
				l.polls.sawHeld(h.c.set, h.c.random, s.rec.TTL)
			}
			h.beginPause(l, h.held(s, wait))
		case store.Permanent(err):
			return asked, err
		default:
			l.waits, l.until = false, time.Now().Add(l.errors.pause())
		}
		if h.await(ctx, l, w); ctx.Err() != nil {
			return asked, cancelled(ctx, h.name, cmp.Or(err, error(h.barring())))
		}
	}
}

// isOver finds out whether the grants that were asked do not hold the lock any more; else whether the sessions that hold it have heard of the ask, which
// stands since then, and how long it takes at the most to know more. It writes nothing.
func (h *Handle) isOver(ctx context.Context, s *seen, asked *YieldStatus, since time.Time) (time.Duration, error) {
	r, grant := s.rec, asked.Grant
	over := func() (time.Duration, error) {
		asked.GrantEnded = true
		if r != nil {
			asked.Current = *r
		}
		return 0, nil
	}
	switch {
	case r == nil, r.State == Free, r.State == Broken, grant != "" && r.Grant != grant, grant == "" && r.State != Shared:
		return over()
	case r.State == Held && r.Session == "":
		v := h.evaluateGrant(ctx, s)
		if v.open {
			return over()
		}
		return v.wait, nil
	}
	ttl := cmp.Or(r.TTL, h.c.set.TTL)
	living, heard := false, true
	of := slices.DeleteFunc(slices.Clone(r.possessors()), func(m Member) bool { return !asked.isOf(m.Grant) })
	for _, id := range sessionsOf(of) {
		dead, attended, err := h.c.isDead(ctx, id, h.name, ttl, since)
		if err != nil {
			return 0, err
		}
		living, heard = living || !dead, heard && (dead || attended)
		if living && (asked.Acknowledged || !heard) {
			break // the others tell nothing more
		}
	}
	if !living {
		return over()
	}
	if asked.Acknowledged = asked.Acknowledged || heard; !asked.Acknowledged {
		return h.c.set.rereadDelay(ttl), nil
	}
	return h.c.set.expiry(ttl), nil
}

// isDead reports whether a session is known to be dead, closed or fenced, by what the client
// has seen of its record, and else whether it is known to have attended to the lock of that name
// since then. It writes nothing.
func (c *Client) isDead(ctx context.Context, id, name string, ttl time.Duration, since time.Time) (dead, attended bool, _ error) {
	if own := c.session(id); own != nil && own.grant().check() > 0 {
		return false, own.isChecked(name), nil
	}
	r, err := c.holderSession(id)
	if err != nil {
		return false, false, err
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return false, false, context.Cause(ctx)
	}
	now, err := r.readRecord(ctx, ttl)
	if err != nil || now.rec == nil {
		return false, false, err // a session whose record was removed is not known to be dead
	}
	dead = now.rec.State != Held || r.h.evaluateGrant(ctx, now).open
	// The lock was named there before since.
	named := slices.Contains(now.rec.LocksToCheck, name) || slices.Contains(now.rec.LocksToCheck, allLocks)
	return dead, !named && !now.at.Before(since), nil
}

// hear takes note of an ask in a record that the grant goes on over.
func (g *grant) acknowledge(rec *Record) {
	asked, stands := rec.yieldStatus()
	if g.h.own != nil && len(rec.LocksToCheck) > 0 {
		g.h.own.addNamed(rec.LocksToCheck)
	}
	if !stands || !asked.isOf(g.id) {
		return
	}
	if g.want(); asked.OnlyIfIdle {
		return
	}
	g.mu.Lock()
	first := g.yieldStatus == nil
	g.yieldStatus = &asked
	if first && g.ended == nil {
		g.yieldRequestedLocked()
		g.signalYield()
	}
	g.mu.Unlock()
	if first {
		e := g.h.event(EventYieldRequested)
		e.Token, e.Holder, e.Reason = g.token, asked.By, asked.Reason
		g.c.emit(e)
	}
}

// yieldRequestedLocked returns a context that ends when the grant is asked. The caller holds g.mu. Most
// grants are never asked, and make none.
func (g *grant) yieldRequestedLocked() context.Context {
	if g.yieldCtx == nil {
		g.yieldCtx, g.signalYield = context.WithCancel(context.Background())
		if g.yieldStatus != nil {
			g.signalYield()
		}
	}
	return g.yieldCtx
}

// yieldContext returns a context that ends when the grant is asked.
func (g *grant) yieldContext() context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.yieldRequestedLocked()
}

// Asked returns a channel that is closed when the holder hears that it was asked to give way;
// see [Client.RequestYield]. It is closed once for each grant, and never if there is no ask.
func (g *Guard) YieldRequested() <-chan struct{} { return g.g.yieldContext().Done() }

// Ask returns what the holder was asked, and reports whether it has heard of an ask.
func (g *Guard) YieldRequest() (YieldStatus, bool) {
	g.g.mu.Lock()
	defer g.g.mu.Unlock()
	if g.g.yieldStatus == nil {
		return YieldStatus{}, false
	}
	return *g.g.yieldStatus, true
}

// yieldsOnRequest is why the context of a function ends whose holder was asked to give way.
func (g *Guard) yieldsOnRequest() error {
	asked, _ := g.YieldRequest()
	err := fmt.Errorf("lock %q: %w by %s", g.Name(), ErrYieldRequested, asked.By)
	if asked.Reason != "" {
		err = fmt.Errorf("%w: %s", err, asked.Reason)
	}
	return err
}

// Refuse writes into the record that the holder does not give way, and why: at most
// [MaxReason] bytes of UTF-8. Askers get it as [YieldStatus], and no client asks this grant again. The
// write renews a plain lease, too. The error matches [ErrNoYieldRequest] if the holder has heard of no
// ask, [ErrLost] if the lease is lost, and [store.ErrInvalid] if the guard is that of a reader or of
// a slot: one holder cannot refuse for the others. After any other error it is not known
// whether the refusal stands, unless [store.OutcomeOf] says that it does not. A [Handle.Do]
// that has stopped its function goes on stopping it: see [IgnoreYieldRequests].
func (g *Guard) RefuseYield(ctx context.Context, reason string) error {
	if err := checkReason(g.Name(), reason); err != nil {
		return err
	}
	if reason == "" {
		reason = "refused"
	}
	switch asked, ok := g.YieldRequest(); {
	case !ok:
		return fmt.Errorf("lock %q: %w", g.Name(), ErrNoYieldRequest)
	case asked.Grant == "":
		return fmt.Errorf("%w: lock %q: all that hold it were asked, and none of them can refuse for the others", store.ErrInvalid, g.Name())
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

// yieldRequested reports whether the holder has heard of an ask, and has not refused.
func (g *grant) yieldRequested() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.yieldStatus != nil && g.yieldStatus.RefusalReason == ""
}

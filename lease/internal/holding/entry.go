package holding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/belief"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/membership"
	"github.com/holdfast-go/holdfast/store"
)

// mode is what the handle takes.
func (h *Holder) mode() lockrec.Mode {
	switch {
	case h.Opts.Shared:
		return lockrec.ModeShared
	case h.Opts.Slots > 0:
		return lockrec.ModeSlot
	}
	return lockrec.ModeExclusive
}

// several reports whether the rules of locks with several holders apply to the lock in the state s:
// it has members, or the handle becomes one.
func (h *Holder) several(s *cell.Seen) bool {
	if h.own != nil {
		return false
	}
	if h.mode() != lockrec.ModeExclusive || s.Rec != nil && (lockrec.Members(s.Rec) > 0 || s.Rec.Slots > 0) {
		return true
	}
	return h.Opts.Fair && s.Rec != nil && s.Rec.State != lockrec.Free
}

// Amended returns the record of s as this client writes it for the changes of roster.go.
func (h *Holder) Amended(ctx context.Context, s *cell.Seen) (lockrec.Record, error) {
	next := lockrec.Record{Name: h.Name(), State: lockrec.Free, TTL: h.c.Space.Set.TTL}
	token := &lockrec.Record{Name: h.Name()}
	if s.Rec != nil {
		next = *s.Rec
		var err error
		if token.Token, err = lockrec.NextToken(&next); err != nil {
			return lockrec.Record{}, err
		}
	}
	// A grant that is made here has a token above all that were shown.
	if err := h.raiseToken(ctx, s, token); err != nil {
		return lockrec.Record{}, err
	}
	if next.State == lockrec.Held {
		next = lockrec.ByOther(&next, s.Age)
	}
	if s.Rec == nil {
		next.Token = max(token.Token-1, 1)
	}
	lockrec.GrantAbove(&next, token.Token-1)
	next.Renewed = h.c.Space.Clock.Wall()
	return next, nil
}

// cleared takes all grants that are over out of next, the record of s: that of the holder, and
// those of members whose sessions are over. It reports whether that has changed anything. If not,
// wait is how long it takes at most until a grant is over.
//
// The waiters on one machine die together. So a handle that finds one dead reads the sessions of
// all before it at once. From then on it times each of them, and needs no further TTL for each.
//
// Each of these sessions may renew, leave or be handed the lock between two steps. Each revocation
// names the version of the session's record that was evaluated, and the write that takes them out
// names that of s. If the handle stops after a revocation, the entry stays in the queue until
// another waiter sees that the session is revoked.
func (h *Holder) cleared(ctx context.Context, s *cell.Seen, next *lockrec.Record) (changed bool, v membership.Verdict) {
	if s.Rec == nil {
		return false, v
	}
	ahead, others := h.place.DueReads(s, h.those(s, lockrec.Ahead))
	over, v := h.evaluateAll(ctx, s, ahead)
	if v.Err != nil || v.Next != nil {
		return false, v
	}
	if v.Wait = max(v.Wait, others); v.Open || len(over) > 0 {
		rest := slices.DeleteFunc(h.those(s, lockrec.Before), func(m lockrec.Member) bool { return contains(ahead, m) })
		more, holder := h.evaluateAll(ctx, s, rest) // an error does not change what is known of dead sessions
		maps.Copy(over, more)
		if holder.Open {
			v.Open, v.Reason = true, holder.Reason
		}
	}
	if s.Rec.State == lockrec.Free {
		left := h.intervalLeft(s)
		v.Open, v.Wait = left <= 0, max(v.Wait, left)
	}
	if v.Open {
		next.NotBefore = time.Time{}
		lockrec.Vacate(next)
		changed = s.Rec.State != lockrec.Free || len(s.Rec.Queue) > 0
	}
	if len(over) > 0 {
		lockrec.Drop(next, func(session string) bool { return over[session] })
		changed = true
	}
	return changed, v
}

// those returns the members that which returns for the entries that the handle reads for, each
// once.
func (h *Holder) those(s *cell.Seen, which func(r *lockrec.Record, grant string) []lockrec.Member) (all []lockrec.Member) {
	for _, entry := range h.place.Entries(s) {
		for _, m := range which(s.Rec, entry) {
			if !contains(all, m) {
				all = append(all, m)
			}
		}
	}
	return all
}

func contains(all []lockrec.Member, m lockrec.Member) bool {
	return slices.ContainsFunc(all, func(a lockrec.Member) bool { return a.Grant == m.Grant })
}

// evaluateAll evaluates members of the record of s. It returns the sessions of those that are over,
// and the verdict on a member that has the lock alone. The verdict's wait is how long it takes at
// most until another member is over.
func (h *Holder) evaluateAll(ctx context.Context, s *cell.Seen, members []lockrec.Member) (over map[string]bool, v membership.Verdict) {
	if lockrec.Exclusive(s.Rec) && contains(members, lockrec.Member{Grant: s.Rec.Grant}) {
		members = slices.DeleteFunc(slices.Clone(members), func(m lockrec.Member) bool { return m.Grant == s.Rec.Grant })
		if v = h.evaluate(ctx, s); v.Err != nil || v.Next != nil {
			return nil, v
		}
	}
	over, judged := h.c.Peers.OverAll(ctx, &h.Cell, members)
	if v.Err, v.Next = judged.Err, judged.Next; v.Err == nil && v.Next == nil {
		h.place.ReadDue(members, judged.Wait)
	}
	v.Wait = max(v.Wait, judged.Wait)
	return over, v
}

// enter takes the lock in the state s as a member, or enters its queue where queue allows that. It
// also takes out members that are over. It returns one of four: the grant; the state to continue
// with; an error; or none of these, and how long it takes at most until the lock may be taken.
func (h *Holder) enter(ctx context.Context, s *cell.Seen, queue bool) (_ *belief.Guard, next *cell.Seen, wait time.Duration, err error) {
	entry := h.place.Entry()
	if entry != "" {
		switch at, m := s.Find(entry); {
		case at != lockrec.Waiting && s.Rec != nil && s.Rec.State == lockrec.Broken && s.Names(entry):
			// It was broken before this handle believed in it: others wait for no holder.
			_, err := h.depart(ctx, s, entry)
			h.forget(entry)
			return nil, h.Cell.Known(), 0, err
		case at == lockrec.Absent:
			if final, err := h.confirmed(ctx, s); err != nil || final != s {
				return nil, final, 0, err
			}
			h.forget(entry) // dropped with its session, or the record is another
			entry = ""
		case at == lockrec.Holding && s.Rec.State != lockrec.Broken:
			guard, next, err := h.promote(ctx, s, m, "")
			return guard, next, 0, err
		}
	}
	rec, err := h.Amended(ctx, s)
	if err != nil {
		return nil, nil, 0, err
	}
	newcomer := h.Under != nil && entry == ""
	changed, v := false, membership.Verdict{}
	if !newcomer || len(rec.Queue) > 0 || !lockrec.Fits(&rec, h.mode()) {
		changed, v = h.cleared(ctx, s, &rec)
		switch {
		case v.Err != nil:
			return nil, nil, 0, v.Err
		case v.Next != nil:
			return nil, v.Next, 0, nil
		}
	}
	if entry == "" && !h.place.KeepsWaiting(&rec) { // a handle that waits stays when the number of slots changes
		if err := lockrec.Suits(&rec, h.Opts.Slots); err != nil {
			return nil, nil, 0, err
		}
		if h.Opts.Slots > 0 {
			rec.Slots = h.Opts.Slots
		}
	}
	if newcomer {
		if entry, err = h.newcomer(ctx, &rec, queue && h.place.HasTurn(ctx, &rec) && !h.c.Space.IsContended(s.Rec)); err != nil {
			return nil, nil, 0, err
		}
		changed = changed || entry != ""
	}
	if !changed {
		return nil, nil, v.Wait, nil
	}
	lockrec.KeepsHolder(&rec, s.Rec)
	if lockrec.Members(&rec) > lockrec.Members(cmp.Or(s.Rec, &lockrec.Record{})) {
		if err := lockrec.HasRoom(&rec); err != nil {
			h.forget(entry)
			return nil, nil, 0, err
		}
	}
	guard, next, err := h.amend(ctx, s, &rec, entry, v.Reason)
	return guard, next, 0, err
}

// newcomer enters a new member into rec, as a holder or into the queue, and returns its grant,
// empty if it may not enter.
func (h *Holder) newcomer(ctx context.Context, rec *lockrec.Record, queue bool) (entry string, _ error) {
	m := lockrec.Member{Session: h.Under.ID(), TTL: h.c.Space.Set.TTL, Mode: h.mode(), Since: rec.Renewed.UTC().Truncate(time.Second)}
	if m.Mode == lockrec.ModeExclusive && h.campaigns() != nil {
		m.Mode = lockrec.ModeCandidate
	}
	m.Grant = h.Under.nextGrant()
	at, err := lockrec.Enter(rec, m, queue && h.queues(rec), lockrec.MaxMembers)
	if err != nil || at == lockrec.Absent {
		return "", err
	}
	if at == lockrec.Holding {
		rec.Holder = h.c.Space.Set.Holder
	}
	if at == lockrec.Holding && lockrec.Alone(m.Mode) {
		if err := h.dress(ctx, rec); err != nil {
			return "", err
		}
	}
	// Until it has left, the session waits for it when it is closed.
	if err := h.Under.beginClaim(h.Name()); err != nil {
		return "", fmt.Errorf("lock %q: %w", h.Name(), err)
	}
	h.place.Enter(ctx, m.Grant, rec, at == lockrec.Waiting)
	return m.Grant, nil
}

// queues reports whether the handle waits for the lock in its queue. If it does not, it reads the
// lock from time to time. No later client overtakes a waiter in the queue.
func (h *Holder) queues(r *lockrec.Record) bool {
	if h.c.Space.Set.MinInterval > 0 || h.campaigns() != nil && !h.Opts.Fair {
		return false // the session that hands the lock over writes neither that time nor the value
	}
	return lockrec.Queues(r, h.mode(), h.Opts.Fair)
}

// forget notes that a grant is not in the queue any more, or never was.
func (h *Holder) forget(entry string) {
	if h.place.Forget(entry) {
		h.Under.endClaim(h.Name())
	}
}

// amend writes rec over the state s, and resolves the write. The grant entry, if any, enters the
// record with it, and only this session writes that grant. So the record shows whether the write
// was applied. When another client has replaced s without the entry, the write never will be
// applied.
func (h *Holder) amend(ctx context.Context, s *cell.Seen, rec *lockrec.Record, entry, reason string) (*belief.Guard, *cell.Seen, error) {
	c := h.c
	t := h.Cell.OverGrant(s)
	t.Cause = &lockrec.Cause{Reason: cmp.Or(reason, "the session of the holder is over")}
	f := t.Write(ctx, rec, c.Space.Clock.SinceStart(), nil)
	switch {
	case f.Resolution == store.ResolutionApplied:
		if at, m := f.Now.Find(entry); at == lockrec.Holding {
			return h.begun(ctx, f.Now, m, reason)
		}
		return nil, h.Cell.Note(f.Now), nil
	case f.Now != nil && f.Resolution != store.ResolutionPending:
		if !f.Now.Names(entry) {
			h.forget(entry) // the handle has no entry to take out
		}
		return nil, h.Cell.Note(f.Now), nil
	case s.Names(entry): // the entry is in the record before and after the write
		return nil, nil, f.Err
	}
	var err error
	if entry != "" && f.Resolution != store.ResolutionNotApplied {
		if t.NoReadBack { // this write must not be adopted later
			t = h.Cell.Over(s)
		}
		err = h.withdraw(ctx, &leftover{h: h, t: t, rec: rec, grant: entry, free: h.without(entry)})
	}
	h.forget(entry)
	return nil, nil, errors.Join(f.Err, err)
}

// promote makes the grant of a waiter that the record s names as a holder. It believes in that only
// after a read that the store has resolved, and only if a power cut does not undo the write of another
// client that named it: otherwise a later grant would get the same token.
func (h *Holder) promote(ctx context.Context, s *cell.Seen, m lockrec.Member, reason string) (*belief.Guard, *cell.Seen, error) {
	final, err := h.confirmed(ctx, s)
	if err == nil && final == s && h.c.Space.Set.Traits.ReadsUnsynced {
		final, err = h.Cell.MakeDurable(ctx, s)
	}
	if err != nil || final != s {
		return nil, final, err
	}
	h.place.Timed(-1)
	return h.begun(ctx, s, m, reason)
}

// confirmed returns s if that is certainly in the store, and the present state otherwise. Where the
// store has to resolve writes, a read may have shown a state that never takes effect.
func (h *Holder) confirmed(ctx context.Context, s *cell.Seen) (*cell.Seen, error) {
	if !h.c.Space.Set.Traits.Delayed() {
		return s, nil
	}
	final, err := h.Cell.Reread(ctx)
	if err == nil && final.Version == s.Version {
		final = s
	}
	return final, err
}

// begun makes the grant that is in the record, and its first guard.
func (h *Holder) begun(ctx context.Context, s *cell.Seen, m lockrec.Member, reason string) (*belief.Guard, *cell.Seen, error) {
	defer h.forget(m.Grant)
	return h.begin(ctx, &cell.Seen{Age: -1}, cell.Finding{Now: s, Try: cell.Try{At: h.c.Space.Clock.SinceStart()}}, m, reason)
}

// without returns the function that takes a grant out of a record.
func (h *Holder) without(grant string) func(*lockrec.Record) lockrec.Record {
	return func(r *lockrec.Record) lockrec.Record {
		next := *r
		if next.State == lockrec.Held {
			next = lockrec.ByOther(r, -1)
		}
		next.Renewed = h.c.Space.Clock.Wall()
		lockrec.Leave(&next, grant)
		lockrec.KeepsHolder(&next, r)
		return next
	}
}

// withdraw is leftover.withdraw. If it cannot be resolved now, the session tries again later.
func (h *Holder) withdraw(ctx context.Context, l *leftover) error {
	ctx, cancel := h.c.Space.Ending(ctx)
	defer cancel()
	err := l.withdraw(ctx)
	if err != nil {
		h.Under.remember(l)
	}
	return err
}

// depart takes a grant out of the record, within the time of ctx: a reader's, that of a slot, or an
// entry of the queue. It returns the record by which another client has ended the grant, or nil.
func (h *Holder) depart(ctx context.Context, base *cell.Seen, grant string) (ended *cell.Seen, _ error) {
	if last := h.Cell.Known(); last != nil && last.Names(grant) {
		base = last
	}
	l := h.leftover(base, grant)
	l.landed = true
	err := h.withdraw(ctx, l)
	if err == nil {
		h.c.Waiting.Freed(&h.Cell)
	}
	return l.ended, err
}

// leaveQueue takes the handle out of the lock's queue when the last goroutine that waits through it
// gives up. If the handle has become a holder meanwhile, leaveQueue releases the lock.
func (h *Holder) leaveQueue(ctx context.Context) error {
	if h.place.Waits(-1) > 0 || h.place.Entry() == "" {
		return nil
	}
	defer h.leave(h.alone(context.Background())) // an attempt ends with its context
	entry := h.place.Entry()
	base := h.Cell.Known()
	if entry == "" || h.place.Waits(0) > 0 {
		return nil
	}
	if at, _ := base.Find(entry); at == lockrec.Waiting {
		h.place.Timed(slices.IndexFunc(base.Rec.Queue, func(m lockrec.Member) bool { return m.Grant == entry }))
	}
	defer h.forget(entry)
	if _, lost := h.Under.Err().(*belief.LostError); lost || base == nil || base.Rec == nil {
		return nil // others drop it with the session; or the record was removed
	}
	_, err := h.depart(cell.WithoutEnd(ctx), base, entry)
	return err
}

package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Info is what [Client.Inspect] found.
type Info struct {
	Record  Record
	Version store.Version

	// Liveness is what the store knows of the holder's process.
	Liveness store.Liveness

	// Age is for how long the record has stood unchanged for certain, by the
	// store's own clock; negative where that is not known.
	Age time.Duration
}

// Inspect reads the record of the lock name, in one request. It decides nothing: a
// record that says held can be of a holder that died. Where there is no record the
// error matches [store.ErrNotFound]; one that cannot be read matches
// [store.ErrCorrupt].
func (c *Client) Inspect(ctx context.Context, name string) (Info, error) {
	h, err := c.Handle(name)
	if err != nil {
		return Info{}, err
	}
	return h.info(ctx)
}

// InspectSession is [Client.Inspect] for the record of a session, whose id the records of its
// locks name. Its state is [Held] while it is open, [Free] when it was closed, or [Revoked].
func (c *Client) InspectSession(ctx context.Context, id string) (Info, error) {
	h, err := c.sessionHandle(id)
	if err != nil {
		return Info{}, err
	}
	return h.info(ctx)
}

func (h *Handle) info(ctx context.Context) (Info, error) {
	c := h.c
	s, err := h.inspect(ctx)
	if err != nil {
		return Info{}, err
	}
	if s.rec == nil {
		return Info{}, fmt.Errorf("%s: %w", h, store.ErrNotFound)
	}
	info := Info{Record: *s.rec, Version: s.version, Age: s.age}
	if c.presence != nil && s.rec.State != Free && s.rec.Presence != "" {
		info.Liveness = c.presence.Liveness(ctx, s.rec.Presence)
	}
	return info, nil
}

// inspect reads the record, settled, with its age where the store can tell.
func (h *Handle) inspect(ctx context.Context) (*seen, error) {
	c := h.c
	ager, ok := store.As[store.AgeReader](c.st)
	if !ok || c.set.IgnoreStoreClock {
		return h.fetch(ctx)
	}
	value, v, age, err := ager.GetAge(ctx, h.key)
	s, err := h.decode(value, v, err)
	if err != nil {
		return nil, err
	}
	s.at, s.age = c.clock.monotonic(), age
	return s, nil
}

// Names yields the names of the locks below prefix, in no promised order; see
// [store.Lister].
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		locks, err := store.Prefix(c.st, c.set.KeyPrefix)
		if err != nil {
			yield("", err)
			return
		}
		for name, err := range store.List(ctx, locks, prefix) {
			if !yield(name, err) {
				return
			}
		}
	}
}

// BreakOptions configures [Client.Break].
type BreakOptions struct {
	// Now lets others take the lock at once, although a living holder may go on
	// believing until its deadline.
	Immediate bool
}

// Break ends another holder's grant, whose token the caller names. It writes a broken
// record with the token raised by one, and returns it. The holder may not notice the
// break before its deadline. So others take the lock as if it had not been
// broken: when its holder is dead or has released it, and at the latest a TTL, with the
// allowance for clocks, after their own first sight of the holder's last write, or of
// the broken record; with [BreakOptions.Immediate] at once. A nil o means all defaults.
//
// The error matches [ErrTokenMismatch] if the lock has another token by now, [ErrNotHeld]
// if it is free, [store.ErrNotFound] if there is no such lock, and [ErrUnresolved]
// if it could not be found out whether the write was applied. A lock that is broken
// already can be broken again with Now. A free lock that is not to be taken before a time
// (see Options.MinInterval) can be taken at once after a break, and a job that has run in this
// period (see [Client.Once]) can run again. The call takes at most two minutes.
//
// A lock under a session is held as long as the session lives, broken or not. So a break is
// written into the session's record, too: the session hears of it with its next renewal,
// and frees the lock when its holder has had Options.OrphanAge to stop. If that write fails the
// record is returned with an error: break the lock again.
//
// The break of a lock with several holders, readers or those of slots, ends the grants of all
// of them. The token is that of the record, which [Client.Inspect] tells. Others enter it when
// each of the holders has released its grant or its session is over; with Now at once. To end
// one holder alone, end its process: its session is fenced when it is not renewed.
func (c *Client) Break(ctx context.Context, name string, token uint64, o *BreakOptions) (Record, error) {
	now := o != nil && o.Immediate
	h, err := c.Handle(name)
	if err != nil {
		return Record{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 4*maxCall)
	defer cancel()
	base, err := h.inspect(ctx)
	if err != nil {
		return Record{}, err
	}
	var asIs *Record
	broken, err := h.alter(ctx, base, func(s *seen) (*Record, error) {
		asIs = s.rec
		rec, err := breakable(name, s, token, now)
		return &rec, err
	})
	if broken == nil && (asIs == nil || asIs.State != Broken || asIs.Token != token) {
		return Record{}, err
	}
	// Again, too, if it is broken already: a session that was not told holds on to it.
	told := c.notifySessions(ctx, name, sessionsOf(asIs.possessors()))
	if now && errors.Is(told, store.ErrCorrupt) {
		told = nil // a session whose record cannot be read ends by its deadline
	}
	if told != nil && err == nil {
		err = fmt.Errorf("lock %q is broken, but its session was not told: break it again: %w", name, told)
	}
	if broken == nil {
		return Record{}, err
	}
	return *broken, err
}

// breakable checks that s shows the grant to break, and returns the record to write: it
// keeps all by which others judge whether the holder still believes.
func breakable(name string, s *seen, token uint64, now bool) (Record, error) {
	r := s.rec
	switch {
	case r == nil:
		return Record{}, fmt.Errorf("lock %q: %w", name, store.ErrNotFound)
	case r.Token != token:
		return Record{}, fmt.Errorf("lock %q: %w: it has %d, not %d", name, ErrTokenMismatch, r.Token, token)
	case r.State == Free && r.NotBefore.IsZero() && (r.Run == nil || r.Run.RerunAllowed):
		return Record{}, fmt.Errorf("lock %q: %w: it is free (token %d)", name, ErrNotHeld, r.Token)
	case r.State == Broken && (r.Immediate || !now):
		return Record{}, fmt.Errorf("lock %q: %w: it is broken already (token %d)", name, ErrNotHeld, r.Token)
	}
	next := *r
	if r.State == Shared || len(r.Holders) > 0 {
		return breakAll(next, now)
	}
	raised, err := r.nextToken()
	if err != nil {
		return Record{}, err
	}
	next.State, next.Token, next.Immediate, next.Nonce, next.NotBefore = Broken, raised, now, rand.Text(), time.Time{}
	next.Run = r.allowRerun()
	if r.State == Free { // no holder goes on: it was kept for later
		next.State, next.Immediate = Free, false
	}
	if r.State == Held {
		next.BrokenNonce = r.holderNonce()
	}
	next.HolderNonce, next.YieldRequest, next.Linger = "", nil, 0
	next.HolderWriteAge = r.holderWriteAge(s.age)
	return next, nil
}

// breakAll breaks a lock with several holders.
func breakAll(next Record, now bool) (Record, error) {
	raised, err := next.nextToken()
	if err != nil {
		return Record{}, err
	}
	for _, m := range next.Holders {
		next.TTL = max(next.TTL, m.TTL)
	}
	next.State, next.Token, next.NotBefore, next.Nonce = Broken, raised, time.Time{}, rand.Text()
	if now {
		next.vacate()
	}
	return next, nil
}

// Watch yields the state of the lock name, then every further state that it sees,
// renewals too, until ctx ends or the loop is left; states that come and go may be
// missed. A lock that has no record is yielded as an Info with an empty Version. On a
// store that does not report changes Watch reads every Options.MaxPoll, jittered.
// Errors are yielded, and the watch goes on; the last thing yielded is the context's
// error, or [ErrClosed].
func (c *Client) Watch(ctx context.Context, name string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		h, err := c.Handle(name)
		if err != nil {
			yield(Info{}, err)
			return
		}
		ctx, cancel := c.bind(ctx)
		defer cancel(nil)
		for e, err := range store.Watch(ctx, c.st, h.key, c.set.MaxPoll) {
			info := Info{Record: Record{Name: name}, Version: e.Version, Age: -1}
			if err == nil && e.Version != "" {
				var rec *Record
				if rec, err = decodeRecord(name, e.Value); err == nil {
					info.Record = *rec
				}
			}
			if err != nil {
				err = fmt.Errorf("lock %q: %w", name, err)
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

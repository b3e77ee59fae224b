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

	// Liveness is what the store reports of the holder's process.
	Liveness store.Liveness

	// Age is how long the record has certainly been unchanged, by the store's own clock. It is
	// negative where that is not known.
	Age time.Duration
}

// Inspect reads the record of the lock name, in one request. It does not evaluate the record: the
// holder of a held lock may be dead. Where there is no record the error matches
// [store.ErrNotFound]; one that cannot be read matches [store.ErrCorrupt].
func (c *Client) Inspect(ctx context.Context, name string) (Info, error) {
	h, err := c.Handle(name, nil)
	if err != nil {
		return Info{}, err
	}
	return h.info(ctx)
}

// InspectSession is [Client.Inspect] for the record of a session, whose id the records of its locks
// name. Its State is [Held] while the session is open, [Free] when it was closed, or [Revoked].
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

// inspect reads the record, after the store has resolved writes in doubt, with its age where the
// store can tell.
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

// List yields the names of the locks below prefix, in no promised order; see [store.Lister].
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
	// Immediate lets others take the lock at once, although a living holder may believe until its
	// deadline that it holds the lock.
	Immediate bool
}

// Break ends another holder's grant, whose token the caller names. It writes a broken record with
// the token raised by one, and returns that record. The holder may not notice the break before its
// deadline. So others take the lock no earlier than without the break: when its holder is dead or
// has released it, or after a TTL with the allowance for clocks. They count that time from when
// they first saw the holder's last write, or the broken record. With [BreakOptions.Immediate] they
// take it at once. A nil o means all defaults.
//
// The error matches [ErrTokenMismatch] if the lock has another token by now, [ErrNotHeld] if it is
// free, and [store.ErrNotFound] if there is no such lock. It matches [ErrUnresolved] if Break could
// not find out whether the write was applied. A broken lock can be broken again with Immediate.
// After a break a free lock whose NotBefore is later can be taken at once; see Options.MinInterval.
// A job that has run in this period can run again; see [Client.Once]. The call takes at most two
// minutes.
//
// A lock under a session is held as long as the session lives, broken or not. So Break also names
// the lock in the session's record. With its next renewal the session reads that, and frees the
// lock when its holder has had Options.Grace to stop. If the write of the session's record fails,
// Break returns the record with an error: break the lock again.
//
// The break of a lock with several holders (readers, or holders of slots) ends the grants of all of
// them. The token is that of the record, see [Client.Inspect]. Others enter the lock when each of
// the holders has released its grant or its session is over; with Immediate at once. To end one
// holder alone, end its process: its session is revoked when it is not renewed.
func (c *Client) Break(ctx context.Context, name string, token uint64, o *BreakOptions) (Record, error) {
	now := o != nil && o.Immediate
	h, err := c.Handle(name, nil)
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
	// A broken lock, too: a session that was not notified still holds it.
	told := c.notifySessions(ctx, name, sessionsOf(asIs.possessors()))
	if now && errors.Is(told, store.ErrCorrupt) {
		told = nil // a session whose record cannot be read ends at its deadline
	}
	if told != nil && err == nil {
		err = fmt.Errorf("lock %q is broken, but its session could not be notified: break it again: %w", name, told)
	}
	if broken == nil {
		return Record{}, err
	}
	return *broken, err
}

// breakable checks that s shows the grant to break, and returns the record to write. It keeps all
// fields from which others evaluate whether the holder still believes.
func breakable(name string, s *seen, token uint64, now bool) (Record, error) {
	r := s.rec
	switch {
	case r == nil:
		return Record{}, fmt.Errorf("lock %q: %w", name, store.ErrNotFound)
	case r.Token != token:
		return Record{}, fmt.Errorf("lock %q: %w: the record has token %d, the caller names %d", name, ErrTokenMismatch, r.Token, token)
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
	if r.State == Free { // no holder exists: NotBefore delayed the next grant
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

// Watch yields the state of the lock name, then every further state that it sees, renewals
// included, until ctx ends or the caller leaves the loop. It may miss states that are replaced
// quickly. A lock without a record is yielded as an Info with an empty Version. On a store that
// does not report changes Watch reads every Options.MaxPoll, jittered. Watch yields errors and
// continues. The last error is the context's, or [ErrClosed].
func (c *Client) Watch(ctx context.Context, name string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		h, err := c.Handle(name, nil)
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

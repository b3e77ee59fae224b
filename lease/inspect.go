package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

// Info is the result of [Client.Inspect].
type Info struct {
	Record  Record
	Version store.Version

	// Liveness is what the store reports about the holder's process.
	Liveness store.Liveness

	// Age is the time for which the record has certainly been unchanged, by the store's own
	// clock. A negative Age means that the time is not known.
	Age time.Duration
}

// Inspect reads the record of a lock, in one request, or in two if the store reports that the
// holder's process is dead. If there is no record, the error matches [store.ErrNotFound]. If the
// record cannot be read, the error matches [store.ErrCorrupt].
func (c *Client) Inspect(ctx context.Context, name string) (Info, error) {
	of, err := c.space.Lock(name)
	if err != nil {
		return Info{}, err
	}
	return info(ctx, of)
}

// InspectSession does the same as [Client.Inspect] for the record of a session. The id of the
// session is in the records of its locks. The State is Held while the session is open, Free after
// its close, or Revoked.
func (c *Client) InspectSession(ctx context.Context, id string) (Info, error) {
	of, err := c.space.Session(id)
	if err != nil {
		return Info{}, err
	}
	return info(ctx, of)
}

func info(ctx context.Context, of *cell.Cell) (Info, error) {
	for last := store.Version(""); ; {
		s, err := of.Inspect(ctx)
		if err != nil {
			return Info{}, err
		}
		if s.Rec == nil {
			return Info{}, of.Absent()
		}
		info := Info{Record: *s.Rec, Version: s.Version, Age: s.Age}
		if presence := of.Space.Presence; presence != nil && s.Rec.State != Free && s.Rec.Presence != "" {
			info.Liveness = presence.Liveness(ctx, s.Rec.Presence)
		}
		// A holder can release the lock after the read of the record, and then end.
		if info.Liveness != store.Dead || s.Version == last {
			return info, nil
		}
		last = s.Version
	}
}

// List yields the names of the locks below a prefix, in no particular order; see [store.Lister].
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return c.space.Locks(ctx, prefix)
}

// BreakOptions configures [Client.Break].
type BreakOptions struct {
	// Immediate lets other clients take the lock at once. A living holder may still trust its
	// lease until its deadline.
	Immediate bool

	// Reason is for people: the history of the lock shows it. Default: none.
	Reason string
}

// Break ends the grant of another holder. Pass the token of that grant. Break writes a record with
// the state Broken and a token that is higher by one, and returns this record. Nil options mean all
// defaults.
//
// The holder may notice the break only at its deadline. So other clients do not take the lock
// earlier because of a break. They take it after a release, when the store reports that the holder
// is dead, or after a TTL with the allowance for clocks. For each client, this TTL begins when it
// first reads the holder's last write or the broken record. With [BreakOptions].Immediate they take
// the lock at once.
//
// These errors are special:
//
//   - [ErrTokenMismatch]: the lock has another token now.
//   - [ErrNotHeld]: the lock is free.
//   - [store.ErrNotFound]: there is no such lock.
//   - [ErrUnresolved]: Break could not find out whether the write was applied.
//
// A lock that is already broken can be broken again with Immediate. If the lock is free but its
// NotBefore is in the future, a break allows the next grant at once; see Options.MinInterval.
// After a break, a job that has run in this period can run again; see [Client.Once]. The call
// takes at most two minutes.
//
// A lock under a session stays held while the session lives. So Break also names the lock in the
// session's record. The session reads its record with its next renewal, ends the guard's context,
// gives the work Options.Grace to stop, and then frees the lock. If the write of the session's
// record fails, Break returns the record with an error. Then call Break again.
//
// If a lock has several holders (readers, or holders of slots), Break ends all their grants. The
// token is the token of the record; see [Client.Inspect]. Other clients take the lock when no
// holder is left: each holder has released its grant, or its session is over. With Immediate they
// take the lock at once. To end only one holder, end its process. Other clients then revoke its
// session.
func (c *Client) Break(ctx context.Context, name string, token uint64, o *BreakOptions) (Record, error) {
	o = cmp.Or(o, &BreakOptions{})
	now := o.Immediate
	of, err := c.space.Lock(name)
	if err != nil {
		return Record{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, cell.MaxDuration)
	defer cancel()
	base, err := of.Inspect(ctx)
	if err != nil {
		return Record{}, err
	}
	var asIs *Record
	broken, err := of.Change(ctx, base, lockrec.Cause{Kind: lockrec.HistoryBroken, Reason: o.Reason}, func(s *cell.Seen) (*Record, error) {
		if asIs = s.Rec; asIs == nil {
			return nil, of.Absent()
		}
		marked, err := of.WithHighestMark(ctx, asIs)
		if err != nil {
			return nil, err
		}
		return lockrec.Break(marked, token, now, s.Age)
	})
	if broken == nil && (asIs == nil || asIs.State != Broken || asIs.Token != token) {
		return Record{}, err
	}
	// A broken lock, too: a session that was not notified still holds it.
	told := c.k.NotifySessions(ctx, name, lockrec.SessionsOf(lockrec.Possessors(asIs)))
	if now && errors.Is(told, store.ErrCorrupt) {
		told = nil // a session whose record cannot be read ends at its deadline
	}
	if told != nil && err == nil {
		err = fmt.Errorf("lock %q is broken, but the session of its holder could not be notified; break the lock again: %w", name, told)
	}
	if broken == nil {
		return Record{}, err
	}
	return *broken, err
}

// Watch yields the state of a lock, and then each further state that it sees, including renewals.
// It ends when the context ends or the caller leaves the loop. It can miss states that last only a
// short time. If the lock has no record, the Info has an empty Version. If the store does not
// report changes, Watch reads the record about every Options.MaxPoll, at random times. A client that
// watches many locks replaces these reads by listings; see the package comment. Watch yields
// errors and continues. The last error is the [store.Cause] of the context, or [ErrClosed].
func (c *Client) Watch(ctx context.Context, name string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		of, err := c.space.Lock(name)
		if err != nil {
			yield(Info{}, err)
			return
		}
		ctx, cancel := c.space.Bind(ctx)
		defer cancel(nil)
		st, leave := c.k.Waiting.Watched(of)
		defer leave()
		for e, err := range store.Watch(ctx, st, of.Key, c.space.Set.MaxPoll) {
			info := Info{Record: Record{Name: name}, Version: e.Version, Age: -1}
			if err == nil && e.Version != "" {
				var rec *Record
				if rec, err = lockrec.Decode("", name, e.Value); err == nil {
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

// Resize changes the number of slots of a semaphore, from 1 to [MaxMembers], and returns the
// record. If there are more slots than before, the first waiters in the queue get the new slots at
// once. If there are fewer slots, no holder loses its slot, and waiters wait until the number of
// holders is below the number of slots. From then on, handles with a different number of slots get
// a [*SlotCountError].
//
// If the lock is in use and is not a semaphore, the error matches [ErrWrongKind]. If there is
// no lock, it matches [store.ErrNotFound]. If Resize could not find out whether the write was
// applied, it matches [ErrUnresolved]. The call takes at most two minutes.
func (c *Client) Resize(ctx context.Context, name string, slots int) (Record, error) {
	h, err := c.k.Holder(name, nil)
	if err != nil {
		return Record{}, err
	}
	if err := lockrec.CheckSlots(slots); err != nil {
		return Record{}, fmt.Errorf("%q: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, cell.MaxDuration)
	defer cancel()
	base, err := h.Cell.Inspect(ctx)
	if err != nil {
		return Record{}, err
	}
	resized, err := h.Cell.Change(ctx, base, lockrec.Cause{}, func(s *cell.Seen) (*Record, error) {
		if s.Rec == nil {
			return nil, h.Cell.Absent()
		}
		next, err := h.Amended(ctx, s)
		if err != nil {
			return nil, err
		}
		return &next, lockrec.Resize(&next, slots)
	})
	if err != nil {
		return Record{}, err
	}
	return *resized, nil
}

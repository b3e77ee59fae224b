package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

// MinSweepAge is the shortest time without use after which [Client.Sweep] removes a lock.
const MinSweepAge = time.Hour

// SweepOptions configures [Client.Sweep].
type SweepOptions struct {
	// Sweep removes a lock only if it has been free for OlderThan, at least [MinSweepAge]. The
	// client computes this time from the wall clocks of the lock's last holder and of this machine.
	// OlderThan has no default, so Sweep refuses nil options.
	OlderThan time.Duration

	// If Prefix is set, Sweep reads only the locks below this prefix; see
	// [Client.List].
	Prefix string

	// With DryRun, Sweep removes nothing. It only reports what it would remove.
	DryRun bool

	// OnLock is called for each lock that Sweep has read.
	OnLock func(name string, removed bool, err error)
}

// Sweep removes the records of locks that have been free for a long time, with their histories, and returns
// their number. It keeps these records:
//
//   - held and broken locks of any age
//   - unreadable records; then the error of Sweep matches [store.ErrCorrupt]
//   - locks whose NotBefore is in the future (see Options.MinInterval)
//   - locks whose job has run in the present period (see [Client.Once])
//   - locks whose token is not below the Unix time in microseconds; OnLock gets an error that
//     matches [ErrTokenInFuture]
//
// A record keeps the last token of its lock. So before Sweep removes a record, it writes the
// highest of the removed tokens to a special record of the store: the floor. No client lowers the
// floor. The first token of a new lock is at least the Unix time in microseconds. If
// Options.CheckTokenFloor is set, it is also above the floor. Without CheckTokenFloor, new tokens
// are higher than removed ones only if the clocks of all machines that create, use and sweep the
// lock differ by less than OlderThan.
//
// A token can be ahead of the clock for three reasons. The lock was granted more than a million
// times a second, a machine with a wrong clock created it, or its record is damaged. If Sweep
// removed such a lock, its token would raise the floor for all locks above the time of every clock.
//
// If Prefix is empty, Sweep also removes the records of sessions that were closed or revoked at
// least OlderThan ago. The returned number does not include sessions. Sweep also revokes and
// removes a session that was not renewed for OlderThan, but only with one of two proofs: the
// process of the session is dead, or the store's own clock shows that the record is older than its
// TTL.
func (c *Client) Sweep(ctx context.Context, o *SweepOptions) (int, error) {
	if o == nil {
		o = &SweepOptions{}
	}
	if o.OlderThan < MinSweepAge {
		return 0, fmt.Errorf("%w: cannot sweep locks unused for %v: the age must be at least %v", store.ErrInvalid, o.OlderThan, MinSweepAge)
	}
	found := map[string]*cell.Seen{}
	var highest uint64
	var unreadable []error // errors of keys whose record could not be decoded: the others are swept
	for name, err := range c.List(ctx, o.Prefix) {
		if errors.Is(err, store.ErrCorrupt) {
			unreadable = append(unreadable, err)
			continue
		}
		if err != nil {
			return 0, err
		}
		of, err := c.space.Lock(name)
		if err != nil {
			return 0, err
		}
		s, err := of.Fetch(ctx)
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			return 0, err
		}
		unused := false
		if err == nil {
			unused, err = lockrec.Unused(s.Rec, c.space.Clock.Wall(), o.OlderThan)
		}
		if !unused {
			o.tell(name, false, err)
			continue
		}
		found[name] = s
		highest = max(highest, s.Rec.Token)
	}
	if len(found) > 0 && !o.DryRun {
		if err := c.space.RaiseFloor(ctx, highest); err != nil {
			return 0, err
		}
	}
	removed := 0
	for name, s := range found {
		var err error
		if key := c.space.Set.KeyPrefix + "/" + name; !o.DryRun {
			// Not if a client has used the lock since it was read.
			if err = c.space.RemoveHistory(ctx, key, s.Rec); err == nil {
				err = c.space.Store.Delete(ctx, key, s.Version)
			}
		}
		if err == nil {
			removed++
		}
		o.tell(name, err == nil, err)
		if errors.Is(err, store.ErrCorrupt) { // the history; the record stays, so that a later sweep finds both
			unreadable = append(unreadable, err)
			continue
		}
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return removed, fmt.Errorf("lock %q: %w", name, err)
		}
	}
	if o.Prefix == "" && !o.DryRun {
		unreadable = append(unreadable, c.collectSessions(ctx, o.OlderThan))
	}
	return removed, errors.Join(unreadable...)
}

// collectSessions removes the records of sessions that have ended long ago. A lock that still names
// one is then under an absent session, whose TTL every waiter waits for.
func (c *Client) collectSessions(ctx context.Context, age time.Duration) error {
	sessions, err := store.Prefix(c.space.Store, c.space.Set.KeyPrefix+cell.SessionDir)
	if err != nil {
		return err
	}
	var unreadable []error
	for id, err := range store.List(ctx, sessions, "") {
		if err == nil {
			err = c.collectSession(ctx, id, age)
		}
		switch {
		case errors.Is(err, store.ErrCorrupt):
			unreadable = append(unreadable, err)
		case err != nil:
			return fmt.Errorf("sessions: %w", err)
		}
	}
	return errors.Join(unreadable...)
}

func (c *Client) collectSession(ctx context.Context, id string, age time.Duration) error {
	of, s, err := c.k.Peers.End(ctx, id, age)
	if err != nil || s == nil {
		return err
	}
	if err := c.discard(ctx, of.Key, s.Version); err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("%s: %w", of, err)
	}
	return nil
}

// eraser is a store that removes a register without a tombstone, whatever its state.
type eraser interface {
	Erase(ctx context.Context, key string) error
}

// discard removes the record of a session that has ended. No client writes it any more, and its id
// is never used again. So no tombstone is needed where the store can do without.
func (c *Client) discard(ctx context.Context, key string, v store.Version) error {
	if erases, ok := store.As[eraser](c.space.Given); ok {
		err := c.space.Run(ctx, c.space.Set.CallTimeout(), func(ctx context.Context) error { return erases.Erase(ctx, key) })
		if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return c.space.Store.Delete(ctx, key, v)
}

func (o *SweepOptions) tell(name string, removed bool, err error) {
	if o.OnLock != nil {
		o.OnLock(name, removed, err)
	}
}

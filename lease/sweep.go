package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// MinSweepAge is the least time for which a lock must have gone unused before
// [Client.Sweep] removes it.
const MinSweepAge = time.Hour

// SweepOptions configures [Client.Sweep].
type SweepOptions struct {
	// OlderThan is how long a lock must have been free. At least [MinSweepAge];
	// it is measured with the wall clocks of its last holder and of this machine.
	OlderThan time.Duration

	// Prefix limits it to the locks below; see [Client.List].
	Prefix string

	// DryRun tells what would be removed and changes nothing.
	DryRun bool

	// OnLock is called for each lock that was looked at.
	OnLock func(name string, removed bool, err error)
}

// floorRecord is the value of the floor's register.
type floorRecord struct {
	Holdfast int    `json:"holdfast"`
	Kind     string `json:"kind"`
	Token    uint64 `json:"token"`
}

const (
	floorKey  = ".holdfast/floor"
	floorKind = "floor"
)

// Sweep removes the records of locks that have been free for long, and returns
// how many. Held and broken locks stay, whatever their age, and so does what cannot
// be read: an error that matches [store.ErrCorrupt] then tells of it in the end. A lock that
// is not to be taken before a time (see Options.MinInterval), or whose job has run in a period
// that is not over (see [Client.Once]), stays until then.
//
// A record carries the token on. So before any is removed, the highest of their
// tokens is written to a floor, which is never lowered. A lock that is made anew
// starts at the Unix time in microseconds, and above the floor if Options.CheckTokenFloor is
// set. Without Floor its token is above the removed one as long as the clocks of the
// machines that make, use and collect the lock are apart by less than OlderThan.
//
// A lock whose token is not below the Unix time in microseconds stays: one that was
// granted more than a million times a second, that a machine made whose clock was
// ahead, or whose record is damaged. Its token would raise the floor for all locks,
// to where no clock reaches. OnLock gets it with an error that matches
// [ErrTokenInFuture].
//
// Without a Prefix the records of sessions that were closed or fenced are removed, too, when
// they have that age. They are not counted. So are those of sessions which were not renewed
// for as long, and whose process is dead or whose record is older than its TTL by the store's
// own clock; these are fenced first.
//
// OlderThan has no default, so that nil options are refused.
func (c *Client) Sweep(ctx context.Context, o *SweepOptions) (int, error) {
	if o == nil {
		o = &SweepOptions{}
	}
	if o.OlderThan < MinSweepAge {
		return 0, fmt.Errorf("%w: locks unused for %v; it is at least %v", store.ErrInvalid, o.OlderThan, MinSweepAge)
	}
	found := map[string]*seen{}
	var highest uint64
	var unreadable []error // what could not even be named: it does not keep the others
	for name, err := range c.List(ctx, o.Prefix) {
		if errors.Is(err, store.ErrCorrupt) {
			unreadable = append(unreadable, err)
			continue
		}
		if err != nil {
			return 0, err
		}
		h, err := c.Handle(name)
		if err != nil {
			return 0, err
		}
		s, err := h.fetch(ctx)
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			return 0, err
		}
		now := c.clock.wall()
		old := err == nil && s.rec != nil && s.rec.State == Free && !s.rec.NotBefore.After(now) && now.Sub(s.rec.Renewed) >= o.OlderThan
		if old && s.rec.Run != nil && s.rec.Run.PeriodEnd.After(now) {
			old = false // it says that the job has run in this period
		}
		if old && s.rec.Token >= firstToken(now) {
			old, err = false, fmt.Errorf("lock %q: %w: it has %d, and stays", name, ErrTokenInFuture, s.rec.Token)
		}
		if !old {
			o.tell(name, false, err)
			continue
		}
		found[name] = s
		highest = max(highest, s.rec.Token)
	}
	if len(found) > 0 && !o.DryRun {
		if err := c.raiseFloor(ctx, highest); err != nil {
			return 0, err
		}
	}
	removed := 0
	for name, s := range found {
		var err error
		if !o.DryRun {
			// Not if a client has used it since it was looked at.
			err = c.st.Delete(ctx, c.set.KeyPrefix+"/"+name, s.version)
		}
		if err == nil {
			removed++
		}
		o.tell(name, err == nil, err)
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return removed, fmt.Errorf("lock %q: %w", name, err)
		}
	}
	if o.Prefix == "" && !o.DryRun {
		unreadable = append(unreadable, c.collectSessions(ctx, o.OlderThan))
	}
	return removed, errors.Join(unreadable...)
}

// collectSessions removes the records of sessions that have ended long ago. A lock that still
// names one is then under an absent session, which every waiter waits out.
func (c *Client) collectSessions(ctx context.Context, age time.Duration) error {
	sessions, err := store.Prefix(c.st, c.set.KeyPrefix+sessionDir)
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
	r, err := c.newHolderSession(id)
	if err != nil {
		return err
	}
	s, err := r.h.inspect(ctx)
	if err != nil || s.rec == nil || c.clock.wall().Sub(s.rec.Renewed) < age || c.trusts(id) {
		return err
	}
	s = r.h.note(s)
	if s.rec.State == Held {
		v := r.h.evaluateGrant(ctx, s)
		if !v.open {
			return nil
		}
		applied, err := r.revoke(ctx, s, v.reason)
		if err != nil || !applied {
			return err
		}
		s = r.final
	}
	if err := c.discard(ctx, r.h.key, s.version); err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("%s: %w", r.h, err)
	}
	return nil
}

// eraser is a store that removes a register without a tombstone, whatever its state.
type eraser interface {
	Erase(ctx context.Context, key string) error
}

// discard removes the record of a session that has ended. No client writes it any more, and
// its id never returns: so that no tombstone is needed where the store can do without.
func (c *Client) discard(ctx context.Context, key string, v store.Version) error {
	if erases, ok := store.As[eraser](c.given); ok {
		err := c.calls.run(ctx, key, c.calls.limit, func(ctx context.Context) error { return erases.Erase(ctx, key) }, nil)
		if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return c.st.Delete(ctx, key, v)
}

func (o *SweepOptions) tell(name string, removed bool, err error) {
	if o.OnLock != nil {
		o.OnLock(name, removed, err)
	}
}

// raiseFloor makes the floor at least token.
func (c *Client) raiseFloor(ctx context.Context, token uint64) error {
	_, err := store.Update(ctx, c.st, floorKey, func(value []byte) ([]byte, error) {
		floor, err := decodeFloor(value)
		if err != nil {
			return nil, err
		}
		if floor >= token {
			return nil, store.ErrUnchanged
		}
		return json.Marshal(floorRecord{plainFormat, floorKind, token})
	})
	if err != nil {
		return fmt.Errorf("floor of tokens: %w", err)
	}
	return nil
}

// floor reads the floor. Its callers have read before that there is no record. So the
// client that removed the record had raised the floor already.
func (c *Client) floor(ctx context.Context) (uint64, error) {
	value, _, err := c.st.Get(ctx, floorKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	return decodeFloor(value)
}

func decodeFloor(value []byte) (uint64, error) {
	if value == nil {
		return 0, nil
	}
	var r floorRecord
	if err := json.Unmarshal(value, &r); err != nil || r.Kind != floorKind || r.Holdfast < 1 {
		return 0, fmt.Errorf("%w: not a floor: %.60q", store.ErrCorrupt, value)
	}
	if r.Holdfast > formatVersion {
		return 0, fmt.Errorf("%w: %w: use a newer holdfast", store.ErrCorrupt, ErrNewerFormat)
	}
	return r.Token, nil
}

package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

// BreakUnreadable makes a lock usable again if its record cannot be read. No other call can free
// such a lock. An unreadable record does not show whether there is a holder. So first make sure
// that the lock has no holder, or that the work of the holder is fenced. A living holder
// continues until its next renewal or its deadline.
//
// First BreakUnreadable calls the function passed as keep, with the key of the register and its
// content. The function must store a copy of the content. If the store itself cannot read the
// register, the content is nil. In this case the function must also move the register away, so that
// the key is absent. If the function returns an error, BreakUnreadable returns this error and
// changes nothing.
//
// After the function has returned nil, BreakUnreadable raises the floor of tokens, and writes a
// free record. The new token is above the floor, above every token that the store has recorded for
// the key, and above the Unix time in microseconds.
//
// If the record can be read, the error matches [ErrNotHeld]: use [Client.Break]. If a newer
// version of this package has written the record, the error matches [ErrNewerFormat]. If there is
// no record, the error matches [store.ErrNotFound].
func (c *Client) BreakUnreadable(ctx context.Context, name string, keep func(ctx context.Context, key string, value []byte) error) (Record, error) {
	of, err := c.space.Lock(name)
	if err != nil {
		return Record{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, cell.MaxDuration)
	defer cancel()
	value, version, err := c.space.Store.Get(ctx, of.Key)
	switch {
	case errors.Is(err, store.ErrCorrupt):
		value, version = nil, ""
	case err != nil:
		return Record{}, fmt.Errorf("lock %q: %w", name, err)
	default:
		_, broken := lockrec.Decode("", name, value)
		if broken == nil {
			return Record{}, fmt.Errorf("lock %q: %w: the record of the lock is readable, so break the lock by its token", name, ErrNotHeld)
		}
		if errors.Is(broken, ErrNewerFormat) {
			return Record{}, fmt.Errorf("lock %q: %w", name, broken)
		}
	}
	rec := &Record{Name: name, State: Free, Nonce: rand.Text(), Renewed: c.space.Clock.Wall(), Token: lockrec.FirstToken(c.space.Clock.Wall())}
	floor, err := c.space.Floor(ctx)
	if err != nil {
		return Record{}, fmt.Errorf("token floor: %w", err)
	}
	mark, err := of.HighestToken(ctx)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return Record{}, fmt.Errorf("lock %q: %w", name, err)
	}
	for _, above := range []uint64{floor, mark, lockrec.TokenOf(value)} {
		if err := lockrec.Raise(rec, above); err != nil {
			return Record{}, err
		}
	}
	if err := keep(ctx, of.Key, value); err != nil {
		return Record{}, fmt.Errorf("lock %q: nothing was changed: %w", name, err)
	}
	// The floor is raised first: a program that finds no record begins above the floor.
	if err := c.space.RaiseFloor(ctx, rec.Token); err != nil {
		return Record{}, err
	}
	t := of.Over(&cell.Seen{Version: version})
	t.Cause = &lockrec.Cause{Kind: lockrec.HistoryBroken, Reason: "the record could not be read"}
	f := t.Write(ctx, rec, c.space.Clock.SinceStart(), nil)
	switch {
	case f.Try.Rec != nil:
		return *f.Try.Rec, nil
	case f.Now != nil && f.Resolution != store.ResolutionPending:
		return Record{}, fmt.Errorf("lock %q: %w: another client has changed the record during the break; try again", name, store.ErrConflict)
	case f.Resolution == store.ResolutionNotApplied:
		return Record{}, f.Err
	}
	return Record{}, fmt.Errorf("%w: %w", ErrUnresolved, f.Err)
}

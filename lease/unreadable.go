package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// BreakUnreadable makes a lock usable again whose record cannot be read, so that nothing
// else can free it. It writes a free record with a token above the floor, which it raises
// first, above every mark that the store knows, and above the Unix time in microseconds. A
// holder that believes goes on until its next renewal or its deadline: what cannot be read
// tells neither. So make sure first that there is none, or that its work is fenced.
//
// Before that it calls keep, which keeps a copy: with the value that stands under the key;
// or with nil, if the store itself cannot read its register: then keep moves that away, so
// that the key is absent. An error of keep ends the call, and nothing has been changed.
//
// The error matches [ErrNotHeld] if the record can be read: use [Client.Break]. It matches
// [ErrNewerFormat] if a newer version of this package has written it, and [store.ErrNotFound] if
// there is none.
func (c *Client) BreakUnreadable(ctx context.Context, name string, keep func(ctx context.Context, key string, value []byte) error) (Record, error) {
	h, err := c.Handle(name)
	if err != nil {
		return Record{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 4*maxCall)
	defer cancel()
	value, version, err := c.st.Get(ctx, h.key)
	switch {
	case errors.Is(err, store.ErrCorrupt):
		value, version = nil, ""
	case err != nil:
		return Record{}, fmt.Errorf("lock %q: %w", name, err)
	default:
		_, broken := decodeRecord(name, value)
		if broken == nil {
			return Record{}, fmt.Errorf("lock %q: %w: its record can be read", name, ErrNotHeld)
		}
		if errors.Is(broken, ErrNewerFormat) {
			return Record{}, fmt.Errorf("lock %q: %w", name, broken)
		}
	}
	rec := &Record{Name: name, State: Free, Nonce: rand.Text(), Renewed: c.clock.wall(), Token: firstToken(c.clock.wall())}
	floor, err := c.floor(ctx)
	if err != nil {
		return Record{}, fmt.Errorf("floor of tokens: %w", err)
	}
	mark, err := store.HighestToken(ctx, c.st, h.key)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return Record{}, fmt.Errorf("lock %q: %w", name, err)
	}
	for _, above := range []uint64{floor, mark, tokenOf(value)} {
		if err := rec.raise(above); err != nil {
			return Record{}, err
		}
	}
	if err := keep(ctx, h.key, value); err != nil {
		return Record{}, fmt.Errorf("lock %q: nothing was changed: %w", name, err)
	}
	// First: a program that finds no record begins above the floor.
	if err := c.raiseFloor(ctx, rec.Token); err != nil {
		return Record{}, err
	}
	t := h.over(version, nil)
	for pause := c.resolveBackoff(); ; {
		f := t.send(ctx, rec, c.clock.sinceStart())
		switch {
		case f.try.rec != nil:
			return *f.try.rec, nil
		case f.resolution == store.ResolutionPending && pause.wait(ctx) == nil:
			rec.Nonce = rand.Text()
		case f.now != nil:
			return Record{}, fmt.Errorf("lock %q: %w: it has changed meanwhile", name, store.ErrConflict)
		case f.resolution == store.ResolutionNotApplied:
			return Record{}, f.err
		default:
			return Record{}, fmt.Errorf("%w: %w", ErrUnresolved, f.err)
		}
	}
}

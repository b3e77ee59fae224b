// Package cell is about one key of one store: what a client has seen there, last and first, and the
// writes over it. A cell neither waits for a lock nor trusts in one.
package cell

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/event"
	"github.com/holdfast-go/holdfast/store"
)

// Seen is one state of a register, as it was read. It is never changed.
type Seen struct {
	Version store.Version   // zero: absent
	Rec     *lockrec.Record // nil: absent
	At      time.Time       // monotonic: after the reply that showed it first
	Sent    time.Time       // monotonic: before the request that showed it was sent; zero: not known
	Age     time.Duration   // by the store's own clock; negative: not known
	Durable bool            // whether it is known that it survives a power cut
}

// Find returns the place of a grant in the record of s.
func (s *Seen) Find(grant string) (lockrec.Standing, lockrec.Member) {
	return lockrec.Find(s.Rec, grant)
}

// Names reports whether the record of s names a grant as a holder or as a waiter.
func (s *Seen) Names(grant string) bool { return lockrec.Names(s.Rec, grant) }

// Cell is one key of a store: what one user of a client knows of the record there, and the writes
// over it. Each handle has its own.
type Cell struct {
	Space *Space
	Key   string // the key prefix of the space, a slash or SessionDir and a slash, and the name
	User  User   // may be nil

	last atomic.Pointer[Seen] // the state that was seen last
}

// User is whose cell it is.
type User interface {
	Noted(s *Seen) // gets each new state that was seen
}

// Kind returns the kind of the record: empty, or KindSession.
func (c *Cell) Kind() string {
	if c.Key[len(c.Space.Set.KeyPrefix)] == '/' {
		return ""
	}
	return lockrec.KindSession
}

// Name returns the name of the lock, or the id of the session.
func (c *Cell) Name() string {
	name := c.Key[len(c.Space.Set.KeyPrefix):]
	return name[strings.IndexByte(name, '/')+1:]
}

// String names the lock, or the session, in errors.
func (c *Cell) String() string {
	if c.Kind() == lockrec.KindSession {
		return "session " + c.Name()
	}
	return fmt.Sprintf("lock %q", c.Name())
}

// Register names the register of the lock: the id of its store, empty if that is not
// known, and the key with all prefixes.
func (c *Cell) Register() (storeID, key string) {
	return c.Space.Set.Traits.ID, c.Space.Set.Traits.Prefix + c.Key
}

// Same reports whether another cell has the same register, as far as the stores tell.
func (c *Cell) Same(other *Cell) bool {
	id, key := c.Register()
	otherID, otherKey := other.Register()
	if id == "" && otherID == "" {
		return c.Key == other.Key && reflect.ValueOf(c.Space.Given).Comparable() && c.Space.Given == other.Space.Given
	}
	return id == otherID && key == otherKey
}

// Event returns an event of the lock, or of the session. session is that of the lock's holder or
// waiter, empty if there is none.
func (c *Cell) Event(kind event.Kind, session string) event.Event {
	if c.Kind() != lockrec.KindSession {
		return event.Event{Kind: kind, Name: c.Name(), Session: session}
	}
	switch kind {
	case event.Acquired:
		kind = event.Opened
	case event.Released:
		kind = event.Closed
	}
	return event.Event{Kind: kind, Session: c.Name()}
}

// Known returns the state that was seen last, by this process or an earlier one.
func (c *Cell) Known() *Seen {
	if last := c.last.Load(); last != nil || c.Space.cache == nil {
		return last
	}
	c.last.CompareAndSwap(nil, c.recall())
	return c.last.Load()
}

// Forget forgets the state that was seen last if it has that version: the grant that was taken over that
// state keeps it. Another goroutine may have seen a later state, and entered the queue in it.
func (c *Cell) Forget(v store.Version) {
	if last := c.last.Load(); last != nil && last.Version == v {
		c.last.CompareAndSwap(last, nil)
	}
}

// Adopt takes over what another user of the client has seen of the record.
func (c *Cell) Adopt(s *Seen) {
	for s != nil {
		last := c.Known()
		if last != nil && (last.Version != s.Version && !s.At.After(last.At) || last.Version == s.Version && !s.At.Before(last.At)) || c.last.CompareAndSwap(last, s) {
			return
		}
	}
}

// Note remembers a state. What counts is when a version was seen first. For a record that
// others have changed, and a broken one, it is when the last write of the grant's holder was
// seen first: its mark is still that write, so that the holder wrote none after it.
func (c *Cell) Note(s *Seen) *Seen {
	s = c.Space.sinceFirstSeen(c.Key, s)
	last := c.last.Load()
	next := following(last, s)
	for !c.last.CompareAndSwap(last, next) {
		last = c.last.Load()
		next = following(last, s)
	}
	if s = next; last != nil && last.Version == s.Version && s.Version != "" {
		return s
	}
	if c.Space.cache != nil && s.Rec != nil && c.worthKeeping(s.Rec) {
		c.keep(s)
	}
	if c.User != nil {
		c.User.Noted(s)
	}
	return s
}

// following returns what a cell knows after it has seen s, if it knew last before.
func following(last, s *Seen) *Seen {
	switch {
	case last == nil:
		return s
	case last.Version == s.Version && s.Version != "":
		if s.Age <= last.Age && !s.At.Before(last.At) {
			return last
		}
		earlier := *last
		earlier.Age = max(s.Age, last.Age)
		if s.At.Before(last.At) {
			earlier.At = s.At
		}
		return &earlier
	}
	if last.Rec != nil && s.Rec != nil && lockrec.LastWrite(last.Rec) == lockrec.LastWrite(s.Rec) {
		unchanged := *s
		unchanged.At = last.At
		return &unchanged
	}
	return s
}

// Read reads the record as a waiter does: without settling, with the store's clock at the first
// sight, and without the value when nothing changed.
func (c *Cell) Read(ctx context.Context) (*Seen, error) { return c.observed(ctx, c.read) }

// observed reads the record by read, and shows that to the observer of the space.
func (c *Cell) observed(ctx context.Context, read func(context.Context) (*Seen, error)) (*Seen, error) {
	observer := c.Space.Reads
	if observer == nil {
		return read(ctx)
	}
	began, at := observer.ReadBegins(), c.Space.Clock.Monotonic()
	s, err := read(ctx)
	if err == nil {
		observer.ReadAnswered(c.Key, began, at, s.Version)
	}
	return s, err
}

func (c *Cell) read(ctx context.Context) (*Seen, error) {
	last, sent := c.Known(), c.Space.Clock.Monotonic()
	_, conditional := store.As[store.ConditionalGetter](c.Space.Store)
	ager, ages := store.As[store.AgeReader](c.Space.Store)
	var (
		value []byte
		v     store.Version
		age   = time.Duration(-1)
		err   error
	)
	switch {
	case conditional && last != nil && last.Version != "" && (!ages || c.Space.Set.IgnoreStoreClock || last.Age >= 0):
		var changed bool
		if value, v, changed, err = store.GetIfChanged(ctx, c.Space.Store, c.Key, last.Version); err == nil && !changed {
			return last, nil
		}
	case ages && !c.Space.Set.IgnoreStoreClock:
		value, v, age, err = ager.GetAge(ctx, c.Key)
	default:
		value, v, err = store.GetUncommitted(ctx, c.Space.Store, c.Key)
	}
	s, err := c.decode(value, v, err)
	if err != nil {
		return nil, err
	}
	s.At, s.Sent, s.Age = c.Space.Clock.Monotonic(), sent, age
	return c.Note(s), nil
}

// Fetch reads the state of the record, settled where the store has to settle.
func (c *Cell) Fetch(ctx context.Context) (*Seen, error) {
	sent := c.Space.Clock.Monotonic()
	value, v, err := c.Space.Store.Get(ctx, c.Key)
	s, err := c.decode(value, v, err)
	if err != nil {
		return nil, err
	}
	s.At, s.Sent = c.Space.Clock.Monotonic(), sent
	return s, nil
}

// Reread reads the record, after the store has resolved writes in doubt.
func (c *Cell) Reread(ctx context.Context) (*Seen, error) {
	now, err := c.Fetch(ctx)
	if err != nil {
		return nil, err
	}
	return c.Note(now), nil
}

// MakeDurable returns s when the write that made this state survives a power cut. A read can show a
// write that does not yet. If the store does not know the write any more, MakeDurable returns the
// present state.
func (c *Cell) MakeDurable(ctx context.Context, s *Seen) (*Seen, error) {
	if s.Durable {
		return s, nil
	}
	found, err := store.Resolve(ctx, c.Space.Store, c.Key, "", s.Version)
	if err != nil || found.Write != "" {
		return s, err
	}
	return c.Reread(ctx)
}

// Inspect reads the record, after the store has resolved writes in doubt, with its age where the
// store can tell.
func (c *Cell) Inspect(ctx context.Context) (*Seen, error) { return c.observed(ctx, c.inspect) }

func (c *Cell) inspect(ctx context.Context) (*Seen, error) {
	ager, ok := store.As[store.AgeReader](c.Space.Store)
	if !ok || c.Space.Set.IgnoreStoreClock {
		return c.Fetch(ctx)
	}
	sent := c.Space.Clock.Monotonic()
	value, v, age, err := ager.GetAge(ctx, c.Key)
	s, err := c.decode(value, v, err)
	if err != nil {
		return nil, err
	}
	s.At, s.Sent, s.Age = c.Space.Clock.Monotonic(), sent, age
	return s, nil
}

// decode reads what a get returned. An absent register is a state, not an error.
func (c *Cell) decode(value []byte, v store.Version, err error) (*Seen, error) {
	var rec *lockrec.Record
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &Seen{Age: -1}, nil
	case err == nil:
		rec, err = lockrec.Decode(c.Kind(), c.Name(), value)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c, err)
	}
	return &Seen{Version: v, Rec: rec, Age: -1}, nil
}

// Absent is the error of a call for a record that does not exist.
func (c *Cell) Absent() error { return fmt.Errorf("%s: %w", c, store.ErrNotFound) }

// Judge decides whether the one grant in the record of s is over, or there is none, as one decides
// that takes no part in the lock.
func (c *Cell) Judge(ctx context.Context, s *Seen) lockrec.Verdict {
	return lockrec.Judge(s.Rec, c.Facts(ctx, s, lockrec.Facts{}))
}

// Facts returns what the client knows of the holder in the record of s. own says what it knows of
// that grant if that is its own.
func (c *Cell) Facts(ctx context.Context, s *Seen, own lockrec.Facts) lockrec.Facts {
	f, set, r := own, c.Space.Set, s.Rec
	f.Factor, f.Age = set.Factor, -1
	if r == nil || r.State == lockrec.Free {
		return f
	}
	f.Reclaimed = set.ReclaimOwn && r.Holder == set.Holder && r.Process != ProcessID()
	if c.Space.Presence != nil && r.Presence != "" && r.Session == "" && !f.OwnEnded && f.OwnLeft == 0 {
		f.Dead = c.Space.Presence.Liveness(ctx, r.Presence) == store.Dead
	}
	f.Watched, f.Renewed = c.Space.Clock.Monotonic().Sub(s.At), c.Space.Clock.Wall().Sub(r.Renewed)
	if !set.IgnoreStoreClock {
		f.Age = s.Age
	}
	return f
}

// HighestToken returns the highest token of the writes that the store has ever got for the record,
// where it knows that.
func (c *Cell) HighestToken(ctx context.Context) (uint64, error) {
	if !c.Space.Set.Traits.Delayed() {
		return 0, nil
	}
	return store.HighestToken(ctx, c.Space.Store, c.Key)
}

// WithHighestMark returns r, which hands over a grant with a token above all marks in the store. Most stores
// have no marks.
func (c *Cell) WithHighestMark(ctx context.Context, r *lockrec.Record) (*lockrec.Record, error) {
	if len(r.Queue) == 0 {
		return r, nil
	}
	mark, err := c.HighestToken(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c, err)
	}
	next := *r
	lockrec.GrantAbove(&next, mark)
	return &next, nil
}

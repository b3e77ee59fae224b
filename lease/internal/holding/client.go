// Package holding takes locks and holds them: the attempts and claims of handles, plain and under
// sessions, for one holder or several.
package holding

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/lease/internal/belief"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/event"
	"github.com/holdfast-go/holdfast/lease/internal/membership"
	"github.com/holdfast-go/holdfast/lease/internal/waiting"
	"github.com/holdfast-go/holdfast/store"
)

// Client is what a client has of the locks that it holds and waits for.
type Client struct {
	Space   *cell.Space
	Waiting *waiting.Queues
	Peers   *membership.Peers
	end     context.CancelCauseFunc
	plain   *scope // of its plain locks

	mu       sync.Mutex
	grants   map[string]*belief.Grant // plain ones that Close has to end, by their ids
	sessions map[string]*Session      // those that Close has to end, by their ids
}

// NewClient returns a client of the locks in a store. It sends nothing.
func NewClient(st store.Store, set *cell.Settings, events event.Listeners) *Client {
	life, end := context.WithCancelCause(context.Background())
	space := cell.NewSpace(life, st, set, events)
	c := &Client{
		Space: space, Waiting: waiting.NewQueues(space), end: end,
		grants: map[string]*belief.Grant{}, sessions: map[string]*Session{},
	}
	c.plain = &scope{c: c}
	c.Peers = membership.NewPeers(space, func(id string) *belief.Grant {
		if s := c.Session(id); s != nil {
			return s.Grant()
		}
		return nil
	})
	return c
}

// Holder returns a holder of the lock name, under the session s if that is not nil.
func (c *Client) Holder(name string, s *Session) (*Holder, error) {
	h := &Holder{}
	return h, c.Init(h, name, s)
}

// Init makes h a holder of the lock name, under the session s if that is not nil.
func (c *Client) Init(h *Holder, name string, s *Session) error {
	key, err := c.Space.LockKey(name)
	if err != nil {
		return err
	}
	h.init(key, c.plain)
	if s != nil {
		h.scope = s.plain
	}
	return nil
}

// flushTime is how long Close waits for the handlers of events.
const flushTime = time.Second

// Close releases all grants at the same time, and closes all sessions.
func (c *Client) Close(ctx context.Context) error {
	c.end(cell.ErrClosed)
	c.mu.Lock()
	ends := make([]func() error, 0, len(c.grants)+len(c.sessions))
	for _, g := range c.grants {
		ends = append(ends, func() error { return g.Release(ctx, cell.ErrClosed) })
	}
	for _, s := range c.sessions {
		ends = append(ends, func() error { return s.Close(ctx) })
	}
	c.mu.Unlock()
	errs := InParallel(ends, len(ends), func(end func() error) error { return end() })
	c.Waiting.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	_ = c.Space.Events.Flush(ctx) // events that no handler took are counted
	c.Space.Events.Close()
	c.Space.FinishMoves(ctx)
	return errors.Join(errs...)
}

func (h *Holder) init(key string, of *scope) {
	h.Cell.Space, h.Cell.Key, h.Cell.User, h.scope = of.c.Space, key, (*owner)(h), of
}

// add registers a grant, unless its client was closed, or its session has ended.
func (c *Client) add(h *Holder, g *belief.Grant) bool {
	if s := h.Under; s != nil {
		return s.add(g)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s := h.own; {
	case c.Space.Life.Err() != nil:
		return false
	case s != nil:
		c.sessions[s.ID()] = s
	default:
		c.grants[g.ID()] = g
	}
	return true
}

// owns reports whether a grant is one of this client's.
func (c *Client) owns(grant string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.grants[grant] != nil || c.sessions[lockrec.SessionOf(grant)] != nil
}

// Session returns the session of this client that has that id, or nil.
func (c *Client) Session(id string) *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[id]
}

func (c *Client) remove(h *Holder, g *belief.Grant) {
	if s := h.Under; s != nil {
		s.remove(g)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := h.own; s != nil {
		delete(c.sessions, s.ID())
	} else if c.grants[g.ID()] == g { // otherwise it was detached, and attached as another
		delete(c.grants, g.ID())
	}
}

// InParallel does f to all, to that many at the same time, and returns their errors in order.
func InParallel[T any](all []T, most int, f func(T) error) []error {
	errs := slices.Repeat([]error{belief.ErrUnfinished}, len(all))
	workerpool.Each(len(all), most, func(i int) error { errs[i] = f(all[i]); return nil })
	return errs
}

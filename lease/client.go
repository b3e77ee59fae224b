package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/lease/internal/belief"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/membership"
	"github.com/holdfast-go/holdfast/lease/internal/waiting"
	"github.com/holdfast-go/holdfast/store"
)

// Client takes leases on the locks of one store, with one set of options. Any number of
// goroutines may use it.
type Client struct {
	space   *cell.Space
	opts    Options
	waiting *waiting.Queues

	end context.CancelCauseFunc

	peers *membership.Peers

	mu       sync.Mutex
	grants   map[*belief.Grant]struct{} // plain ones that Close has to end
	owned    map[string]int             // the ids of these
	sessions map[string]*Session        // by their ids; those that Close has to end
}

// New returns a client for the locks in st. It sends nothing. Nil options mean all defaults. If
// an option is not valid, the error matches [store.ErrInvalid].
func New(st store.Store, o *Options) (*Client, error) {
	opts, set, err := checkOptions(o, store.TraitsOf(st))
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancelCause(context.Background())
	space := cell.NewSpace(life, st, set, listeners(&opts))
	c := &Client{
		space: space, opts: opts, waiting: waiting.NewQueues(space), end: end,
		grants: map[*belief.Grant]struct{}{}, owned: map[string]int{}, sessions: map[string]*Session{},
	}
	c.peers = membership.NewPeers(space, func(id string) *belief.Grant {
		if s := c.session(id); s != nil {
			return s.grant()
		}
		return nil
	})
	return c, nil
}

// Options returns the options of the client, with all defaults filled in.
func (c *Client) Options() Options { return c.opts }

// Handle returns a re-entrant handle on the lock name; see [Handle]. It sends nothing. Two
// handles exclude each other, also in one process. The name must be a valid store key.
// Options.KeyPrefix, a slash and the name together have at most [store.MaxKey] bytes. If the name
// is not valid, the error matches [store.ErrKey]. If an option is not valid, the error matches
// [store.ErrInvalid].
func (c *Client) Handle(name string, o *LockOptions) (*Handle, error) {
	return c.handle(name, nil, o, methodHandle)
}

// handle returns a handle for a call, under the session s if that is not nil.
func (c *Client) handle(name string, s *Session, o *LockOptions, call method) (*Handle, error) {
	of, err := c.space.Lock(name)
	if err != nil {
		return nil, err
	}
	h := c.newHandle(of)
	h.under = s
	if err := h.choose(o, call); err != nil {
		return nil, err
	}
	return h, nil
}

// newHandle returns a handle on the lock whose record is in that cell.
func (c *Client) newHandle(of *cell.Cell) *Handle {
	h := &Handle{c: c, cell: of, name: of.Name, opts: &plainOptions}
	h.place.Init(of, c.waiting)
	of.Noted = h.noted
	return h
}

// Acquire takes the lock name. It waits until the lock is free or ctx ends. It is
// [Handle.Acquire] on a new handle.
func (c *Client) Acquire(ctx context.Context, name string, o *LockOptions) (*Guard, error) {
	h, err := c.handle(name, nil, o, methodAcquire)
	if err != nil {
		return nil, err
	}
	return h.Acquire(ctx)
}

// TryAcquire takes the lock name if the lock is free now. It is [Handle.TryAcquire] on a new
// handle.
func (c *Client) TryAcquire(ctx context.Context, name string, o *LockOptions) (*Guard, error) {
	h, err := c.handle(name, nil, o, methodAcquire)
	if err != nil {
		return nil, err
	}
	return h.TryAcquire(ctx)
}

// flushTime is how long Close waits for the handlers of events.
const flushTime = time.Second

// Close releases all leases of the client at the same time, and closes all sessions. Every
// waiting Acquire returns [ErrClosed]. Close returns when all goroutines of the client have ended
// and OnEvent and the logger have received all events. It returns the errors of the releases,
// joined. After Options.ReleaseTimeout and two seconds Close returns in any case, for example if
// OnEvent has not returned. Like [Guard.Release], Close works after the end of ctx. A second
// Close returns nil.
//
// After Close, every other method of the client and of its handles that would send a
// request returns [ErrClosed] at once.
func (c *Client) Close(ctx context.Context) error {
	c.end(ErrClosed)
	c.mu.Lock()
	ends := make([]func() error, 0, len(c.grants)+len(c.sessions))
	for g := range c.grants {
		ends = append(ends, func() error { return g.Release(ctx, ErrClosed) })
	}
	for _, s := range c.sessions {
		ends = append(ends, func() error { return s.Close(ctx) })
	}
	c.mu.Unlock()
	errs := inParallel(ends, len(ends), func(end func() error) error { return end() })
	c.waiting.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	_ = c.FlushEvents(ctx) // events that no handler took are counted
	c.space.Events.Close()
	return errors.Join(errs...)
}

// inParallel does f to all, to that many at the same time, and returns their errors in order.
func inParallel[T any](all []T, most int, f func(T) error) []error {
	errs := make([]error, len(all))
	workerpool.Each(len(all), most, func(i int) { errs[i] = f(all[i]) })
	return errs
}

// FlushEvents waits until Options.OnEvent and Options.Logger have handled all earlier events. If
// ctx ends first, it returns the cause of ctx.
func (c *Client) FlushEvents(ctx context.Context) error {
	return c.space.Events.Flush(ctx)
}

// Stats counts the events that a client has dropped.
type Stats struct {
	// DroppedEvents is the number of events that the client dropped because OnEvent or the logger
	// was too slow. If OnEvent and the logger both missed an event, it counts twice.
	DroppedEvents uint64
}

// Stats returns the counts of the client. It sends nothing.
func (c *Client) Stats() Stats {
	return Stats{DroppedEvents: c.space.Events.Dropped()}
}

// add registers a grant, unless its client was closed, or its session has ended.
func (c *Client) add(h *Handle, g *belief.Grant) bool {
	if s := h.under; s != nil {
		return s.add(g)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s := h.own; {
	case c.space.Life.Err() != nil:
		return false
	case s != nil:
		c.sessions[s.ID()] = s
	default:
		c.grants[g] = struct{}{}
		c.owned[g.ID()]++ // twice for a grant that was detached and attached
	}
	return true
}

// owns reports whether a grant is one of this client's.
func (c *Client) owns(grant string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owned[grant] > 0 || c.sessions[lockrec.SessionOf(grant)] != nil
}

// session returns the session of this client that has that id, or nil.
func (c *Client) session(id string) *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[id]
}

func (c *Client) remove(h *Handle, g *belief.Grant) {
	if s := h.under; s != nil {
		s.remove(g)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := h.own; s != nil {
		delete(c.sessions, s.ID())
	} else if _, known := c.grants[g]; known {
		delete(c.grants, g)
		if c.owned[g.ID()]--; c.owned[g.ID()] == 0 {
			delete(c.owned, g.ID())
		}
	}
}

package lease

import (
	"context"

	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/holding"
	"github.com/holdfast-go/holdfast/store"
)

// Client takes leases on the locks of one store, with one set of options. Any number of
// goroutines may use it.
type Client struct {
	space *cell.Space
	opts  Options
	k     *holding.Client
}

// New returns a client for the locks in a store. It sends no request. Nil options mean all
// defaults. If an option is not valid, the error matches [store.ErrInvalid].
func New(st store.Store, o *Options) (*Client, error) {
	opts, set, err := checkOptions(o, store.TraitsOf(st))
	if err != nil {
		return nil, err
	}
	k := holding.NewClient(st, set, listeners(&opts))
	return &Client{space: k.Space, opts: opts, k: k}, nil
}

// Options returns the options of the client, with all defaults filled in.
func (c *Client) Options() Options { return c.opts }

// Handle returns a re-entrant handle on the lock with the given name; see [Handle]. It sends no
// request. Two handles exclude each other, even in one process. The name must be a valid store key.
// Options.KeyPrefix, a slash and the name together have at most [store.MaxKey] bytes. If the name
// is not valid, the error matches [store.ErrKey]. If an option is not valid, the error matches
// [store.ErrInvalid].
func (c *Client) Handle(name string, o *LockOptions) (*Handle, error) {
	return c.handle(name, nil, o, methodHandle)
}

// handle returns a handle for a call, under the session s if that is not nil.
func (c *Client) handle(name string, s *Session, o *LockOptions, call method) (*Handle, error) {
	var under *holding.Session
	if s != nil {
		under = s.k
	}
	h := &Handle{}
	if err := c.k.Init(&h.k, name, under); err != nil {
		return nil, err
	}
	if err := h.choose(o, call); err != nil {
		return nil, err
	}
	return h, nil
}

// Acquire takes the lock with the given name. It waits until the lock is free or the context ends.
// It does the same as [Handle.Acquire] on a new handle.
func (c *Client) Acquire(ctx context.Context, name string, o *LockOptions) (*Guard, error) {
	h, err := c.handle(name, nil, o, methodAcquire)
	if err != nil {
		return nil, err
	}
	return h.Acquire(ctx)
}

// TryAcquire takes the lock with the given name if the lock is free now. It does the same as
// [Handle.TryAcquire] on a new handle.
func (c *Client) TryAcquire(ctx context.Context, name string, o *LockOptions) (*Guard, error) {
	h, err := c.handle(name, nil, o, methodAcquire)
	if err != nil {
		return nil, err
	}
	return h.TryAcquire(ctx)
}

// Close releases all leases of the client at the same time, and closes all sessions. Every waiting
// Acquire returns [ErrClosed]. Close returns when all goroutines of the client have ended and
// OnEvent and the logger have received all events. It joins the errors of the releases and returns
// them. After Options.ReleaseTimeout and two seconds Close returns in any case, for example if
// OnEvent has not returned. Like [Guard.Release], Close also works after the end of its context. A
// second Close returns nil.
//
// After Close, every other method of the client and of its handles that would send a
// request returns [ErrClosed] at once.
func (c *Client) Close(ctx context.Context) error { return c.k.Close(ctx) }

// FlushEvents waits until Options.OnEvent and Options.Logger have handled all earlier events. If
// the context ends first, FlushEvents returns its cause.
func (c *Client) FlushEvents(ctx context.Context) error {
	return c.space.Events.Flush(ctx)
}

// Stats counts the events that a client has dropped.
type Stats struct {
	// DroppedEvents is the number of events that the client dropped because OnEvent or the logger
	// was too slow. If OnEvent and the logger both missed an event, it counts twice.
	DroppedEvents uint64
}

// Stats returns the counts of the client. It sends no request.
func (c *Client) Stats() Stats {
	return Stats{DroppedEvents: c.space.Events.Dropped()}
}

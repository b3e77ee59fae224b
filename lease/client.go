package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// processID is the random id of this process, made when it is first asked for. It
// is the one thing that must be the same for all clients of a process.
var processID = sync.OnceValue(rand.Text)

// Client takes leases on the locks of one store, with one set of options. It may
// be used by any number of goroutines.
type Client struct {
	st       store.Store
	set      *settings
	clock    *clock
	presence store.Presence // nil where the store knows of none

	random func() float64 // from [0,1), for jitter

	life context.Context // ends with Close
	end  context.CancelCauseFunc

	mu     sync.Mutex
	grants map[*grant]struct{} // those that Close has to end
}

// New returns a client for the locks in st. It sends nothing. The options are
// checked; the error matches [ErrOptions]. A nil o means all defaults.
func New(st store.Store, o *Options) (*Client, error) {
	set, err := resolve(o, store.TraitsOf(st))
	if err != nil {
		return nil, err
	}
	c := &Client{st: st, set: set, clock: newClock(readClocks), random: mathrand.Float64, grants: map[*grant]struct{}{}}
	c.life, c.end = context.WithCancelCause(context.Background())
	if !set.NoPresence {
		c.presence, _ = store.As[store.Presence](st)
	}
	return c, nil
}

// Options returns the options in force, defaults filled in.
func (c *Client) Options() Options { return c.set.Options }

// Handle returns a re-entrant handle on the lock name; see [Handle]. Two handles
// exclude each other, in one process as between two. A name is a valid store key
// that with its prefix is no longer than [store.MaxKey]; the error matches
// [store.ErrKey].
func (c *Client) Handle(name string) (*Handle, error) {
	key := c.set.KeyPrefix + "/" + name
	if err := store.CheckKey(name); err != nil {
		return nil, fmt.Errorf("lock name: %w", err)
	}
	if most := store.MaxKey - len(key) + len(name); len(name) > most {
		return nil, fmt.Errorf("lock name: %w: %d bytes, at most %d are allowed", store.ErrKey, len(name), most)
	}
	return &Handle{c: c, name: name, key: key, slot: make(chan struct{}, 1)}, nil
}

// TryAcquire takes the lock name if it is free now. It is [Handle.TryAcquire] on a
// new handle.
func (c *Client) TryAcquire(ctx context.Context, name string) (*Guard, error) {
	h, err := c.Handle(name)
	if err != nil {
		return nil, err
	}
	return h.TryAcquire(ctx)
}

// Acquire takes the lock name, waiting until it is free or ctx ends. It is
// [Handle.Acquire] on a new handle.
func (c *Client) Acquire(ctx context.Context, name string) (*Guard, error) {
	h, err := c.Handle(name)
	if err != nil {
		return nil, err
	}
	return h.Acquire(ctx)
}

// Close releases every lease of the client, each independently and at the same
// time, and makes every waiting Acquire return [ErrClosed]. It returns when all of
// the client's goroutines have ended, with the errors of the releases joined. Like
// [Guard.Release] it works after ctx has ended. A second Close returns nil.
func (c *Client) Close(ctx context.Context) error {
	c.end(ErrClosed)
	c.mu.Lock()
	grants := make([]*grant, 0, len(c.grants))
	for g := range c.grants {
		grants = append(grants, g)
	}
	c.mu.Unlock()
	errs := make([]error, len(grants))
	var wg sync.WaitGroup
	for i, g := range grants {
		wg.Go(func() { errs[i] = g.release(ctx, ErrClosed) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// add registers a grant, unless the client was closed.
func (c *Client) add(g *grant) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return false
	}
	c.grants[g] = struct{}{}
	return true
}

func (c *Client) remove(g *grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.grants, g)
}

// seen is one state of a register, as it was read. It is never changed.
type seen struct {
	version store.Version // zero: absent
	rec     *Record       // nil: absent
	at      time.Time     // monotonic: after the reply that showed it first
	age     time.Duration // by the store's own clock; negative: not known
}

// read decodes what a get returned. An absent register is a state, not an error.
func decodeSeen(name string, value []byte, v store.Version, err error) (*seen, error) {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &seen{age: -1}, nil
	case err != nil:
		return nil, fmt.Errorf("lock %q: %w", name, err)
	}
	rec, err := decodeRecord(name, value)
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", name, err)
	}
	return &seen{version: v, rec: rec, age: -1}, nil
}

// fetch reads the state of a register, settled where the store has to settle.
func (c *Client) fetch(ctx context.Context, name, key string) (*seen, error) {
	value, v, err := c.st.Get(ctx, key)
	s, err := decodeSeen(name, value, v, err)
	if err != nil {
		return nil, err
	}
	s.at = c.clock.monotonic()
	return s, nil
}

// settle reads until it can tell the state, or ctx ends.
func (c *Client) settle(ctx context.Context, name, key string) (*seen, error) {
	pause := c.settling()
	for {
		call, cancel := context.WithTimeout(ctx, c.set.callTimeout())
		s, err := c.fetch(call, name, key)
		cancel()
		if err == nil {
			return s, nil
		}
		if errors.Is(err, store.ErrCorrupt) || pause.wait(ctx) != nil {
			return nil, err
		}
	}
}

// after tells the state that a failed write left: the one that its conflict
// carries, or else what a read says.
func (c *Client) after(ctx context.Context, name, key string, err error) (*seen, error) {
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) || !conflict.Known || store.OutcomeOf(err) != store.NotApplied {
		return c.settle(ctx, name, key)
	}
	var getErr error
	if conflict.Version == "" {
		getErr = store.ErrNotFound
	}
	s, err := decodeSeen(name, conflict.Value, conflict.Version, getErr)
	if err != nil {
		return nil, err
	}
	s.at = c.clock.monotonic()
	return s, nil
}

package cell

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/lease/internal/event"
	"github.com/holdfast-go/holdfast/store"
)

// ProcessID is the random id of this process, made when it is first asked for. It is the one thing
// that must be the same for all clients of a process.
var ProcessID = sync.OnceValue(rand.Text)

// Space is the store of one client, with its cells: the records of locks and of sessions. All
// requests of the client go through it.
type Space struct {
	Given    store.Store // as the client got it, to be compared
	Store    store.Store // the same through carry
	Set      *Settings
	Clock    *sysclock.Clock
	Watcher  store.Watcher        // abilities of Store; nil where it lacks them
	Unsynced store.UnsyncedPutter // its writes need not survive a power cut
	Presence store.Presence
	waker    store.Waker    // nil where the store cannot wake single waiters
	cache    Cache          // nil where nothing is kept
	Health   storeHealth    // of the store, for those who wait
	Reads    ReadObserver   // nil where none is interested
	Random   func() float64 // from [0,1), for jitter
	Events   event.Listeners

	Life context.Context // ends when the client is closed

	took atomic.Int64 // see takes

	moves moves // of entries of histories

	mu        sync.Mutex
	firstSeen Recents[firstSeen] // of holders that may be dead, by the keys of their records
}

// ReadObserver is called when a record is read. It returns a number for the beginning of a read, and
// gets that number back with the answer.
type ReadObserver interface {
	ReadBegins() uint64
	ReadAnswered(key string, began uint64, at time.Time, v store.Version)
}

// NewSpace returns the space of a client whose life ends when the client is closed. It sends
// nothing.
func NewSpace(life context.Context, st store.Store, set *Settings, events event.Listeners) *Space {
	s := &Space{Given: st, Set: set, Clock: sysclock.NewClock(sysclock.Read, sysclock.ReadAwake), Random: mathrand.Float64, Events: events, Life: life}
	s.Store = store.Intercept(st, s.carry)
	s.Watcher, _ = store.As[store.Watcher](s.Store)
	s.Unsynced, _ = store.As[store.UnsyncedPutter](s.Store)
	if presence, ok := store.As[store.Presence](st); ok && !set.NoPresence {
		s.Presence = boundPresence{presence, s}
	}
	if set.History {
		s.moves.now = map[string]bool{}
		s.moves.life, s.moves.end = context.WithCancel(Outlive(context.Background()))
	}
	s.waker, _ = store.As[store.Waker](st)
	if set.Cache != nil && set.Traits.ID != "" { // without an id, observations of different stores would be mixed up
		s.cache = &boundCache{cache: set.Cache}
	}
	return s
}

// Emit hands an event to the listeners, with the present time.
func (c *Space) Emit(e event.Event) {
	if len(c.Events) > 0 {
		e.Time = c.Clock.Wall()
		c.Events.Emit(e)
	}
}

// Watches reports whether the store reports changes.
func (c *Space) Watches() bool { return c.Watcher != nil }

// SessionDir is where the records of sessions lie: below the key prefix with this appended, so that
// they are not among the locks.
const SessionDir = ".session"

// Lock returns a new cell of the record of a lock.
func (c *Space) Lock(name string) (*Cell, error) { return c.cell(c.LockKey(name)) }

// Session returns a new cell of the record of a session.
func (c *Space) Session(id string) (*Cell, error) { return c.cell(c.SessionKey(id)) }

func (c *Space) cell(key string, err error) (*Cell, error) {
	if err != nil {
		return nil, err
	}
	return &Cell{Space: c, Key: key}, nil
}

// LockKey returns the key of the record of a lock.
func (c *Space) LockKey(name string) (string, error) {
	key := c.Set.KeyPrefix + "/" + name
	if err := store.CheckKey(name); err != nil {
		return "", fmt.Errorf("lock name: %w", err)
	}
	if most := store.MaxKey - len(key) + len(name); len(name) > most {
		return "", fmt.Errorf("lock name: %w: %d bytes, at most %d are allowed", store.ErrKey, len(name), most)
	}
	return key, nil
}

// SessionKey returns the key of the record of a session.
func (c *Space) SessionKey(id string) (string, error) {
	key := c.Set.KeyPrefix + SessionDir + "/" + id
	if lockrec.SessionOf(id+".0") == "" {
		return "", fmt.Errorf("%w: %.60q is not the id of a session", store.ErrKey, id)
	}
	if len(key) > store.MaxKey {
		return "", fmt.Errorf("session %s: %w: its key has %d bytes, at most %d are allowed", id, store.ErrKey, len(key), store.MaxKey)
	}
	return key, nil
}

// bound is a context that ends with the client of a space, too.
type bound struct {
	context.Context
	given context.Context
	space *Space
}

// boundKey is the key of the bound context that a context comes from.
type boundKey struct{}

// Value implements context.Context.
func (b *bound) Value(key any) any {
	if key == (boundKey{}) {
		return b
	}
	return b.Context.Value(key)
}

// Bind makes ctx end with the client, too.
func (c *Space) Bind(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	inner, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.Life, func() { cancel(ErrClosed) })
	return &bound{inner, ctx, c}, func(cause error) {
		stop()
		cancel(cause)
	}
}

// Unbound returns the context that Bind was given: a guard that has its values would keep the bound
// one for as long as it lives.
func Unbound(ctx context.Context) context.Context {
	if b, ok := ctx.Value(boundKey{}).(*bound); ok {
		return b.given
	}
	return ctx
}

// WithoutEnd returns a context with the values of ctx that never ends, and that no client binds.
func WithoutEnd(ctx context.Context) context.Context { return context.WithoutCancel(Unbound(ctx)) }

// Ending returns a context for ending a lease or making a claim harmless. It does not end with ctx
// or with the client, and lasts for Options.ReleaseTimeout. If ctx was itself made by ending, for
// several leases together, its end counts.
func (c *Space) Ending(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Value(outliving{}) != nil {
		return context.WithTimeout(ctx, c.Set.ReleaseTimeout)
	}
	return context.WithTimeout(Outlive(context.WithoutCancel(ctx)), c.Set.ReleaseTimeout)
}

// Locks yields the names of the locks below a prefix.
func (c *Space) Locks(ctx context.Context, prefix string) iter.Seq2[string, error] {
	locks, err := store.Prefix(c.Store, c.Set.KeyPrefix)
	if err != nil {
		return func(yield func(string, error) bool) { yield("", err) }
	}
	return store.List(ctx, locks, prefix)
}

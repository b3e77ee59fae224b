package lease

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/store"
)

// processID is the random id of this process, made when it is first asked for. It is the one thing
// that must be the same for all clients of a process.
var processID = sync.OnceValue(rand.Text)

// space is the store of one client, with its cells: the records of locks and of sessions. All
// requests of the client go through it.
type space struct {
	given    store.Store // as the client got it, to be compared
	st       store.Store // the same through calls
	set      *settings
	clock    *clock
	presence store.Presence // nil where the store knows of none
	cache    Cache          // nil where nothing is kept
	calls    *calls         // carries out all calls of these
	health   storeHealth    // of the store, for those who wait
	reads    readObserver   // nil where none is interested
	random   func() float64 // from [0,1), for jitter

	life context.Context // ends when the client is closed

	mu        sync.Mutex
	firstSeen recents[firstSeen] // of holders that may be dead, by the keys of their records
}

// readObserver is told when a record is read. It returns a number for the beginning of a read, and
// gets that number back with the answer.
type readObserver interface {
	readBegins() uint64
	readAnswered(key string, began uint64, at time.Time, v store.Version)
}

// readBegins returns the number that the observer of reads has for the read that begins.
func (c *space) readBegins() uint64 {
	if c.reads == nil {
		return 0
	}
	return c.reads.readBegins()
}

// readAnswered tells the observer of reads what a read has shown.
func (c *space) readAnswered(key string, began uint64, at time.Time, v store.Version) {
	if c.reads != nil {
		c.reads.readAnswered(key, began, at, v)
	}
}

// newSpace returns the space of a client whose life ends when the client is closed. It sends
// nothing.
func newSpace(life context.Context, st store.Store, set *settings) *space {
	s := &space{given: st, set: set, clock: newClock(sysclock.Read), random: mathrand.Float64, life: life}
	s.calls = &calls{limit: set.callTimeout(), life: life}
	_, s.calls.tokens = store.As[store.TokenReader](st)
	s.st = store.Intercept(st, s.calls.carry)
	if presence, ok := store.As[store.Presence](st); ok && !set.NoPresence {
		s.presence = boundPresence{presence, s.calls}
	}
	if set.Cache != nil {
		s.cache = &boundCache{cache: set.Cache}
	}
	return s
}

// cell is one key of a store: what one user of a client knows of the record there, and the writes
// over it. Each handle has its own.
type cell struct {
	space *space
	kind  string // of the record: empty, or KindSession
	name  string
	key   string
	noted func(*seen) // called with each new state that was seen; may be nil

	mu   sync.Mutex
	last *seen // the state that was seen last
}

func (c *space) cell(kind, name, key string) *cell {
	return &cell{space: c, kind: kind, name: name, key: key}
}

// sessionDir is where the records of sessions lie: below the key prefix with this appended, so that
// they are not among the locks.
const sessionDir = ".session"

// lock returns a new cell of the record of a lock.
func (c *space) lock(name string) (*cell, error) {
	key := c.set.KeyPrefix + "/" + name
	if err := store.CheckKey(name); err != nil {
		return nil, fmt.Errorf("lock name: %w", err)
	}
	if most := store.MaxKey - len(key) + len(name); len(name) > most {
		return nil, fmt.Errorf("lock name: %w: %d bytes, at most %d are allowed", store.ErrKey, len(name), most)
	}
	return c.cell("", name, key), nil
}

// session returns a new cell of the record of a session.
func (c *space) session(id string) (*cell, error) {
	key := c.set.KeyPrefix + sessionDir + "/" + id
	if lockrec.SessionOf(id+".0") == "" {
		return nil, fmt.Errorf("%w: %.60q is not the id of a session", store.ErrKey, id)
	}
	if len(key) > store.MaxKey {
		return nil, fmt.Errorf("session %s: %w: its key has %d bytes, at most %d are allowed", id, store.ErrKey, len(key), store.MaxKey)
	}
	return c.cell(KindSession, id, key), nil
}

package s3verstore

import (
	"maps"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/drivers/versionlog"
)

// cache is what a Store remembers of its registers. All of it can be forgotten: it
// only saves requests and waits.
type cache struct {
	mu        sync.Mutex
	registers map[string]*register // by key
	asked     uint64
}

// maxRegisters bounds the cache. A register takes what its live versions take.
const maxRegisters = 2048

// register is what is known of one key.
type register struct {
	key, object string
	asked       uint64 // when it was last asked for, by that of the cache

	mu         sync.Mutex
	seen       map[string]sighting // by version id
	superseded map[string]uint64   // numbers of versions earlier in the log than the snapshot, if known
	ids        []string            // the versions that the last listing read, in the order of the log
	base       base                // of the newest listing, or of a later write
}

// sighting is one version that was read. What it says never changes.
type sighting struct {
	*entry
	first time.Time // when the listing that first showed it had come
}

// base is what a write needs to know of the state that it is written on.
type base struct {
	tip      entryID             // zero: nothing was ever written
	snapshot versionlog.Snapshot // the last accepted entry that is known to be final
	highest  uint64              // at least the tokens of all known writes
	at       time.Time           // when this was known; zero: nothing is known
}

func newBase(v *view, at time.Time) base {
	b := base{highest: v.highestToken(), at: at}
	if tip := v.tip(); tip != nil {
		b.tip = tip.entryID()
	}
	if c := v.settled(); c != nil {
		b.snapshot = c.asSnapshot()
	}
	return b
}

// register returns what is known of a key, and remembers it.
func (s *Store) register(key string) *register {
	c := &s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	r := c.registers[key]
	if r == nil {
		if len(c.registers) >= maxRegisters {
			maps.DeleteFunc(c.registers, func(_ string, r *register) bool {
				return r.asked+maxRegisters/2 < c.asked
			})
		}
		r = s.newRegister(key)
		c.registers[key] = r
	}
	r.asked = c.asked
	return r
}

// passing returns what is known of a key without remembering it, so that a long
// listing does not drive out what is in use.
func (s *Store) passing(key string) *register {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	if r := s.cache.registers[key]; r != nil {
		return r
	}
	return s.newRegister(key)
}

func (s *Store) newRegister(key string) *register {
	return &register{key: key, object: s.ObjectKey(key), seen: map[string]sighting{}, superseded: map[string]uint64{}}
}

// known returns a copy of what was seen so far, and of its order.
func (r *register) known() (map[string]sighting, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.seen), r.ids
}

// noteEntry notes a version. If the version was seen before, the time of the first sight
// stays.
func (r *register) noteEntry(id string, e *entry, at time.Time) sighting {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.seen[id]
	if !ok {
		s = sighting{e, at}
		r.seen[id] = s
	}
	return s
}

// noteRead notes the result of a listing, and forgets versions that are no longer listed.
func (r *register) noteRead(v *view, g *listingReader) {
	b := newBase(v, g.l.watch.Mono) // it says nothing of what came after its beginning
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = g.l.ids()[g.low:]
	b.highest = max(b.highest, r.base.highest)
	if !b.at.Before(r.base.at) {
		r.base = b
	}
	r.base.highest = b.highest
	read, older := map[string]bool{}, map[string]bool{}
	for i := range v.entries {
		read[v.entries[i].id] = true
	}
	for _, w := range v.older {
		older[w.id] = true
	}
	for id, k := range g.seenBefore {
		if read[id] {
			continue
		}
		delete(r.seen, id)
		if older[id] {
			r.superseded[id] = k.number
		}
	}
	maps.DeleteFunc(r.superseded, func(id string, _ uint64) bool { return !older[id] })
}

// number returns the number of a version that is earlier in the log than the snapshot, if
// the number is known.
func (r *register) number(id string) (number uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	number, ok = r.superseded[id]
	return number, ok
}

// noteSuperseded notes the number of a version that is earlier in the log than the snapshot.
func (r *register) noteSuperseded(id string, number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.superseded[id] = number
}

// candidates returns those versions, earlier in the log than the snapshot, that are
// removable or whose number is not known.
func (r *register) candidates(older []version, removable func(number uint64) bool) (all []version) {
	for _, w := range older {
		if number, ok := r.number(w.id); !ok || removable(number) {
			all = append(all, w)
		}
	}
	return all
}

func (r *register) getBase() base {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.base
}

func (r *register) setBase(b base) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b.highest = max(b.highest, r.base.highest) // another goroutine may have seen more meanwhile
	r.base = b
}

package lease

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
)

// firstSeen is when a client first saw the last write of a lock's holder. It saw that write in the
// version of the record that the write made, or as the holder nonce of a later version.
type firstSeen struct {
	version store.Version
	write   lockrec.HolderWrite
	at      time.Time // monotonic
}

// maxRecent is how many keys one generation of recents has.
const maxRecent = 8192

// recents keeps what a client knows by keys, in two generations: the keys used last, and those used
// before. When the first generation is full, the second is forgotten. So it is bounded, and it
// keeps every key since whose use at most maxRecent other keys were used.
//
// Forgetting costs only time. The client then times the holder's write from the start, so that it
// waits out a dead holder once more. No write depends on what is forgotten. In one TTL a client may
// read more locks of dead holders than there is room for. It should wait for them with Acquire: a
// handle that waits keeps its own time.
type recents[V any] struct{ young, old map[string]V }

// get returns the value of a key, and notes that the key was used last.
func (r *recents[V]) get(key string) (v V, ok bool) {
	if v, ok = r.young[key]; !ok {
		if v, ok = r.old[key]; ok {
			r.put(key, v)
		}
	}
	return v, ok
}

func (r *recents[V]) put(key string, v V) {
	if _, ok := r.young[key]; !ok && (r.young == nil || len(r.young) >= maxRecent) {
		r.old, r.young = r.young, map[string]V{}
	}
	r.young[key] = v
	delete(r.old, key)
}

func (r *recents[V]) drop(key string) {
	delete(r.young, key)
	delete(r.old, key)
}

// sinceFirstSeen returns s with the time when the client first saw the holder's write that s shows.
// So many short tries, each through its own handle, find a dead holder as soon as one waiter does.
// A later time never replaces an earlier one of the same write.
func (c *space) sinceFirstSeen(key string, s *seen) *seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.rec == nil || s.rec.State == Revoked || s.rec.State == Free && s.rec.NotBefore.IsZero() {
		c.firstSeen.drop(key)
		return s
	}
	now := firstSeen{s.version, lockrec.LastWrite(s.rec), s.at}
	if first, ok := c.firstSeen.get(key); ok && first.at.Before(s.at) &&
		(first.version == s.version || first.write == now.write) {
		now.at = first.at
		earlier := *s
		earlier.at = first.at
		s = &earlier
	}
	c.firstSeen.put(key, now)
	return s
}

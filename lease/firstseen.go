package lease

import (
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// firstSeen is when a client saw the last write of a lock's holder first: in the version of the record
// that had it then, or named by the mark of a later one.
type firstSeen struct {
	version     store.Version
	grant       string
	holderNonce string
	at          time.Time // monotonic
}

// maxRecent is how many keys one generation of recents has.
const maxRecent = 8192

// recents keeps what a client knows by keys, of two generations: those that were used last, and
// those before. When the first is full the second is forgotten. So it is bounded, and what was used
// since maxRecent others stays.
//
// What is forgotten costs time alone. A first sight begins anew, so that a dead holder is waited for
// once more; and no write rests on what is not known. A client that looks at more dead holders in a TTL
// than it has room for should wait for them with Acquire: a handle that waits keeps its own sight.
type recents[V any] struct{ young, old map[string]V }

// get returns the value of a key, and makes it one that was used last.
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

// sinceFirstSeen returns s as of when the client has seen first what it shows: many short tries, each
// through a handle of its own, see that a holder is dead as soon as one that waits. An earlier sight
// is never replaced by a later one of the same write.
func (c *Client) sinceFirstSeen(key string, s *seen) *seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.rec == nil || s.rec.State == Revoked || s.rec.State == Free && s.rec.NotBefore.IsZero() {
		c.firstSeen.drop(key)
		return s
	}
	now := firstSeen{s.version, s.rec.Grant, s.rec.holderNonce(), s.at}
	if first, ok := c.firstSeen.get(key); ok && first.at.Before(s.at) &&
		(first.version == s.version || first.grant == now.grant && first.holderNonce == now.holderNonce) {
		now.at = first.at
		earlier := *s
		earlier.at = first.at
		s = &earlier
	}
	c.firstSeen.put(key, now)
	return s
}

package cell

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
	seen    time.Time // monotonic: after the reply that first showed the version
}

// maxRecent is how many keys one generation of recents has.
const maxRecent = 8192

// Recents keeps what a client knows by keys, in two generations: the keys used last, and those used
// before. When the first generation is full, the second is forgotten. So it is bounded, and it
// keeps every key since whose use at most maxRecent other keys were used.
//
// Forgetting costs only time. The client then times the holder's write from the start, so that it
// waits out a dead holder once more. No write depends on what is forgotten. In one TTL a client may
// read more locks of dead holders than there is room for. It should wait for them with Acquire: a
// handle that waits keeps its own time.
type Recents[V any] struct{ young, old map[string]V }

// Get returns the value of a key, and notes that the key was used last.
func (r *Recents[V]) Get(key string) (v V, ok bool) {
	if v, ok = r.young[key]; !ok {
		if v, ok = r.old[key]; ok {
			r.Put(key, v)
		}
	}
	return v, ok
}

// Put sets the value of a key, and notes that the key was used last.
func (r *Recents[V]) Put(key string, v V) {
	if _, ok := r.young[key]; !ok && (r.young == nil || len(r.young) >= maxRecent) {
		r.old, r.young = r.young, map[string]V{}
	}
	r.young[key] = v
	delete(r.old, key)
}

func (r *Recents[V]) drop(key string) {
	delete(r.young, key)
	delete(r.old, key)
}

// sinceFirstSeen returns s with the time when the client first saw the holder's write that s shows.
// So many short tries, each through its own handle, find a dead holder as soon as one waiter does.
// A later time never replaces an earlier one of the same write.
//
// The record of a lock under a session shows nothing about its holder: the session's record does.
//
// A slow reply can show an older state than the client knows. Its request was sent before the client
// first saw the present version, and it changes nothing here: otherwise the client would time the
// holder's write from the start again.
func (c *Space) sinceFirstSeen(key string, s *Seen) *Seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, known := c.firstSeen.Get(key)
	if known && first.version != s.Version && !s.Sent.IsZero() && s.Sent.Before(first.seen) {
		return s
	}
	if s.Rec == nil || s.Rec.State == lockrec.Revoked || (s.Rec.State == lockrec.Free || s.Rec.Session != "") && s.Rec.NotBefore.IsZero() {
		c.firstSeen.drop(key)
		return s
	}
	now := firstSeen{s.Version, lockrec.LastWrite(s.Rec), s.At, s.At}
	if known && first.version == s.Version && first.seen.Before(s.At) {
		now.seen = first.seen
	}
	if known && first.at.Before(s.At) && (first.version == s.Version || first.write == now.write) {
		now.at = first.at
		earlier := *s
		earlier.At = first.at
		s = &earlier
	}
	c.firstSeen.Put(key, now)
	return s
}

package cell

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/store"
)

// Observation is what a process has read of a record, and when. The alias in package lease documents
// the fields.
type Observation struct {
	Store       string        `json:"store"`
	Key         string        `json:"key"`
	Version     store.Version `json:"version"`
	Value       []byte        `json:"value"`
	Epoch       string        `json:"epoch"`
	Monotonic   time.Duration `json:"monotonic_ns"`
	HolderNonce string        `json:"mark,omitempty"`
}

// Cache keeps observations for later processes. Package lease documents its methods.
type Cache interface {
	Load(storeID, key string) (Observation, bool)
	Save(s Observation)
}

// recall returns what the cache knows of the record. Its time counts only within this epoch.
// The version and the value may serve as a guess, since every write is conditional on them.
func (c *Cell) recall() *Seen {
	s, ok := c.Space.cache.Load(c.Register())
	if !ok {
		return nil
	}
	rec, err := lockrec.Decode(c.Kind(), c.Name(), s.Value)
	if err != nil {
		return nil
	}
	// In this order: if the process is stopped between the two readings, it takes the observation
	// for newer than it is, and waits longer.
	now, ok := sysclock.Monotonic()
	at := c.Space.Clock.Monotonic()
	if ok && s.Epoch != "" && s.Epoch == sysclock.Epoch() && s.Monotonic <= now {
		at = at.Add(-max(now-s.Monotonic, 0)) // the file may hold any number, and the difference may overflow
	}
	return &Seen{Version: s.Version, Rec: rec, At: at, Age: -1}
}

// keep saves an observation in the cache.
func (c *Cell) keep(s *Seen) {
	id, key := c.Register()
	rec := *s.Rec
	value, err := lockrec.Encode(&rec)
	if err != nil {
		return
	}
	sighting := Observation{Store: id, Key: key, Version: s.Version, Value: value, Epoch: sysclock.Epoch(), HolderNonce: lockrec.HolderNonce(&rec)}
	// The observation may be older than this call. The order of the readings is as in recall.
	ago := c.Space.Clock.Monotonic().Sub(s.At)
	if now, ok := sysclock.Monotonic(); ok {
		sighting.Monotonic = now - ago
	}
	c.Space.cache.Save(sighting)
}

// worthKeeping reports whether an observation can help a later process. On a local store a read is
// faster than writing a file. So there only the time of an observation counts: of a record whose
// holder others may have to wait out, or whose NotBefore delays the next grant. The presence of
// this process shows whether it lives.
func (c *Cell) worthKeeping(r *lockrec.Record) bool {
	if c.Kind() == lockrec.KindSession { // a closed session is never taken again
		return r.State == lockrec.Held && r.Process != ProcessID()
	}
	if !c.Space.Set.Traits.Local || !r.NotBefore.IsZero() {
		return true
	}
	return r.State != lockrec.Free && (r.Process != ProcessID() || r.Presence == "")
}

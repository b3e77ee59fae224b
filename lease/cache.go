package lease

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	mathrand "math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/private"
	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/store"
)

// Observation is what a process saw of a lock, for later processes on the same
// machine: with it, short tries of which none lives as long as a TTL together see
// that a holder is dead. On a store that is reached over a network a lock that this machine
// released last is also taken again without reading first.
type Observation struct {
	Store   string        `json:"store"` // the ID of its traits; see store.Traits
	Key     string        `json:"key"`   // with the prefix of its traits
	Version store.Version `json:"version"`
	Value   []byte        `json:"value"`

	// Epoch names the boot and the time namespace in which Monotonic counts; a
	// sighting of another epoch tells no time.
	Epoch string `json:"epoch"`

	// Monotonic is the system's monotonic clock after the reply that first showed
	// this version, or an earlier one with the same Mark.
	Monotonic time.Duration `json:"monotonic_ns"`

	// Mark names the last write of the lock's holder in this version. Others may have
	// written since, to ask it to give way: that makes it live no longer.
	HolderNonce string `json:"mark,omitempty"`
}

// Cache keeps sightings beyond the life of a process. It is a help and never a
// promise: it may forget, and its errors are its own affair. Its methods are
// called by several goroutines at the same time.
type Cache interface {
	// Load returns what was saved last for a key of a store.
	Load(storeID, key string) (Observation, bool)

	// Save keeps s. An earlier sighting of the same version in the same epoch is
	// not replaced, and of one with the same Mark the time is kept.
	Save(s Observation)
}

// FileCache returns a Memory that keeps each sighting in a small file below dir,
// which it makes, with mode 0700, when it first saves.
//
// A sighting that another user planted would take a lock from a living holder. So on
// Unix the directory must be one (not a symbolic link) that belongs to the effective
// user and gives no rights to others, and so must each file in it, of at most 256 KiB;
// otherwise nothing is loaded and nothing is saved. Sightings that are 30 days old are
// removed now and then.
func FileCache(dir string) Cache { return fileCache{dir} }

type fileCache struct{ dir string }

// maxObservation bounds what is read of a sighting, in bytes: a value of a register in
// base64, and what names it.
const maxObservation = 256 << 10

func observationName(storeID, key string) string {
	sum := sha256.Sum256([]byte(storeID + "\x00" + key))
	return hex.EncodeToString(sum[:16]) + ".json"
}

func (m fileCache) Load(storeID, key string) (Observation, bool) {
	dir, err := private.OpenPrivateDir(m.dir)
	if err != nil {
		return Observation{}, false
	}
	defer dir.Close()
	return loadObservation(dir, storeID, key)
}

func loadObservation(dir *private.Dir, storeID, key string) (Observation, bool) {
	var s Observation
	b, err := dir.ReadFile(observationName(storeID, key), maxObservation)
	if err != nil || json.Unmarshal(b, &s) != nil || s.Store != storeID || s.Key != key || s.Version == "" {
		return Observation{}, false
	}
	return s, true
}

func (m fileCache) Save(s Observation) {
	b, err := json.Marshal(s)
	if err != nil {
		return
	}
	dir, err := private.MakePrivateDir(m.dir)
	if err != nil {
		return
	}
	defer dir.Close()
	if old, ok := loadObservation(dir, s.Store, s.Key); ok && old.Epoch == s.Epoch {
		if old.Version == s.Version {
			return
		}
		if old.HolderNonce == s.HolderNonce && s.HolderNonce != "" && old.Monotonic < s.Monotonic {
			s.Monotonic = old.Monotonic
			if b, err = json.Marshal(s); err != nil {
				return
			}
		}
	}
	name := observationName(s.Store, s.Key)
	f, err := dir.Create(name + ".")
	if err != nil {
		return
	}
	defer f.Discard()
	// Nothing is synced, since nothing is lost with it.
	if _, err = f.Write(b); err != nil || f.Install(name) != nil {
		return
	}
	if mathrand.IntN(sweepOnceIn) == 0 {
		removeOldObservations(dir)
	}
}

const (
	sweepOnceIn = 200                 // saves, so that they cost the same with many locks as with few
	forgetAfter = 30 * 24 * time.Hour // longer than locks are held
)

// removeOldObservations removes old sightings, and temporary files that a crash left. A waiter
// whose sighting was removed starts to watch anew.
func removeOldObservations(dir *private.Dir) {
	names, err := dir.Names()
	if err != nil {
		return
	}
	for _, name := range names {
		hash, random, ok := strings.Cut(name, ".json")
		sum, err := hex.DecodeString(hash)
		if !ok || err != nil || len(sum) != sha256.Size/2 || random != "" && len(random) != len(".")+len(rand.Text()) {
			continue // not ours
		}
		if f, info, err := dir.Open(name); err == nil {
			f.Close()
			if time.Since(info.ModTime()) > forgetAfter {
				_ = dir.Remove(name)
			}
		}
	}
}

// recall returns what the memory knows of the handle's lock. Its time of sight
// counts only within this epoch; the version and the value may serve as a guess,
// since every write is conditional on them.
func (h *Handle) recall() *seen {
	m := h.c.cache
	id, key := h.register()
	if m == nil || id == "" {
		return nil // without an id one store's sightings can't be told from another's
	}
	s, ok := m.Load(id, key)
	if !ok {
		return nil
	}
	rec, err := decodeKind(h.kind, h.name, s.Value)
	if err != nil {
		return nil
	}
	// In this order: a process that is stopped between the two takes the sight for
	// younger than it is, and waits longer.
	now, ok := sysclock.Monotonic()
	at := h.c.clock.monotonic()
	if ok && s.Epoch != "" && s.Epoch == sysclock.Epoch() && s.Monotonic <= now {
		at = at.Add(-max(now-s.Monotonic, 0)) // a number that is no time may not fit
	}
	return &seen{version: s.Version, rec: rec, at: at, age: -1}
}

// keep hands a sighting to the memory.
func (h *Handle) keep(s *seen) {
	m := h.c.cache
	id, key := h.register()
	if m == nil || s.rec == nil || id == "" || !h.worthKeeping(s.rec) {
		return
	}
	rec := *s.rec
	value, err := rec.encode()
	if err != nil {
		return
	}
	sighting := Observation{Store: id, Key: key, Version: s.version, Value: value, Epoch: sysclock.Epoch(), HolderNonce: rec.holderNonce()}
	// The sight may be older than this call. In this order, as above.
	ago := h.c.clock.monotonic().Sub(s.at)
	if now, ok := sysclock.Monotonic(); ok {
		sighting.Monotonic = now - ago
	}
	m.Save(sighting)
}

// worthKeeping reports whether a sighting can help a later process. On a local store it
// reads faster than a file is written, so that there only the time of a sight counts: of a
// record whose holder others may have to wait out, or that keeps the next grant away. The
// presence of this process says whether it lives.
func (h *Handle) worthKeeping(r *Record) bool {
	if h.kind == KindSession { // it is never taken again
		return r.State == Held && r.Process != processID()
	}
	if !h.c.set.traits.Local || !r.NotBefore.IsZero() {
		return true
	}
	return r.State != Free && (r.Process != processID() || r.Presence == "")
}

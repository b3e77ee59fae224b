package lease

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	mathrand "math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/store"
)

// Observation is what a process has read of a lock, and when. A [Cache] keeps observations for
// later processes on the same machine. With a cache, several short processes together can find
// that a holder is dead, even if each process waits for less than a TTL. If this machine released
// the lock last, and the store is reached over a network, a process can also take the lock
// without a read.
type Observation struct {
	Store   string        `json:"store"` // ID of the store; see store.Traits
	Key     string        `json:"key"`   // key with the prefix of the store's traits
	Version store.Version `json:"version"`
	Value   []byte        `json:"value"`

	// Epoch identifies the boot and the time namespace for which Monotonic is valid. In any
	// other epoch, the time of the observation has no meaning.
	Epoch string `json:"epoch"`

	// Monotonic is a time of the system's monotonic clock: when the process received the first
	// reply that showed this version, or an earlier version with the same HolderNonce.
	Monotonic time.Duration `json:"monotonic_ns"`

	// HolderNonce is the nonce of the last write of the lock's holder. After that write,
	// other clients may have written, for example a request to yield. Their writes do not
	// show that the holder lives.
	HolderNonce string `json:"mark,omitempty"`
}

// Cache keeps observations for processes that start later. A cache only saves time, so it may
// lose entries. It returns no errors: it handles them itself. Several goroutines call its
// methods at the same time.
type Cache interface {
	// Load returns the observation of the key that was saved last, and reports whether
	// there is one.
	Load(storeID, key string) (Observation, bool)

	// Save stores s. If the cache has an observation of the key with the same Epoch and Version,
	// Save changes nothing. If only the Epoch and the HolderNonce are the same, Save stores s
	// with the earlier value of Monotonic.
	Save(s Observation)
}

// FileCache returns a Cache that keeps each observation in a small file in dir. The first Save
// creates dir with mode 0700.
//
// With a forged observation, another user could take a lock from a living holder. So on Unix, dir
// must be a directory (not a symbolic link) that belongs to the effective user and gives no
// rights to other users. Each file in dir must also belong to this user, and give no rights to
// other users. A file has at most 256 KiB. If dir or a file breaks one of these rules, the cache
// loads and saves nothing. The cache removes observations after about 30 days.
func FileCache(dir string) Cache { return fileCache{dir} }

type fileCache struct{ dir string }

// maxObservation bounds a file of an observation, in bytes: a register's value in base64, and the
// fields that name it.
const maxObservation = 256 << 10

func observationName(storeID, key string) string {
	sum := sha256.Sum256([]byte(storeID + "\x00" + key))
	return hex.EncodeToString(sum[:16]) + ".json"
}

func (m fileCache) Load(storeID, key string) (Observation, bool) {
	dir, err := safefile.OpenPrivateDir(m.dir)
	if err != nil {
		return Observation{}, false
	}
	defer dir.Close()
	return loadObservation(dir, storeID, key)
}

func loadObservation(dir *safefile.Dir, storeID, key string) (Observation, bool) {
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
	dir, err := safefile.MakePrivateDir(m.dir)
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
	// Nothing is synced, since a lost file costs only time.
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

// removeOldObservations removes old observations, and temporary files that a crash left. A waiter
// whose observation was removed times the holder from the start.
func removeOldObservations(dir *safefile.Dir) {
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

// recall returns what the cache knows of the handle's lock. Its time counts only within this epoch.
// The version and the value may serve as a guess, since every write is conditional on them.
func (c *cell) recall() *seen {
	m := c.space.cache
	id, key := c.register()
	if m == nil || id == "" {
		return nil // without an id, observations of different stores would be mixed up
	}
	s, ok := m.Load(id, key)
	if !ok {
		return nil
	}
	rec, err := lockrec.Decode(c.kind, c.name, s.Value)
	if err != nil {
		return nil
	}
	// In this order: if the process is stopped between the two readings, it takes the observation
	// for newer than it is, and waits longer.
	now, ok := sysclock.Monotonic()
	at := c.space.clock.monotonic()
	if ok && s.Epoch != "" && s.Epoch == sysclock.Epoch() && s.Monotonic <= now {
		at = at.Add(-max(now-s.Monotonic, 0)) // the file may hold any number, and the difference may overflow
	}
	return &seen{version: s.Version, rec: rec, at: at, age: -1}
}

// keep saves an observation in the cache.
func (c *cell) keep(s *seen) {
	m := c.space.cache
	id, key := c.register()
	if m == nil || s.rec == nil || id == "" || !c.worthKeeping(s.rec) {
		return
	}
	rec := *s.rec
	value, err := lockrec.Encode(&rec)
	if err != nil {
		return
	}
	sighting := Observation{Store: id, Key: key, Version: s.version, Value: value, Epoch: sysclock.Epoch(), HolderNonce: lockrec.HolderNonce(&rec)}
	// The observation may be older than this call. The order of the readings is as in recall.
	ago := c.space.clock.monotonic().Sub(s.at)
	if now, ok := sysclock.Monotonic(); ok {
		sighting.Monotonic = now - ago
	}
	m.Save(sighting)
}

// worthKeeping reports whether an observation can help a later process. On a local store a read is
// faster than writing a file. So there only the time of an observation counts: of a record whose
// holder others may have to wait out, or whose NotBefore delays the next grant. The presence of
// this process shows whether it lives.
func (c *cell) worthKeeping(r *Record) bool {
	if c.kind == KindSession { // a closed session is never taken again
		return r.State == Held && r.Process != processID()
	}
	if !c.space.set.traits.Local || !r.NotBefore.IsZero() {
		return true
	}
	return r.State != Free && (r.Process != processID() || r.Presence == "")
}

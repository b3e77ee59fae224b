package lease

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/store"
)

// Sighting is what a process saw of a lock, for later processes on the same
// machine: with it, short tries of which none lives as long as a TTL together see
// that a holder is dead, and a lock that this machine released last is taken again
// without reading first.
type Sighting struct {
	Store   string        `json:"store"` // the store's name
	Key     string        `json:"key"`
	Version store.Version `json:"version"`
	Value   []byte        `json:"value"`

	// Epoch names the boot and the time namespace in which Monotonic counts; a
	// sighting of another epoch tells no time.
	Epoch string `json:"epoch"`

	// Monotonic is the system's monotonic clock after the reply that first showed
	// this version.
	Monotonic time.Duration `json:"monotonic_ns"`
}

// Memory keeps sightings beyond the life of a process. It is a help and never a
// promise: it may forget, and its errors are its own affair. Its methods are
// called by several goroutines at the same time.
type Memory interface {
	// Load returns what was saved last for a key of a store.
	Load(storeName, key string) (Sighting, bool)

	// Save keeps s. An earlier sighting of the same version in the same epoch is
	// not replaced.
	Save(s Sighting)
}

// FileMemory returns a Memory that keeps each sighting in a small file below dir,
// which it makes, with mode 0700, when it first saves. The directory must belong
// to this user alone. Sightings that are 30 days old are removed now and
// then.
func FileMemory(dir string) Memory { return fileMemory{dir} }

type fileMemory struct{ dir string }

func (m fileMemory) path(storeName, key string) string {
	sum := sha256.Sum256([]byte(storeName + "\x00" + key))
	return filepath.Join(m.dir, hex.EncodeToString(sum[:16])+".json")
}

func (m fileMemory) Load(storeName, key string) (Sighting, bool) {
	var s Sighting
	b, err := os.ReadFile(m.path(storeName, key))
	if err != nil || json.Unmarshal(b, &s) != nil || s.Store != storeName || s.Key != key || s.Version == "" {
		return Sighting{}, false
	}
	return s, true
}

func (m fileMemory) Save(s Sighting) {
	if old, ok := m.Load(s.Store, s.Key); ok && old.Version == s.Version && old.Epoch == s.Epoch {
		return
	}
	b, err := json.Marshal(s)
	if err != nil || os.MkdirAll(m.dir, 0o700) != nil {
		return
	}
	// A random name, made exclusively: nobody's file is followed or truncated.
	// Nothing is synced, since nothing is lost with it.
	path := m.path(s.Store, s.Key)
	temporary := path + "." + rand.Text()
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	_, err = f.Write(b)
	if f.Close() != nil || err != nil || os.Rename(temporary, path) != nil {
		_ = os.Remove(temporary)
		return
	}
	if mathrand.IntN(sweepOnceIn) == 0 {
		m.sweep()
	}
}

const (
	sweepOnceIn = 200                 // saves, so that they cost the same with many locks as with few
	forgetAfter = 30 * 24 * time.Hour // longer than locks are held
)

// sweep removes what is old, temporary files that a crash left behind too. Whoever
// misses a sighting starts to watch anew.
func (m fileMemory) sweep() {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		name, random, ok := strings.Cut(e.Name(), ".json")
		sum, err := hex.DecodeString(name)
		if !ok || err != nil || len(sum) != sha256.Size/2 || random != "" && len(random) != len(".")+len(rand.Text()) {
			continue // not ours
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > forgetAfter {
			_ = os.Remove(filepath.Join(m.dir, e.Name()))
		}
	}
}

// recall returns what the memory knows of the handle's lock. Its time of sight
// counts only within this epoch; the version and the value may serve as a guess,
// since every write is conditional on them.
func (h *Handle) recall() *seen {
	m := h.c.set.Memory
	if m == nil || h.c.set.traits.Name == "" {
		return nil // without a name one store's sightings can't be told from another's
	}
	s, ok := m.Load(h.c.set.traits.Name, h.key)
	if !ok {
		return nil
	}
	rec, err := decodeRecord(h.name, s.Value)
	if err != nil {
		return nil
	}
	// In this order: a process that is stopped between the two takes the sight for
	// younger than it is, and waits longer.
	now, ok := sysclock.Monotonic()
	at := h.c.clock.monotonic()
	if ok && s.Epoch != "" && s.Epoch == sysclock.Epoch() && s.Monotonic <= now {
		at = at.Add(s.Monotonic - now)
	}
	return &seen{version: s.Version, rec: rec, at: at, age: -1}
}

// keep hands a sighting to the memory.
func (h *Handle) keep(s *seen) {
	m := h.c.set.Memory
	if m == nil || s.rec == nil || h.c.set.traits.Name == "" {
		return
	}
	value, err := s.rec.encode()
	if err != nil {
		return
	}
	sighting := Sighting{Store: h.c.set.traits.Name, Key: h.key, Version: s.version, Value: value, Epoch: sysclock.Epoch()}
	// The sight may be older than this call. In this order, as above.
	ago := h.c.clock.monotonic().Sub(s.at)
	if now, ok := sysclock.Monotonic(); ok {
		sighting.Monotonic = now - ago
	}
	m.Save(sighting)
}

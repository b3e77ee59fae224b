package lease

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	mathrand "math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
)

// Observation is what a process has read of a lock, and when. A [Cache] stores observations for
// later processes on the same machine. With a cache, several short processes together can find that
// a holder is dead, even if each process waits for less than a TTL. If this machine released the
// lock last, and the store is reached over a network, a process can also take the lock without a
// read. A program can store an Observation as JSON. The fields are:
//
//   - Store: the ID of the store; see [store.Traits].
//   - Key: the key of the record, with the prefix of the store's traits.
//   - Version, Value: what the process has read.
//   - Epoch: identifies the boot and the time namespace in which Monotonic is valid. In another
//     epoch, Monotonic has no meaning.
//   - Monotonic: the time at which the process received the first reply with this version, or with
//     an earlier version of the same HolderNonce. It is a time of the system's monotonic clock.
//   - HolderNonce: the nonce of the last write of the lock's holder. After that write, other clients
//     may have written, for example a request to yield. Their writes do not show that the holder
//     lives.
type Observation = cell.Observation

// Cache stores observations for processes that start later. A cache only saves time, so it may lose
// entries. Its methods return no errors: the cache handles errors itself. Several goroutines call
// its methods at the same time.
type Cache interface {
	// Load returns the observation of the key that was saved last, and reports whether
	// there is one.
	Load(storeID, key string) (Observation, bool)

	// Save stores an observation. If the cache already has an observation of the key with the same
	// Epoch and Version, Save changes nothing. If only the Epoch and the HolderNonce are the same,
	// Save stores the new observation with the earlier value of Monotonic.
	Save(s Observation)
}

// FileCache returns a Cache that stores each observation in a small file in a directory. The first
// Save creates the directory with mode 0700.
//
// With a forged observation, another user could take a lock from a living holder. So on Unix, the
// directory and each file in it must belong to the effective user and give no rights to other
// users. The directory must not be a symbolic link. A file has at most 256 KiB. If the directory or
// a file breaks one of these rules, the cache loads and saves nothing. The cache removes
// observations after about 30 days.
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

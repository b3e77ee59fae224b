package lease

import (
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/filecache"
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
func FileCache(dir string) Cache { return filecache.Dir(dir) }

// Package filecache keeps observations of records in files, for later processes of a machine.
package filecache

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

// Dir is the directory of a cache; see lease.FileCache.
type Dir string

// maxFile bounds a file of an observation, in bytes: a register's value in base64, and the
// fields that name it.
const maxFile = 256 << 10

func fileName(storeID, key string) string {
	sum := sha256.Sum256([]byte(storeID + "\x00" + key))
	return hex.EncodeToString(sum[:16]) + ".json"
}

// Load implements cell.Cache.
func (d Dir) Load(storeID, key string) (cell.Observation, bool) {
	dir, err := safefile.OpenPrivateDir(string(d))
	if err != nil {
		return cell.Observation{}, false
	}
	defer dir.Close()
	return load(dir, storeID, key)
}

func load(dir *safefile.Dir, storeID, key string) (cell.Observation, bool) {
	var s cell.Observation
	b, err := dir.ReadFile(fileName(storeID, key), maxFile)
	if err != nil || json.Unmarshal(b, &s) != nil || s.Store != storeID || s.Key != key || s.Version == "" {
		return cell.Observation{}, false
	}
	return s, true
}

// Save implements cell.Cache.
func (d Dir) Save(s cell.Observation) {
	b, err := json.Marshal(s)
	if err != nil {
		return
	}
	dir, err := safefile.MakePrivateDir(string(d))
	if err != nil {
		return
	}
	defer dir.Close()
	if old, ok := load(dir, s.Store, s.Key); ok && old.Epoch == s.Epoch {
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
	name := fileName(s.Store, s.Key)
	if dir.Replace(name, name+".", 0o600, b) != nil { // not synced, since a lost file costs only time
		return
	}
	if mathrand.IntN(sweepOnceIn) == 0 {
		sweep(dir)
	}
}

const (
	sweepOnceIn = 200                 // saves, so that they cost the same with many locks as with few
	forgetAfter = 30 * 24 * time.Hour // longer than locks are held
)

// sweep removes old observations, and temporary files that a crash left. A waiter
// whose observation was removed times the holder from the start.
func sweep(dir *safefile.Dir) {
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

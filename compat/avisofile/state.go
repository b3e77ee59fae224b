package avisofile

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

// digest is a key of the file: 32 bytes, written as 64 hexadecimal digits.
type digest [32]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// parseDigest reads 64 hexadecimal digits of either case.
func parseDigest(key string) (digest, error) {
	var d digest
	if len(key) != 2*len(d) {
		return d, fmt.Errorf("%w: %.80q has %d characters; a key of this file has 64 hexadecimal digits", store.ErrKey, key, len(key))
	}
	if _, err := hex.Decode(d[:], []byte(key)); err != nil {
		return d, fmt.Errorf("%w: %q is not a key of this file, which has 64 hexadecimal digits", store.ErrKey, key)
	}
	return d, nil
}

// entry is one checkpoint of the file.
type entry struct {
	key      digest
	sequence uint64
	event    string
	named    bool // event is a string (it may be empty), not null
}

// state is the content of the file: entries in the order of their keys, each key once. It
// is never changed once made. So readers need no lock, and a failed write leaves nothing
// to undo.
type state []entry

func compareKeys(e entry, key digest) int { return bytes.Compare(e.key[:], key[:]) }

// find returns the entry of key.
func (s state) find(key digest) (entry, bool) {
	i, ok := slices.BinarySearchFunc(s, key, compareKeys)
	if !ok {
		return entry{}, false
	}
	return s[i], true
}

// with returns the state after changes. A nil change removes the entry.
func (s state) with(changes map[digest]*entry) state {
	next := make(state, 0, len(s)+len(changes))
	rest := s
	for _, key := range slices.SortedFunc(maps.Keys(changes), func(a, b digest) int { return bytes.Compare(a[:], b[:]) }) {
		i, ok := slices.BinarySearchFunc(rest, key, compareKeys)
		next = append(next, rest[:i]...)
		if e := changes[key]; e != nil {
			next = append(next, *e)
		}
		if ok {
			i++
		}
		rest = rest[i:]
	}
	return append(next, rest...)
}

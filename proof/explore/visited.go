package explore

import "sync"

// visited is the set of states seen, as 64-bit hashes, each with the hash of the state
// from which it was first reached. With n states, the chance that any two of them share
// a hash, so that one is not looked at, is about n*n/2^65: 1 in 100,000 for 20 million.
type visited struct {
	shards [256]shard
}

type shard struct {
	mu    sync.Mutex
	n     int
	slots []slot
	_     [24]byte // keeps shards off each other's cache lines
}

type slot struct{ hash, parent uint64 }

func newVisited() *visited {
	v := &visited{}
	for i := range v.shards {
		v.shards[i].slots = make([]slot, 64)
	}
	return v
}

// add reports whether hash is new.
func (v *visited) add(hash, parent uint64) bool {
	s := &v.shards[hash>>56]
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.find(hash)
	if s.slots[at].hash == hash {
		return false
	}
	s.slots[at] = slot{hash, parent}
	s.n++
	if s.n*4 > len(s.slots)*3 {
		s.grow()
	}
	return true
}

// find returns the slot of hash, or the empty one where it belongs.
func (s *shard) find(hash uint64) int {
	mask := uint64(len(s.slots) - 1)
	at := hash & mask
	for s.slots[at].hash != 0 && s.slots[at].hash != hash {
		at = (at + 1) & mask
	}
	return int(at)
}

func (s *shard) grow() {
	old := s.slots
	s.slots = make([]slot, 2*len(old))
	for _, e := range old {
		if e.hash != 0 {
			s.slots[s.find(e.hash)] = e
		}
	}
}

func (v *visited) parent(hash uint64) uint64 {
	s := &v.shards[hash>>56]
	return s.slots[s.find(hash)].parent
}

func (v *visited) len() int {
	n := 0
	for i := range v.shards {
		n += v.shards[i].n
	}
	return n
}

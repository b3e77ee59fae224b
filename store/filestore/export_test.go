package filestore

import (
	"strconv"
	"time"
)

// Tiny returns options with which logs continue in a new file after very few writes.
func Tiny() *Options {
	return &Options{limits: limits{maxOpen: 4, sealBytes: 1, sealEntries: 2}}
}

// Polling returns options with which the system is not asked for changes.
func Polling() *Options { return &Options{limits: limits{poll: true}} }

// Impatient returns options with which a log that makes no sense is soon given up, and so is
// a lock.
func Impatient() *Options {
	return &Options{limits: limits{incompleteTimeout: 100 * time.Millisecond, floor: 300 * time.Millisecond}}
}

// WithFloor returns options with this patience for the lock of the floor.
func WithFloor(patience time.Duration) *Options {
	return &Options{limits: limits{incompleteTimeout: incompleteTimeout, floor: patience}}
}

// NoDirSync returns options with which names are not made durable: a fault.
func NoDirSync() *Options { return &Options{limits: limits{noDirSync: true}} }

// SmallPages returns options with which a listing holds no more names than this.
func SmallPages(n int) *Options { return &Options{limits: limits{page: n}} }

// Running returns options with which no more calls than this use the disk at the same time.
func Running(n int) *Options { return &Options{limits: limits{running: n}} }

var (
	EncodeKey = encodeKey
	DecodeKey = decodeKey
)

// NotCreated returns the outcome of a new log that could not be renamed into place.
var NotCreated = notCreated

// Busy reports whether a register is taken for one that changes all the time.
func (s *Store) Busy(key string) bool { return s.busy.has(key) }

// SetBusy makes a register one that has changed frequently up to a time.
func (s *Store) SetBusy(key string, at time.Time) {
	s.busy.note(key)
	s.busy.mu.Lock()
	defer s.busy.mu.Unlock()
	s.busy.at[key] = at
}

// NoteBusy returns how many names of so many are remembered.
func NoteBusy(n int) int {
	var r recent
	for i := range n {
		r.note(strconv.Itoa(i))
	}
	return len(r.at)
}

package lease

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/private"
)

// Reading is a look at clocks that a test makes up.
type Reading struct {
	Mono, Wall time.Time
	Suspended  time.Duration
}

// SetClock gives the client clocks of the test's own. Call it before the first use.
func SetClock(c *Client, read func() Reading) {
	c.clock = newClock(func() reading {
		r := read()
		return reading{mono: r.Mono, wall: r.Wall, suspended: r.Suspended}
	})
}

// SetRandom makes the jitter repeatable.
func SetRandom(c *Client, random func() float64) { c.random = random }

// Encode and Decode make the record's format testable.
func Encode(r *Record) ([]byte, error) { return r.encode() }

// Decode decodes a record of the lock name.
func Decode(name string, value []byte) (*Record, error) { return decodeRecord(name, value) }

// DecodeKind decodes a record of that kind.
func DecodeKind(kind, name string, value []byte) (*Record, error) {
	return decodeKind(kind, name, value)
}

// SweepMemory removes what a [FileMemory] in dir has not needed for long.
func SweepMemory(dir string) {
	d, err := private.OpenPrivateDir(dir)
	if err != nil {
		panic(err)
	}
	defer d.Close()
	sweepSightings(d)
}

// TokenOf is how the marks of writes are found.
var TokenOf = tokenOf

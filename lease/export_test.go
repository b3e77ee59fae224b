package lease

import (
	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
)

// The constants that tests count with.
const (
	DefaultKeyPrefix      = defaultKeyPrefix
	DefaultMaxPoll        = defaultMaxPoll
	DefaultMinPoll        = defaultMinPoll
	DefaultReleaseTimeout = defaultReleaseTimeout
	DefaultTTL            = defaultTTL
	MaxClockSkew          = maxClockSkew
	MaxLinger             = maxLinger
	MaxMinInterval        = maxMinInterval
	MaxPeriod             = maxPeriod
	MinPeriod             = minPeriod
	UnresponsiveRepeat    = cell.UnresponsiveRepeat
)

// Reading is a reading of clocks that a test makes up.
type Reading = sysclock.Reading

// SetClock gives the client clocks of the test's own. Call it before the first use.
func SetClock(c *Client, read func() Reading) { c.space.Clock = sysclock.NewClock(read, read) }

// SetRandom makes the jitter repeatable.
func SetRandom(c *Client, random func() float64) { c.space.Random = random }

// Encode and Decode make the record's format testable.
func Encode(r *Record) ([]byte, error) { return lockrec.Encode(r) }

// Decode decodes a record of the lock name.
func Decode(name string, value []byte) (*Record, error) { return lockrec.Decode("", name, value) }

// DecodeKind decodes a record of that kind.
func DecodeKind(kind, name string, value []byte) (*Record, error) {
	return lockrec.Decode(kind, name, value)
}

// BatchPollsAlways makes a client use batch polls for a single lock, however short its pauses.
func BatchPollsAlways(c *Client) { c.k.Waiting.SetBatchPolls(1, 0) }

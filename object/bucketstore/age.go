package bucketstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// DefaultMaxClockSkew is the usual parameter of [AgeOf].
const DefaultMaxClockSkew = 60 * time.Second

// granularity is that of the headers Last-Modified and Date.
const granularity = time.Second

// Aged is a Store on a bucket that reports the times of a write and of an answer by one clock.
type Aged struct {
	*Store
	skew time.Duration
}

// NewAged is New for such a bucket. The parameter maxClockSkew is that of [AgeOf]: at least 1 s, and 0 means
// [DefaultMaxClockSkew].
func NewAged(b object.Bucket, prefix string, maxClockSkew time.Duration, opts *Options) (*Aged, error) {
	skew := cmp.Or(maxClockSkew, DefaultMaxClockSkew)
	if skew < time.Second {
		return nil, fmt.Errorf("%w: MaxClockSkew is %v; it must be at least 1s", store.ErrInvalid, skew)
	}
	s, err := New(b, prefix, opts)
	if err != nil {
		return nil, err
	}
	return &Aged{s, skew}, nil
}

// GetAge implements [store.AgeReader]. [AgeOf] calculates the age.
func (s *Aged) GetAge(ctx context.Context, key string) ([]byte, store.Version, time.Duration, error) {
	current, err := s.GetStored(ctx, key)
	if err != nil {
		return nil, "", -1, err
	}
	return current.Value, current.Version(), AgeOf(current, s.skew), nil
}

// AgeOf returns how long a register has certainly been in its state, by the store's clock. A negative
// result means that the age is not known.
//
// The age is the time of the answer minus the time of the write, minus one second for the granularity of
// both, minus skew. It is known only if the answer came from no cache, and if its time differs by at most
// skew from this machine's clock. So a renewed lease does not look old if one of many servers has a wrong
// clock.
func AgeOf(s engine.Stored, skew time.Duration) time.Duration {
	if s.Now.IsZero() || s.Written.IsZero() || time.Since(s.Now).Abs() > skew {
		return -1
	}
	return max(s.Now.Sub(s.Written)-granularity-skew, -1)
}

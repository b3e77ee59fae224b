package bucketstore

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// DefaultMaxClockSkew is the usual parameter of [AgeOf].
const DefaultMaxClockSkew = 60 * time.Second

// granularity is that of the headers Last-Modified and Date.
const granularity = time.Second

// CheckMaxClockSkew refuses a parameter of [AgeOf] that is less than a second.
func CheckMaxClockSkew(skew time.Duration) error {
	if skew < time.Second {
		return fmt.Errorf("%w: MaxClockSkew is %v; it must be at least 1s", store.ErrInvalid, skew)
	}
	return nil
}

// GetAge reads a register as Get does, and also returns its age, as [AgeOf] calculates it. Backends whose stores
// tell both times in one answer implement [store.AgeReader] with it.
func GetAge(ctx context.Context, s *Store, key string, skew time.Duration) ([]byte, store.Version, time.Duration, error) {
	current, err := s.GetStored(ctx, key)
	if err != nil {
		return nil, "", -1, err
	}
	return current.Value, current.Version(), AgeOf(current, skew), nil
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

package bucketstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// ProbeDir is where, below the prefix, objects lie while a store is probed.
const ProbeDir = ".holdfast/probe"

// needed is what a register needs of a bucket.
var needed = [...]object.Ability{object.PutIfAbsent, object.PutIfMatch}

// UnsafeError says that a bucket ignores conditions. It matches
// [store.ErrUnsafe]; nothing was written but what the probe removed again.
type UnsafeError struct {
	Name    string // of the store
	Missing []*object.UnsupportedError
}

func (e *UnsafeError) Error() string {
	var found, names []string
	for _, m := range e.Missing {
		found = append(found, m.Found)
		names = append(names, string(m.Ability))
	}
	return fmt.Sprintf("%s ignores conditions, two programs could hold one lock: %s (holdfast doctor tells more; unsafe=%s would use it all the same)",
		e.Name, strings.Join(found, "; "), strings.Join(names, ","))
}

// Is makes an UnsafeError match store.ErrUnsafe.
func (e *UnsafeError) Is(target error) bool { return target == store.ErrUnsafe }

// Outcome is NotApplied.
func (e *UnsafeError) Outcome() store.Outcome { return store.NotApplied }

// probe is what is known of the conditions of a bucket.
type probe struct {
	slot   chan struct{} // held by the one who probes
	passed atomic.Bool
	failed atomic.Pointer[UnsafeError]
}

// Verify finds out whether the bucket honours the conditions that a register needs,
// unless that is known; the first write does so by itself. A failure matches
// [store.ErrUnsafe] and lasts. Any other error means that it could not be found out
// now. The user who knows that it passed in an earlier run sets [Options].Trusted.
func (s *Store) Verify(ctx context.Context) error { return s.verify(ctx) }

func (s *Store) verify(ctx context.Context) error {
	if s.traits.Trusted || s.probe.passed.Load() {
		return nil
	}
	select {
	case s.probe.slot <- struct{}{}:
		defer func() { <-s.probe.slot }()
	case <-ctx.Done():
		return store.CheckContext(ctx)
	}
	if s.probe.passed.Load() {
		return nil
	}
	if failed := s.probe.failed.Load(); failed != nil {
		return failed
	}
	lacking, err := s.tryConditions(ctx)
	if err != nil {
		return store.MarkNotApplied(fmt.Errorf("finding out whether conditions are honoured: %w", err))
	}
	lacking = slices.DeleteFunc(lacking, func(e *object.UnsupportedError) bool {
		insisted := slices.Contains(s.unsafe, e.Ability)
		if insisted {
			s.log.Warn("this store ignores conditions and is used on request", "store", s.traits.Name, "found", e.Found)
		}
		return insisted
	})
	if len(lacking) > 0 {
		failed := &UnsafeError{s.traits.Name, lacking}
		s.probe.failed.Store(failed)
		return failed
	}
	s.probe.passed.Store(true)
	if s.passed != nil {
		s.passed()
	}
	return nil
}

// tryConditions returns what is lacking. A bucket that finds out by itself is
// asked, so that nothing is tried twice.
func (s *Store) tryConditions(ctx context.Context) ([]*object.UnsupportedError, error) {
	var lacking []*object.UnsupportedError
	note := func(err error) error {
		var e *object.UnsupportedError
		if errors.As(err, &e) {
			lacking = append(lacking, e)
			return nil
		}
		return err
	}
	if v, ok := object.As[object.Verifier](s.bucket); ok {
		for _, a := range needed {
			if err := note(v.Verify(ctx, a)); err != nil {
				return nil, err
			}
		}
		return lacking, nil
	}
	found, err := object.Probe(ctx, s.bucket, s.prefix+ProbeDir, needed[:]...)
	if err != nil {
		return nil, err
	}
	for _, a := range needed {
		_ = note(found[a]) // each is nil or what note takes
	}
	return lacking, nil
}

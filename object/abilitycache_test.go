package object_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Each ability is tested once, by one caller at a time. A test that fails is repeated by the next caller.
func TestAbilityCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := object.NewAbilityCache("bucket", nil, false, object.PutIfAbsent)
		lacks := &object.UnsupportedError{Ability: object.DeleteIfMatch}
		var tests, running int
		require := func(ctx context.Context, a object.Ability, problem error) error {
			return c.Require(ctx, a, func() (map[object.Ability]error, error) {
				if running++; running > 1 {
					t.Errorf("%d tests run at the same time", running)
				}
				tests++
				time.Sleep(time.Second)
				running--
				return map[object.Ability]error{object.DeleteIfMatch: lacks, object.PutIfMatch: nil}, problem
			})
		}

		down := errors.New("the server does not answer")
		if err := require(t.Context(), object.PutIfMatch, down); !errors.Is(err, down) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("a test that fails: got %v", err)
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for a, want := range map[object.Ability]error{object.PutIfAbsent: nil, object.PutIfMatch: nil, object.DeleteIfMatch: lacks} {
					if err := require(t.Context(), a, nil); err != want {
						t.Errorf("%s: got %v, want %v", a, err, want)
					}
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := require(ctx, object.CopyIfMatch, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller whose context ends during the test of another: got %v", err)
		}
		all.Wait()
		<-ctx.Done()
		if err := require(ctx, object.CopySource, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller whose context has ended: got %v", err)
		}
		if tests != 3 {
			t.Errorf("%d tests; want one that fails, and one for each of two abilities", tests)
		}

		if err := require(t.Context(), object.CopySource, nil); store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("a test without a result: got %v", err)
		}

		more := c.With(object.CopyIfMatch)
		if got, want := more.Known(), []object.Ability{object.PutIfAbsent, object.PutIfMatch, object.CopyIfMatch}; !slices.Equal(got, want) {
			t.Errorf("the copy knows %v, want %v", got, want)
		}
		if got, want := c.Known(), []object.Ability{object.PutIfAbsent, object.PutIfMatch}; !slices.Equal(got, want) {
			t.Errorf("the cache knows %v, want %v", got, want)
		}
	})
}

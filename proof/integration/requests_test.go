package integration_test

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/lease"
)

// What each operation costs, in requests, exactly. Where a conflict carries the
// current value (DynamoDB) a handle that knows nothing creates first; elsewhere it
// reads first.
func TestRequestsPerOperation(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, k kind) {
		s := newScene(t, k, lease.Options{ManualRenewal: true})
		cost := func(what string, onS3, onDynamo int, f func() error) {
			t.Helper()
			want := onS3
			if s.at.Kind == "dynamodb" {
				want = onDynamo
			}
			s.proxy.Reset()
			if err := f(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if got := s.proxy.Count(nil); got != want {
				t.Errorf("%s: %d requests, want %d: %v", what, got, want, s.proxy.Calls())
			}
		}
		handle := func(c *lease.Client, name string) *lease.Handle {
			h, err := c.Handle(name, nil)
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		var g *lease.Guard
		take := func(h *lease.Handle) func() error {
			return func() (err error) {
				g, err = h.TryAcquire(t.Context())
				return err
			}
		}
		held := func(h *lease.Handle) func() error {
			return func() error {
				if _, err := h.TryAcquire(t.Context()); !errors.Is(err, lease.ErrHeld) {
					return errors.Join(errors.New("it is not held"), err)
				}
				return nil
			}
		}
		release := func() error { return g.Release(t.Context()) }

		h, other := handle(s.client, "job"), handle(s.client, "job")
		cost("a new lock", 2, 1, take(h))
		cost("renewal", 1, 1, func() error { return g.Renew(t.Context()) })
		cost("contended try, nothing known", 1, 1, held(other))
		cost("contended try, once more", 1, 1, held(other))
		cost("release", 1, 1, release)
		cost("again, by the one who released", 1, 1, take(h))
		cost("a further guard of the same handle", 0, 0, func() error {
			second, err := h.TryAcquire(t.Context())
			if err != nil {
				return err
			}
			return second.Release(t.Context())
		})
		cost("release again", 1, 1, release)
		cost("an old lock, nothing known", 2, 2, take(handle(s.client, "job")))
		cost("its release", 1, 1, release)

		o := s.client.Options()
		o.AssumeNew = true
		fresh, err := lease.New(s.st, &o)
		if err != nil {
			t.Fatal(err)
		}
		cost("a new lock, Fresh", 1, 1, take(handle(fresh, "once")))
		cost("its release", 1, 1, release)
	})
}

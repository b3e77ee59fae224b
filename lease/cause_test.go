package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// The error of another call that ends the context of a call, during a pause, is not taken for its answer.
func TestCauseIsNoAnswer(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, c *lease.Client, token uint64) error{
		"Break": func(ctx context.Context, c *lease.Client, token uint64) error {
			return errOf(c.Break(ctx, "job", token, nil))
		},
		"RequestYield": func(ctx context.Context, c *lease.Client, _ uint64) error {
			return errOf(c.RequestYield(ctx, "job", nil))
		},
		"Leader": func(ctx context.Context, c *lease.Client, _ uint64) error { return errOf(c.Leader(ctx, "job")) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				leads, behind := client(t, hidden{st}, nil), newClocks()
				behind.change(func(c *clocks) { c.jumped = -time.Hour }) // Leader watches the record
				lease.SetClock(leads, behind.read)
				g := mustCampaign(t, election(t, leads, "job"), "value")
				w := newWire(hidden{st})
				w.set(writes(drop))
				another := errors.New("another call")
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errors.Join(another, lease.ErrNotHeld, lease.ErrNoLeader)) })
				err := call(ctx, client(t, w, nil), g.Token())
				if !errors.Is(err, another) || errors.Is(err, lease.ErrNotHeld) || errors.Is(err, lease.ErrNoLeader) {
					t.Errorf("got %v, which is the answer of another call", err)
				}
			})
		})
	}
}

package lease_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// An Acquire tells of a store that does not answer, or fails, soon and again, and how much
// longer it asks; and not of one that answers while another holds the lock.
func TestSilentStoreIsTold(t *testing.T) {
	for name, f := range map[string]fault{"silent": hang, "failing": drop, "control: answering": pass} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				mustTry(t, client(t, st, nil), "job")
				w := newWire(st)
				w.set(func(*store.Op) fault { return f })
				var mu sync.Mutex
				var at, left []time.Duration
				began := time.Now()
				c := client(t, w, &lease.Options{Patience: 30 * time.Second, OnEvent: func(e lease.Event) {
					mu.Lock()
					defer mu.Unlock()
					switch e.Kind {
					case lease.EventSilent:
						at, left = append(at, time.Since(began)), append(left, e.Wait)
					case lease.EventWaiting:
						if e.Since.IsZero() {
							t.Error("the wait does not tell since when the lock is held")
						}
					}
				}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := c.Acquire(ctx, "job")
				mu.Lock()
				defer mu.Unlock()
				if f == pass {
					if len(at) > 0 || !errors.Is(err, lease.ErrHeld) {
						t.Errorf("told at %v; %v", at, err)
					}
					return
				}
				if !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("the error is %v", err)
				}
				if len(at) != 6 || at[0] != lease.FirstSilence || at[1] != lease.FirstSilence+lease.NextSilence || left[0] != 30*time.Second-lease.FirstSilence {
					t.Errorf("told at %v, with %v left", at, left)
				}
			})
		})
	}
}

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
				if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, lease.ErrSilent) {
					t.Errorf("the error is %v", err)
				}
				if len(at) != 6 || at[0] != lease.FirstSilence || at[1] != lease.FirstSilence+lease.NextSilence || left[0] != 30*time.Second-lease.FirstSilence {
					t.Errorf("told at %v, with %v left", at, left)
				}
			})
		})
	}
}

// The error of a wait whose store falls silent tells both: that the store does not answer, and by
// which holder the lock was held when it did. A wait that ends for another reason tells no silence.
func TestStoreFallsSilent(t *testing.T) {
	for _, patience := range []time.Duration{0, 5 * time.Second} {
		bubble(t, func(t *testing.T, st store.Store) {
			holder := mustTry(t, client(t, st, &lease.Options{TTL: time.Hour}), "job")
			w := newWire(unwatched{st})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			time.AfterFunc(10*time.Second, func() { w.set(everything(hang)) })
			_, err := client(t, w, &lease.Options{Patience: patience}).Acquire(ctx, "job")
			var held *lease.HeldError
			if !errors.As(err, &held) || held.Record.Token != holder.Token() {
				t.Errorf("patience %v: %v", patience, err)
			}
			if silent := errors.Is(err, lease.ErrSilent); silent != (patience > 0) {
				t.Errorf("patience %v: silent: %v: %v", patience, silent, err)
			}
		})
	}
}

package lease_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// Each call refuses the options that it cannot honour, names them, and sends nothing.
func TestOptionsThatACallCannotHonour(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		c := client(t, w, nil)
		s, spaced := open(t, c), open(t, client(t, w, &lease.Options{MinInterval: time.Minute}))
		never := func(context.Context, *lease.Guard) error { t.Error("the function runs"); return nil }
		calls := map[string]func(o *lease.LockOptions) error{
			"Client.Handle":     func(o *lease.LockOptions) error { _, err := c.Handle("job", o); return err },
			"Client.Acquire":    func(o *lease.LockOptions) error { _, err := c.Acquire(t.Context(), "job", o); return err },
			"Client.TryAcquire": func(o *lease.LockOptions) error { _, err := c.TryAcquire(t.Context(), "job", o); return err },
			"Client.Do":         func(o *lease.LockOptions) error { return c.Do(t.Context(), "job", never, o) },
			"Client.Lead":       func(o *lease.LockOptions) error { return c.Lead(t.Context(), "job", nil, never, o) },
			"Client.Election":   func(o *lease.LockOptions) error { _, err := c.Election("job", o); return err },
			"Client.Once": func(o *lease.LockOptions) error {
				_, err := c.Once(t.Context(), "job", daily, never, o)
				return err
			},
			"Session.Handle":     func(o *lease.LockOptions) error { _, err := s.Handle("job", o); return err },
			"Session.Acquire":    func(o *lease.LockOptions) error { _, err := s.Acquire(t.Context(), "job", o); return err },
			"Session.TryAcquire": func(o *lease.LockOptions) error { _, err := s.TryAcquire(t.Context(), "job", o); return err },
			"Session.Do":         func(o *lease.LockOptions) error { return s.Do(t.Context(), "job", never, o) },
			"Session.Lead":       func(o *lease.LockOptions) error { return s.Lead(t.Context(), "job", nil, never, o) },
			"Session.Election":   func(o *lease.LockOptions) error { _, err := s.Election("job", o); return err },
			"Handle+MinInterval": func(o *lease.LockOptions) error { _, err := spaced.Handle("job", o); return err },
		}
		const every = "Client.Handle Client.Acquire Client.TryAcquire Client.Do Client.Lead Client.Election Client.Once " +
			"Session.Handle Session.Acquire Session.TryAcquire Session.Do Session.Lead Session.Election"
		const onClient = "Client.Handle Client.Acquire Client.TryAcquire Client.Do Client.Lead Client.Election Client.Once"
		const leads = "Client.Lead Client.Election Session.Lead Session.Election"
		w.requests()
		for _, tt := range []struct {
			what  string
			o     lease.LockOptions
			calls string
			names string // what the error says
		}{
			{"NoWait", lease.LockOptions{NoWait: true}, "Client.Handle Client.Acquire Client.TryAcquire Session.Handle Session.Acquire Session.TryAcquire " + leads, "NoWait"},
			{"Linger", lease.LockOptions{Linger: time.Second}, "Client.Acquire Client.TryAcquire Client.Do Client.Once Session.Acquire Session.TryAcquire Session.Do " + leads, "Linger"},
			{"Shared", lease.LockOptions{Shared: true}, onClient + " Session.Lead Session.Election", "Shared"},
			{"Slots", lease.LockOptions{Slots: 2}, onClient + " Session.Lead Session.Election", "Slots"},
			{"Fair", lease.LockOptions{Fair: true}, onClient, "Fair"},
			{"without a session", lease.LockOptions{Fair: true}, onClient, "call OpenSession"},
			{"Shared and MinInterval", lease.LockOptions{Shared: true}, "Handle+MinInterval", "MinInterval"},
			{"Slots and MinInterval", lease.LockOptions{Slots: 2}, "Handle+MinInterval", "MinInterval"},
			{"Fair and MinInterval", lease.LockOptions{Fair: true}, "Handle+MinInterval", "MinInterval"},
			{"Shared and Linger", lease.LockOptions{Shared: true, Linger: time.Minute}, "Session.Handle", "Linger"},
			{"Slots and Linger", lease.LockOptions{Slots: 2, Linger: time.Minute}, "Session.Handle", "Linger"},
			{"Fair and Linger", lease.LockOptions{Fair: true, Linger: time.Minute}, "Session.Handle", "Linger"},
			{"Shared and Slots", lease.LockOptions{Shared: true, Slots: 2}, every, "Slots"},
			{"Period", lease.LockOptions{Period: daily}, "Client.Lead Client.Election Client.Once Session.Handle Session.Acquire Session.TryAcquire Session.Do Session.Lead Session.Election", "eriod"},
			{"Period and Linger", lease.LockOptions{Period: daily, Linger: time.Second}, "Client.Handle", "Linger"},
			{"a bad Period", lease.LockOptions{Period: lease.Every(time.Nanosecond)}, "Client.Handle Client.Acquire Client.TryAcquire Client.Do", "period"},
			{"Retries", lease.LockOptions{Retries: 1}, strings.Replace(every, "Client.Once ", "", 1), "Retries"},
			{"a bad policy", lease.LockOptions{OnYieldRequest: 7}, every, "OnYieldRequest"},
		} {
			for _, call := range strings.Fields(tt.calls) {
				if err := calls[call](&tt.o); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), tt.names) {
					t.Errorf("%s with %s: %v; want store.ErrInvalid that names %s", call, tt.what, err, tt.names)
				}
			}
		}
		if n := w.requests(); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
	})
}

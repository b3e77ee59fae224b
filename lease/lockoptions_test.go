package lease_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// New refuses options that are out of bounds or would lose every lease, and names their fields.
func TestOptionsOutOfBoundsAreRefused(t *testing.T) {
	local, remote, slow := store.Store(memstore.New()), described{memstore.New(), store.Traits{}}, newWaiting(6*time.Second)
	for name, c := range map[string]struct {
		st     store.Store
		o      lease.Options
		fields string // that the error names
	}{
		"TTL too short":            {local, lease.Options{TTL: 499 * time.Millisecond}, "TTL"},
		"remote TTL too short":     {remote, lease.Options{TTL: lease.MinRemoteTTL - time.Millisecond}, "TTL"},
		"TTL of a year":            {local, lease.Options{TTL: 365 * 24 * time.Hour}, "TTL"},
		"negative TTL":             {local, lease.Options{TTL: -time.Second}, "TTL"},
		"TTL in nanoseconds":       {local, lease.Options{TTL: time.Second + 1}, "TTL"},
		"margin and grace":         {local, lease.Options{TTL: 10 * time.Second, Grace: 3 * time.Second, Tuning: lease.Tuning{Margin: 2 * time.Second}}, "TTL Margin Grace"},
		"margin":                   {local, lease.Options{Tuning: lease.Tuning{Margin: time.Millisecond}}, "TTL Margin"},
		"longest margin":           {remote, lease.Options{Tuning: lease.Tuning{Margin: 1<<63 - 1}}, "TTL Margin Grace"},
		"longest grace":            {remote, lease.Options{Grace: 1<<63 - 1}, "TTL Margin Grace"},
		"renewals too rare":        {local, lease.Options{Tuning: lease.Tuning{RenewInterval: 20 * time.Second}}, "TTL RenewInterval"},
		"renewals too late":        {remote, lease.Options{TTL: 10 * time.Second, Grace: 3900 * time.Millisecond, Tuning: lease.Tuning{Margin: time.Second, RenewInterval: 5 * time.Second}}, "TTL RenewInterval Margin Grace"},
		"renewals too often":       {remote, lease.Options{Tuning: lease.Tuning{RenewInterval: lease.MinRenewInterval - 1}}, "TTL RenewInterval"},
		"negative RenewInterval":   {remote, lease.Options{Tuning: lease.Tuning{RenewInterval: -time.Second}}, "TTL RenewInterval"},
		"renewals on a slow store": {slow, lease.Options{TTL: 20 * time.Second}, "TTL RenewInterval Margin Grace"},
		"release on a slow store":  {slow, lease.Options{Tuning: lease.Tuning{ReleaseTimeout: time.Second}}, "ReleaseTimeout"},
		"clock drift":              {local, lease.Options{Tuning: lease.Tuning{MaxClockDrift: 0.5}}, "MaxClockDrift"},
		"clock drift is NaN":       {local, lease.Options{Tuning: lease.Tuning{MaxClockDrift: math.NaN()}}, "MaxClockDrift"},
		"polling":                  {local, lease.Options{Tuning: lease.Tuning{MinPoll: time.Second, MaxPoll: time.Millisecond}}, "MinPoll MaxPoll"},
		"negative MinInterval":     {local, lease.Options{MinInterval: -1}, "MinInterval"},
		"long MinInterval":         {local, lease.Options{MinInterval: lease.MaxMinInterval + 1}, "MinInterval"},
		"holder":                   {local, lease.Options{Holder: strings.Repeat("x", 1025)}, "Holder"},
		"holder in Latin-1":        {local, lease.Options{Holder: "M\xfcller"}, "Holder"},
		"reclaim":                  {local, lease.Options{ReclaimOwn: true}, ""},
		"prefix":                   {local, lease.Options{KeyPrefix: "../x"}, ""},
	} {
		_, err := lease.New(c.st, &c.o)
		var wrong *lease.OptionError
		if errors.As(err, &wrong) != (c.fields != "") || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v; want store.ErrInvalid that names the fields %q", name, err, c.fields)
		} else if wrong != nil && strings.Join(wrong.Fields, " ") != c.fields {
			t.Errorf("%s: the error names the fields %q, want %q", name, wrong.Fields, c.fields)
		}
	}
	for _, ttl := range []time.Duration{lease.MinRemoteTTL, 3 * time.Second, 4 * time.Second} {
		report(t, errOf(lease.New(remote, &lease.Options{TTL: ttl})))
	}
	report(t, errOf(lease.New(local, &lease.Options{TTL: lease.MinLocalTTL})))
	o := client(t, local, nil).Options()
	if o.TTL != 30*time.Second || o.RenewInterval != 10*time.Second || o.Margin != 3*time.Second || o.Grace != 5*time.Second {
		t.Errorf("defaults: %+v", o)
	}
}

// Each call refuses the options that it cannot honour, names them, and sends nothing.
func TestOptionsThatACallCannotHonour(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		c := client(t, w, nil)
		s, spaced := open(t, c), open(t, client(t, w, &lease.Options{MinInterval: time.Minute}))
		manual := client(t, w, &lease.Options{ManualRenewal: true})
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
			"Session.Handle":       func(o *lease.LockOptions) error { _, err := s.Handle("job", o); return err },
			"Session.Acquire":      func(o *lease.LockOptions) error { _, err := s.Acquire(t.Context(), "job", o); return err },
			"Session.TryAcquire":   func(o *lease.LockOptions) error { _, err := s.TryAcquire(t.Context(), "job", o); return err },
			"Session.Do":           func(o *lease.LockOptions) error { return s.Do(t.Context(), "job", never, o) },
			"Session.Lead":         func(o *lease.LockOptions) error { return s.Lead(t.Context(), "job", nil, never, o) },
			"Session.Election":     func(o *lease.LockOptions) error { _, err := s.Election("job", o); return err },
			"Handle+ManualRenewal": func(o *lease.LockOptions) error { _, err := manual.Handle("job", o); return err },
			"Handle+MinInterval":   func(o *lease.LockOptions) error { _, err := spaced.Handle("job", o); return err },
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
			{"Linger and MinInterval", lease.LockOptions{Linger: time.Second}, "Handle+MinInterval", "Linger"},
			{"Linger and ManualRenewal", lease.LockOptions{Linger: time.Second}, "Handle+ManualRenewal", "Linger"},
			{"a negative Linger", lease.LockOptions{Linger: -1}, "Client.Handle", "Linger is"},
			{"Linger in microseconds", lease.LockOptions{Linger: time.Microsecond}, "Client.Handle", "Linger is"},
			{"a long Linger", lease.LockOptions{Linger: lease.MaxLinger + time.Millisecond}, "Client.Handle", "Linger is"},
			{"a period of a nanosecond", lease.LockOptions{Period: lease.Every(time.Nanosecond)}, "Client.Handle Client.Acquire Client.TryAcquire Client.Do", "period"},
			{"a negative Period", lease.LockOptions{Period: lease.Every(-time.Hour)}, "Client.Handle", "period"},
			{"a short Period", lease.LockOptions{Period: lease.Every(lease.MinPeriod - 1)}, "Client.Handle", "period"},
			{"a long Period", lease.LockOptions{Period: lease.Every(lease.MaxPeriod + 1)}, "Client.Handle", "period"},
			{"negative Retries", lease.LockOptions{Period: daily, Retries: -1}, "Client.Handle", "Retries"},
			{"too many Retries", lease.LockOptions{Period: daily, Retries: lease.MaxRetries + 1}, "Client.Handle", "Retries"},
			{"negative Retries of Once", lease.LockOptions{Retries: -1}, "Client.Once", "Retries"},
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

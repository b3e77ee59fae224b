package abandon

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Calls
		call := func(takes time.Duration) (string, time.Duration, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			value, err := Do(ctx, &c, "key", func() (string, error) {
				time.Sleep(takes)
				return "value", nil
			})
			return value, time.Since(began), err
		}
		for _, takes := range []time.Duration{0, time.Second / 2, time.Second + After/2} {
			if value, took, err := call(takes); value != "value" || err != nil || took != takes {
				t.Errorf("a call of %v returned %q, %v after %v", takes, value, err, took)
			}
		}
		for range Max {
			value, took, err := call(time.Hour)
			if value != "" || store.OutcomeOf(err) != store.Unknown || !errors.Is(err, context.DeadlineExceeded) || took != time.Second+After {
				t.Errorf("an abandoned call returned %q, %v after %v", value, err, took)
			}
		}
		if _, took, err := call(0); store.OutcomeOf(err) != store.NotApplied || took != 0 {
			t.Errorf("a call beside %d abandoned ones returned %v after %v", Max, err, took)
		}
		if n := c.Abandoned(); n != Max {
			t.Errorf("%d calls are abandoned; want %d", n, Max)
		}
		time.Sleep(time.Hour)
		if n := c.Abandoned(); n != 0 {
			t.Errorf("%d calls are abandoned after their return", n)
		}
		if value, _, err := call(0); value != "value" || err != nil {
			t.Errorf("a call after their return returned %q, %v", value, err)
		}
		if _, err := Do(t.Context(), &c, "key", func() (string, error) { runtime.Goexit(); return "", nil }); err == nil {
			t.Error("a call that ended its goroutine succeeded")
		}
	})
}

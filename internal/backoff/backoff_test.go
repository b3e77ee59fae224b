package backoff_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
)

func TestPause(t *testing.T) {
	for _, c := range []struct {
		try               int
		first, most, want time.Duration
	}{
		{1, time.Millisecond, time.Second, time.Millisecond},
		{0, time.Millisecond, time.Second, time.Millisecond},
		{4, time.Millisecond, time.Second, 8 * time.Millisecond},
		{10, time.Millisecond, time.Second, 512 * time.Millisecond},
		{11, time.Millisecond, time.Second, time.Second},
		{math.MaxInt, time.Millisecond, time.Second, time.Second},
		{1, time.Minute, time.Second, time.Second},
		{63, time.Hour, math.MaxInt64, math.MaxInt64},
		{70, 0, time.Second, 0},
	} {
		if got := backoff.Pause(c.try, c.first, c.most); got != c.want {
			t.Errorf("after try %d from %v to %v: got %v, want %v", c.try, c.first, c.most, got, c.want)
		}
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := errors.New("the end")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(2*time.Second, func() { cancel(end) })
		for _, c := range []struct {
			d, took time.Duration
			want    error
		}{
			{time.Second, time.Second, nil},
			{0, 0, nil},
			{-1, 0, nil},
			{time.Minute, time.Second, end},
			{time.Minute, 0, end},
			{0, 0, end},
		} {
			start := time.Now()
			if err := backoff.Sleep(ctx, c.d); err != c.want || time.Since(start) != c.took {
				t.Errorf("sleep for %v: got %v after %v, want %v after %v", c.d, err, time.Since(start), c.want, c.took)
			}
		}
	})
}

func TestSleepOrWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		time.AfterFunc(time.Second, func() { wake <- struct{}{} })
		for _, want := range []time.Duration{time.Second, time.Minute} { // it wakes once
			start := time.Now()
			if err := backoff.SleepOrWake(t.Context(), time.Minute, wake); err != nil || time.Since(start) != want {
				t.Errorf("got %v after %v, want nil after %v", err, time.Since(start), want)
			}
		}
	})
}

// TestWait checks that a pause is any part of the growing bound, and never more.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			try  int
			most time.Duration
		}{{1, time.Second}, {3, 4 * time.Second}, {9, 5 * time.Second}} {
			var longest time.Duration
			shortest := c.most
			for range 200 {
				start := time.Now()
				if err := backoff.Wait(t.Context(), c.try, time.Second, 5*time.Second); err != nil {
					t.Fatal(err)
				}
				shortest, longest = min(shortest, time.Since(start)), max(longest, time.Since(start))
			}
			if longest > c.most || longest < c.most*3/4 || shortest > c.most/4 {
				t.Errorf("after try %d: pauses from %v to %v, want all lengths to %v", c.try, shortest, longest, c.most)
			}
		}
		start := time.Now()
		if err := backoff.Wait(t.Context(), 1, 0, time.Second); err != nil || time.Since(start) > 0 {
			t.Errorf("with no first pause: %v after %v", err, time.Since(start))
		}
	})
}

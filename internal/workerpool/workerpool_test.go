package workerpool_test

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/workerpool"
)

var errWork = errors.New("an error of a call")

func TestEach(t *testing.T) {
	for _, c := range []struct {
		n, most int
		took    time.Duration // of calls of a second
	}{{0, 3, 0}, {1, 3, time.Second}, {3, 3, time.Second}, {7, 3, 3 * time.Second}, {4, 1, 4 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			calls := make([]int, c.n)
			var working atomic.Int64
			start := time.Now()
			errs := workerpool.Each(c.n, c.most, func(i int) error {
				if now := working.Add(1); now > int64(c.most) {
					t.Errorf("%d at a time: %d are at work", c.most, now)
				}
				time.Sleep(time.Second)
				working.Add(-1)
				calls[i]++
				return errWork
			})
			if took := time.Since(start); took != c.took || slices.Contains(calls, 0) || len(errs) != c.n {
				t.Errorf("%d calls, %d at a time: calls %v in %v, with errors %v; want one each in %v", c.n, c.most, calls, took, errs, c.took)
			}
			for _, err := range errs {
				if err != errWork {
					t.Errorf("got the error %v, want that of the call", err)
				}
			}
		})
	}
}

// A call that ends its goroutine has an error, as has a call that then nothing carries out.
func TestEachGoexit(t *testing.T) {
	for _, c := range []struct {
		most int
		want []bool // the call has succeeded
	}{{1, []bool{true, false, false}}, {3, []bool{true, false, true}}} {
		errs := workerpool.Each(3, c.most, func(i int) error {
			if i == 1 {
				runtime.Goexit()
			}
			return nil
		})
		for i, want := range c.want {
			if (errs[i] == nil) != want {
				t.Errorf("%d at a time: call %d has the error %v", c.most, i, errs[i])
			}
		}
	}
}

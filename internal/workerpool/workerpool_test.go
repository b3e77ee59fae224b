package workerpool_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/workerpool"
)

func TestEach(t *testing.T) {
	for _, c := range []struct {
		n, most int
		took    time.Duration // of calls of a second
	}{{0, 3, 0}, {1, 3, time.Second}, {3, 3, time.Second}, {7, 3, 3 * time.Second}, {4, 1, 4 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			calls := make([]int, c.n)
			var working atomic.Int64
			start := time.Now()
			workerpool.Each(c.n, c.most, func(i int) {
				if now := working.Add(1); now > int64(c.most) {
					t.Errorf("%d at a time: %d are at work", c.most, now)
				}
				time.Sleep(time.Second)
				working.Add(-1)
				calls[i]++
			})
			if took := time.Since(start); took != c.took || slices.Contains(calls, 0) {
				t.Errorf("%d calls, %d at a time: calls %v in %v, want one each in %v", c.n, c.most, calls, took, c.took)
			}
		})
	}
}

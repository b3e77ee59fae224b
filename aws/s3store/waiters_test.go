package s3store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
)

// A client that waits for 100 locks makes one LIST within a pause, and reads each record about
// once a minute.
func TestRequestsOfWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locks = 100
		f := newServer()
		session := func() *lease.Session {
			c, err := lease.New(trusted(t, f), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close(context.Background()) })
			s, err := c.OpenSession(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		holder, waiter := session(), session()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range locks {
			name := fmt.Sprint("job", i)
			if _, err := holder.TryAcquire(t.Context(), name, nil); err != nil {
				t.Fatal(err)
			}
			all.Go(func() { _, _ = waiter.Acquire(ctx, name, nil) })
		}
		const maxPoll = 2500 * time.Millisecond // the default of Tuning.MaxPoll
		for _, c := range []struct{ after, pause time.Duration }{
			{time.Minute, maxPoll / 2}, {3 * time.Minute, maxPoll},
		} {
			time.Sleep(c.after)
			f.Reset()
			time.Sleep(time.Minute)
			sent := map[string]int{}
			for _, op := range f.Ops() {
				sent[op]++
			}
			t.Logf("in a minute, with pauses of %v: %v", c.pause, sent)
			if lists := int(time.Minute / c.pause); sent["ListObjectsV2"] < lists || sent["ListObjectsV2"] > lists*5/4+1 || sent["GetObject"] > 2*locks {
				t.Errorf("%v; %d listings and some, and at most %d reads are wanted", sent, lists, 2*locks)
			}
		}
		cancel()
		all.Wait()
	})
}

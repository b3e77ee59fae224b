package s3store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/lease"
)

// maxPoll is the default of Tuning.MaxPoll.
const maxPoll = 2500 * time.Millisecond

// openSession opens a session of a client of its own.
func openSession(t *testing.T, f *awstest.S3) (*lease.Client, *lease.Session) {
	t.Helper()
	c, err := lease.New(trusted(t, f), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	s, err := c.OpenSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

// holdJobs makes a session hold that many locks, and returns its guards.
func holdJobs(t *testing.T, holder *lease.Session, locks int) (held []*lease.Guard) {
	t.Helper()
	for i := range locks {
		g, err := holder.TryAcquire(t.Context(), fmt.Sprint("job", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, g)
	}
	return held
}

// sentInAMinute returns the requests of the next minute, by their operations.
func sentInAMinute(f *awstest.S3) map[string]int {
	f.Reset()
	time.Sleep(time.Minute)
	sent := map[string]int{}
	for _, op := range f.Ops() {
		sent[op]++
	}
	return sent
}

// A client that waits for 100 locks makes one LIST within a pause, and with each LIST reads one record.
func TestRequestsOfWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locks = 100
		f := newServer()
		_, holder := openSession(t, f)
		_, waiter := openSession(t, f)
		holdJobs(t, holder, locks)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range locks {
			all.Go(func() { _, _ = waiter.Acquire(ctx, fmt.Sprint("job", i), nil) })
		}
		for _, c := range []struct{ after, pause time.Duration }{
			{time.Minute, maxPoll / 2}, {3 * time.Minute, maxPoll},
		} {
			time.Sleep(c.after)
			sent := sentInAMinute(f)
			t.Logf("in a minute, with pauses of %v: %v", c.pause, sent)
			lists, session := int(time.Minute/c.pause), int(time.Minute/maxPoll)
			if got := sent["ListObjectsV2"]; got < lists || got > lists*5/4+1 || sent["GetObject"] > got+session*5/4 {
				t.Errorf("%v; %d listings and some are wanted, a read with each, and %d of the session's record", sent, lists, session)
			}
		}
		cancel()
		all.Wait()
	})
}

// TestRequestsOfWatchers: a client watches 1,000 locks, of which nothing changes, by one LIST in each
// pause. With it, the client reads one record, and Observe also reads the record of the session.
// A change is seen within two pauses.
func TestRequestsOfWatchers(t *testing.T) {
	for _, c := range []struct {
		name  string
		watch func(ctx context.Context, client *lease.Client, name string, changed func())
		reads int // in each pause
	}{
		{"Watch", func(ctx context.Context, client *lease.Client, name string, changed func()) {
			for range client.Watch(ctx, name) {
				changed()
			}
		}, 1},
		{"Observe", func(ctx context.Context, client *lease.Client, name string, changed func()) {
			for range client.Observe(ctx, name) {
				changed()
			}
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const locks = 1000
				f := newServer()
				_, holder := openSession(t, f)
				held := holdJobs(t, holder, locks)
				client, err := lease.New(trusted(t, f), nil)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				seen := make(chan time.Time, 3*locks)
				var all sync.WaitGroup
				for i := range locks {
					all.Go(func() { c.watch(ctx, client, fmt.Sprint("job", i), func() { seen <- time.Now() }) })
				}
				time.Sleep(time.Minute)
				sent := sentInAMinute(f)
				t.Logf("in a minute: %v", sent)
				lists := int(time.Minute / maxPoll)
				if got := sent["ListObjectsV2"]; got < lists-1 || got > lists*5/4+1 || sent["GetObject"] > c.reads*got+1 || sent["PutObject"] > 7 {
					t.Errorf("%v; %d listings and some are wanted, and %d reads with each", sent, lists, c.reads)
				}
				if n := len(seen); n != locks {
					t.Errorf("the watchers saw %d states of %d locks", n, locks)
				}
				for range locks {
					<-seen
				}
				before := time.Now()
				if err := held[locks/2].Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := (<-seen).Sub(before); took > 2*maxPoll {
					t.Errorf("the change was seen after %v", took)
				}
				cancel()
				all.Wait()
				_ = client.Close(t.Context())
			})
		})
	}
}

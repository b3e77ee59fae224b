package lease_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// listed is a store that reports no changes, and lists tags.
type listed struct {
	store.Store
	store.TagLister
}

func listedOf(st store.Store) listed {
	l, _ := store.As[store.TagLister](st)
	return listed{hidden{st}, l}
}

// oddTags is a TagLister with another listing.
type oddTags struct {
	store.TagLister
	list func(ctx context.Context, all iter.Seq2[store.Tagged, error]) iter.Seq2[store.Tagged, error]
}

func (o oddTags) ListTags(ctx context.Context, prefix string) iter.Seq2[store.Tagged, error] {
	return o.list(ctx, o.TagLister.ListTags(ctx, prefix))
}

// sent returns what was sent since the last call: listings, and the rest.
func sent(w *wire) (listings, others int) {
	w.mu.Lock()
	listings = w.counts[store.OpListTags]
	w.mu.Unlock()
	return listings, w.requests() - listings
}

// queueUp makes one session of c wait for n locks, which are held under a session of another
// client. won is called with the number of each lock that it gets.
func queueUp(t *testing.T, st store.Store, c *lease.Client, n int, won func(i int)) (held []*lease.Guard, end func()) {
	t.Helper()
	holder := open(t, client(t, st, nil))
	for i := range n {
		held = append(held, mustTry(t, holder, fmt.Sprint("job", i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	session := open(t, c)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if _, err := session.Acquire(ctx, fmt.Sprint("job", i), nil); err == nil && won != nil {
				won(i)
			}
		})
	}
	return held, func() {
		cancel()
		all.Wait()
	}
}

// The requests of a session that waits for locks of another one, where the store lists tags and
// where it does not: one listing for all locks, and one read with each listing.
func TestBatchPollRequests(t *testing.T) {
	perMinute := func(t *testing.T, reach store.Store, st store.Store, n, minutes int) (listings, others [2]int) {
		w := newWire(reach)
		c := client(t, w, nil)
		lease.SetRandom(c, newLuck(1, 2).Float64) // the pauses are the same in both worlds
		_, end := queueUp(t, st, c, n, nil)
		defer end()
		for i := range listings[:minutes] {
			time.Sleep(time.Duration(1+i) * time.Minute)
			sent(w)
			time.Sleep(time.Minute)
			listings[i], others[i] = sent(w)
		}
		return listings, others
	}
	for _, n := range []int{1, 10, 100, 1000} {
		looks, minutes := [2]int{50 * n, 25 * n}, 2
		if n == 1000 {
			minutes = 1
		} else {
			bubble(t, func(t *testing.T, st store.Store) { _, looks = perMinute(t, hidden{st}, st, n, minutes) })
		}
		bubble(t, func(t *testing.T, st store.Store) {
			listings, others := perMinute(t, listedOf(st), st, n, minutes)
			t.Logf("%d locks: %d listings and %d other requests in the second minute, %d and %d in the fifth; without listings %d, %d",
				n, listings[0], others[0], listings[1], others[1], looks[0], looks[1])
			if n == 1 {
				if listings != [2]int{} || others[1] > looks[1]+1 {
					t.Errorf("listings %v and %v others for one lock", listings, others)
				}
				return
			}
			for i, pause := range []time.Duration{lease.DefaultMaxPoll / 2, lease.DefaultMaxPoll}[:minutes] {
				least := int(time.Minute / pause)
				most := least*5/4 + 1             // the pauses have jitter
				const session = 40                // renewals, and reads of the other session
				others := others[i] - listings[i] // the sample of each
				if listings[i] > most || listings[i] < least-1 || others > session || looks[i] < 20*n {
					t.Errorf("%d listings and %d other requests apart from the samples; want from %d to %d, and at most %d; %d without listings", listings[i], others, least, most, session, looks[i])
				}
			}
		})
	}
}

// Programs that watch locks, and those that want to know who leads, share the listings, too. They see a
// change within two pauses.
func TestBatchPollOfWatchers(t *testing.T) {
	const locks, minutes = 100, 5
	for name, watch := range map[string]func(ctx context.Context, c *lease.Client, name string, changed func()){
		"Watch": func(ctx context.Context, c *lease.Client, name string, changed func()) {
			for range c.Watch(ctx, name) {
				changed()
			}
		},
		"Observe": func(ctx context.Context, c *lease.Client, name string, changed func()) {
			for range c.Observe(ctx, name) {
				changed()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(listedOf(st))
				c := client(t, w, nil)
				holder := open(t, client(t, st, nil))
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				seen := make([][]time.Time, locks)
				for i := range locks {
					name := fmt.Sprint("job", i)
					mustTry(t, holder, name)
					all.Go(func() { watch(ctx, c, name, func() { seen[i] = append(seen[i], time.Now()) }) })
				}
				time.Sleep(time.Minute)
				sent(w)
				time.Sleep(minutes * time.Minute)
				listings, others := sent(w)
				t.Logf("%d listings and %d other requests", listings, others)
				const polls = int(minutes * time.Minute / lease.DefaultMaxPoll)
				if listings < polls-1 || listings > polls*5/4 || others > 2*listings+2 {
					t.Errorf("%d listings and %d other requests; want %d and some, and at most twice as many", listings, others, polls)
				}
				changed := time.Now()
				synctest.Wait()
				for i := range locks {
					if len(seen[i]) != 1 {
						t.Fatalf("lock %d, which was not changed, was seen %d times", i, len(seen[i]))
					}
				}
				must(t, holder.Close(t.Context()))
				time.Sleep(2 * lease.DefaultMaxPoll)
				synctest.Wait()
				for i := range locks {
					if n := len(seen[i]); n != 2 {
						t.Errorf("after %v, lock %d was seen %d times", time.Since(changed), i, n)
					}
				}
				cancel()
				all.Wait()
			})
		})
	}
}

// delays returns how long locks lie idle, sorted, that are released at any time after first.
func delays(t *testing.T, reach func(st store.Store) store.Store, n int, first, span time.Duration) []time.Duration {
	took := make([]time.Duration, n)
	bubble(t, func(t *testing.T, st store.Store) {
		released := make([]time.Time, n)
		c := client(t, reach(st), nil)
		lease.SetRandom(c, newLuck(1, 2).Float64)
		held, end := queueUp(t, st, c, n, func(i int) { took[i] = time.Since(released[i]) })
		random := rand.New(rand.NewPCG(2, 3))
		for i, g := range held {
			time.AfterFunc(first+time.Duration(random.Int64N(int64(span))), func() {
				released[i] = time.Now()
				mustRelease(t, g)
			})
		}
		time.Sleep(first + span + 5*time.Minute)
		end()
	})
	slices.Sort(took)
	return took
}

// With listings, too, a waiter has a released lock within the pause of that time of its wait: before
// the first batch poll, and between two of them.
func TestBatchPollHandOver(t *testing.T) {
	const locks = 200
	for _, c := range []struct{ first, span, pause time.Duration }{
		{time.Millisecond, 10 * time.Second, lease.DefaultMaxPoll / 3},
		{10 * time.Second, 2 * time.Minute, lease.DefaultMaxPoll},
		{4 * time.Minute, time.Minute, lease.DefaultMaxPoll},
	} {
		took := delays(t, func(st store.Store) store.Store { return listedOf(st) }, locks, c.first, c.span)
		if took[0] <= 0 || took[locks-1] > c.pause {
			t.Errorf("released after %v: a waiter had its lock after %v to %v, want at most %v", c.first, took[0], took[locks-1], c.pause)
		}
	}
}

// A listing that fails, hangs, shows nothing or shows an old state does not keep a waiter from a
// free lock for longer than the documents say, and is not repeated often.
func TestBatchPollOddListings(t *testing.T) {
	const locks = 100
	failure := errors.New("listing refused")
	for _, c := range []struct {
		name     string
		most     time.Duration // for which a lock is idle
		listings int           // at most
		list     func() func(ctx context.Context, all iter.Seq2[store.Tagged, error]) iter.Seq2[store.Tagged, error]
	}{
		{"fails", lease.DefaultMaxPoll, 15, each(func(store.Tagged) (store.Tagged, error) { return store.Tagged{}, failure })},
		{"hangs", 2*lease.DefaultMaxPoll + 200*time.Millisecond, 15, always(func(ctx context.Context, _ iter.Seq2[store.Tagged, error]) iter.Seq2[store.Tagged, error] {
			return func(yield func(store.Tagged, error) bool) {
				<-ctx.Done()
				yield(store.Tagged{}, ctx.Err())
			}
		})},
		{"ends early without an error", 2*lease.DefaultMaxPoll + 200*time.Millisecond, 15, always(func(ctx context.Context, all iter.Seq2[store.Tagged, error]) iter.Seq2[store.Tagged, error] {
			return func(yield func(store.Tagged, error) bool) {
				for t := range all {
					if !yield(t, nil) {
						return
					}
					<-ctx.Done()
					return
				}
			}
		})},
		{"shows nothing", lease.DefaultMaxPoll, 15, always(func(context.Context, iter.Seq2[store.Tagged, error]) iter.Seq2[store.Tagged, error] {
			return func(func(store.Tagged, error) bool) {}
		})},
		{"is endless", lease.DefaultMaxPoll, 15, always(func(context.Context, iter.Seq2[store.Tagged, error]) iter.Seq2[store.Tagged, error] {
			return func(yield func(store.Tagged, error) bool) {
				for yield(store.Tagged{Key: "lock/x", Tag: "x"}, nil) {
				}
			}
		})},
		{"shows half of the keys", lease.DefaultMaxPoll, 1000, each(func(t store.Tagged) (store.Tagged, error) {
			if t.Key[len(t.Key)-1]%2 == 0 {
				t.Key = "other"
			}
			return t, nil
		})},
		{"never changes", time.Minute + lease.DefaultMaxPoll, 1000, each(func(t store.Tagged) (store.Tagged, error) {
			t.Tag = "tag"
			return t, nil
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			var w *wire
			took := delays(t, func(st store.Store) store.Store {
				l := listedOf(st)
				l.TagLister = oddTags{l.TagLister, c.list()}
				w = newWire(l)
				return w
			}, locks, time.Second, 3*time.Minute)
			listings, _ := sent(w)
			t.Logf("at most %v, %d listings", took[locks-1], listings)
			if took[0] <= 0 || took[locks-1] > c.most || listings == 0 || listings > c.listings {
				t.Errorf("locks lay idle for %v to %v, at most %v is wanted; %d listings", took[0], took[locks-1], c.most, listings)
			}
		})
	}
}

type listing = func(ctx context.Context, all iter.Seq2[store.Tagged, error]) iter.Seq2[store.Tagged, error]

func always(l listing) func() listing { return func() listing { return l } }

// each changes what a listing yields.
func each(change func(store.Tagged) (store.Tagged, error)) func() listing {
	return always(func(_ context.Context, all iter.Seq2[store.Tagged, error]) iter.Seq2[store.Tagged, error] {
		return func(yield func(store.Tagged, error) bool) {
			for t, err := range all {
				if err == nil {
					t, err = change(t)
				}
				if !yield(t, err) || err != nil {
					return
				}
			}
		}
	})
}

// Where reads show that records have changed and the tags have not, the client makes no more batch
// polls: the plain leases are renewed, which changes their records.
func TestBatchPollThatIsWrong(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		const locks = 50
		holder := client(t, st, nil)
		for i := range locks {
			mustTry(t, holder, fmt.Sprint("job", i))
		}
		l := listedOf(st)
		l.TagLister = oddTags{l.TagLister, each(func(t store.Tagged) (store.Tagged, error) { return store.Tagged{Key: t.Key, Tag: "tag"}, nil })()}
		w := newWire(l)
		c := client(t, w, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range locks {
			all.Go(func() { _, _ = c.Acquire(ctx, fmt.Sprint("job", i), nil) })
		}
		time.Sleep(3 * time.Minute)
		first, _ := sent(w)
		time.Sleep(10 * time.Minute)
		if later, others := sent(w); first == 0 || later > 0 || others < 10*20*locks {
			t.Errorf("%d listings, then %d and %d reads", first, later, others)
		}
		cancel()
		all.Wait()
	})
}

// A dead session is found, and its locks are taken, as soon as if each waiter read for itself, at
// whatever time it dies.
func TestBatchPollTakeover(t *testing.T) {
	const locks = 30
	takeover := func(reach func(st store.Store) store.Store) (longest time.Duration) {
		for i := range 4 {
			bubble(t, func(t *testing.T, st store.Store) {
				c := client(t, reach(st), nil)
				lease.SetRandom(c, newLuck(1, uint64(i)).Float64)
				dead := newWire(st)
				var last atomic.Int64
				began := time.Now()
				_, end := queueUp(t, dead, c, locks, func(int) { last.Store(int64(time.Since(began))) })
				time.Sleep(90*time.Second + time.Duration(i)*2300*time.Millisecond)
				died := time.Since(began)
				dead.set(everything(drop))
				time.Sleep(2 * time.Minute)
				end()
				longest = max(longest, time.Duration(last.Load())-died)
			})
		}
		return longest
	}
	took := takeover(func(st store.Store) store.Store { return listedOf(st) })
	control := takeover(func(st store.Store) store.Store { return hidden{st} })
	t.Logf("at most %v; without listings %v", took, control)
	if most := ttl + 3*lease.DefaultMaxPoll; took <= 0 || took > most || control > most {
		t.Errorf("the last lock of a dead session was taken after %v; without listings after %v; at most %v is wanted", took, control, most)
	}
}

// The waiter whose pause begins a batch poll may end before it is answered: the others use it. A
// client that is closed waits for the batch poll to end.
func TestBatchPollOutlivesItsWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		const locks = 20
		holder := open(t, client(t, st, nil))
		l := listedOf(st)
		began := make(chan struct{}, 1)
		var ended atomic.Int32
		l.TagLister = oddTags{l.TagLister, func(ctx context.Context, all iter.Seq2[store.Tagged, error]) iter.Seq2[store.Tagged, error] {
			return func(yield func(store.Tagged, error) bool) {
				began <- struct{}{}
				defer ended.Add(1)
				select {
				case <-time.After(2 * time.Second):
				case <-ctx.Done():
					time.Sleep(100 * time.Millisecond)
					yield(store.Tagged{}, ctx.Err())
					return
				}
				all(yield)
			}
		}}
		w := newWire(l)
		c := client(t, w, nil)
		var all sync.WaitGroup
		cancels := make([]context.CancelFunc, locks)
		for i := range locks {
			mustTry(t, holder, fmt.Sprint("job", i))
			var ctx context.Context
			ctx, cancels[i] = context.WithCancel(t.Context())
			all.Go(func() { _, _ = c.Acquire(ctx, fmt.Sprint("job", i), nil) })
		}
		<-began
		for _, cancel := range cancels[:locks/2] {
			cancel()
		}
		synctest.Wait()
		if ended.Load() > 0 {
			t.Error("the batch poll has ended with a waiter")
		}
		time.Sleep(2*time.Second + time.Millisecond)
		if listings, _ := sent(w); listings != 1 || ended.Load() != 1 {
			t.Errorf("%d listings, of which %d were answered", listings, ended.Load())
		}
		<-began
		if err := c.Close(t.Context()); err != nil || ended.Load() != 2 {
			t.Errorf("closed with %v; %d batch polls have ended", err, ended.Load())
		}
		all.Wait()
	})
}

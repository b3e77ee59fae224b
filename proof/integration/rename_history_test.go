package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/dirbucket"
	"github.com/holdfast-go/holdfast/proof/integration/faultproxy"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// jobClaims are the renames of jobs to the names of several claimants.
type jobClaims struct {
	jobs, claimants int

	mu       sync.Mutex
	reported map[string][]error // by destination
	n        map[store.Outcome]int
}

func (c *jobClaims) claim(ctx context.Context, client *object.Client, job, claimant int) {
	to := fmt.Sprintf("w%d/%d", claimant, job)
	_, err := client.Rename(ctx, fmt.Sprint("job/", job), to, &object.WriteOptions{IfAbsent: true})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reported[to] = append(c.reported[to], err)
	c.n[store.OutcomeOf(err)]++
}

// race lets all claimants claim all jobs, each once or twice, through buckets of their own.
func (c *jobClaims) race(t *testing.T, direct *object.Client, seed uint64, open func() *object.Client) {
	t.Helper()
	c.reported, c.n = make(map[string][]error), make(map[store.Outcome]int)
	for job := range c.jobs {
		if _, err := direct.Put(t.Context(), fmt.Sprint("job/", job), strings.NewReader(fmt.Sprint("precious ", job)), nil); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for claimant := range c.claimants {
		client, rnd := open(), rand.New(rand.NewPCG(seed, uint64(claimant)))
		wg.Go(func() {
			for job := range c.jobs {
				for range 1 + rnd.IntN(2) {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					c.claim(ctx, client, job, claimant)
					cancel()
				}
			}
		})
	}
	wg.Wait()
}

// check checks that each job has one winner at most, and then, when all have asked again
// without faults, that it is at one place, that of a winner.
func (c *jobClaims) check(t *testing.T, direct *object.Client) {
	t.Helper()
	there := func(key, want string) bool {
		body, _, err := direct.ReadAll(t.Context(), key, 1<<10, nil)
		if err != nil && !errors.Is(err, store.ErrNotFound) || err == nil && string(body) != want {
			t.Errorf("%s: %q, %v", key, body, err)
		}
		return err == nil
	}
	for job := range c.jobs {
		for range 2 {
			for claimant := range c.claimants {
				c.claim(t.Context(), direct, job, claimant)
			}
		}
		var winners, places []string
		for claimant := range c.claimants {
			to := fmt.Sprintf("w%d/%d", claimant, job)
			won := false
			for _, err := range c.reported[to] {
				won = won || err == nil
			}
			if won {
				winners = append(winners, to)
			}
			if there(to, fmt.Sprint("precious ", job)) {
				places = append(places, to)
			}
		}
		if len(winners) != 1 || len(places) != 1 || winners[0] != places[0] || there(fmt.Sprint("job/", job), fmt.Sprint("precious ", job)) {
			t.Errorf("job %d was claimed by %q, and is at %q: %v", job, winners, places, c.reported)
		}
	}
	t.Logf("outcomes %v", c.n)
}

// Several programs rename the same objects to names of their own, on servers, through a
// proxy that loses, repeats and delays requests. Each object gets one name. On MinIO they work
// under reservations.
func TestRenameHistoriesUnderFaults(t *testing.T) {
	t.Parallel()
	jobs := 12
	if torture() {
		jobs = 500
	}
	for name, start := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			at := target{Kind: "s3", S3: s, Space: s.NewBucket(t, false)}
			var reserver object.Reserver
			if name == "minio" {
				r, err := reserve.New(reserve.NewStoreTable(new(memstore.Store)), &reserve.Options{Timeout: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				reserver = r
			}
			open := func(at target, assume []object.Ability) (*object.Client, *s3bucket.Bucket) {
				b, err := at.bucket(&s3bucket.Options{AssumeAbilities: assume})
				if err != nil {
					t.Fatal(err)
				}
				c, err := object.New(b, &object.Options{Reserver: reserver})
				if err != nil {
					t.Fatal(err)
				}
				return c, b
			}
			direct, b := open(at, nil)
			if _, err := direct.Strategies(t.Context()); err != nil {
				t.Fatal(err)
			}
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			proxy := faultproxy.New(t, s.Endpoint)
			// What finds out about the server is not what is tested here.
			proxy.Inject(faultproxy.Random(seed, 1.0/8, faultproxy.Not(faultproxy.Path(".holdfast/probe")), anyFault(100*time.Millisecond)...))
			c := &jobClaims{jobs: jobs, claimants: 3}
			c.race(t, direct, seed, func() *object.Client {
				client, _ := open(at.at(proxy.URL), b.KnownAbilities())
				return client
			})
			time.Sleep(time.Second) // the latest request that comes late
			c.check(t, direct)
			t.Logf("%d requests, %d of them with faults", proxy.Count(nil), proxy.Count(func(c *faultproxy.Call) bool { return c.Fault != "" }))
		})
	}
}

// The same in a directory, without faults, each claimant with a handle of its own.
func TestRenameHistoriesInADirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *object.Client {
		b, err := dirbucket.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeIt(t, b) })
		c, err := object.New(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	direct := open()
	c := &jobClaims{jobs: 20, claimants: 4}
	c.race(t, direct, rand.Uint64(), open)
	c.check(t, direct)
}

func closeIt(t *testing.T, c io.Closer) {
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

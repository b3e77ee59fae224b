package s3verstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// oldest is a lock by the rule that the oldest version of an object is its owner's and
// that the newest says when it expires: the control of the tests here. Each of them
// shows first how it fails.
type oldest struct {
	b       *awstest.S3
	client  *s3.Client
	name    string
	id      string
	timeout time.Duration
	count   int
}

func newOldest(b *awstest.S3, name, id string, timeout time.Duration) *oldest {
	return &oldest{b: b, client: b.Client(), name: name, id: id, timeout: timeout}
}

// state lists the versions by prefix, one page, and returns them newest first, with
// the owner and whether the lock has expired.
func (o *oldest) state(ctx context.Context) (versions []types.ObjectVersion, owner string, expired bool) {
	out, err := o.client.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: aws.String("bucket"), Prefix: &o.name})
	if err != nil || len(out.Versions) == 0 {
		return nil, "", false
	}
	_, owner = o.head(ctx, out.Versions[len(out.Versions)-1])
	timeout, _ := o.head(ctx, out.Versions[0])
	return out.Versions, owner, time.Now().After(out.Versions[0].LastModified.Add(timeout))
}

func (o *oldest) head(ctx context.Context, v types.ObjectVersion) (timeout time.Duration, owner string) {
	out, err := o.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: aws.String("bucket"), Key: v.Key, VersionId: v.VersionId})
	if err != nil {
		return 0, ""
	}
	timeout, _ = time.ParseDuration(out.Metadata["timeout"])
	return timeout, out.Metadata["lockowner"]
}

func (o *oldest) wipe(ctx context.Context, versions []types.ObjectVersion) {
	in := &types.Delete{}
	for _, v := range versions {
		in.Objects = append(in.Objects, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
	}
	if len(in.Objects) > 0 {
		_, _ = o.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: aws.String("bucket"), Delete: in})
	}
}

func (o *oldest) acquire(ctx context.Context) bool {
	versions, owner, expired := o.state(ctx)
	if expired {
		o.wipe(ctx, versions)
		owner = ""
	}
	if owner == "" {
		_, _ = o.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: aws.String("bucket"), Key: &o.name, Body: strings.NewReader(o.name + "-" + o.id),
			Metadata: map[string]string{"timeout": o.timeout.String(), "lockowner": o.id},
		})
		_, owner, _ = o.state(ctx)
	}
	if owner != o.id {
		return false
	}
	o.count++
	return true
}

func (o *oldest) release(ctx context.Context) {
	versions, owner, _ := o.state(ctx)
	if o.count--; owner == o.id && o.count == 0 {
		o.wipe(ctx, versions)
	}
}

// held fails the test unless guard is held.
func held(t *testing.T, what string, g *lease.Guard) {
	t.Helper()
	if err := g.Err(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func acquire(t *testing.T, c *lease.Client, name string) *lease.Guard {
	t.Helper()
	g, err := c.TryAcquire(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestLoserWithShortTTL: a writer with a short TTL that lost leaves the newest version.
// Under the old rule the long lease expires with it.
func TestLoserWithShortTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer drain()
		ctx := t.Context()
		b := newBucket()
		// Both see nothing, and both put.
		race := func(q awstest.Request) awstest.Fault { return awstest.Fault{After: 100 * time.Millisecond} }
		b.Plan(race)
		x, y := newOldest(b, "job", "x", time.Hour), newOldest(b, "job", "y", time.Second)
		var wg sync.WaitGroup
		wg.Go(func() { x.acquire(ctx) })
		wg.Go(func() { time.Sleep(50 * time.Millisecond); y.acquire(ctx) })
		wg.Wait()
		time.Sleep(3 * time.Second)
		if !y.acquire(ctx) || x.count != 1 {
			t.Error("the control did not get a second owner")
		}

		b = newBucket()
		b.Plan(race)
		long, short := leases(t, b, &lease.Options{TTL: time.Hour}), leases(t, b, &lease.Options{TTL: 27 * time.Second, Grace: -1, Tuning: lease.Tuning{Margin: 3 * time.Second}})
		var g *lease.Guard
		wg.Go(func() { g = acquire(t, long, "job") })
		wg.Go(func() {
			time.Sleep(50 * time.Millisecond)
			if _, err := short.TryAcquire(ctx, "job", nil); err == nil {
				t.Error("the loser won too")
			}
		})
		wg.Wait()
		wait, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		if _, err := short.Acquire(wait, "job", nil); err == nil {
			t.Error("a second owner")
		}
		held(t, "the owner", g)
	})
}

// TestNameThatBeginsAnother: a listing by prefix finds job-2 when asked for job: the old rule takes the
// other lock's versions for its own, and deletes them.
func TestNameThatBeginsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		b := newBucket()
		x, y := newOldest(b, "job-2", "x", time.Hour), newOldest(b, "job", "y", time.Hour)
		if !x.acquire(ctx) || y.acquire(ctx) {
			t.Error("the control told the locks apart")
		}

		b = newBucket()
		c := leases(t, b, nil)
		var guards []*lease.Guard
		for _, name := range []string{"job-2", "job", "job!", "job!!", "job/1", "jo"} {
			guards = append(guards, acquire(t, c, name))
		}
		for i := 1; i < len(guards); i++ {
			if err := guards[i].Release(ctx); err != nil {
				t.Error(err)
			}
			held(t, "the first lock", guards[0])
		}
		for key, err := range store.List(ctx, open(t, b, nil), "lock/job") {
			if err != nil || key != "lock/job/1" {
				t.Errorf("below lock/job lies %q, %v", key, err)
			}
		}
	})
}

// TestOwnerBeyondTheFirstPage: with 1,001 versions the owner is not on the first page: under the old rule it
// hears that it lost, and a loser deletes the versions of others.
func TestOwnerBeyondTheFirstPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		b := newBucket()
		x := newOldest(b, "job", "x", time.Hour)
		x.acquire(ctx)
		for i := range 1000 {
			put(b, "job", fmt.Sprint("job-", i), map[string]string{"timeout": "1h", "lockowner": fmt.Sprint(i)})
		}
		if _, owner, _ := x.state(ctx); owner == "x" {
			t.Error("the control found the owner")
		}

		b = newBucket()
		b.PageSize = 10 // a hundred times fewer do as well
		c, other := leases(t, b, nil), leases(t, b, nil)
		g := acquire(t, c, "job")
		confirmation := string(live(b, "lock/job!!")[1].Body)
		for range 25 {
			put(b, "lock/job!!", confirmation, nil)
		}
		if _, err := other.TryAcquire(ctx, "job", nil); err == nil {
			t.Error("a second owner")
		}
		time.Sleep(5 * time.Minute)
		held(t, "the owner", g)
		if left := len(live(b, "lock/job!!")); left > 15 {
			t.Errorf("%d versions are left", left)
		}
	})
}

// TestOrderedEarlyShownLate: versions are given their order early and become visible late: under the old
// rule two writers each see themselves first.
func TestOrderedEarlyShownLate(t *testing.T) {
	race := func(seed int) func(awstest.Request) awstest.Fault {
		rnd := newRand(uint64(seed), 4)
		return func(q awstest.Request) awstest.Fault {
			if q.Op != "PutObject" {
				return awstest.Fault{After: 20 * time.Millisecond}
			}
			return awstest.Fault{Hidden: time.Duration(rnd.Int64N(int64(100 * time.Millisecond)))}
		}
	}
	double := 0
	for seed := range 40 {
		synctest.Test(t, func(t *testing.T) {
			defer drain()
			b := newBucket()
			b.Plan(race(seed))
			var wg sync.WaitGroup
			var old, now atomic.Int64
			for i := range 8 {
				o := newOldest(b, "job", fmt.Sprint(i), time.Hour)
				wg.Go(func() {
					if o.acquire(t.Context()) {
						old.Add(1)
					}
				})
			}
			wg.Wait()
			if old.Load() > 1 {
				double++
			}
			b = newBucket()
			b.Plan(race(seed))
			for range 8 {
				c := leases(t, b, &lease.Options{TTL: time.Hour})
				wg.Go(func() {
					if _, err := c.TryAcquire(t.Context(), "job", nil); err == nil {
						now.Add(1)
					}
				})
			}
			wg.Wait()
			if now.Load() > 1 {
				t.Errorf("seed %d: %d owners", seed, now.Load())
			}
		})
	}
	t.Logf("under the old rule there were two owners in %d of 40 rounds", double)
	if double == 0 {
		t.Error("the control never had two owners")
	}
}

// TestWithoutVersioning: without versioning both win under the old rule, since the second PUT replaces
// the first.
func TestWithoutVersioning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer drain()
		ctx := t.Context()
		b := newBucket()
		b.SetVersioning("")
		b.Plan(func(q awstest.Request) awstest.Fault { return awstest.Fault{After: 100 * time.Millisecond} })
		x, y := newOldest(b, "job", "x", time.Hour), newOldest(b, "job", "y", time.Hour)
		var first bool
		var wg sync.WaitGroup
		wg.Go(func() { first = x.acquire(ctx) })
		// It looks before x has put, and puts after x has looked again.
		wg.Go(func() {
			if _, owner, _ := y.state(ctx); owner == "" {
				time.Sleep(2 * time.Second)
				put(b, "job", "job-y", map[string]string{"timeout": "1h", "lockowner": "y"})
			}
		})
		wg.Wait()
		if _, owner, _ := y.state(ctx); !first || owner != "y" {
			t.Error("the control did not get a second owner")
		}
		if _, err := leases(t, b, nil).TryAcquire(ctx, "job", nil); err == nil {
			t.Error("a lease on a bucket without versioning")
		}
	})
}

// TestClockOfTheServer: LastModified has whole seconds and is the server's: under the old rule, a
// machine whose clock is ahead takes the lock from a living owner. Here no time of
// the server's is looked at.
func TestClockOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		b := newBucket()
		x, y := newOldest(b, "job", "x", time.Minute), newOldest(b, "job", "y", time.Minute)
		b.Broken.Skew = -time.Hour
		x.acquire(ctx)
		if !y.acquire(ctx) {
			t.Error("the control did not get a second owner")
		}

		b = newBucket()
		b.Broken.Skew = -time.Hour
		c, other := leases(t, b, nil), leases(t, b, nil)
		g := acquire(t, c, "job")
		for range 20 {
			if _, err := other.TryAcquire(ctx, "job", nil); err == nil {
				t.Fatal("a second owner")
			}
			time.Sleep(10 * time.Second)
		}
		held(t, "the owner", g)
	})
}

// TestPutAfterRelease: the PUT of a writer that lost, or gave up, lands after the owner has released:
// under the old rule it is a lock without a holder.
func TestPutAfterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer drain()
		ctx := t.Context()
		slow := func(q awstest.Request) awstest.Fault {
			if q.Op == "PutObject" && strings.Contains(string(q.Body)+q.Header.Get("x-amz-meta-lockowner"), "loser") {
				return awstest.Fault{Before: time.Minute}
			}
			return awstest.Fault{}
		}
		b := newBucket()
		b.Plan(slow)
		x, y := newOldest(b, "job", "x", time.Hour), newOldest(b, "job", "loser", time.Hour)
		gaveUp, cancel := context.WithTimeout(ctx, time.Second)
		y.acquire(gaveUp)
		cancel()
		x.acquire(ctx)
		x.release(ctx)
		time.Sleep(2 * time.Minute)
		if x.acquire(ctx) {
			t.Error("the control left no lock behind")
		}

		b = newBucket()
		b.Plan(slow)
		c, loser := leases(t, b, nil), leases(t, b, &lease.Options{Holder: "loser"})
		if _, err := loser.TryAcquire(ctx, "job", nil); err == nil {
			t.Error("a PUT that took a minute won")
		}
		g := acquire(t, c, "job")
		if err := g.Release(ctx); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute)
		acquire(t, c, "job")
	})
}

// TestCountOfGuards: the count of a re-entrant lock: under the old rule it goes below zero, is not
// reset when another took over, and counts down although the deletion failed.
func TestCountOfGuards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		b := newBucket()
		x := newOldest(b, "job", "x", time.Hour)
		x.acquire(ctx)
		b.Plan(refuse("DeleteObjects", 403, "AccessDenied"))
		x.release(ctx) // the error is ignored
		b.Plan(nil)
		if x.acquire(ctx); x.count != 1 {
			t.Errorf("the control counts %d", x.count)
		}
		x.release(ctx)
		x.release(ctx)
		if x.count >= 0 {
			t.Errorf("the control counts %d", x.count)
		}

		b = newBucket()
		c, other := leases(t, b, nil), leases(t, b, nil)
		h, err := c.Handle("job", nil)
		if err != nil {
			t.Fatal(err)
		}
		var guards []*lease.Guard
		for range 3 {
			g, err := h.TryAcquire(ctx)
			if err != nil {
				t.Fatal(err)
			}
			guards = append(guards, g)
		}
		b.Plan(refuse("DeleteObjects", 403, "AccessDenied")) // no clean-up
		for i, g := range guards {
			for range 2 { // a second release of the same guard counts for nothing
				if err := g.Release(ctx); err != nil {
					t.Error(err)
				}
			}
			if i < 2 {
				held(t, "the last guard", guards[2])
			}
		}
		theirs := acquire(t, other, "job")
		if err := guards[2].Release(ctx); err != nil {
			t.Error(err)
		}
		held(t, "the next owner", theirs)
	})
}

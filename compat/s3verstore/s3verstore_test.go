package s3verstore_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func open(t testing.TB, b *awstest.S3, opts *s3verstore.Options) *s3verstore.Store {
	t.Helper()
	return openBelow(t, b, "", opts)
}

func openBelow(t testing.TB, b *awstest.S3, prefix string, opts *s3verstore.Options, client ...func(*s3.Options)) *s3verstore.Store {
	t.Helper()
	bucket, err := s3bucket.New(b.Client(client...), "bucket", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := s3verstore.New(bucket, prefix, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// opened is a store that knows its bucket.
type opened struct {
	store.Store
	b *awstest.S3
}

func (o opened) Unwrap() store.Store { return o.Store }

// TestStore: the contract, where versions become visible late and out of order. There a PUT takes up
// to 4.25 s and a look a second or more. Both have to be over within Life, or the outcome of a write is
// unknown.
func TestStore(t *testing.T) { testStore(t, true) }

// TestStoreInOrder is TestStore on a server that shows PUTs at once and in their order.
func TestStoreInOrder(t *testing.T) { testStore(t, false) }

func testStore(t *testing.T, disorder bool) {
	var opts *s3verstore.Options
	if disorder {
		opts = &s3verstore.Options{PutLifetime: 10 * time.Second}
	}
	storetest.Run(t, func(t *testing.T) store.Store {
		b := newBucket()
		b.PageSize, b.Latency = 50, 250*time.Millisecond
		if disorder {
			b.Plan(late)
		}
		return opened{open(t, b, opts), b}
	}, &storetest.Options{
		Reopen: func(t *testing.T, first store.Store) store.Store {
			return opened{open(t, first.(opened).b, opts), first.(opened).b}
		},
		Intercept: func(t *testing.T, first store.Store, carry func(func() error) error) store.Store {
			b := first.(opened).b
			return openBelow(t, b, "", opts, func(o *s3.Options) { o.HTTPClient = awstest.InterceptedClient(b, carry) })
		},
		Bubble: true, Parallel: true, Rounds: 2, Keys: 70, Racers: 5, CaseTimeout: time.Hour,
	})
}

// late makes PUTs take up to 4 s more, and become visible out of order.
func late(q awstest.Request) awstest.Fault {
	if q.Op != "PutObject" {
		return awstest.Fault{}
	}
	return awstest.Fault{
		Before: rand.N(time.Second),
		Hidden: rand.N(2 * time.Second),
		After:  rand.N(time.Second),
	}
}

// leases is a client of package lease on the bucket.
func leases(t *testing.T, b *awstest.S3, opts *lease.Options) *lease.Client {
	t.Helper()
	return leasesOn(t, open(t, b, nil), opts)
}

func leasesOn(t *testing.T, s store.Store, opts *lease.Options) *lease.Client {
	t.Helper()
	if opts == nil {
		opts = &lease.Options{}
	}
	o := *opts
	if o.TTL == 0 {
		o.TTL = time.Minute
	}
	o.ReleaseTimeout = 30 * time.Second
	c, err := lease.New(s, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Some tests leave a server behind that answers no more.
		_ = c.Close(context.WithoutCancel(t.Context()))
	})
	return c
}

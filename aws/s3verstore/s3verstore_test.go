package s3verstore_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3verstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func open(t testing.TB, b *bucket, opts *s3verstore.Options) *s3verstore.Store {
	t.Helper()
	s, err := s3verstore.New(b.client(), "bucket", opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// opened is a store that knows its bucket.
type opened struct {
	store.Store
	b *bucket
}

func (o opened) Unwrap() store.Store { return o.Store }

// TestStore: the contract, on a bucket that is given its order at once, and on one
// where versions become visible late and out of order.
func TestStore(t *testing.T) {
	for name, disorder := range map[string]bool{"in order": false, "out of order": true} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) store.Store {
				b := newBucket()
				b.page, b.latency = 50, 250*time.Millisecond
				if disorder {
					b.plan = late
				}
				return opened{open(t, b, nil), b}
			}, &storetest.Options{
				Second: func(t *testing.T, first store.Store) store.Store {
					return opened{open(t, first.(opened).b, nil), first.(opened).b}
				},
				Cut: func(t *testing.T, first store.Store, carry func(func() error) error) store.Store {
					s, err := s3verstore.New(first.(opened).b.clientBy(awstest.Cut(first.(opened).b, carry)), "bucket", nil)
					if err != nil {
						t.Fatal(err)
					}
					return s
				},
				Bubble: true, Parallel: true, Rounds: 2, Keys: 70, Racers: 5, Patience: time.Hour,
			})
		})
	}
}

// late makes PUTs take up to half of L, and become visible out of order.
func late(q request) plan {
	if q.op != "PUT" {
		return plan{}
	}
	return plan{
		before: rand.N(time.Second),
		hidden: rand.N(2 * time.Second),
		after:  rand.N(time.Second),
	}
}

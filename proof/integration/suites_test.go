package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/lease/leasetest"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/proof/integration/faultproxy"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// opened is a store that knows where it is.
type opened struct {
	store.Store
	at target
}

func (o opened) Unwrap() store.Store { return o.Store }

// eachVariant runs a test for every kind of registers, direct and through a proxy.
// Each store that open returns is a space of its own.
func eachVariant(t *testing.T, f func(t *testing.T, open func(t *testing.T) store.Store, proxied bool)) {
	eachKind(t, func(t *testing.T, k kind) {
		for _, proxied := range []bool{false, true} {
			t.Run(fmt.Sprintf("proxy=%v", proxied), func(t *testing.T) {
				f(t, func(t *testing.T) store.Store {
					at := k.target(t)
					if proxied {
						at = at.at(faultproxy.New(t, at.endpoint()).URL)
					}
					st, err := at.open(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					return opened{st, at}
				}, proxied)
			})
		}
	})
}

// The suite of registers, on every server, and the same through a proxy that does
// nothing.
func TestStores(t *testing.T) {
	t.Parallel()
	eachVariant(t, func(t *testing.T, open func(t *testing.T) store.Store, proxied bool) {
		o := storetest.Options{Rounds: 3, Reopen: second}
		if proxied && !torture() {
			o.Keys, o.Rounds = 10, 1
		}
		storetest.Run(t, open, &o)
	})
}

// second opens another handle on the space of first, as another process would.
func second(t *testing.T, first store.Store) store.Store {
	st, err := first.(opened).at.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// The suite of leases, on every server. In the torture also through a proxy that does nothing: that the proxy
// passes all requests of registers on, TestStores shows.
func TestLeases(t *testing.T) {
	t.Parallel()
	eachVariant(t, func(t *testing.T, open func(t *testing.T) store.Store, proxied bool) {
		if !proxied || torture() {
			leasetest.Run(t, open, &leasetest.Options{TTL: 4 * time.Second, Second: second, Parallel: true, CaseTimeout: 3 * time.Minute})
		}
	})
}

// bucketExceptions are what a server is known to do wrong, with the reason. The
// suite verifies each: one that is no longer needed fails.
func bucketExceptions(server string) (lacks map[object.Ability]string, skip map[string]string) {
	if server == "minio" {
		return map[object.Ability]string{
				object.DeleteIfMatch:  "MinIO ignores conditions on DELETE",
				object.DeleteOrAbsent: "MinIO ignores conditions on DELETE",
			}, map[string]string{
				"ListPrefix": "MinIO leaves job/1 out of listings while there is an object job",
			}
	}
	return map[object.Ability]string{
			object.DeleteIfMatch: "versitygw honours the condition, and answers 204 to a conditional DELETE of what does not exist",
		}, map[string]string{
			"ListPrefix": "versitygw keeps objects as files: job/1 cannot be beside job",
		}
}

// The suite of buckets, on every server, and the same through a proxy that does
// nothing.
func TestBuckets(t *testing.T) {
	t.Parallel()
	for name, start := range s3Servers() {
		for _, proxied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/proxy=%v", name, proxied), func(t *testing.T) {
				o := objecttest.Options{Rounds: 3, Large: 6 << 20, VerifySkips: true}
				o.Unsupported, o.Skip = bucketExceptions(name)
				if proxied && !torture() {
					o.Rounds, o.Keys = 1, 10
				}
				objecttest.Run(t, func(t *testing.T) object.Bucket {
					s := start(t)
					at := target{Kind: "s3", S3: s, Space: s.NewBucket(t, false)}
					if proxied {
						at = at.at(faultproxy.New(t, s.Endpoint).URL)
					}
					b, err := at.bucket(&s3bucket.Options{PartSize: 5 << 20})
					if err != nil {
						t.Fatal(err)
					}
					return b
				}, &o)
			})
		}
	}
}

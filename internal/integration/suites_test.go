package integration_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/internal/integration/faultproxy"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// opened is a store that knows where it lies.
type opened struct {
	store.Store
	at target
}

func (o opened) Unwrap() store.Store { return o.Store }

// The suite of registers, on every server, and the same through a proxy that does
// nothing.
func TestStores(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, k kind) {
		for name, through := range map[string]func(*testing.T, target) target{
			"direct": func(_ *testing.T, a target) target { return a },
			"proxy":  func(t *testing.T, a target) target { return a.at(faultproxy.New(t, a.endpoint()).URL) },
		} {
			t.Run(name, func(t *testing.T) {
				o := storetest.Options{
					Rounds: 3,
					Second: func(t *testing.T, first store.Store) store.Store {
						st, err := first.(opened).at.open(t.Context())
						if err != nil {
							t.Fatal(err)
						}
						return st
					},
				}
				if name == "proxy" && !torture() {
					o.Keys, o.Rounds = 10, 1
				}
				storetest.Run(t, func(t *testing.T) store.Store {
					a := through(t, k.target(t))
					st, err := a.open(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					return opened{st, a}
				}, &o)
			})
		}
	})
}

// bucketExceptions are what a server is known to do wrong, with the reason. The
// suite verifies each: one that is no longer needed fails.
func bucketExceptions(server string) (lacks map[object.Ability]string, skip map[string]string) {
	if server == "minio" {
		return map[object.Ability]string{
				object.DeleteIfMatch: "MinIO ignores conditions on DELETE",
			}, map[string]string{
				"ListPrefix": "MinIO leaves job/1 out of listings while there is an object job",
			}
	}
	return map[object.Ability]string{
			object.DeleteIfMatch: "versitygw answers 204 to a conditional DELETE of what does not exist, and checks the condition and deletes in two steps",
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
				o := objecttest.Options{Rounds: 5, Large: 6 << 20, VerifySkips: true}
				o.Lacks, o.Skip = bucketExceptions(name)
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

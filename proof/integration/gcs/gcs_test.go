package gcs_test

import (
	"net/url"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/gcp/gcsbucket"
	"github.com/holdfast-go/holdfast/gcp/gcsstore"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/proof/integration/registers"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(new(servers.Set).Main(m)) }

// openBucket opens a bucket at an address as another process would.
func openBucket(t testing.TB, name, address string, opts *gcsbucket.Options) *gcsbucket.Bucket {
	t.Helper()
	b, _, err := gcsbucket.Open(t.Context(), "gs://"+name+"?anonymous&endpoint="+url.QueryEscape("http://"+address), opts)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRegisters: the suites on the server, while connections are cut, and while the server is killed.
func TestRegisters(t *testing.T) {
	registers.Kind{
		Start: func(t *testing.T) registers.Server { return servers.NewGCS(t, true) },
		NewSpace: func(t *testing.T, server registers.Server) registers.Open {
			g := server.(*servers.GCS)
			name := g.NewBucket(t)
			return func(t testing.TB, address string) store.Store {
				st, err := gcsstore.Open(t.Context(), g.URL(name, address), nil)
				if err != nil {
					t.Fatal(err)
				}
				return st
			}
		},
		TTL:       gcsstore.MinTTL,
		Registers: storetest.Options{Keys: 10}, // TestObjects lists many objects
	}.Run(t)
}

// ignored are the conditions that the server ignores without the correcting proxy. The bucket finds this
// out by itself.
var ignored = map[object.Ability]string{
	object.DeleteIfMatch:  "the server ignores ifGenerationMatch of a delete",
	object.DeleteOrAbsent: "the server ignores ifGenerationMatch of a delete",
	object.CopySource:     "the server ignores all conditions of a copy",
	object.CopyIfAbsent:   "the server ignores all conditions of a copy",
	object.CopyIfMatch:    "the server ignores all conditions of a copy",
}

// TestObjects: the suite of buckets. Without the correcting proxy, the bucket refuses what the server would
// do without its condition.
func TestObjects(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		corrected bool
		lacks     map[object.Ability]string
	}{{"corrected", true, nil}, {"as it is", false, ignored}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := servers.NewGCSInMemory(t, tt.corrected)
			large, keys := 9<<20, 0
			if !tt.corrected { // uploads in parts and listings differ in nothing else
				large, keys = 0, 10
			}
			objecttest.Run(t, func(t *testing.T) object.Bucket {
				return openBucket(t, server.NewBucket(t), server.Address(), nil)
			}, &objecttest.Options{
				Reopen: func(t *testing.T, first object.Bucket) object.Bucket {
					return openBucket(t, first.(*gcsbucket.Bucket).Name(), server.Address(), nil)
				},
				Unsupported: tt.lacks,
				Large:       large,
				Keys:        keys,
				Rounds:      5,
			})
		})
	}
}

// Package azure_test tests the stores of module azure on Azurite.
package azure_test

import (
	"net/http"
	"os"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/holdfast-go/holdfast/azure/azblobbucket"
	"github.com/holdfast-go/holdfast/azure/azblobstore"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/proof/integration/registers"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// set has the server that the tests share.
var set servers.Set

func TestMain(m *testing.M) {
	os.Setenv("AZURE_STORAGE_KEY", servers.AzuriteKey)
	os.Exit(set.Main(m))
}

// azurite returns the server that the tests share.
func azurite(t testing.TB) *servers.Azurite {
	t.Helper()
	return set.Azurite(t)
}

// client returns a client of the SDK for a container. The client has the retries of the SDK, unless a function
// changes them.
func client(t testing.TB, name, address string, change ...func(*container.ClientOptions)) *container.Client {
	t.Helper()
	key, err := container.NewSharedKeyCredential(servers.AzuriteAccount, servers.AzuriteKey)
	if err != nil {
		t.Fatal(err)
	}
	o := &container.ClientOptions{}
	for _, f := range change {
		f(o)
	}
	c, err := container.NewClientWithSharedKeyCredential("http://"+address+"/"+servers.AzuriteAccount+"/"+name, key, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// kept is a register store that knows its client.
type kept struct {
	store.Store
	container, address string
}

func (k kept) Unwrap() store.Store { return k.Store }

func open(t testing.TB, a *servers.Azurite, name, address string) store.Store {
	t.Helper()
	st, err := azblobstore.Open(t.Context(), a.URL(name, address), nil)
	if err != nil {
		t.Fatal(err)
	}
	return kept{st, name, address}
}

// carried sends requests through a function of a suite.
type carried struct {
	carry func(request func() error) error
}

func (c carried) Do(r *http.Request) (answer *http.Response, err error) {
	err = c.carry(func() error {
		answer, err = http.DefaultClient.Do(r)
		return err
	})
	return answer, err
}

// TestRegisters: the suites of registers, leases and checkpoints, on Azurite.
func TestRegisters(t *testing.T) {
	registers.Kind{
		Start: func(t *testing.T) registers.Server { return servers.NewAzurite(t) },
		NewSpace: func(t *testing.T, server registers.Server) registers.Open {
			a := server.(*servers.Azurite)
			name := a.NewContainer(t)
			return func(t testing.TB, address string) store.Store { return open(t, a, name, address) }
		},
		Registers: storetest.Options{Intercept: func(t *testing.T, first store.Store, carry func(request func() error) error) store.Store {
			at, _ := store.As[kept](first)
			b, err := azblobbucket.New(client(t, at.container, at.address, func(o *container.ClientOptions) { o.Transport = carried{carry} }), nil)
			if err != nil {
				t.Fatal(err)
			}
			st, err := azblobstore.New(b, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			return st
		}},
		Loses: true, // Azurite writes its data to the disk only after a while
	}.Run(t)
}

// TestBucket: the suite of buckets on Azurite, also with all bodies in blocks.
func TestBucket(t *testing.T) {
	t.Parallel()
	a := azurite(t)
	objecttest.Run(t, func(t *testing.T) object.Bucket {
		b, _, err := azblobbucket.Open(t.Context(), a.URL(a.NewContainer(t), ""), &azblobbucket.Options{BlockSize: 256 << 10})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}, &objecttest.Options{Rounds: 3, VerifySkips: true, Reopen: func(t *testing.T, first object.Bucket) object.Bucket {
		b, err := azblobbucket.New(first.(*azblobbucket.Bucket).Container(), &azblobbucket.Options{BlockSize: 256 << 10})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}})
}

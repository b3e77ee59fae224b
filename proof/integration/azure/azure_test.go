// Package azure_test tests the stores of module azure on Azurite.
package azure_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	azblob "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/holdfast-go/holdfast/azure/azblobbucket"
	"github.com/holdfast-go/holdfast/azure/azblobstore"
	"github.com/holdfast-go/holdfast/lease"
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

// TestRegisters: the suites of registers, leases and checkpoints, on Azurite. TestBucket lists many blobs.
func TestRegisters(t *testing.T) {
	registers.Kind{
		Start: func(t *testing.T) registers.Server { return servers.NewAzurite(t) },
		NewSpace: func(t *testing.T, server registers.Server) registers.Open {
			a := server.(*servers.Azurite)
			name := a.NewContainer(t)
			return func(t testing.TB, address string) store.Store { return open(t, a, name, address) }
		},
		Registers: storetest.Options{Keys: 10, Intercept: func(t *testing.T, first store.Store, carry func(request func() error) error) store.Store {
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

// TestTouchedBlob: another program changes the metadata or the headers of the blob of a lock. This changes the ETag of
// the blob, and the holder keeps its lease.
func TestTouchedBlob(t *testing.T) {
	t.Parallel()
	a := azurite(t)
	name := a.NewContainer(t)
	st := open(t, a, name, a.Address())
	c, err := lease.New(st, &lease.Options{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	g, err := c.TryAcquire(t.Context(), "job", nil)
	if err != nil {
		t.Fatal(err)
	}
	blob := client(t, name, a.Address()).NewBlobClient("lock/job.json")
	for what, touch := range map[string]func() error{
		"metadata": func() error {
			_, err := blob.SetMetadata(t.Context(), map[string]*string{"seen": to.Ptr("now")}, nil)
			return err
		},
		"headers": func() error {
			_, err := blob.SetHTTPHeaders(t.Context(), azblob.HTTPHeaders{}, nil)
			return err
		},
	} {
		before, err := blob.GetProperties(t.Context(), nil)
		if err == nil {
			err = touch()
		}
		if err != nil {
			t.Fatal(err)
		}
		if after, err := blob.GetProperties(t.Context(), nil); err != nil || *after.ETag == *before.ETag {
			t.Errorf("the %s did not change the ETag: %v", what, err)
		}
		if err := g.Renew(t.Context()); err != nil {
			t.Fatalf("after a change of the %s: %v", what, err)
		}
	}
	if err := g.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// smallPages asks for pages of 30 blobs. Without it, a page of a listing has 5,000.
type smallPages struct{}

func (smallPages) Do(r *policy.Request) (*http.Response, error) {
	if q := r.Raw().URL.Query(); q.Get("comp") == "list" {
		q.Set("maxresults", "30")
		r.Raw().URL.RawQuery = q.Encode()
	}
	return r.Next()
}

// TestBucket: the suite of buckets on Azurite, with small pages of listings, and also with all bodies in blocks.
func TestBucket(t *testing.T) {
	t.Parallel()
	a := azurite(t)
	objecttest.Run(t, func(t *testing.T) object.Bucket {
		c := client(t, a.NewContainer(t), a.Address(), func(o *container.ClientOptions) {
			o.PerCallPolicies = append(o.PerCallPolicies, smallPages{})
			o.Transport = &http.Client{Transport: &http.Transport{DisableCompression: true}} // as Open does
		})
		b, err := azblobbucket.New(c, &azblobbucket.Options{BlockSize: 256 << 10})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}, &objecttest.Options{Rounds: 3, Keys: 100, VerifySkips: true, Reopen: func(t *testing.T, first object.Bucket) object.Bucket {
		b, err := azblobbucket.New(first.(*azblobbucket.Bucket).Container(), &azblobbucket.Options{BlockSize: 256 << 10})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}})
}

// TestCommand: the command creates a container, runs a job under a lock, examines the store, and writes objects under
// conditions.
func TestCommand(t *testing.T) {
	t.Parallel()
	a := azurite(t)
	dir, bin := t.TempDir(), servers.BuildCommand(t)
	body := filepath.Join(dir, "body")
	if err := os.WriteFile(body, []byte("the body"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(path string) string { return a.URL(servers.Unique("new")+"/"+path, "") }
	container, query, _ := strings.Cut(at(""), "?")
	run := func(want int, contains string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), bin, args...)
		cmd.Env = append(append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="), a.Env()...)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want || !strings.Contains(string(out), contains) || strings.Contains(string(out), servers.AzuriteKey) {
			t.Errorf("%q: status %d, want %d and %q: %s", args, got, want, contains, out)
		}
	}
	store := container + "app?" + query
	object := func(key string) string { return container + key + "?" + query }
	run(78, "holdfast init creates it", "--store", store, "ls")
	run(0, "can be used", "--store", store, "init")
	run(0, "can be used", "--store", store, "init")
	run(0, "hello", "--store", store, "run", "job", "--", "echo", "hello")
	run(0, "job", "--store", store, "ls", "--all")
	run(0, "leases are safe on this store", "--store", store, "doctor")
	run(0, "", "put", body, object("data/x"), "--if-absent")
	run(73, "already exists", "put", body, object("data/x"), "--if-absent")
	run(0, "", "object", "mv", object("data/x"), object("data/y"), "--if-absent")
	run(0, "data/y", "object", "ls", object("data/"))
	run(0, "the body", "get", object("data/y"), "-")
	run(0, "", "object", "rm", object("data/y"))
}

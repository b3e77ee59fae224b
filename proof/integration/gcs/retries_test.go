package gcs_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"github.com/holdfast-go/holdfast/gcp/gcsbucket"
	"github.com/holdfast-go/holdfast/gcp/gcsstore"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/proof/integration/faultproxy"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

// newLibraryClient returns a client of the library with its default retries, as users have it.
func newLibraryClient(t testing.TB, endpoint string) *storage.Client {
	t.Helper()
	client, err := storage.NewClient(t.Context(), option.WithEndpoint(endpoint+"/storage/v1/"), option.WithoutAuthentication(), storage.WithJSONReads())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// write is a conditional write of the object k, whose generation is given.
type write struct {
	name   string
	send   func(ctx context.Context, b *storage.BucketHandle, generation int64) error
	bucket func(ctx context.Context, b object.Bucket, v object.Version) error
	client func(ctx context.Context, c *object.Client, base *object.Info) error
}

var conditionalWrites = []write{
	{"create", func(ctx context.Context, b *storage.BucketHandle, _ int64) error {
		w := b.Object("new").If(storage.Conditions{DoesNotExist: true}).NewWriter(ctx)
		_, err := io.WriteString(w, "mine")
		return errors.Join(err, w.Close())
	}, func(ctx context.Context, b object.Bucket, _ object.Version) error {
		_, err := b.Put(ctx, "new", strings.NewReader("mine"), &object.PutOptions{IfAbsent: true})
		return err
	}, func(ctx context.Context, c *object.Client, _ *object.Info) error {
		_, err := c.Put(ctx, "new", strings.NewReader("mine"), &object.WriteOptions{IfAbsent: true})
		return err
	}},
	{"replace", func(ctx context.Context, b *storage.BucketHandle, generation int64) error {
		w := b.Object("k").If(storage.Conditions{GenerationMatch: generation}).NewWriter(ctx)
		_, err := io.WriteString(w, "mine")
		return errors.Join(err, w.Close())
	}, func(ctx context.Context, b object.Bucket, v object.Version) error {
		_, err := b.Put(ctx, "k", strings.NewReader("mine"), &object.PutOptions{IfMatch: v})
		return err
	}, func(ctx context.Context, c *object.Client, base *object.Info) error {
		_, err := c.Put(ctx, "k", strings.NewReader("mine"), &object.WriteOptions{Base: base})
		return err
	}},
	{"copy", func(ctx context.Context, b *storage.BucketHandle, _ int64) error {
		_, err := b.Object("copy").If(storage.Conditions{DoesNotExist: true}).CopierFrom(b.Object("k")).Run(ctx)
		return err
	}, func(ctx context.Context, b object.Bucket, v object.Version) error {
		_, err := object.Copy(ctx, b, "k", "copy", &object.CopyOptions{SourceIfMatch: v, IfAbsent: true})
		return err
	}, func(ctx context.Context, c *object.Client, _ *object.Info) error {
		_, err := c.Copy(ctx, "k", "copy", &object.WriteOptions{IfAbsent: true})
		return err
	}},
	{"delete", func(ctx context.Context, b *storage.BucketHandle, generation int64) error {
		return b.Object("k").If(storage.Conditions{GenerationMatch: generation}).Delete(ctx)
	}, func(ctx context.Context, b object.Bucket, v object.Version) error {
		return b.Delete(ctx, "k", &object.DeleteOptions{IfMatch: v})
	}, nil},
}

// TestLostReply: each conditional write once, through a proxy that loses its reply. The library repeats
// the write, and reports a conflict with its own success, or that the object does not exist. The bucket sends the
// write once, and says that the outcome is unknown. The client of objects then finds out that its write was
// applied.
func TestLostReply(t *testing.T) {
	t.Parallel()
	server := servers.NewGCSInMemory(t, true)
	for _, w := range conditionalWrites {
		t.Run(w.name, func(t *testing.T) {
			// setUp makes the object k, and returns a proxy that loses the reply to the next write.
			setUp := func(t *testing.T) (proxy *faultproxy.Proxy, name string, k object.Info) {
				proxy, name = faultproxy.New(t, "http://"+server.Address()), server.NewBucket(t)
				k, err := openBucket(t, name, server.Address(), nil).Put(t.Context(), "k", strings.NewReader("old"), nil)
				if err != nil {
					t.Fatal(err)
				}
				proxy.Inject(&faultproxy.Rule{When: faultproxy.Method(http.MethodPost, http.MethodDelete), Times: 1, Do: faultproxy.LoseByReset()})
				return proxy, name, k
			}
			through := func(t *testing.T, proxy *faultproxy.Proxy, name string) *gcsbucket.Bucket {
				return openBucket(t, name, strings.TrimPrefix(proxy.URL, "http://"), &gcsbucket.Options{AssumeAbilities: object.Abilities()})
			}
			writes := func(proxy *faultproxy.Proxy) int {
				return proxy.Count(faultproxy.Method(http.MethodPost, http.MethodDelete))
			}
			// applied checks that the write is in effect.
			applied := func(t *testing.T, name string) {
				t.Helper()
				key := map[string]string{"create": "new", "copy": "copy"}[w.name]
				if key == "" {
					key = "k"
				}
				body, _, err := object.ReadAll(t.Context(), openBucket(t, name, server.Address(), nil), key, 100, nil)
				if want := map[string]string{"copy": "old", "delete": ""}; err != nil && w.name != "delete" || err == nil && w.name == "delete" ||
					w.name == "copy" && string(body) != want["copy"] {
					t.Errorf("%s is %q, %v: the write was not applied", key, body, err)
				}
			}
			t.Run("the library", func(t *testing.T) {
				proxy, name, k := setUp(t)
				generation, _ := gcsbucketGeneration(k.Version)
				err := w.send(t.Context(), newLibraryClient(t, proxy.URL).Bucket(name), generation)
				var refused *googleapi.Error
				if !errors.As(err, &refused) || refused.Code != 412 && refused.Code != 404 || writes(proxy) != 2 {
					t.Errorf("the control: %v after %d writes, want a refusal after 2", err, writes(proxy))
				}
				applied(t, name)
			})
			t.Run("the bucket", func(t *testing.T) {
				proxy, name, k := setUp(t)
				err := w.bucket(t.Context(), through(t, proxy, name), k.Version)
				if err == nil || errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.Unknown || writes(proxy) != 1 {
					t.Errorf("%v (%v) after %d writes, want an unknown outcome after 1", err, store.OutcomeOf(err), writes(proxy))
				}
				applied(t, name)
			})
			if w.client == nil {
				return
			}
			t.Run("the client", func(t *testing.T) {
				proxy, name, k := setUp(t)
				c, err := object.New(through(t, proxy, name), nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := w.client(t.Context(), c, &k); err != nil || writes(proxy) != 1 {
					t.Errorf("%v after %d writes, want success after 1", err, writes(proxy))
				}
				applied(t, name)
			})
		})
	}
}

// TestLostReplyOfRegister: a register whose reply is lost is written once, and the write succeeds.
func TestLostReplyOfRegister(t *testing.T) {
	t.Parallel()
	server := servers.NewGCSInMemory(t, true)
	proxy := faultproxy.New(t, "http://"+server.Address())
	st, err := gcsstore.Open(t.Context(), server.URL(server.NewBucket(t), strings.TrimPrefix(proxy.URL, "http://")), &gcsstore.Options{Trusted: true})
	if err != nil {
		t.Fatal(err)
	}
	var v store.Version
	for i, fault := range []faultproxy.Fault{faultproxy.Lose(), faultproxy.LoseByReset(), faultproxy.Truncate(), faultproxy.Repeat(), faultproxy.RefuseAfter(503)} {
		proxy.Reset()
		proxy.Inject(&faultproxy.Rule{When: faultproxy.Method(http.MethodPost), Times: 1, Do: fault})
		next, err := st.Put(t.Context(), "k", v, []byte{'0' + byte(i)})
		value, _, readErr := st.Get(t.Context(), "k")
		if err != nil || readErr != nil || string(value) != string([]byte{'0' + byte(i)}) || proxy.Count(faultproxy.Method(http.MethodPost)) != 1 {
			t.Errorf("%v: %v, %q, %v after %d writes", fault, err, value, readErr, proxy.Count(faultproxy.Method(http.MethodPost)))
		}
		v = next
		proxy.Heal()
	}
}

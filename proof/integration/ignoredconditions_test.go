package integration_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

// ignoringServer is a server that speaks S3 and ignores some headers of a PUT, as real
// ones do: a handler before a real server takes them out and signs again.
func ignoringServer(t *testing.T, server servers.S3, ignored ...string) servers.S3 {
	upstream, err := url.Parse(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	keys := aws.Credentials{AccessKeyID: server.AccessKey, SecretAccessKey: server.SecretKey}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.RequestURI, out.URL.Scheme, out.URL.Host, out.Host = "", upstream.Scheme, upstream.Host, upstream.Host
		if r.Method == http.MethodPut {
			for _, h := range ignored {
				out.Header.Del(h)
			}
		}
		out.Header.Del("Accept-Encoding")
		err := signer.SignHTTP(r.Context(), keys, out, r.Header.Get("X-Amz-Content-Sha256"), "s3", server.Region, time.Now())
		if err != nil {
			t.Error(err)
		}
		res, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		for name, values := range res.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body) // a client that has left is its own business
	}))
	t.Cleanup(h.Close)
	return server.At(h.URL)
}

// A server that ignores the conditions of PUT is refused at the first use,
// before anything is taken, and two clients never both get a lock. The control: with
// the check off, both do.
func TestServerThatIgnoresConditions(t *testing.T) {
	t.Parallel()
	server := set.VersityGW(t)
	for _, tt := range []struct {
		name    string
		ignored []string
	}{
		{"all", []string{"If-None-Match", "If-Match"}},
		{"If-None-Match", []string{"If-None-Match"}},
		{"If-Match", []string{"If-Match"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := target{Kind: "s3", S3: ignoringServer(t, server, tt.ignored...), Space: server.NewBucket(t, false)}
			for range 2 {
				st, err := at.open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				c, err := lease.New(st, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, err = c.TryAcquire(t.Context(), "job", nil)
				if !errors.Is(err, store.ErrUnsafe) {
					t.Errorf("acquire: got %v, want ErrUnsafe", err)
				}
			}
			// Nothing is left behind, not even what was tried.
			out, err := server.Client().ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &at.Space})
			if err != nil || len(out.Contents) > 0 {
				t.Errorf("left behind: %v, %v", out.Contents, err)
			}
		})
	}
	t.Run("control", func(t *testing.T) {
		at := target{Kind: "s3", S3: ignoringServer(t, server, "If-None-Match", "If-Match"), Space: server.NewBucket(t, false)}
		holders := 0
		for range 2 {
			b, err := at.bucket(nil)
			if err != nil {
				t.Fatal(err)
			}
			st, err := s3store.New(b, "", &s3store.Options{Unsafe: []object.Ability{object.PutIfAbsent, object.PutIfMatch}})
			if err != nil {
				t.Fatal(err)
			}
			c, err := lease.New(st, &lease.Options{AssumeNew: true, ManualRenewal: true})
			if err != nil {
				t.Fatal(err)
			}
			if g, err := c.TryAcquire(t.Context(), "job", nil); err == nil && g.Err() == nil {
				holders++
			}
		}
		if holders != 2 {
			t.Errorf("%d holders without conditions and without the check, want 2", holders)
		}
	})
}

// A user deletes a lock's object by hand in a bucket with versions, so that a
// delete marker is current. Where the server can tell (MinIO, AWS) the lock is taken
// again with a higher token. Where it cannot (versitygw) there is an error, soon, and
// no lock.
func TestLockBehindADeleteMarker(t *testing.T) {
	t.Parallel()
	for name, start := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			at := target{Kind: "s3", S3: server, Space: server.NewBucket(t, true)}
			st, err := at.open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c, err := lease.New(st, &lease.Options{ManualRenewal: true})
			if err != nil {
				t.Fatal(err)
			}
			g, err := c.TryAcquire(t.Context(), "job", nil)
			if err != nil {
				t.Fatal(err)
			}
			s := &scene{t: t, at: at, st: st}
			s.remove("lock/job")
			if err := g.Renew(t.Context()); name == "minio" && !errors.Is(err, lease.ErrLost) {
				t.Errorf("renewal: got %v, want ErrLost", err)
			}
			g2, err := c.TryAcquire(t.Context(), "job", nil)
			switch {
			case name == "minio" && err != nil:
				t.Errorf("acquire: %v", err)
			case err == nil && (g2.Token() <= g.Token() || g.Err() == nil):
				t.Errorf("token %d after %d, which is %v", g2.Token(), g.Token(), g.Err())
			default:
				t.Logf("acquire: %v", err)
			}
		})
	}
}

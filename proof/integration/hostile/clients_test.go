package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// memory is what an operation may hold at a time, in bytes, and maxDuration how long it
	// may take although its context gives it only time.
	memory      = 64 << 20
	limit       = 30 * time.Second
	maxDuration = limit + 15*time.Second

	// latency is what each request takes, so that a listing of many does not last for
	// ever in no time.
	latency = 2 * time.Millisecond
)

// operation is one call of a client, each time on a new one that knows nothing.
type operation struct {
	name  string
	write bool
	call  func(ctx context.Context, server http.RoundTripper) error
}

func credential() aws.CredentialsProvider {
	return credentials.NewStaticCredentialsProvider("TESTACCESSKEY", "test-secret-key", "")
}

func s3Client(server http.RoundTripper) *s3.Client {
	return s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://s3.test"), UsePathStyle: true,
		Credentials: credential(), HTTPClient: &http.Client{Transport: server},
	})
}

func dynamoClient(server http.RoundTripper) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://dynamodb.test"),
		Credentials: credential(), HTTPClient: &http.Client{Transport: server},
	})
}

// etag is a version that the fakes of this package never made.
const etag = object.Version(`"0123456789abcdef0123456789abcdef"`)

// s3Operations are the calls of all clients of S3.
func s3Operations() []operation {
	bucket := func(name string, write bool, call func(ctx context.Context, b *s3bucket.Bucket) error) operation {
		return operation{"s3bucket " + name, write, func(ctx context.Context, server http.RoundTripper) error {
			b, err := s3bucket.New(s3Client(server), "bucket", &s3bucket.Options{AssumeAbilities: object.Abilities()})
			if err != nil {
				return err
			}
			return call(ctx, b)
		}}
	}
	register := func(name string, write bool, call func(ctx context.Context, s *s3store.Store) error) operation {
		return operation{"s3store " + name, write, func(ctx context.Context, server http.RoundTripper) error {
			b, err := s3bucket.New(s3Client(server), "bucket", &s3bucket.Options{AssumeAbilities: object.Abilities()})
			if err != nil {
				return err
			}
			s, err := s3store.New(b, "", &s3store.Options{Trusted: true})
			if err != nil {
				return err
			}
			return call(ctx, s)
		}}
	}
	versioned := func(name string, write bool, call func(ctx context.Context, s *s3verstore.Store) error) operation {
		return operation{"s3verstore " + name, write, func(ctx context.Context, server http.RoundTripper) error {
			b, err := s3bucket.New(s3Client(server), "bucket", nil)
			if err != nil {
				return err
			}
			s, err := s3verstore.New(b, "", &s3verstore.Options{PutLifetime: time.Second})
			if err != nil {
				return err
			}
			return call(ctx, s)
		}}
	}
	ofBody := func(_ any, _ any, err error) error { return err }
	return []operation{
		bucket("Get", false, func(ctx context.Context, b *s3bucket.Bucket) error {
			r, err := b.Get(ctx, "k", nil)
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = io.Copy(io.Discard, io.LimitReader(r, 1<<20))
			return err
		}),
		bucket("ReadAll", false, func(ctx context.Context, b *s3bucket.Bucket) error {
			return ofBody(b.ReadAll(ctx, "k", store.MaxValue, nil))
		}),
		bucket("Stat", false, func(ctx context.Context, b *s3bucket.Bucket) error {
			_, err := b.Stat(ctx, "k")
			return err
		}),
		bucket("List", false, func(ctx context.Context, b *s3bucket.Bucket) error { return all(b.List(ctx, "", nil)) }),
		bucket("Exists", false, func(ctx context.Context, b *s3bucket.Bucket) error { return b.Exists(ctx) }),
		bucket("Settings", false, func(ctx context.Context, b *s3bucket.Bucket) error {
			_, err := b.Settings(ctx)
			return err
		}),
		bucket("Put", true, func(ctx context.Context, b *s3bucket.Bucket) error {
			_, err := b.Put(ctx, "k", strings.NewReader("x"), &object.PutOptions{IfAbsent: true})
			return err
		}),
		bucket("Delete", true, func(ctx context.Context, b *s3bucket.Bucket) error {
			return b.Delete(ctx, "k", &object.DeleteOptions{IfMatch: etag})
		}),
		bucket("Copy", true, func(ctx context.Context, b *s3bucket.Bucket) error {
			_, err := b.Copy(ctx, "k", "l", &object.CopyOptions{IfAbsent: true})
			return err
		}),
		register("Get", false, func(ctx context.Context, s *s3store.Store) error { return ofBody(s.Get(ctx, "k")) }),
		register("List", false, func(ctx context.Context, s *s3store.Store) error { return all(s.List(ctx, "")) }),
		register("Put", true, func(ctx context.Context, s *s3store.Store) error {
			_, err := s.Put(ctx, "k", "", []byte("x"))
			return err
		}),
		versioned("Get", false, func(ctx context.Context, s *s3verstore.Store) error { return ofBody(s.Get(ctx, "k")) }),
		versioned("List", false, func(ctx context.Context, s *s3verstore.Store) error { return all(s.List(ctx, "")) }),
		versioned("Put", true, func(ctx context.Context, s *s3verstore.Store) error {
			_, err := s.Put(ctx, "k", "", []byte("x"))
			return err
		}),
	}
}

// dynamoOperations are the calls of the client of DynamoDB.
func dynamoOperations() []operation {
	table := func(name string, write, trusted bool, call func(ctx context.Context, s *dynamostore.Store) error) operation {
		return operation{"dynamostore " + name, write, func(ctx context.Context, server http.RoundTripper) error {
			s, err := dynamostore.New(dynamoClient(server), "table", &dynamostore.Options{Trusted: trusted})
			if err != nil {
				return err
			}
			return call(ctx, s)
		}}
	}
	return []operation{
		table("Get", false, true, func(ctx context.Context, s *dynamostore.Store) error {
			_, _, err := s.Get(ctx, "k")
			return err
		}),
		table("List", false, true, func(ctx context.Context, s *dynamostore.Store) error { return all(s.List(ctx, "")) }),
		table("Put", true, true, func(ctx context.Context, s *dynamostore.Store) error {
			_, err := s.Put(ctx, "k", "", []byte("x"))
			return err
		}),
		table("first Put", true, false, func(ctx context.Context, s *dynamostore.Store) error {
			_, err := s.Put(ctx, "k", "", []byte("x"))
			return err
		}),
		table("Describe", false, true, func(ctx context.Context, s *dynamostore.Store) error {
			_, err := s.Describe(ctx)
			return err
		}),
		{"dynamostore CreateTable", true, func(ctx context.Context, server http.RoundTripper) error {
			return dynamostore.CreateTable(ctx, dynamoClient(server), "table", nil)
		}},
	}
}

// all keeps what a listing gives, as the command does.
func all[T any](seq iter.Seq2[T, error]) error {
	var kept []T
	for one, err := range seq {
		if err != nil {
			return err
		}
		kept = append(kept, one)
		if len(kept) >= 500_000 {
			return errors.New("the listing had no end")
		}
	}
	return nil
}

// gauge measures how much memory is in use at most.
type gauge struct {
	base uint64
	mu   sync.Mutex
	most uint64
}

func inUse() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// look is called wherever a client reads something.
func (g *gauge) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.most = max(g.most, inUse())
}

// metered is a body whose readers are watched.
type metered struct {
	io.ReadCloser
	*gauge
}

// Read takes as long as on a network of 16 MiB a second.
func (m metered) Read(p []byte) (int, error) {
	m.look()
	n, err := m.ReadCloser.Read(p)
	time.Sleep(time.Duration(n) * time.Second / (16 << 20))
	return n, err
}

// result is the outcome of an operation.
type result struct {
	err   error
	wrote bool          // a request was sent that writes
	took  time.Duration // of the bubble's clock
	most  uint64        // bytes in use beyond those before
}

// writes reports whether a request is one that writes.
func writes(r *http.Request) bool {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		return strings.HasSuffix(target, ".PutItem") || strings.HasSuffix(target, ".CreateTable")
	}
	return r.Method == http.MethodPut || r.Method == http.MethodDelete
}

// run calls an operation against a server, in a bubble in which time costs nothing.
func run(t *testing.T, op operation, serve func(r *http.Request) (*http.Response, error)) (r result) {
	t.Helper()
	// A heap that is collected often shows what is in use.
	defer debug.SetGCPercent(debug.SetGCPercent(40))
	g := &gauge{base: inUse()}
	var wrote atomic.Bool
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		start := time.Now()
		r.err = op.call(ctx, answers(func(req *http.Request) (*http.Response, error) {
			g.look()
			if writes(req) {
				wrote.Store(true)
			}
			select {
			case <-time.After(latency):
			case <-req.Context().Done():
				return nil, context.Cause(req.Context())
			}
			resp, err := serve(req)
			if resp != nil {
				resp.Request = req
				resp.Body = metered{resp.Body, g}
			}
			return resp, err
		}))
		r.took = time.Since(start)
	})
	g.look()
	r.wrote = wrote.Load()
	r.most = g.most - min(g.base, g.most)
	if r.most > memory {
		t.Errorf("%s: %d MiB of memory were in use, want at most %d", op.name, r.most>>20, memory>>20)
	}
	if r.took > maxDuration {
		t.Errorf("%s: it took %v, its context gave it %v", op.name, r.took, limit)
	}
	if r.err != nil {
		text := r.err.Error()
		if len(text) > 2000 || strings.ContainsAny(text, "\n\r") || strings.Contains(text, "test-secret-key") {
			t.Errorf("%s: the message is %d bytes long, or has several lines, or tells the secret: %.300q", op.name, len(text), text)
		}
	}
	return r
}

// canned are honest answers that lead to the requests behind them.
func canned(r *http.Request) *http.Response {
	header := http.Header{"X-Amz-Request-Id": {"1"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}}
	if r.URL.Query().Has("versioning") {
		return answer(200, header, strings.NewReader("<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"))
	}
	if r.URL.Query().Has("object-lock") || r.URL.Query().Has("lifecycle") {
		return answer(501, header, strings.NewReader("<Error><Code>NotImplemented</Code></Error>"))
	}
	return nil
}

// id distinguishes an answer of Amazon from others.
func id() http.Header { return http.Header{"X-Amz-Request-Id": {"1"}, "X-Amzn-Requestid": {"1"}} }

func describe(r result) string {
	return fmt.Sprintf("%v (%v), %v, %d KiB", r.err, store.OutcomeOf(r.err), r.took, r.most>>10)
}

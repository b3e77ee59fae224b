package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/dashboard"
	"github.com/holdfast-go/holdfast/store"
)

// counter counts the requests of a client.
type counter struct {
	http.RoundTripper
	mu sync.Mutex
	n  map[string]int
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	kind := r.Header.Get("X-Amz-Target") // of DynamoDB
	if kind == "" {
		kind = r.Method
		if r.URL.Query().Has("list-type") {
			kind = "LIST"
		}
	}
	c.mu.Lock()
	c.n[kind]++
	c.mu.Unlock()
	return c.RoundTripper.RoundTrip(r)
}

// requests returns the number of requests since the last call.
func (c *counter) requests() (n int, kinds map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.n {
		n += k
	}
	kinds, c.n = c.n, map[string]int{}
	return n, kinds
}

// open returns two stores of the same registers: the first one for the holders of locks, the second one counts its
// requests.
var open = map[string]func(t *testing.T) (holders, counted store.Store, c *counter){
	"S3": func(t *testing.T) (holders, counted store.Store, c *counter) {
		fake := awstest.NewS3("bucket")
		c = &counter{RoundTripper: fake, n: map[string]int{}}
		on := func(opts ...func(*s3.Options)) store.Store {
			b, err := s3bucket.New(fake.Client(opts...), "bucket", nil)
			if err != nil {
				t.Fatal(err)
			}
			st, err := s3store.New(b, "app", &s3store.Options{Trusted: true})
			if err != nil {
				t.Fatal(err)
			}
			return st
		}
		return on(), on(func(o *s3.Options) { o.HTTPClient = &http.Client{Transport: c} }), c
	},
	"DynamoDB": func(t *testing.T) (holders, counted store.Store, c *counter) {
		fake := awstest.NewDynamoDB()
		fake.AddTable("locks", "part", "key")
		c = &counter{RoundTripper: fake, n: map[string]int{}}
		on := func(opts ...func(*dynamodb.Options)) store.Store {
			st, err := dynamostore.New(fake.Client(opts...), "locks", &dynamostore.Options{Prefix: "app", Trusted: true})
			if err != nil {
				t.Fatal(err)
			}
			return st
		}
		return on(), on(func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: c} }), c
	},
}

// TestLoad: 100 open pages of 1,000 locks, of which ten are renewed in a second, cost the requests that one page costs. While no page is
// open, the store gets no request.
func TestLoad(t *testing.T) {
	for name, stores := range open {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				holders, counted, c := stores(t)
				client, err := lease.New(holders, &lease.Options{Holder: "ada@db1 pid 4711", TTL: 5 * time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close(t.Context())
				for i := range 1000 {
					if _, err := client.TryAcquire(t.Context(), fmt.Sprintf("jobs/%04d", i), nil); err != nil {
						t.Fatal(err)
					}
				}
				page, err := dashboard.New(counted, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer page.Close()
				minute := func(pages int) (n int, kinds map[string]int) {
					ctx, cancel := context.WithCancel(t.Context())
					var open sync.WaitGroup
					for range pages {
						open.Go(func() {
							r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/events?kind=locks", nil)
							page.ServeHTTP(httptest.NewRecorder(), r)
						})
					}
					time.Sleep(20 * time.Second)
					c.requests()
					time.Sleep(time.Minute)
					n, kinds = c.requests()
					cancel()
					open.Wait()
					return n, kinds
				}
				one, kindsOfOne := minute(1)
				many, kindsOfMany := minute(100)
				t.Logf("requests per minute on %s: %d for one page %v, %d for 100 pages %v", name, one, kindsOfOne, many, kindsOfMany)
				if one < 60 || one > 660 || many < one-one/10 || many > one+one/10 {
					t.Errorf("got %d requests per minute for one page and %d for 100 pages, want the same number, at most 600", one, many)
				}
				time.Sleep(30 * time.Second)
				c.requests()
				time.Sleep(time.Minute)
				if n, kinds := c.requests(); n > 0 {
					t.Errorf("without an open page there are %d requests: %v", n, kinds)
				}
			})
		})
	}
}

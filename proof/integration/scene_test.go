package integration_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/proof/integration/faultproxy"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

// The TTL of the tests here, and what a holder trusts of it. It is long, so that a
// machine under load does not lose a lease by itself.
const (
	pitTTL    = 10 * time.Second
	pitMargin = time.Second
	pitTrust  = pitTTL - pitMargin
)

// scene is a lock on a server that two clients want: one through a proxy, the other
// direct.
type scene struct {
	t      *testing.T
	at     target
	proxy  *faultproxy.Proxy
	st     store.Store   // behind the proxy
	client *lease.Client // behind the proxy
	other  *lease.Client // direct
	direct store.Store
}

func newScene(t *testing.T, k kind, o lease.Options) *scene {
	t.Helper()
	s := &scene{t: t, at: k.target(t)}
	s.proxy = faultproxy.New(t, s.at.endpoint())
	o.TTL, o.Margin, o.Grace, o.MaxPoll = pitTTL, pitMargin, -1, 200*time.Millisecond
	open := func(at target) (store.Store, *lease.Client) {
		st, err := at.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// What finds out about the server is not what is tested here.
		if _, err := st.Put(t.Context(), servers.Unique("probe"), "", []byte("first")); err != nil {
			t.Fatal(err)
		}
		c, err := lease.New(st, &o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return st, c
	}
	s.st, s.client = open(s.at.at(s.proxy.URL))
	s.direct, s.other = open(s.at)
	s.proxy.Reset()
	return s
}

// do has a fault done to the next n requests that match.
func (s *scene) do(when faultproxy.Match, n int, f faultproxy.Fault) {
	s.proxy.Inject(&faultproxy.Rule{When: when, Times: n, Do: f})
}

func (s *scene) acquire(c *lease.Client) *lease.Guard {
	s.t.Helper()
	g, err := c.TryAcquire(s.t.Context(), "job", nil)
	if err != nil {
		s.t.Fatalf("acquire: %v", err)
	}
	return g
}

func (s *scene) wantHeld(c *lease.Client) {
	s.t.Helper()
	if _, err := c.TryAcquire(s.t.Context(), "job", nil); !errors.Is(err, lease.ErrHeld) {
		s.t.Errorf("acquire: got %v, want ErrHeld", err)
	}
}

// faults are those that leave the outcome of one request open, or refuse it for a
// while.
func faults() []faultproxy.Fault {
	return []faultproxy.Fault{
		faultproxy.Lose(),
		faultproxy.Drop(),
		faultproxy.LoseByReset(),
		faultproxy.Delay(300 * time.Millisecond),
		faultproxy.DelayReply(300 * time.Millisecond),
		faultproxy.Repeat(),
		faultproxy.Echo(100 * time.Millisecond),
		faultproxy.HangLate(50 * time.Millisecond),
		faultproxy.Late(300 * time.Millisecond),
		faultproxy.Hang(),
		faultproxy.Truncate(),
		faultproxy.Refuse(409),
		faultproxy.Refuse(500),
		faultproxy.Refuse(503),
		faultproxy.RefuseAfter(500),
		faultproxy.RefuseAfter(503),
	}
}

// eachFault runs a test for every kind of registers and every fault, several at the
// same time: they mostly wait.
func eachFault(t *testing.T, f func(t *testing.T, k kind, fault faultproxy.Fault)) {
	eachKind(t, func(t *testing.T, k kind) {
		atOnce := make(chan struct{}, 16)
		var wg sync.WaitGroup
		for _, fault := range faults() {
			wg.Go(func() {
				atOnce <- struct{}{}
				defer func() { <-atOnce }()
				t.Run(fault.String(), func(t *testing.T) { f(t, k, fault) })
			})
		}
		wg.Wait()
	})
}

// foreign writes something behind the back of the store where the register of key
// belongs, and returns a function that checks that it is still there.
func (s *scene) foreign(key, body string) (check func()) {
	t := s.t
	t.Helper()
	if s.at.Kind == "dynamodb" {
		return s.foreignItem(key, body)
	}
	r := &raw{t, s.at.S3.Client(), s.at.Space}
	object := s.objectKey(key)
	etag := r.must(object, body)
	return func() {
		_, h := r.headers(object, "")
		if got := h.Get("ETag"); got != etag {
			t.Errorf("the foreign object was changed: ETag %s, was %s", got, etag)
		}
	}
}

// objectKey is the key of the object that the register of key is in.
func (s *scene) objectKey(key string) string {
	keyed, ok := store.As[interface{ ObjectKey(string) string }](s.st)
	if !ok {
		s.t.Fatalf("the store does not tell where a register lies")
	}
	return keyed.ObjectKey(key)
}

func (s *scene) foreignItem(key, body string) (check func()) {
	t := s.t
	c := s.at.Dynamo.Client()
	// The keys of the item are those that the store itself gives it.
	if _, err := s.direct.Put(t.Context(), key, "", []byte("x")); err != nil {
		t.Fatal(err)
	}
	out, err := c.Scan(t.Context(), &dynamodb.ScanInput{TableName: &s.at.Space})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range out.Items {
		if text(item["key"]) != key {
			continue
		}
		foreign := map[string]types.AttributeValue{"part": item["part"], "key": item["key"], "body": str(body)}
		if _, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &s.at.Space, Item: foreign}); err != nil {
			t.Fatal(err)
		}
		return func() {
			delete(foreign, "body")
			out, err := c.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &s.at.Space, Key: foreign})
			if err != nil || len(out.Item) != 3 || text(out.Item["body"]) != body {
				t.Errorf("the foreign item was changed: %v, %v", out, err)
			}
		}
	}
	t.Fatalf("no item of the key %q in %v", key, out.Items)
	return nil
}

// remove removes the register of key behind the back of the store, without a trace.
func (s *scene) remove(key string) {
	t := s.t
	t.Helper()
	if s.at.Kind != "dynamodb" {
		r := &raw{t, s.at.S3.Client(), s.at.Space}
		if err := r.delete(s.objectKey(key), ""); err != nil {
			t.Fatal(err)
		}
		return
	}
	c := s.at.Dynamo.Client()
	out, err := c.Scan(t.Context(), &dynamodb.ScanInput{TableName: &s.at.Space})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range out.Items {
		if text(item["key"]) == key {
			_, err := c.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
				TableName: &s.at.Space, Key: map[string]types.AttributeValue{"part": item["part"], "key": item["key"]},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

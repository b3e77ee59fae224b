package dynamostore_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/aws/internal/registertest"
	"github.com/holdfast-go/holdfast/internal/aws/dynamocall"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func newServer() *awstest.DynamoDB {
	d := awstest.NewDynamoDB()
	d.AddTable("table", "part", "key")
	return d
}

func newStore(t *testing.T, d *awstest.DynamoDB, opts *dynamostore.Options, client ...func(*dynamodb.Options)) *dynamostore.Store {
	t.Helper()
	s, err := dynamostore.New(d.Client(client...), "table", opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// trusted is a store whose table needs no look.
func trusted(t *testing.T, d *awstest.DynamoDB) *dynamostore.Store {
	return newStore(t, d, &dynamostore.Options{Trusted: true})
}

func TestStore(t *testing.T) {
	var d *awstest.DynamoDB
	opts := &dynamostore.Options{Prefix: "pre/fix"}
	open := func(t *testing.T) store.Store {
		d = newServer()
		d.PageSize = 5
		return newStore(t, d, opts)
	}
	storetest.Run(t, open, &storetest.Options{
		Reopen: func(t *testing.T, _ store.Store) store.Store { return newStore(t, d, opts) },
		Intercept: func(t *testing.T, _ store.Store, carry func(func() error) error) store.Store {
			return newStore(t, d, opts, func(o *dynamodb.Options) { o.HTTPClient = awstest.InterceptedClient(d, carry) })
		},
		Bubble: true, Rounds: 3, Keys: 200, Racers: 6,
	})
}

// TestRequests: how many requests each operation takes: a contended try is one.
func TestRequests(t *testing.T) {
	d := newServer()
	s := trusted(t, d)
	ctx := t.Context()
	var v, w store.Version
	for _, c := range []struct {
		name string
		do   func() error
		want error
		ops  string
	}{
		{"get of nothing", func() error { _, _, err := s.Get(ctx, "k"); return err }, store.ErrNotFound, "GetItem"},
		{"create", func() (err error) { v, err = s.Put(ctx, "k", "", []byte("1")); return err }, nil, "PutItem"},
		{"create again", func() error { _, err := s.Put(ctx, "k", "", []byte("1")); return err }, store.ErrConflict, "PutItem"},
		{"swap", func() (err error) { w, err = s.Put(ctx, "k", v, []byte("2")); return err }, nil, "PutItem"},
		{"stale swap", func() error { _, err := s.Put(ctx, "k", v, []byte("2")); return err }, store.ErrConflict, "PutItem"},
		{"get", func() error { _, _, err := s.Get(ctx, "k"); return err }, nil, "GetItem"},
		{"delete", func() error { return s.Delete(ctx, "k", w) }, nil, "PutItem"},
		{"create over a tombstone", func() error { _, err := s.Put(ctx, "k", "", []byte("1")); return err }, nil, "PutItem PutItem"},
		{"list", func() error {
			for _, err := range s.List(ctx, "") {
				if err != nil {
					return err
				}
			}
			return nil
		}, nil, strings.TrimSpace(strings.Repeat("Query ", 16))},
	} {
		d.Reset()
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		if got := strings.Join(d.Ops(), " "); got != c.ops {
			t.Errorf("%s: requests %q, want %q", c.name, got, c.ops)
		}
	}
	unknown := newStore(t, d, nil)
	d.Reset()
	registertest.Put(t, unknown, "new", "", "1")
	if got := strings.Join(d.Ops(), " "); got != "DescribeTable PutItem PutItem PutItem PutItem PutItem DeleteItem PutItem" {
		t.Errorf("the first write to an unknown server: %s", got)
	}
	d.Reset()
	registertest.Put(t, unknown, "next", "", "1")
	if got := strings.Join(d.Ops(), " "); got != "PutItem" {
		t.Errorf("the second: %s", got)
	}
	// Amazon itself: only the table is looked at.
	amazon, err := dynamostore.New(d.Client(func(o *dynamodb.Options) { o.BaseEndpoint = nil }), "table", nil)
	if err != nil {
		t.Fatal(err)
	}
	d.Reset()
	registertest.Put(t, amazon, "third", "", "1")
	if got := strings.Join(d.Ops(), " "); got != "DescribeTable PutItem" {
		t.Errorf("the first write to Amazon: %s", got)
	}
	if !amazon.Traits().Trusted || unknown.Traits().Trusted || !unknown.Traits().ConflictCarriesState {
		t.Errorf("traits: %+v, %+v", amazon.Traits(), unknown.Traits())
	}
}

// TestConditions: every conditional write asks for the item that it meets, and every
// read is consistent: a stale one is never asked for.
func TestConflictCarriesState(t *testing.T) {
	d := newServer()
	s := trusted(t, d)
	v := registertest.Put(t, s, "k", "", `{"holder":"a"}`)
	w := registertest.Put(t, s, "k", v, `{"holder":"b"}`)
	for _, prev := range []store.Version{"", v} {
		_, err := s.Put(t.Context(), "k", prev, []byte("x"))
		var c *store.ConflictError
		if !errors.As(err, &c) || !c.HasCurrent || string(c.Value) != `{"holder":"b"}` || c.Version != w {
			t.Errorf("against %q: %v", prev, err)
		}
	}
	if err := s.Delete(t.Context(), "k", w); err != nil {
		t.Fatal(err)
	}
	_, err := s.Put(t.Context(), "k", w, []byte("x"))
	var c *store.ConflictError
	if !errors.As(err, &c) || !c.HasCurrent || c.Version != "" {
		t.Errorf("against a tombstone: %v", err)
	}
	// A server that does not tell the item costs a read more.
	d.Broken.NoOldItem = true
	d.Reset()
	_, err = s.Put(t.Context(), "k", w, []byte("x"))
	if !errors.As(err, &c) || !c.HasCurrent || c.Version != "" || strings.Join(d.Ops(), " ") != "PutItem GetItem" {
		t.Errorf("without the old item: %v, %v", err, d.Ops())
	}
}

// TestLostReplies: a write whose reply is lost, repeated, delayed or refused on the
// way is settled by what the next try meets, without a read.
func TestLostReplies(t *testing.T) {
	throttled := func(code string) awstest.Fault { return awstest.Fault{Status: 400, Code: code} }
	registertest.LostReplies(t, "PutItem", []registertest.LostReply{
		{Name: "applied, reply lost", Fault: awstest.Fault{Lose: true}, Ops: "PutItem PutItem"},
		{Name: "not applied, reply lost", Fault: awstest.Fault{Drop: true}, Ops: "PutItem PutItem"},
		{Name: "repeated on the way", Fault: awstest.Fault{Twice: true}, Ops: "PutItem"},
		{Name: "500, applied", Fault: awstest.Fault{Status: 500, Code: "InternalServerError", Applied: true}, Ops: "PutItem PutItem"},
		{Name: "500, not applied", Fault: awstest.Fault{Status: 500, Code: "InternalServerError"}, Ops: "PutItem PutItem"},
		{Name: "throttled by capacity", Fault: throttled("ProvisionedThroughputExceededException"), Ops: "PutItem PutItem"},
		{Name: "throttled", Fault: throttled("ThrottlingException"), Ops: "PutItem PutItem"},
		{Name: "throttled by account", Fault: throttled("RequestLimitExceeded"), Ops: "PutItem PutItem"},
		{Name: "a transaction in flight", Fault: throttled("TransactionConflictException"), Ops: "PutItem PutItem"},
		{Name: "no answer", Fault: awstest.Fault{Hang: true}, Ops: "PutItem PutItem"},
		{Name: "late", Fault: awstest.Fault{Before: 10 * time.Second}, Ops: "PutItem PutItem"},
	}, newServer, trusted)
}

// TestOutcomes: what is reported when a write cannot be settled.
func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault awstest.Fault
		want  store.Outcome
		is    error
	}{
		{"throttled for ever", awstest.Fault{Status: 400, Code: "ThrottlingException"}, store.NotApplied, store.ErrUnavailable},
		{"lost for ever", awstest.Fault{Drop: true}, store.Unknown, store.ErrUnavailable},
		{"500 for ever", awstest.Fault{Status: 500, Code: "InternalServerError"}, store.Unknown, store.ErrUnavailable},
		{"denied", awstest.Fault{Status: 400, Code: "AccessDeniedException"}, store.NotApplied, store.ErrDenied},
		{"wrong credentials", awstest.Fault{Status: 400, Code: "UnrecognizedClientException"}, store.NotApplied, store.ErrCredentials},
		{"no table", awstest.Fault{Status: 400, Code: "ResourceNotFoundException"}, store.NotApplied, store.ErrMisconfigured},
		{"other keys", awstest.Fault{Status: 400, Code: "ValidationException"}, store.NotApplied, store.ErrMisconfigured},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newServer()
				s := trusted(t, d)
				d.Add("", 0, -1, c.fault)
				_, err := s.Put(t.Context(), "k", "", []byte("1"))
				if got := store.OutcomeOf(err); got != c.want || !errors.Is(err, c.is) || errors.Is(err, store.ErrConflict) {
					t.Errorf("got %v (%v), want %v", err, got, c.want)
				}
				if !strings.Contains(err.Error(), "dynamodb://table") || strings.Contains(err.Error(), "TESTACCESSKEY") || strings.Contains(err.Error(), "test-secret-key") {
					t.Errorf("the error: %v", err)
				}
				if got := len(d.Ops()); got > dynamocall.Tries {
					t.Errorf("%d requests", got)
				}
				if _, _, err := s.Get(t.Context(), "k"); !errors.Is(err, c.is) || errors.Is(err, store.ErrNotFound) {
					t.Errorf("get: %v", err)
				}
			})
		})
	}
}

// TestSuperseded: a write whose reply was lost and that others have superseded is
// distinguished from one that was not applied, as long as the past in the item reaches back.
func TestSuperseded(t *testing.T) {
	for _, c := range []struct {
		others  int
		applied bool
		want    store.Outcome
	}{
		{1, true, store.Applied}, {7, true, store.Applied}, {8, true, store.Unknown},
		{1, false, store.NotApplied}, {7, false, store.NotApplied}, {9, false, store.Unknown},
	} {
		t.Run(fmt.Sprintf("%d others, applied %v", c.others, c.applied), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newServer()
				s := trusted(t, d)
				var v store.Version
				for i := range 10 { // so that the past does not reach the beginning
					v = registertest.Put(t, s, "k", v, fmt.Sprint(i))
				}
				// The others write before our second try.
				other := trusted(t, d)
				var once sync.Once
				d.AddWhen(func(r awstest.Request) bool {
					once.Do(func() {
						go func() {
							// They are done within the pause after the first try. Time passes
							// only when this try has ended.
							time.Sleep(time.Nanosecond)
							_, now, _ := other.Get(t.Context(), "k")
							for range c.others {
								now, _ = other.Put(t.Context(), "k", now, []byte("other"))
							}
						}()
					})
					return false
				}, 0, -1, awstest.Fault{})
				d.Add("PutItem", 0, 1, awstest.Fault{Drop: !c.applied, Lose: c.applied})
				_, err := trusted(t, d).Put(t.Context(), "k", v, []byte("ours"))
				if got := store.OutcomeOf(err); got != c.want {
					t.Errorf("got %v (%v), want %v", err, got, c.want)
				}
			})
		})
	}
}

// TestDeadline: a request that gets no answer leaves time to settle it, however
// little the caller has.
func TestDeadline(t *testing.T) { registertest.Deadline(t, "PutItem", newServer, trusted) }

// TestFaultyCounter: many that raise a counter through a network that loses,
// repeats, delays and refuses lose no acknowledged increment, and count none twice.
func TestFaultyCounter(t *testing.T) {
	registertest.FaultyCounter(t, []awstest.Fault{
		{Lose: true}, {Drop: true}, {Twice: true}, {Status: 500, Code: "InternalServerError"}, {Status: 500, Code: "InternalServerError", Applied: true},
		{Status: 400, Code: "ThrottlingException"}, {Before: 7 * time.Second}, {After: 2 * time.Second}, {Hang: true},
	}, newServer, trusted)
}

// TestTruncatedAnswers: whatever is left of an answer, what is there is not said to be
// absent, and no write is said to have failed that was applied.
func TestTruncatedAnswers(t *testing.T) {
	key := strings.Repeat("k", 200) // so that every answer that has it is long
	for left := int64(0); left < 200; left += 1 + left/8 {
		synctest.Test(t, func(t *testing.T) {
			d := newServer()
			c := awstest.NewShortened(d)
			s, err := dynamostore.New(d.Client(func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: c} }), "table", nil)
			if err != nil {
				t.Fatal(err)
			}
			v := registertest.Put(t, s, key, "", strings.Repeat("x", 200))
			c.Left.Store(left)
			if _, _, err := s.Get(t.Context(), key); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%d bytes left: get: %v", left, err)
			}
			for _, err := range s.List(t.Context(), "") {
				if !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("%d bytes left: list: %v", left, err)
				}
			}
			w, err := s.Put(t.Context(), key, v, []byte("new"))
			if store.OutcomeOf(err) == store.NotApplied {
				t.Errorf("%d bytes left: put: %v", left, err)
			}
			c.Left.Store(-1)
			if value, now, readErr := s.Get(t.Context(), key); err == nil && (readErr != nil || now != w || string(value) != "new") {
				t.Errorf("%d bytes left: put gave %q; then %s %q, %v", left, w, value, now, readErr)
			}
		})
	}
}

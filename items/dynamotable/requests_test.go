package dynamotable_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/internal/aws/dynamocall"
	"github.com/holdfast-go/holdfast/items/dynamotable"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

// writes are the writes of a table, each under a condition that holds while n is 1.
var writes = map[string]func(ctx context.Context, table *dynamotable.Table, key largeitem.Key) error{
	"PutItem": func(ctx context.Context, table *dynamotable.Table, key largeitem.Key) error {
		_, err := table.Put(ctx, key, attributes{"n": largeitem.Number("2")}, ifOne)
		return err
	},
	"UpdateItem": func(ctx context.Context, table *dynamotable.Table, key largeitem.Key) error {
		_, err := table.Update(ctx, key, largeitem.Change{Set: attributes{"n": largeitem.Number("2")}}, ifOne)
		return err
	},
	"DeleteItem": func(ctx context.Context, table *dynamotable.Table, key largeitem.Key) error {
		_, err := table.Delete(ctx, key, ifOne)
		return err
	},
}

var ifOne = &largeitem.Condition{Equal: attributes{"n": largeitem.Number("1")}}

// withItem returns a table with an item whose n is 1.
func withItem(t *testing.T, d *awstest.DynamoDB) (*dynamotable.Table, largeitem.Key) {
	t.Helper()
	table, key := newTable(t, d, shapes["text"]), mustKey(t, "p")
	if _, err := table.Put(t.Context(), key, attributes{"n": largeitem.Number("1")}, nil); err != nil {
		t.Fatal(err)
	}
	d.Reset()
	return table, key
}

// TestRequests: how many requests each call costs, and that all reads are consistent.
func TestRequests(t *testing.T) {
	d := awstest.NewDynamoDB()
	table, key := withItem(t, d)
	d.PageSize = 100
	keys := []largeitem.Key{key, key}
	for i := range 249 {
		k := mustKey(t, fmt.Sprint(i))
		keys = append(keys, k, k)
		if _, err := table.Put(t.Context(), k, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		do   func() error
		ops  string
	}{
		{"get", func() error { _, err := table.Get(t.Context(), key, nil); return err }, "GetItem"},
		{"update", func() error {
			_, err := table.Update(t.Context(), key, largeitem.Change{Set: attributes{"a": "x"}}, ifOne)
			return err
		}, "UpdateItem"},
		{"a refused update", func() error {
			_, err := table.Update(t.Context(), key, largeitem.Change{}, &largeitem.Condition{Absent: true})
			var refused *largeitem.ConditionFailedError
			if !errors.As(err, &refused) || !refused.HasCurrent || refused.Current["a"] != "x" {
				return fmt.Errorf("got %w", err)
			}
			return nil
		}, "UpdateItem"},
		{"put", func() error { _, err := table.Put(t.Context(), key, attributes{"a": "y"}, nil); return err }, "PutItem"},
		{"250 items, each twice", func() error {
			items, err := table.GetMany(t.Context(), keys, nil)
			if err == nil && (len(items) != 500 || slices.ContainsFunc(items, func(a attributes) bool { return a == nil })) {
				return fmt.Errorf("%d items", len(items))
			}
			items[0]["a"] = "changed by the caller"
			if items[1]["a"] != "y" {
				return errors.New("two results share a map")
			}
			return err
		}, "BatchGetItem BatchGetItem BatchGetItem"},
		{"no items", func() error { _, err := table.GetMany(t.Context(), nil, nil); return err }, ""},
		{"scan of 250", func() error {
			for _, err := range table.Scan(t.Context(), &largeitem.ScanOptions{Attributes: []string{"a"}}) {
				if err != nil {
					return err
				}
			}
			return nil
		}, "Scan Scan Scan"},
		{"delete", func() error { _, err := table.Delete(t.Context(), key, nil); return err }, "DeleteItem"},
	} {
		d.Reset()
		if err := c.do(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := strings.Join(d.Ops(), " "); got != c.ops {
			t.Errorf("%s: requests %q, want %q", c.name, got, c.ops)
		}
		for _, r := range d.Requests() {
			if strings.Contains(r.Op, "Get") || r.Op == "Scan" {
				if !strings.Contains(string(r.Body), `"ConsistentRead":true`) {
					t.Errorf("%s: %s is not consistent", c.name, r.Op)
				}
			}
		}
	}
}

// TestLostWrites: a write is sent once, whatever its outcome, and its error says no more
// than what is known.
func TestLostWrites(t *testing.T) {
	for op, write := range writes {
		for name, c := range map[string]struct {
			fault   awstest.Fault
			outcome store.Outcome
			err     error
		}{
			"reply lost":          {awstest.Fault{Lose: true}, store.Unknown, store.ErrUnavailable},
			"request lost":        {awstest.Fault{Drop: true}, store.Unknown, store.ErrUnavailable},
			"no answer":           {awstest.Fault{Hang: true}, store.Unknown, store.ErrUnavailable},
			"500 and applied":     {awstest.Fault{Status: 500, Code: "InternalServerError", Applied: true}, store.Unknown, store.ErrUnavailable},
			"503":                 {awstest.Fault{Status: 503, Code: "ServiceUnavailable"}, store.Unknown, store.ErrUnavailable},
			"throttled":           {awstest.Fault{Status: 400, Code: "ProvisionedThroughputExceededException"}, store.NotApplied, store.ErrUnavailable},
			"in a transaction":    {awstest.Fault{Status: 400, Code: "TransactionConflictException"}, store.NotApplied, store.ErrUnavailable},
			"denied":              {awstest.Fault{Status: 400, Code: "AccessDeniedException"}, store.NotApplied, store.ErrDenied},
			"the table is gone":   {awstest.Fault{Status: 400, Code: "ResourceNotFoundException"}, store.NotApplied, store.ErrMisconfigured},
			"invalid":             {awstest.Fault{Status: 400, Code: "ValidationException"}, store.NotApplied, largeitem.ErrInvalid},
			"repeated by a proxy": {awstest.Fault{Twice: true}, store.NotApplied, store.ErrConflict},
		} {
			t.Run(op+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := awstest.NewDynamoDB()
					table, key := withItem(t, d)
					d.Add(op, 0, 1, c.fault)
					start := time.Now()
					err := write(t.Context(), table, key)
					if !errors.Is(err, c.err) || store.OutcomeOf(err) != c.outcome || len(d.Requests()) != 1 || time.Since(start) > dynamotable.DefaultTimeout {
						t.Errorf("got %v (%v) after %v and %v", err, store.OutcomeOf(err), d.Ops(), time.Since(start))
					}
					if refused := new(largeitem.ConditionFailedError); errors.As(err, &refused) && refused.HasCurrent && op != "DeleteItem" && refused.Current["n"] != largeitem.Number("2") {
						t.Errorf("the first copy is not what the second met: %v", refused.Current)
					}
				})
			})
		}
	}
}

// TestRepeatedReads: reads are repeated, and not for ever.
func TestRepeatedReads(t *testing.T) {
	reads := map[string]func(ctx context.Context, table *dynamotable.Table, key largeitem.Key) error{
		"GetItem": func(ctx context.Context, table *dynamotable.Table, key largeitem.Key) error {
			_, err := table.Get(ctx, key, nil)
			return err
		},
		"BatchGetItem": func(ctx context.Context, table *dynamotable.Table, key largeitem.Key) error {
			items, err := table.GetMany(ctx, []largeitem.Key{key}, nil)
			if err == nil && items[0] == nil {
				return errors.New("absent")
			}
			return err
		},
		"Scan": func(ctx context.Context, table *dynamotable.Table, _ largeitem.Key) error {
			n := 0
			for _, err := range table.Scan(ctx, nil) {
				if err != nil {
					return err
				}
				n++
			}
			if n != 1 {
				return fmt.Errorf("%d items", n)
			}
			return nil
		},
	}
	for op, read := range reads {
		for _, fault := range []awstest.Fault{{Lose: true}, {Status: 400, Code: "ThrottlingException"}, {Status: 500, Code: "InternalServerError"}} {
			synctest.Test(t, func(t *testing.T) {
				d := awstest.NewDynamoDB()
				table, key := withItem(t, d)
				d.Add(op, 0, dynamocall.Tries-1, fault)
				if err := read(t.Context(), table, key); err != nil || len(d.Requests()) != dynamocall.Tries {
					t.Errorf("%s, %+v: got %v after %v", op, fault, err, d.Ops())
				}
				d.Reset()
				d.Add(op, 0, -1, fault)
				if err := read(t.Context(), table, key); !errors.Is(err, store.ErrUnavailable) || store.InDoubt(err) || len(d.Requests()) != dynamocall.Tries {
					t.Errorf("%s, %+v for ever: got %v after %v", op, fault, err, d.Ops())
				}
			})
		}
	}
}

// TestPutOff: what the server puts off is requested again, and not for ever.
func TestPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := awstest.NewDynamoDB()
		table, key := withItem(t, d)
		keys := []largeitem.Key{key, mustKey(t, "absent"), mustKey(t, "also absent")}
		for _, size := range []int{1, 2, 3} {
			d.BatchSize = size
			items, err := table.GetMany(t.Context(), keys, &largeitem.GetOptions{Attributes: []string{"n"}})
			if err != nil || items[0]["n"] != largeitem.Number("1") || items[1] != nil || items[2] != nil {
				t.Errorf("%d at a time: got %v, %v", size, items, err)
			}
		}
		d.BatchSize = -1
		d.Reset()
		items, err := table.GetMany(t.Context(), keys, nil)
		if !errors.Is(err, store.ErrUnavailable) || items != nil || len(d.Requests()) != dynamocall.Tries {
			t.Errorf("got %v, %v after %v", items, err, d.Ops())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := table.GetMany(ctx, keys, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a deadline: %v", err)
		}
	})
}

// replies answers with one body, whatever is asked, but for the description of the table.
type replies struct {
	server *awstest.DynamoDB
	body   string
}

func (r replies) RoundTrip(q *http.Request) (*http.Response, error) {
	if strings.HasSuffix(q.Header.Get("X-Amz-Target"), ".DescribeTable") {
		return r.server.RoundTrip(q)
	}
	return &http.Response{StatusCode: 200, ContentLength: -1, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Body: io.NopCloser(strings.NewReader(r.body)), Request: q}, nil
}

// TestAbsentOnlyIfAnswered: GetMany takes nothing for absent that the server did not answer
// for, since a sweep deletes what no item refers to.
func TestAbsentOnlyIfAnswered(t *testing.T) {
	for body, want := range map[string]error{
		`{}`:               store.ErrUnavailable,
		`{"Responses":{}}`: store.ErrUnavailable,
		`{"Responses":{},"UnprocessedKeys":{"items":{"Keys":[{"pk":{"S":"p"}}]}}}`:                           store.ErrUnavailable,
		`{"Responses":{"items":[{"pk":{"S":"other"}}]}}`:                                                     store.ErrCorrupt,
		`{"Responses":{"items":[{"pk":{"N":"1"}}]}}`:                                                         store.ErrCorrupt,
		`{"Responses":{"items":[{"n":{"S":"p"}}]}}`:                                                          store.ErrCorrupt,
		`{"Responses":{"items":[{"pk":{"S":"p"},"n":{"X":"p"}}]}}`:                                           store.ErrCorrupt,
		`{"Responses":{"items":[]},"UnprocessedKeys":{"items":{"Keys":[{"pk":{"S":"other"}}]}}}`:             store.ErrCorrupt,
		`{"Responses":{"items":[{"pk":{"S":"p"}}]},"UnprocessedKeys":{"items":{"Keys":[{"pk":{"S":"p"}}]}}}`: store.ErrCorrupt,
		`{"Responses":{"items":[]}}`:                                                                         nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			d := awstest.NewDynamoDB()
			table := newTable(t, d, shapes["text"], func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: replies{d, body}} })
			items, err := table.GetMany(t.Context(), []largeitem.Key{mustKey(t, "p"), mustKey(t, "q")}, nil)
			if !errors.Is(err, want) || (err == nil) != (want == nil) || err != nil && items != nil {
				t.Errorf("%s: got %v, %v", body, items, err)
			}
		})
	}
}

// TestTruncatedAnswers: whatever is left of an answer, what is there is not said to be absent, and
// no write is said to have failed that was applied.
func TestTruncatedAnswers(t *testing.T) {
	for left := int64(0); left < 200; left += 1 + left/4 {
		synctest.Test(t, func(t *testing.T) {
			d := awstest.NewDynamoDB()
			c := awstest.NewShortened(d)
			table, key := newTable(t, d, shapes["text"], func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: c} }), mustKey(t, "p")
			item := attributes{"n": largeitem.Number("1"), "long": strings.Repeat("x", 250)}
			for op, write := range writes {
				c.Left.Store(-1)
				if _, err := table.Put(t.Context(), key, item, nil); err != nil {
					t.Fatal(err)
				}
				c.Left.Store(left)
				if got, err := table.Get(t.Context(), key, nil); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("%d bytes left: get: %v, %v", left, got, err)
				}
				if got, err := table.GetMany(t.Context(), []largeitem.Key{key}, nil); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("%d bytes left: get many: %v, %v", left, got, err)
				}
				for row, err := range table.Scan(t.Context(), nil) {
					if !errors.Is(err, store.ErrUnavailable) {
						t.Errorf("%d bytes left: scan: %v, %v", left, row, err)
					}
				}
				if err := write(t.Context(), table, key); store.OutcomeOf(err) == store.NotApplied {
					t.Errorf("%d bytes left: %s: %v", left, op, err)
				}
				// Now it is refused: for an item, which is not said to be absent.
				if op == "DeleteItem" {
					continue
				}
				if err := write(t.Context(), table, key); err == nil || errors.Is(err, store.ErrConflict) && refusedKnown(err) {
					t.Errorf("%d bytes left: a refused %s: %v", left, op, err)
				}
			}
		})
	}
}

func refusedKnown(err error) bool {
	var refused *largeitem.ConditionFailedError
	return errors.As(err, &refused) && refused.HasCurrent && refused.Current == nil
}

// TestUnknownType: an item with an attribute of a type that this version does not know
// cannot be read, and a write that found it says what is known.
func TestUnknownType(t *testing.T) {
	d := awstest.NewDynamoDB()
	_, key := withItem(t, d)
	body := `{"Item":{"pk":{"S":"p"},"x":{"NEW":"y"}},"Items":[{"pk":{"S":"p"},"x":{"NEW":"y"}}],"Attributes":{"pk":{"S":"p"},"x":{"NEW":"y"}}}`
	strange := openTable(t, d, nil, func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: replies{d, body}} })
	for _, in := range []string{`"x":{"NEW":"y"}`, `"x":{"M":{"a":{"N":"1"},"b":{"NEW":"y"}}}`, `"x":{"L":[{"N":"1"},{"NEW":"y"}]}`, `"x":{}`, `"x":null`} {
		for _, item := range []string{`{"pk":{"S":"p"},` + in + `}`, `{` + in + `,"pk":{"S":"p"}}`} {
			table := openTable(t, d, nil, func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: replies{d, `{"Item":` + item + `}`}} })
			if got, err := table.Get(t.Context(), key, nil); !errors.Is(err, dynamotable.ErrType) || !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%s: %v, %v", item, got, err)
			}
		}
	}
	for op, write := range writes {
		if err := write(t.Context(), strange, key); !errors.Is(err, dynamotable.ErrType) || store.OutcomeOf(err) != store.Unknown {
			t.Errorf("%s: %v (%v)", op, err, store.OutcomeOf(err))
		}
	}
}

// TestServerThatOmitsItems: where a server does not show the item that a condition found, an
// item is not said to be absent.
func TestServerThatOmitsItems(t *testing.T) {
	d := awstest.NewDynamoDB()
	table, key := withItem(t, d)
	d.Broken.NoOldItem = true
	refuse := func(table *dynamotable.Table) *largeitem.ConditionFailedError {
		t.Helper()
		_, err := table.Update(t.Context(), key, largeitem.Change{}, &largeitem.Condition{Equal: attributes{"n": "other"}})
		var refused *largeitem.ConditionFailedError
		if !errors.As(err, &refused) || store.OutcomeOf(err) != store.NotApplied {
			t.Fatalf("got %v", err)
		}
		return refused
	}
	if r := refuse(table); r.HasCurrent {
		t.Errorf("got %+v", r)
	}
	d.Broken.NoOldItem = false
	if r := refuse(table); !r.HasCurrent || r.Current["n"] != largeitem.Number("1") {
		t.Errorf("got %+v", r)
	}
	if _, err := table.Delete(t.Context(), key, nil); err != nil {
		t.Fatal(err)
	}
	if r := refuse(table); !r.HasCurrent || r.Current != nil {
		t.Errorf("after the server has told once: %+v", r)
	}
	if r := refuse(openTable(t, d, nil)); r.HasCurrent {
		t.Errorf("another handle: %+v", r)
	}
	amazon := openTable(t, d, nil, func(o *dynamodb.Options) { o.BaseEndpoint = nil })
	if r := refuse(amazon); !r.HasCurrent || r.Current != nil {
		t.Errorf("Amazon itself: %+v", r)
	}
}

// TestTooLarge: an item above 400 KB is refused before it is sent, or by the server.
func TestTooLarge(t *testing.T) {
	d := awstest.NewDynamoDB()
	table, key := withItem(t, d)
	large := strings.Repeat("x", 300<<10)
	_, err := table.Put(t.Context(), key, attributes{"a": large, "b": large}, nil)
	if !errors.Is(err, store.ErrTooLarge) || store.OutcomeOf(err) != store.NotApplied || len(d.Requests()) > 0 {
		t.Errorf("put: %v after %v", err, d.Ops())
	}
	for i, name := range []string{"a", "b"} {
		_, err := table.Update(t.Context(), key, largeitem.Change{Set: attributes{name: large}}, nil)
		if errors.Is(err, store.ErrTooLarge) != (i == 1) || i == 1 && store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("update %d: %v", i, err)
		}
	}
}

// TestSchema: the table is looked at once, and what cannot be used is refused.
func TestSchema(t *testing.T) {
	d := awstest.NewDynamoDB()
	table := newTable(t, d, shapes["number and texts"])
	d.Add("DescribeTable", 0, dynamocall.Tries, awstest.Fault{Status: 400, Code: "AccessDeniedException"})
	if err := writes["PutItem"](t.Context(), table, mustKey(t, 7, "s")); !errors.Is(err, store.ErrDenied) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("a write to a table that cannot be looked at: %v", err)
	}
	d.Clear()
	d.Add("DescribeTable", 0, -1, awstest.Fault{Lose: true})
	short := openTable(t, d, nil)
	if err := writes["PutItem"](t.Context(), short, mustKey(t, 7, "s")); !errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("a write before which the look was lost: %v", err)
	}
	if _, err := short.Schema(t.Context()); !errors.Is(err, store.ErrUnavailable) || store.InDoubt(err) {
		t.Errorf("a look that was lost: %v", err)
	}
	d.Clear()
	d.Reset()
	s, err := table.Schema(t.Context())
	if err != nil || s.Table != "items" || s.Partition != shapes["number and texts"][0] || s.Sort != shapes["number and texts"][1] || s.MaxItem != largeitem.MaxItem || s.ID == "" {
		t.Errorf("got %+v, %v", s, err)
	}
	if again, err := table.Schema(t.Context()); again != s || err != nil || len(d.Requests()) != 1 {
		t.Errorf("again: %+v, %v after %v", again, err, d.Ops())
	}
	// A look-alike need not have ids: its table is known by every address, and by its creation.
	var ids []string
	for i, address := range []string{"http://dynamodb.test", "http://127.0.0.1:8000", "http://dynamodb.test"} {
		d.SetID("items", "", []float64{1e9 + 0.25, 1e9 + 0.25, 1e9 + 0.5}[i])
		s, err := openTable(t, d, nil, func(o *dynamodb.Options) { o.BaseEndpoint = &address }).Schema(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.ID)
	}
	if ids[0] != ids[1] || ids[0] == ids[2] {
		t.Errorf("IDs of a look-alike, by another address, and of a later table: %q", ids)
	}
	// A table that was made again has another ID.
	d.AddTable("items", "pk", "")
	if anew, err := openTable(t, d, nil).Schema(t.Context()); err != nil || anew.ID == s.ID {
		t.Errorf("made anew: %+v, %v", anew, err)
	}
	// The keys of another table.
	for _, key := range []largeitem.Key{mustKey(t, "p", "s"), mustKey(t, 7)} {
		if _, err := openTable(t, d, nil).Get(t.Context(), key, nil); !errors.Is(err, largeitem.ErrKey) {
			t.Errorf("%v: %v", key, err)
		}
	}
	if _, err := d.Client().CreateTable(t.Context(), binaryKey("binary")); err != nil {
		t.Fatal(err)
	}
	binary, err := dynamotable.New(d.Client(), "binary", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := binary.Schema(t.Context()); !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "pk (HASH, B)") {
		t.Errorf("a binary key: %v", err)
	}
	for oneOrder, want := range map[bool]error{false: store.ErrUnsafe, true: nil} {
		d.AddTable("items", "pk", "")
		d.SetReplicas("items", oneOrder, "eu-west-1")
		if _, err := openTable(t, d, nil).Schema(t.Context()); !errors.Is(err, want) {
			t.Errorf("a global table, one order %v: %v", oneOrder, err)
		}
		if _, err := openTable(t, d, &dynamotable.Options{GlobalTable: true}).Schema(t.Context()); err != nil {
			t.Errorf("a global table on request: %v", err)
		}
	}
}

// TestCreateTable: a table of the right keys is left as it is, another one refused.
func TestCreateTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := awstest.NewDynamoDB()
		for name, shape := range shapes {
			for range 2 {
				if err := dynamotable.CreateTable(t.Context(), d.Client(), name, shape[0], shape[1], nil); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			table, err := dynamotable.New(d.Client(), name, nil)
			if err != nil {
				t.Fatal(err)
			}
			if s, err := table.Schema(t.Context()); err != nil || [2]largeitem.KeyAttribute{s.Partition, s.Sort} != shape {
				t.Errorf("%s: %+v, %v", name, s, err)
			}
			for _, other := range [][2]largeitem.KeyAttribute{{{Name: "pk"}, {Name: "other"}}, {{Name: "pk", Number: true}}} {
				if err := dynamotable.CreateTable(t.Context(), d.Client(), name, other[0], other[1], nil); !errors.Is(err, store.ErrMisconfigured) {
					t.Errorf("%s as %v: %v", name, other, err)
				}
			}
		}
		for _, bad := range [][2]largeitem.KeyAttribute{{}, {{}, {Name: "a"}}, {{Name: "a"}, {Name: "a"}}} {
			if err := dynamotable.CreateTable(t.Context(), d.Client(), "bad", bad[0], bad[1], nil); !errors.Is(err, largeitem.ErrInvalid) {
				t.Errorf("%v: %v", bad, err)
			}
		}
	})
}

func TestOptions(t *testing.T) {
	d := awstest.NewDynamoDB()
	for _, o := range []dynamotable.Options{{Timeout: time.Millisecond}} {
		if _, err := dynamotable.New(d.Client(), "items", &o); !errors.Is(err, largeitem.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := dynamotable.New(nil, "items", nil); err == nil {
		t.Error("without a client")
	}
	if _, err := dynamotable.New(d.Client(), "", nil); err == nil {
		t.Error("without a name")
	}
}

func TestURLs(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", "/nowhere")
	for url, want := range map[string]string{
		"dynamodb://items?endpoint=http://localhost:8000":                                                 "",
		"dynamodb://items?endpoint=http%3A%2F%2Flocalhost%3A8000&region=x&timeout=2s&unsafe=global-table": "",
		"dynamodb://items?region=eu-west-1":                                                               "",
		"dynamodb://items":                                                                                "region",
		"dynamodb://items/prefix?region=x":                                                                "without a prefix",
		"dynamodb://":                                                                                     "dynamodb://NAME",
		"s3://items":                                                                                      "dynamodb://",
		"dynamodb://items?region=x&unsafe=conditions":                                                     "global-table",
		"dynamodb://items?region=x&timeout=soon":                                                          "duration",
		"dynamodb://items?region=x&timeout=1ms":                                                           "100ms",
		"dynamodb://items?region=x&colour=red":                                                            "colour",
		"dynamodb://items?endpoint=http://user:secret@localhost":                                          "credentials",
	} {
		_, err := dynamotable.Open(t.Context(), url, nil)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	_, _, o, err := dynamotable.FromURL(t.Context(), "dynamodb://items?region=x&timeout=2s&unsafe=global-table", &dynamotable.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if o.Timeout != 2*time.Second || !o.GlobalTable {
		t.Errorf("got %+v", o)
	}
}

// TestScanPositions: a scan continues after any row, also one that was deleted meanwhile.
func TestScanPositions(t *testing.T) {
	d := awstest.NewDynamoDB()
	table := newTable(t, d, shapes["text and number"])
	d.PageSize = 3
	for i := range 10 {
		if _, err := table.Put(t.Context(), mustKey(t, "p", i-5), nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	var rows []largeitem.Row
	for row, err := range table.Scan(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if _, err := table.Delete(t.Context(), rows[4].Key, nil); err != nil {
		t.Fatal(err)
	}
	after := make(map[largeitem.Key]bool)
	for row, err := range table.Scan(t.Context(), &largeitem.ScanOptions{After: rows[4].Position}) {
		if err != nil {
			t.Fatal(err)
		}
		after[row.Key] = true
	}
	want := make(map[largeitem.Key]bool)
	for _, row := range rows[5:] {
		want[row.Key] = true
	}
	if len(rows) != 10 || !maps.Equal(after, want) {
		t.Errorf("got %v after row 4 of %v", after, rows)
	}
	for _, position := range []string{"x", `["p"]`, `[7,7]`, `["p","s"]`} {
		for _, err := range table.Scan(t.Context(), &largeitem.ScanOptions{After: position}) {
			if !errors.Is(err, largeitem.ErrInvalid) && !errors.Is(err, store.ErrInvalid) {
				t.Errorf("after %q: %v", position, err)
			}
		}
	}
}

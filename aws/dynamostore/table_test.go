package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/aws/internal/registertest"
	"github.com/holdfast-go/holdfast/internal/aws/dynamocall"
	"github.com/holdfast-go/holdfast/store"
)

// TestItems are golden: registers are found again by these attributes.
func TestItems(t *testing.T) {
	d := newServer()
	s := newStore(t, d, &dynamostore.Options{Trusted: true, Prefix: "app"})
	v := registertest.Put(t, s, "lock/deploy", "", `{"a":1}`)
	item := d.Item("table", "7", "app/lock/deploy")
	if item == nil {
		t.Fatalf("no item:\n%s", d)
	}
	id, after, _ := strings.Cut(string(v), ".")
	if item["version"]["S"] != id || after != "" || !strings.HasPrefix(id, "1-") || item["value"]["S"] != `{"a":1}` || len(item) != 4 {
		t.Errorf("version %q, item %v", v, item)
	}
	w := registertest.Put(t, s, "lock/deploy", v, "\xff")
	item = d.Item("table", "7", "app/lock/deploy")
	if item["value"]["B"] != "/w==" || item["after"]["S"] != strings.TrimPrefix(id, "1-") || !strings.HasPrefix(string(w), "2-") {
		t.Errorf("version %q, item %v", w, item)
	}
	if err := s.Delete(t.Context(), "lock/deploy", w); err != nil {
		t.Fatal(err)
	}
	item = d.Item("table", "7", "app/lock/deploy")
	if item["deleted"]["BOOL"] != true || item["value"] != nil {
		t.Errorf("tombstone: %v", item)
	}
	for name, attr := range item {
		if attr["N"] != nil {
			t.Errorf("%s is a number, by which a table's TTL could remove the item", name)
		}
	}
	if v = registertest.Put(t, s, "lock/deploy", "", ""); !strings.HasPrefix(string(v), "4-") {
		t.Errorf("the numbers do not go on after a tombstone: %q", v)
	}
}

// TestGolden: items that were written once are read for ever, and followed in the same
// form.
func TestGolden(t *testing.T) {
	d := newServer()
	s := trusted(t, d)
	registertest.Put(t, s, "k", "", "")
	d.Update("table", func(item map[string]map[string]any) map[string]map[string]any {
		item["value"] = map[string]any{"S": `{"a":1}`}
		item["version"] = map[string]any{"S": "9-AA-_AAAAAAAA"}
		item["after"] = map[string]any{"S": "B1BBBBBBBBBB.B2BBBBBBBBBB.B3BBBBBBBBBB.B4BBBBBBBBBB.B5BBBBBBBBBB.B6BBBBBBBBBB.B7BBBBBBBBBB"}
		return item
	})
	value, v, err := s.Get(t.Context(), "k")
	if err != nil || string(value) != `{"a":1}` || v != "9-AA-_AAAAAAAA.B1BBBBBBBBBB.B2BBBBBBBBBB.B3BBBBBBBBBB.B4BBBBBBBBBB.B5BBBBBBBBBB.B6BBBBBBBBBB.B7BBBBBBBBBB" {
		t.Fatalf("got %q %q %v", value, v, err)
	}
	registertest.Put(t, s, "k", v, "next")
	d.Update("table", func(item map[string]map[string]any) map[string]map[string]any {
		version, _ := item["version"]["S"].(string)
		if !strings.HasPrefix(version, "10-") || len(version) != 15 || item["after"]["S"] != "AA-_AAAAAAAA.B1BBBBBBBBBB.B2BBBBBBBBBB.B3BBBBBBBBBB.B4BBBBBBBBBB.B5BBBBBBBBBB.B6BBBBBBBBBB" {
			t.Errorf("it is followed by %v", item)
		}
		return item
	})
}

// TestParts: names as people give them spread over all parts.
func TestParts(t *testing.T) {
	d := newServer()
	s := trusted(t, d)
	for i := range 320 {
		registertest.Put(t, s, fmt.Sprintf("lock/job-%03d", i), "", "")
	}
	counts := make(map[string]int)
	d.Update("table", func(item map[string]map[string]any) map[string]map[string]any {
		counts[item["part"]["S"].(string)]++
		return item
	})
	for part, n := range counts {
		if n > 40 {
			t.Errorf("part %s has %d of 320", part, n)
		}
	}
	if len(counts) != 16 {
		t.Errorf("%d parts: %v", len(counts), counts)
	}
}

// TestForeign: what is no item of ours is reported, is not absent, and is never
// overwritten.
func TestForeign(t *testing.T) {
	for name, change := range map[string]func(item map[string]map[string]any){
		"no version":       func(i map[string]map[string]any) { delete(i, "version") },
		"version a number": func(i map[string]map[string]any) { i["version"] = map[string]any{"N": "1"} },
		"damaged version":  func(i map[string]map[string]any) { i["version"] = map[string]any{"S": "01-AAAAAAAAAAAA"} },
		"damaged past":     func(i map[string]map[string]any) { i["after"] = map[string]any{"S": "x"} },
		"no value":         func(i map[string]map[string]any) { delete(i, "value") },
		"large":            func(i map[string]map[string]any) { i["value"] = map[string]any{"S": strings.Repeat("x", 300<<10)} },
	} {
		d := newServer()
		s := trusted(t, d)
		registertest.Put(t, s, "k", "", "theirs")
		d.Update("table", func(i map[string]map[string]any) map[string]map[string]any { change(i); return i })
		before := d.String()
		_, _, err := s.Get(t.Context(), "k")
		if !errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: get: %v", name, err)
		}
		_, err = s.Put(t.Context(), "k", "", []byte("ours"))
		if !errors.Is(err, store.ErrCorrupt) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: put: %v (%v)", name, err, store.OutcomeOf(err))
		}
		if d.String() != before {
			t.Errorf("%s: it was overwritten", name)
		}
	}
}

// TestUnsafe: a server that ignores conditions, and a global table, are refused
// before anything is written, and used if the user insists.
func TestUnsafe(t *testing.T) {
	for name, broken := range map[string]awstest.DynamoDBBroken{
		"all conditions":  {IgnoreConditions: true},
		"not exists":      {IgnoreNotExists: true},
		"equal":           {IgnoreEqual: true},
		"refuses, writes": {RefuseAndWrite: true},
		"global table":    {},
	} {
		t.Run(name, func(t *testing.T) {
			d := newServer()
			v := registertest.Put(t, trusted(t, d), "k", "", "the holder's")
			lack := dynamostore.ConditionsIgnored
			if name == "global table" {
				lack = dynamostore.GlobalTable
				d.SetReplicas("table", false, "eu-west-1", "us-east-1")
			}
			d.Broken = broken
			s := newStore(t, d, nil)
			for _, prev := range []store.Version{"", v} {
				_, err := s.Put(t.Context(), "k", prev, []byte("ours"))
				var unsafe *dynamostore.UnsafeError
				if !errors.Is(err, store.ErrUnsafe) || store.OutcomeOf(err) != store.NotApplied || !errors.As(err, &unsafe) || unsafe.Risk != lack {
					t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
				}
			}
			if value, now, err := s.Get(t.Context(), "k"); err != nil || now != v || string(value) != "the holder's" {
				t.Errorf("the holder's register: %s %q %v", value, now, err)
			}
			if got := d.Items("table"); got != 1 {
				t.Errorf("%d items:\n%s", got, d)
			}
			insisting := newStore(t, d, &dynamostore.Options{Unsafe: []dynamostore.Risk{lack}})
			if err := insisting.Verify(t.Context()); err != nil {
				t.Errorf("insisted: %v", err)
			}
		})
	}
	d := newServer()
	d.SetReplicas("table", true, "eu-west-1")
	if err := newStore(t, d, nil).Verify(t.Context()); err != nil {
		t.Errorf("a global table with one order of writes: %v", err)
	}
}

// TestTable: a wrong table is reported, with what to do; a missing right to look at it
// is none.
func TestTable(t *testing.T) {
	for name, add := range map[string]func(d *awstest.DynamoDB){
		"missing":      func(*awstest.DynamoDB) {},
		"one key":      func(d *awstest.DynamoDB) { d.AddTable("table", "key", "") },
		"other keys":   func(d *awstest.DynamoDB) { d.AddTable("table", "path", "etag") },
		"keys swapped": func(d *awstest.DynamoDB) { d.AddTable("table", "key", "part") },
	} {
		d := awstest.NewDynamoDB()
		add(d)
		s := newStore(t, d, nil)
		_, err := s.Put(t.Context(), "k", "", []byte("1"))
		if !errors.Is(err, store.ErrMisconfigured) || store.OutcomeOf(err) != store.NotApplied || !strings.Contains(err.Error(), "holdfast init") {
			t.Errorf("%s: put: %v (%v)", name, err, store.OutcomeOf(err))
		}
		if name == "keys swapped" {
			continue // items can be read by them, but not listed
		}
		if _, _, err := s.Get(t.Context(), "k"); !errors.Is(err, store.ErrMisconfigured) || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: get: %v", name, err)
		}
	}
	d := newServer()
	d.Add("DescribeTable", 0, -1, awstest.Fault{Status: 400, Code: "AccessDeniedException"})
	registertest.Put(t, newStore(t, d, nil), "k", "", "1")

	d = newServer()
	d.SetTTL("table", "expires")
	d.SetReplicas("table", false, "eu-west-1")
	got, err := newStore(t, d, nil).Describe(t.Context())
	if err != nil || !got.KeysValid || got.TTL != "expires" || got.TTLErr != nil || len(got.Replicas) != 1 || got.StronglyConsistent || got.Status != "ACTIVE" {
		t.Errorf("got %+v, %v", got, err)
	}
	d.Add("DescribeTimeToLive", 0, -1, awstest.Fault{Status: 400, Code: "AccessDeniedException"})
	if got, err = newStore(t, d, nil).Describe(t.Context()); err != nil || !errors.Is(got.TTLErr, store.ErrDenied) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestCreateTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := awstest.NewDynamoDB()
		for range 2 { // the second finds it there
			if err := dynamostore.CreateTable(t.Context(), d.Client(), "table", nil); err != nil {
				t.Fatal(err)
			}
		}
		registertest.Put(t, newStore(t, d, nil), "k", "", "1")
		if err := dynamostore.CreateTable(t.Context(), d.Client(), "table", nil); err != nil || d.Items("table") != 1 {
			t.Errorf("a table that is there: %v, %d items", err, d.Items("table"))
		}
		d.AddTable("other", "path", "etag")
		if err := dynamostore.CreateTable(t.Context(), d.Client(), "other", nil); !errors.Is(err, store.ErrMisconfigured) {
			t.Errorf("a table with other keys: %v", err)
		}
		// A lost reply of the creation.
		d.Add("CreateTable", 0, 1, awstest.Fault{Lose: true})
		if err := dynamostore.CreateTable(t.Context(), d.Client(), "lost", nil); err != nil {
			t.Errorf("its reply lost: %v", err)
		}
	})
}

// TestTableStatus: CreateTable waits only for a table that will be ready, or will not exist.
func TestTableStatus(t *testing.T) {
	for status, want := range map[string]error{"UPDATING": nil, "ARCHIVED": store.ErrMisconfigured, "INACCESSIBLE_ENCRYPTION_CREDENTIALS": store.ErrMisconfigured, "DELETING": context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			d := awstest.NewDynamoDB()
			d.AddTable("table", "part", "key")
			client := d.Client(func(o *dynamodb.Options) {
				o.HTTPClient = &http.Client{Transport: altered{d, `"ACTIVE"`, strconv.Quote(status)}}
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if err := dynamostore.CreateTable(ctx, client, "table", nil); !errors.Is(err, want) {
				t.Errorf("%s: %v", status, err)
			}
		})
	}
}

// altered is a server whose answers have another text in place of one.
type altered struct {
	http.RoundTripper
	old, new string
}

func (a altered) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Header.Del("X-Amz-Crc32")
	resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(strings.ReplaceAll(string(body), a.old, a.new))), -1
	return resp, err
}

// TestOldGlobalTable: the description of a global table of 2017 does not name its replicas.
func TestOldGlobalTable(t *testing.T) {
	for answer, want := range map[string]error{
		`{"GlobalTableDescription":{"ReplicationGroup":[{"RegionName":"eu-west-1"},{"RegionName":"us-east-1"}]}}`: store.ErrUnsafe,
		`{"GlobalTableDescription":{"ReplicationGroup":[{"RegionName":"us-east-1"}]}}`:                            nil,
		"": nil, // the server answers that it knows no such request
	} {
		d := newServer()
		streams := altered{d, `"ACTIVE"`, `"ACTIVE","StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_AND_OLD_IMAGES"}`}
		client := d.Client(func(o *dynamodb.Options) {
			o.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if answer == "" || !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".DescribeGlobalTable") {
					return streams.RoundTrip(r)
				}
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)), ContentLength: -1, Request: r}, nil
			})}
		})
		s, err := dynamostore.New(client, "table", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), "k", "", []byte("1")); !errors.Is(err, want) {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOpen(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	s, err := dynamostore.Open(t.Context(), "dynamodb://table/a/b?endpoint=http://127.0.0.1:8000&timeout=1s&unsafe=conditions,global-table", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Traits(); got.Name != "dynamodb://table/a/b" || got.Trusted || got.MinTTL != dynamostore.MinTTL {
		t.Errorf("got %+v", got)
	}
	ids := map[string]bool{s.Traits().ID: true}
	for _, at := range []string{"endpoint=http://127.0.0.1:8001", "endpoint=http://127.0.0.1:8000&region=x", "region=x", "region=y"} {
		s, err := dynamostore.Open(t.Context(), "dynamodb://table/a/b?"+at, nil)
		if err != nil {
			t.Fatal(err)
		}
		if of := s.Traits(); of.Name != "dynamodb://table/a/b" || of.Prefix != "a/b/" || ids[of.ID] {
			t.Errorf("at %s: %+v, others are %v", at, of, ids)
		}
		ids[s.Traits().ID] = true
	}
	for _, url := range []string{
		"s3://table", "dynamodb://", "dynamodb://table?unsafe=x", "dynamodb://table?foo=1", "dynamodb://u:p@table", "dynamodb://table?timeout=never",
	} {
		if _, err := dynamostore.Open(t.Context(), url, nil); !errors.Is(err, store.ErrMisconfigured) {
			t.Errorf("%s: %v", url, err)
		}
	}
	client := awstest.NewDynamoDB().Client()
	for name, opts := range map[string]*dynamostore.Options{
		"timeout": {Timeout: 1}, "prefix": {Prefix: "a//b"}, "long prefix": {Prefix: strings.Repeat("x", 257)}, "unsafe": {Unsafe: []dynamostore.Risk{"x"}},
	} {
		if _, err := dynamostore.New(client, "table", opts); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := dynamostore.New(client, "", nil); err == nil {
		t.Error("a table without a name is accepted")
	}
}

// TestOwnClient: a client that retries by itself does not when it is used here.
func TestOwnClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newServer()
		client := d.Client(func(o *dynamodb.Options) { o.RetryMaxAttempts = 10 })
		s, err := dynamostore.New(client, "table", &dynamostore.Options{Trusted: true})
		if err != nil {
			t.Fatal(err)
		}
		d.Add("PutItem", 0, -1, awstest.Fault{Lose: true})
		_, err = s.Put(t.Context(), "k", "", []byte("1"))
		if store.OutcomeOf(err) != store.Unknown || len(d.Requests()) != dynamocall.Tries {
			t.Errorf("got %v after %v", err, d.Ops())
		}
	})
}

// TestYes: something that says yes to everything is no table.
func TestYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := awstest.NewDynamoDB().Client(func(o *dynamodb.Options) {
			o.HTTPClient = &http.Client{Transport: yes{}}
		})
		s, err := dynamostore.New(client, "table", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), "k", "", []byte("1")); !errors.Is(err, store.ErrMisconfigured) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("put: %v (%v)", err, store.OutcomeOf(err))
		}
		if _, err := s.Describe(t.Context()); !errors.Is(err, store.ErrMisconfigured) {
			t.Errorf("describe: %v", err)
		}
		if err := dynamostore.CreateTable(t.Context(), client, "table", nil); !errors.Is(err, store.ErrMisconfigured) {
			t.Errorf("create: %v", err)
		}
	})
}

type yes struct{}

func (yes) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), ContentLength: -1, Request: r}, nil
}

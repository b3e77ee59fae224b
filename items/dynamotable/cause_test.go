package dynamotable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/items/dynamotable"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// TestCauseOfAnotherRequest: an update is applied, and the context ends before its answer. The cause is the failed
// condition of another request of the SDK. It does not count as the answer to the update, so the object that the
// item now has is not removed.
func TestCauseOfAnotherRequest(t *testing.T) {
	d := awstest.NewDynamoDB()
	d.AddTable("items", "pk", "")
	var stall atomic.Bool
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := fmt.Errorf("another request of this errgroup: %w", &types.ConditionalCheckFailedException{Message: aws.String("the conditional request failed")})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in, _ := io.ReadAll(r.Body)
		req, _ := http.NewRequest(r.Method, "http://dynamodb.test"+r.URL.Path, bytes.NewReader(in))
		req.Header = r.Header
		resp, err := d.RoundTrip(req)
		if err != nil {
			panic(err)
		}
		out, _ := io.ReadAll(resp.Body)
		for k, v := range resp.Header {
			w.Header()[k] = v
		}
		if stall.Load() && r.Header.Get("X-Amz-Target") == "DynamoDB_20120810.UpdateItem" {
			time.Sleep(50 * time.Millisecond)
			cancel(cause)
			<-r.Context().Done()
			return
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(out)
	}))
	defer srv.Close()
	client := d.Client(func(o *dynamodb.Options) { o.BaseEndpoint = &srv.URL; o.HTTPClient = srv.Client() })
	table, err := dynamotable.New(client, "items", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := largeitem.New(table, membucket.New(), &largeitem.Options{BaseURI: "s3://bucket"})
	if err != nil {
		t.Fatal(err)
	}
	key, _ := largeitem.NewKey("k")
	if _, err := s.Create(t.Context(), key, nil, largeitem.Large{"doc": largeitem.Text("one")}, nil); err != nil {
		t.Fatal(err)
	}
	// A refusal with an item: the table learns that this server shows items. At AWS it knows that from the beginning.
	if _, err := s.Create(t.Context(), key, nil, nil, nil); !errors.Is(err, store.ErrConflict) {
		t.Fatal(err)
	}
	stall.Store(true)
	_, err = s.Update(ctx, key, largeitem.Change{}, largeitem.Large{"doc": largeitem.Text("two")}, nil)
	if store.OutcomeOf(err) != store.Unknown {
		t.Errorf("the outcome is %v", store.OutcomeOf(err))
	}
	item, err := s.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatalf("the item cannot be read any more: %v", err)
	}
	if text, err := io.ReadAll(item.Body("doc")); err != nil || string(text) != "two" {
		t.Errorf("got %q, %v", text, err)
	}
}

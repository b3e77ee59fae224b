package otelhold_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/memtable"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
	"go.opentelemetry.io/otel/codes"
)

// TestCommits: each write of a client and of a log is a span, with its requests below it.
func TestCommits(t *testing.T) {
	bubble(t, func(e *env) {
		c, err := object.New(e.tel.Bucket(membucket.New()), &object.Options{Trace: e.tel.TraceCall})
		e.must(err)
		ctx, program := e.span(e.Context())
		info, err := c.Put(ctx, "a", strings.NewReader("1"), &object.WriteOptions{IfAbsent: true})
		e.must(err)
		e.wantIs(errOf(c.Put(ctx, "a", strings.NewReader("2"), &object.WriteOptions{IfAbsent: true})), store.ErrConflict)
		e.must(errOf(c.Put(ctx, "a", strings.NewReader("3"), &object.WriteOptions{Base: &info})))
		e.must(errOf(c.Update(ctx, "a", func(body []byte, _ object.Info) ([]byte, error) { return append(body, '4'), nil }, nil)))
		e.must(errOf(c.Copy(ctx, "a", "b", nil)))
		e.must(errOf(c.Rename(ctx, "b", "c", nil)))
		e.must(c.Delete(ctx, "c", nil))
		log, err := object.OpenLog(c, "log", nil)
		e.must(err)
		first, err := log.Append(ctx, 0, []byte("x"))
		e.must(err)
		_, err = log.Commit(ctx, first.Number, nil, func() ([]byte, error) { return []byte("y"), nil })
		e.must(err)
		e.must(log.Trim(ctx, 2))
		e.must(log.Sweep(ctx))
		for _, err := range c.List(ctx, "", nil) {
			e.must(err)
		}
		r, err := c.Get(ctx, "a", nil)
		e.must(err)
		body, err := io.ReadAll(r) // the body can be read after the span of its request
		e.must(errors.Join(err, r.Close()))
		if string(body) != "34" {
			t.Errorf("got body %q, want 34", body)
		}
		program.End()

		e.wantBelow(program.SpanContext(), "holdfast append", "holdfast bucket get", "holdfast bucket list", "holdfast copy",
			"holdfast delete", "holdfast put", "holdfast rename", "holdfast sweep", "holdfast trim", "holdfast update")
		puts := e.all("holdfast put")
		e.want(puts[0], "ok", codes.Unset)
		e.want(puts[1], "conflict", codes.Unset)
		e.wantBelow(puts[0].SpanContext, "holdfast bucket put")
		e.wantBelow(e.one("holdfast update").SpanContext, "holdfast bucket get", "holdfast bucket put")
		e.wantBelow(e.one("holdfast rename").SpanContext, "holdfast bucket copy", "holdfast bucket delete", "holdfast bucket put", "holdfast bucket stat")
		if below := e.below(e.all("holdfast append")[0].SpanContext); !slices.Contains(below, "holdfast bucket put") {
			t.Errorf("below the append are %q", below)
		}
		if got := attr(e.one("holdfast trim"), "holdfast.key"); got != "log" {
			t.Errorf("the key of the trim is %q, want log", got)
		}
	})
}

// TestCommitFails: a panic and an ended context leave no span open, and a lost reply shows.
func TestCommitFails(t *testing.T) {
	bubble(t, func(e *env) {
		c, err := object.New(e.tel.Bucket(lossy{membucket.New()}), &object.Options{Trace: e.tel.TraceCall})
		e.must(err)
		ctx, cancel := context.WithTimeout(e.Context(), time.Second)
		defer cancel()
		_, err = c.Put(ctx, "a", strings.NewReader("1"), &object.WriteOptions{IfAbsent: true})
		if store.OutcomeOf(err) != store.Unknown {
			t.Fatalf("the outcome of %v is %v, want unknown", err, store.OutcomeOf(err))
		}
		e.want(e.one("holdfast put"), "unknown", codes.Error)
		e.want(e.all("holdfast bucket put")[0], "unknown", codes.Error)
		func() {
			defer func() { _ = recover() }()
			_, _ = c.Update(e.Context(), "b", func([]byte, object.Info) ([]byte, error) { panic("change") }, nil)
		}()
		e.want(e.one("holdfast update"), "unknown", codes.Error)
	})
}

// lossy is a bucket that loses the replies to puts, and answers no reads of their object.
type lossy struct{ *membucket.Bucket }

func (l lossy) Put(ctx context.Context, key string, body io.Reader, o *object.PutOptions) (object.Info, error) {
	_, err := l.Bucket.Put(ctx, key, body, o)
	return object.Info{}, errors.Join(err, errors.New("the reply was lost"))
}

func (l lossy) Stat(context.Context, string) (object.Info, error) {
	return object.Info{}, errors.New("no answer")
}

// TestItems: each call of a store of large items is a span, with its requests to the bucket below it.
func TestItems(t *testing.T) {
	bubble(t, func(e *env) {
		bucket := membucket.New()
		table, err := memtable.New(nil)
		e.must(err)
		s, err := largeitem.New(table, e.tel.Bucket(bucket), &largeitem.Options{Attributes: []string{"body"}, BaseURI: "mem://docs", Trace: e.tel.TraceCall})
		e.must(err)
		ctx, program := e.span(e.Context())
		key, err := largeitem.NewKey("1")
		e.must(err)
		e.must(errOf(s.Create(ctx, key, largeitem.Attributes{"title": "x"}, largeitem.Large{"body": largeitem.Text("text")}, nil)))
		e.must(errOf(s.Update(ctx, key, largeitem.Change{}, largeitem.Large{"body": largeitem.Text("new")}, nil)))
		item, err := s.Get(ctx, key, nil)
		e.must(err)
		var body bytes.Buffer
		_, err = io.Copy(&body, item.Body("body"))
		e.must(errors.Join(err, item.Close()))
		p, err := s.Prepare(ctx, key, largeitem.Large{"body": largeitem.Text("other")}, nil)
		e.must(err)
		e.must(p.Abort(ctx))
		e.must(errOf(s.Verify(ctx, nil)))
		e.must(errOf(s.Sweep(ctx, nil)))
		e.must(errOf(s.Delete(ctx, key, nil)))
		_, err = s.Get(ctx, key, nil)
		e.wantIs(err, store.ErrNotFound)
		program.End()
		e.wantBelow(program.SpanContext(), "holdfast abort item", "holdfast create item", "holdfast delete item", "holdfast get item", "holdfast prepare item",
			"holdfast sweep items", "holdfast update item", "holdfast verify items")
		create := e.one("holdfast create item")
		if below := e.below(create.SpanContext); !slices.Contains(below, "holdfast bucket put") {
			t.Errorf("below the create are %q", below)
		}
		e.want(create, "ok", codes.Unset)
		e.want(e.all("holdfast get item")[1], "not found", codes.Unset)
	})
}

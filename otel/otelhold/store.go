package otelhold

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"go.opentelemetry.io/otel/attribute"
)

// Store returns a store on top of inner that records and counts each request. It has the abilities of inner;
// see [store.Intercept].
func (t *Telemetry) Store(inner store.Store) store.Store {
	name := store.TraitsOf(inner).Name
	return store.Intercept(t.metrics.Store(inner), func(ctx context.Context, op *store.Op, next store.Handler) error {
		if op.Kind.Lists() {
			if err := next(ctx, op); err != nil {
				return err
			}
			op.Keys = listing(t, ctx, "store", op.Kind, op.Key, name, op.Keys)
			op.Tags = listing(t, ctx, "store", op.Kind, op.Key, name, op.Tags)
			return nil
		}
		return t.request(ctx, "store", op.Kind, op.Key, name, func(ctx context.Context) error { return next(ctx, op) })
	})
}

// request records one request.
func (t *Telemetry) request(ctx context.Context, of string, op store.Kind, key, storeName string, send func(context.Context) error) (err error) {
	ctx, span := t.startRequest(ctx, "holdfast "+of+" "+string(op), requestAttrs(key, storeName)...)
	began := time.Now()
	err = errNotReturned
	defer func() {
		if of == "store" {
			t.observeRequest(ctx, op, time.Since(began))
		}
		if op == store.OpWatch && ctx.Err() != nil {
			set(span, "cancelled", nil) // the caller no longer waits for a change
		} else {
			set(span, Outcome(err), failure(err))
		}
		t.ending.end(span)
	}()
	return send(ctx)
}

// errNotReturned is the result of a request that panicked.
var errNotReturned = errors.New("the request did not return")

// failure returns the error of a request or call, unless it is an expected answer: that there is no such key,
// or that another writer was faster.
func failure(err error) error {
	switch Outcome(err) {
	case "ok", "not found", "conflict":
		return nil
	}
	return err
}

func requestAttrs(key, storeName string) []attribute.KeyValue {
	attrs := []attribute.KeyValue{attrKey(key)}
	if storeName != "" {
		attrs = append(attrs, attribute.String("holdfast.store", text(storeName)))
	}
	return attrs
}

// listing records a listing, from its beginning until the caller leaves the loop.
func listing[T any](t *Telemetry, ctx context.Context, of string, op store.Kind, prefix, storeName string, inner iter.Seq2[T, error]) iter.Seq2[T, error] {
	if inner == nil {
		return nil
	}
	return func(yield func(T, error) bool) {
		_ = t.request(ctx, of, op, prefix, storeName, func(context.Context) (last error) {
			for entry, err := range inner {
				if last = err; !yield(entry, err) {
					break
				}
			}
			return last
		})
	}
}

package metrics

import (
	"context"
	"errors"
	"iter"
	"math"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/observe/metrics/promtext"
	"github.com/holdfast-go/holdfast/store"
)

// outcome is how a call of a store ended, as an index of outcomes.
type outcome int

const (
	ok        outcome = iota
	conflict          // the write was refused, because another write came first
	notFound          // the register is absent
	unknown           // the reply to the write was lost
	cancelled         // the caller gave the call up, and nothing was written
	failed            // any other error; nothing was written
)

var outcomes = [...]string{ok: "ok", conflict: "conflict", notFound: "not_found", unknown: "unknown", cancelled: "cancelled", failed: "failed"}

// outcomeOf returns the outcome of a call with that context and error.
func outcomeOf(ctx context.Context, kind store.Kind, err error) outcome {
	switch {
	case err == nil:
		return ok
	case kind.Write() && store.OutcomeOf(err) == store.Unknown:
		return unknown
	case errors.Is(err, store.ErrConflict):
		return conflict
	case errors.Is(err, store.ErrNotFound):
		return notFound
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return cancelled
	}
	return failed
}

// requests counts the calls of one operation.
type requests struct {
	outcomes [len(outcomes)]atomic.Uint64
	buckets  [len(promtext.Bounds) + 1]atomic.Uint64
	nanos    atomic.Int64
}

func (r *requests) note(ctx context.Context, kind store.Kind, err error, took time.Duration) {
	took = max(took, 0)
	r.outcomes[outcomeOf(ctx, kind, err)].Add(1)
	r.buckets[promtext.Bucket(took)].Add(1)
	r.nanos.Add(int64(min(took, math.MaxInt64/2)))
}

// collect adds the counts to a set. It leaves out optional operations that were never called.
func (r *requests) collect(into *promtext.Set, kind store.Kind) {
	var counts [len(outcomes)]uint64
	sum := uint64(0)
	for i := range counts {
		counts[i] = r.outcomes[i].Load()
		sum += counts[i]
	}
	if sum == 0 && kind != store.OpGet && kind != store.OpPut {
		return
	}
	for i, n := range counts {
		if n == 0 && (outcome(i) == unknown || outcome(i) == conflict) && !kind.Write() || n == 0 && outcome(i) == notFound && kind.Write() {
			continue // the operation never has this outcome
		}
		into.Add(promtext.Requests, promtext.Labels("operation", string(kind), "outcome", outcomes[i]), float64(n))
	}
	if kind == store.OpWatch {
		return // a watch waits, so that its duration says nothing
	}
	d := into.Distribution(promtext.RequestDuration, promtext.Labels("operation", string(kind)))
	for i := range d.Buckets {
		d.Buckets[i] += r.buckets[i].Load()
	}
	d.Sum += time.Duration(r.nanos.Load()).Seconds()
}

// Store returns a decorator of a store that counts its calls, with their outcomes and durations. It
// has the abilities of the store that [store.Intercept] keeps. A call can consist of several
// requests: a listing counts as one call, when it ends, and a store may repeat a request after an
// error.
func (m *Metrics) Store(inner store.Store) store.Store {
	return store.Intercept(inner, func(ctx context.Context, op *store.Op, next store.Handler) error {
		r := m.requests[op.Kind]
		if r == nil {
			return next(ctx, op) // an operation that this version does not know
		}
		began := time.Now()
		err := next(ctx, op)
		switch {
		case op.Kind == store.OpWatch && ctx.Err() != nil:
			r.note(ctx, op.Kind, context.Canceled, 0) // most watches end so
		case err != nil || !op.Kind.Lists():
			r.note(ctx, op.Kind, err, time.Since(began))
		case op.Keys != nil:
			op.Keys = noteEnd(ctx, op.Keys, r, op.Kind)
		case op.Tags != nil:
			op.Tags = noteEnd(ctx, op.Tags, r, op.Kind)
		}
		return err
	})
}

// noteEnd returns a listing that is counted when it ends.
func noteEnd[T any](ctx context.Context, all iter.Seq2[T, error], r *requests, kind store.Kind) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		began, last := time.Now(), error(nil)
		defer func() { r.note(ctx, kind, last, time.Since(began)) }()
		for v, err := range all {
			if last = err; !yield(v, err) {
				return
			}
		}
	}
}

package otelhold

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/metrics/promtext"
	"github.com/holdfast-go/holdfast/store"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// MaxRequests is how many requests are recorded directly below one span of an acquire or hold.
const MaxRequests = 1000

// TraceLock is a value for [lease.Options].Trace: it records the spans of locks.
func (t *Telemetry) TraceLock(ctx context.Context, name string, g *lease.Guard) (context.Context, func(*lease.Guard, error)) {
	if g != nil {
		return t.traceRelease(ctx, name, g)
	}
	acquiring, span := t.start(ctx, "holdfast acquire", trace.SpanKindInternal, attrLock(name))
	h := &hold{t: t, name: name, parent: acquiring}
	if trace.SpanContextFromContext(ctx).IsValid() {
		h.parent = ctx
	}
	h.values.Store(&acquiring)
	return holdContext{ctx, h}, func(g *lease.Guard, err error) {
		h.countRequests(span)
		if g != nil {
			h.begin(g)
			span.SetAttributes(grantAttrs(g)...)
		}
		if held := (*lease.HeldError)(nil); errors.As(err, &held) {
			span.SetAttributes(attribute.String("holdfast.holder", text(held.Record.Holder)))
		}
		outcome, failed := acquired(ctx, err)
		set(span, outcome, failed)
		t.ending.endAndWait(span)
	}
}

// acquired returns the outcome of a call that takes a lock, and its error unless that is an expected answer.
func acquired(ctx context.Context, err error) (outcome string, failed error) {
	held := (*lease.HeldError)(nil)
	switch {
	case err == nil:
		return "acquired", nil
	case errors.Is(err, lease.ErrAlreadyRan) && !errors.Is(err, lease.ErrRunInFuture):
		return "already ran", nil
	case errors.Is(err, lease.ErrClosed):
		return "closed", err
	case errors.Is(err, lease.ErrUnresponsive):
		return "unresponsive", err
	case errors.Is(err, lease.ErrUnresolved), store.InDoubt(err):
		return "unknown", err
	case errors.As(err, &held) && err == error(held): // not the last holder seen by a wait that failed
		return "held", nil
	case ctx.Err() != nil:
		return "cancelled", err
	}
	return "failed", err
}

// hold follows one guard.
type hold struct {
	t        *Telemetry
	name     string
	parent   context.Context                 // of the spans hold and release
	values   atomic.Pointer[context.Context] // has the span acquire, and from the grant on the span hold
	span     trace.Span                      // of the hold
	once     sync.Once
	released atomic.Bool
	requests atomic.Int64 // directly below the span acquire, or hold
}

// isFull reports whether a request directly below the span around is not recorded. A wait and a hold can last for
// weeks, and systems that store traces do not expect traces without an end.
func (h *hold) isFull(around trace.SpanContext) bool {
	return around.Equal(trace.SpanContextFromContext(*h.values.Load())) && h.requests.Add(1) > MaxRequests
}

// countRequests writes into the span how many of its requests were not recorded, and starts the count again.
func (h *hold) countRequests(span trace.Span) {
	if n := h.requests.Swap(0) - MaxRequests; n > 0 {
		span.SetAttributes(attribute.Int64("holdfast.unrecorded", n))
	}
}

// begin begins the span of the hold. From now on it is the span of all contexts that come from the call's.
func (h *hold) begin(g *lease.Guard) {
	ctx, span := h.t.start(h.parent, "holdfast hold", trace.SpanKindInternal, append(grantAttrs(g), attrLock(h.name))...)
	h.span = span
	h.values.Store(&ctx)
	context.AfterFunc(g.Context(), func() { h.end(g.Err()) })
}

// end ends the span of the hold, unless it has ended.
func (h *hold) end(cause error) {
	h.once.Do(func() {
		h.countRequests(h.span)
		lost := (*lease.LostError)(nil)
		switch {
		case errors.As(cause, &lost):
			h.span.SetAttributes(attribute.String("holdfast.reason", strings.ReplaceAll(promtext.LossReason(lost), "_", " ")))
			set(h.span, "lost", cause)
		case errors.Is(cause, lease.ErrClosed):
			set(h.span, "closed", nil)
		case errors.Is(cause, lease.ErrDetached):
			set(h.span, "detached", nil)
		default:
			set(h.span, "released", nil)
		}
		h.t.ending.end(h.span)
	})
}

// traceRelease records the first release of a guard, next to its hold.
func (t *Telemetry) traceRelease(ctx context.Context, name string, g *lease.Guard) (context.Context, func(*lease.Guard, error)) {
	h, _ := g.Context().Value(holdKey{}).(*hold)
	if h == nil || h.t != t || !h.released.CompareAndSwap(false, true) {
		return ctx, func(*lease.Guard, error) {}
	}
	h.end(g.Err())
	parent := ctx
	if around := trace.SpanContextFromContext(ctx); !around.IsValid() || around.Equal(h.span.SpanContext()) {
		parent = trace.ContextWithSpan(ctx, trace.SpanFromContext(h.parent))
	}
	ctx, span := t.start(parent, "holdfast release", trace.SpanKindInternal, append(grantAttrs(g), attrLock(name))...)
	return ctx, func(_ *lease.Guard, err error) {
		set(span, Outcome(err), err)
		t.ending.endAndWait(span)
	}
}

// holdContext is the context of a call that takes a lock, and so of the guard, its renewals and its work.
type holdContext struct {
	context.Context
	hold *hold
}

type holdKey struct{}

// Value implements context.Context.
func (c holdContext) Value(key any) any {
	if key == (holdKey{}) {
		return c.hold
	}
	return (*c.hold.values.Load()).Value(key)
}

func attrLock(name string) attribute.KeyValue { return attribute.String("holdfast.lock", text(name)) }

// grantAttrs returns the attributes of a grant.
func grantAttrs(g *lease.Guard) (attrs []attribute.KeyValue) {
	if token := g.Token(); token <= math.MaxInt64 {
		attrs = append(attrs, attribute.Int64("holdfast.token", int64(token)))
	}
	if reason := g.TakeoverReason(); reason != "" {
		attrs = append(attrs, attribute.String("holdfast.takeover", text(reason)))
	}
	return attrs
}

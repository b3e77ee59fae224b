package otelhold

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/observe/metrics"
	"github.com/holdfast-go/holdfast/store"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// ScopeName is the name of the instrumentation scope of all spans and metrics.
const ScopeName = "github.com/holdfast-go/holdfast/otel/otelhold"

// maxText bounds the text of a status and of an attribute, in bytes.
const maxText = 1024

// Options configures a [Telemetry].
type Options struct {
	// TracerProvider makes the spans. Nil means [otel.GetTracerProvider].
	TracerProvider trace.TracerProvider

	// MeterProvider makes the metrics. Nil means [otel.GetMeterProvider].
	MeterProvider metric.MeterProvider

	// Metrics configures the labels of the metrics. Nil means all defaults.
	Metrics *metrics.Options
}

// Telemetry records spans and metrics. Its methods go into the options of clients. Use a Telemetry for each
// client of locks and its store; any number of goroutines may use it.
type Telemetry struct {
	tracer     trace.Tracer
	ending     ending
	metrics    *metrics.Metrics
	storeLabel []attribute.KeyValue
	histograms map[string]metric.Float64Histogram // by their names in package promtext
	group      *group
}

// New returns a Telemetry. Nil options mean all defaults. An error means that the meter refuses an instrument.
func New(o *Options) (*Telemetry, error) {
	opts := *cmp.Or(o, &Options{})
	opts.TracerProvider = cmp.Or(opts.TracerProvider, otel.GetTracerProvider())
	opts.MeterProvider = cmp.Or(opts.MeterProvider, otel.GetMeterProvider())
	t := &Telemetry{tracer: opts.TracerProvider.Tracer(ScopeName), metrics: metrics.New(opts.Metrics)}
	if opts.Metrics != nil && opts.Metrics.Store != "" {
		t.storeLabel = labels([][2]string{{"store", opts.Metrics.Store}})
	}
	if err := t.meter(opts.MeterProvider); err != nil {
		return nil, err
	}
	return t, nil
}

// start begins a span, if there is room for one. Without room, the span records nothing.
func (t *Telemetry) start(ctx context.Context, name string, kind trace.SpanKind, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	if t.ending.isFull() {
		return ctx, trace.SpanFromContext(context.Background())
	}
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
}

// startRequest begins the span of a request, if the context has a span that has room for it.
func (t *Telemetry) startRequest(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	around := trace.SpanContextFromContext(ctx)
	if h, _ := ctx.Value(holdKey{}).(*hold); !around.IsValid() || h != nil && h.isFull(around) {
		return ctx, trace.SpanFromContext(context.Background())
	}
	return t.start(ctx, name, trace.SpanKindClient, attrs...)
}

// set writes the result of a call into its span.
func set(span trace.Span, outcome string, failed error) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("holdfast.outcome", outcome))
	if failed != nil {
		span.SetStatus(codes.Error, text(failed.Error()))
	}
}

// text returns a text of others as an attribute can have it.
func text(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	return strings.ToValidUTF8(s[:min(len(s), maxText)], "") // without a part of a letter
}

// Outcome returns the value of holdfast.outcome for the error of a request or of a call of an object client:
//
//   - "ok": the error is nil.
//   - "not found" and "conflict": the store has answered so. These are no failures of the request.
//   - "unknown": the change may have been applied, or may still be applied.
//   - "not applied": the request certainly changed nothing.
//   - "applied": the change was applied, and the call failed afterwards.
func Outcome(err error) string {
	outcome := store.OutcomeOf(err)
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, store.ErrNotFound):
		return "not found"
	case outcome == store.NotApplied && errors.Is(err, store.ErrConflict):
		return "conflict"
	case outcome == store.Unknown:
		return "unknown"
	case outcome == store.NotApplied:
		return "not applied"
	}
	return "applied"
}

func attrKey(key string) attribute.KeyValue { return attribute.String("holdfast.key", text(key)) }

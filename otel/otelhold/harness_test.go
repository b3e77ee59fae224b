package otelhold_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/otel/otelhold"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// env is a bubble of virtual time with a store, and a Telemetry that records into memory.
type env struct {
	*testing.T
	st       store.Store
	tel      *otelhold.Telemetry
	tracer   trace.Tracer // of the program
	exporter *tracetest.InMemoryExporter
	recorder *tracetest.SpanRecorder // also of the spans that have not ended
	clients  []*lease.Client
}

// bubble runs f in virtual time. Afterwards, each span must have ended, once.
func bubble(t *testing.T, f func(e *env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &env{T: t, st: memstore.New(), exporter: tracetest.NewInMemoryExporter(), recorder: tracetest.NewSpanRecorder()}
		e.use(sdk.WithSyncer(e.exporter), sdk.WithSpanProcessor(e.recorder))
		f(e)
		for _, c := range e.clients {
			_ = c.Close(context.Background())
		}
		synctest.Wait()
		ended := map[trace.SpanID]int{}
		for _, s := range e.recorder.Ended() {
			ended[s.SpanContext().SpanID()]++
		}
		for _, s := range e.recorder.Started() {
			if got := ended[s.SpanContext().SpanID()]; got != 1 {
				t.Errorf("the span %q %v has ended %d times, want once", s.Name(), s.Attributes(), got)
			}
		}
	})
}

func (e *env) use(o ...sdk.TracerProviderOption) {
	e.Helper()
	provider := sdk.NewTracerProvider(o...)
	tel, err := otelhold.New(&otelhold.Options{TracerProvider: provider})
	e.must(err)
	e.tel, e.tracer = tel, provider.Tracer("program")
}

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// client returns a client whose spans are recorded. It is closed at the end.
func (e *env) client(st store.Store, o lease.Options) *lease.Client {
	e.Helper()
	o.Trace, o.OnEvent = e.tel.TraceLock, e.tel.OnEvent
	c, err := lease.New(e.tel.Store(st), &o)
	e.must(err)
	e.clients = append(e.clients, c)
	return c
}

// span begins a span of the program.
func (e *env) span(ctx context.Context) (context.Context, trace.Span) {
	return e.tracer.Start(ctx, "program")
}

// all returns the ended spans with that name, in the order of their beginnings.
func (e *env) all(name string) (found tracetest.SpanStubs) {
	synctest.Wait()
	for _, s := range e.exporter.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	return found
}

// one returns the only ended span with that name.
func (e *env) one(name string) tracetest.SpanStub {
	e.Helper()
	found := e.all(name)
	if len(found) != 1 {
		e.Fatalf("%d spans %q have ended, want 1; all: %q", len(found), name, e.names())
	}
	return found[0]
}

func (e *env) names() (names []string) {
	for _, s := range e.exporter.GetSpans() {
		names = append(names, s.Name)
	}
	return names
}

// below returns the names of the ended spans that are children of a span.
func (e *env) below(parent trace.SpanContext) (names []string) {
	synctest.Wait()
	for _, s := range e.exporter.GetSpans() {
		if s.Parent.SpanID() == parent.SpanID() && s.SpanContext.TraceID() == parent.TraceID() {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (e *env) wantBelow(parent trace.SpanContext, want ...string) {
	e.Helper()
	if got := e.below(parent); !slices.Equal(got, want) {
		e.Errorf("the children are %q, want %q", got, want)
	}
}

// attr returns the text of an attribute, empty if the span does not have it.
func attr(s tracetest.SpanStub, key attribute.Key) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

// want checks the outcome and the status of a span.
func (e *env) want(s tracetest.SpanStub, outcome string, status codes.Code) {
	e.Helper()
	if got := attr(s, "holdfast.outcome"); got != outcome || s.Status.Code != status {
		e.Errorf("%s: outcome %q, status %v %q; want %q, %v", s.Name, got, s.Status.Code, s.Status.Description, outcome, status)
	}
}

func (e *env) wantIs(err, target error) {
	e.Helper()
	if !errors.Is(err, target) {
		e.Fatalf("got error %v, want one that matches %v", err, target)
	}
}

func within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

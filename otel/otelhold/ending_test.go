package otelhold_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/otel/otelhold"
	"github.com/holdfast-go/holdfast/store"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// stuck is an exporter that waits until it is freed.
type stuck struct {
	sdk.SpanExporter
	begins <-chan struct{} // when it is closed, the exporter is stuck
	freed  chan struct{}
}

func (s stuck) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	select {
	case <-s.begins:
		<-s.freed
	default:
	}
	return s.SpanExporter.ExportSpans(ctx, spans)
}

// closed is a channel that is closed.
func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// TestStuckExporter: an exporter that does not return costs no lease, and each call waits for it for at most a
// second, once. When it returns, all spans end.
func TestStuckExporter(t *testing.T) {
	bubble(t, func(e *env) {
		exporter := stuck{e.exporter, closed(), make(chan struct{})}
		e.use(sdk.WithSyncer(exporter), sdk.WithSpanProcessor(e.recorder))
		c := e.client(e.st, lease.Options{TTL: 10 * time.Second})
		began := time.Now()
		g, err := c.Acquire(e.Context(), "job", nil)
		e.must(err)
		if took := time.Since(began); took > time.Second {
			t.Errorf("Acquire took %v, want at most 1s", took)
		}
		time.Sleep(10 * time.Minute)
		e.must(g.Err())
		began = time.Now()
		e.must(g.Release(e.Context()))
		for range otelhold.MaxEnding / 2 { // each has several spans, so that the queue becomes full
			g, err := c.TryAcquire(e.Context(), "job", nil)
			e.must(err)
			e.must(g.Release(e.Context()))
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the calls waited for %v, want no wait for an exporter that is known to be stuck", took)
		}
		if most, got := otelhold.MaxEnding+10, len(e.recorder.Started()); got > most {
			t.Errorf("%d spans began, want at most %d", got, most)
		}
		close(exporter.freed)
		synctest.Wait()
		if got, want := len(e.exporter.GetSpans()), len(e.recorder.Started()); got != want {
			t.Errorf("%d spans were exported, want %d", got, want)
		}
		e.exporter.Reset()
		e.must(c.Do(e.Context(), "job", func(context.Context, *lease.Guard) error { return nil }, nil))
		e.want(e.one("holdfast hold"), "released", codes.Unset)
	})
}

// slow is a span processor whose OnEnd waits after begins was closed, until freed is closed.
type slow struct {
	sdk.SpanProcessor
	begins, freed <-chan struct{}
}

func (s slow) OnEnd(span sdk.ReadOnlySpan) {
	select {
	case <-s.begins:
		<-s.freed
	default:
	}
	s.SpanProcessor.OnEnd(span)
}

// TestStuckExporterControl: a decorator that itself ends the spans of requests loses the lease.
func TestStuckExporterControl(t *testing.T) {
	bubble(t, func(e *env) {
		begins, freed := make(chan struct{}), make(chan struct{})
		tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(slow{e.recorder, begins, freed})).Tracer("naive")
		c, err := lease.New(store.Intercept(e.st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			_, span := tracer.Start(ctx, "request")
			defer span.End()
			return next(ctx, op)
		}), &lease.Options{TTL: 10 * time.Second})
		e.must(err)
		g, err := c.Acquire(e.Context(), "job", nil)
		e.must(err)
		close(begins)
		time.Sleep(time.Minute)
		e.wantIs(g.Err(), lease.ErrLost)
		close(freed)
		_ = g.Release(e.Context())
		e.must(c.Close(e.Context()))
	})
}

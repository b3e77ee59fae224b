package otelhold_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/otel/otelhold"
	"github.com/holdfast-go/holdfast/store/memstore"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// A job records a span of its own under a lock. A real program uses an exporter such as otlptracehttp.
func Example() {
	ctx := context.Background()
	exporter := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))
	otel.SetTracerProvider(provider)

	tel, err := otelhold.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	locks, err := lease.New(tel.Store(memstore.New()), &lease.Options{Trace: tel.TraceLock, OnEvent: tel.OnEvent})
	if err != nil {
		log.Fatal(err)
	}
	err = locks.Do(ctx, "nightly", func(ctx context.Context, g *lease.Guard) error {
		_, span := otel.Tracer("job").Start(ctx, "copy the table")
		defer span.End()
		return nil
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := locks.Close(ctx); err != nil {
		log.Fatal(err)
	}

	spans := exporter.GetSpans()
	names := map[string]string{}
	for _, s := range spans {
		names[s.SpanContext.SpanID().String()] = s.Name
	}
	for _, s := range spans {
		fmt.Printf("%s, below %q\n", s.Name, names[s.Parent.SpanID().String()])
	}
	// Unordered output:
	// holdfast store put, below "holdfast acquire"
	// holdfast acquire, below ""
	// copy the table, below "holdfast hold"
	// holdfast hold, below "holdfast acquire"
	// holdfast store put, below "holdfast release"
	// holdfast release, below "holdfast acquire"
}

package otelhold_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/otel/otelhold"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
	metricsdk "go.opentelemetry.io/otel/sdk/metric"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// BenchmarkRenew and BenchmarkAcquire show what a Telemetry adds to a renewal, and to an acquire with its release.
func BenchmarkRenew(b *testing.B) {
	each(b, func(b *testing.B, ctx context.Context, c *lease.Client) {
		g, err := c.Acquire(b.Context(), "job", nil)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if err := g.Renew(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAcquire(b *testing.B) {
	each(b, func(b *testing.B, ctx context.Context, c *lease.Client) {
		h, err := c.Handle("job", nil)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			g, err := h.TryAcquire(ctx)
			if err != nil {
				b.Fatal(err)
			}
			if err := g.Release(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// each runs f with a client without a Telemetry, and with one that records all traces, or none.
func each(b *testing.B, f func(b *testing.B, ctx context.Context, c *lease.Client)) {
	for _, c := range []struct {
		name    string
		sampler sdk.Sampler
	}{{"plain", nil}, {"never sampled", sdk.NeverSample()}, {"sampled", sdk.AlwaysSample()}} {
		b.Run(c.name, func(b *testing.B) {
			ctx := b.Context()
			st, o := store.Store(memstore.New()), &lease.Options{}
			if c.sampler != nil {
				provider := sdk.NewTracerProvider(sdk.WithSampler(c.sampler), sdk.WithBatcher(tracetest.NewNoopExporter()))
				defer func() { _ = provider.Shutdown(b.Context()) }()
				tel, err := otelhold.New(&otelhold.Options{TracerProvider: provider, MeterProvider: metricsdk.NewMeterProvider(metricsdk.WithReader(metricsdk.NewManualReader()))})
				if err != nil {
					b.Fatal(err)
				}
				program, span := provider.Tracer("program").Start(ctx, "program")
				defer span.End()
				ctx = program
				st, o.Trace, o.OnEvent = tel.Store(st), tel.TraceLock, tel.OnEvent
			}
			client, err := lease.New(st, o)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = client.Close(b.Context()) }()
			f(b, ctx, client)
		})
	}
}

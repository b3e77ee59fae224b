package otelhold_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/otel/otelhold"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
	"github.com/holdfast-go/holdfast/store/storetest"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func telemetry(t *testing.T) *otelhold.Telemetry {
	t.Helper()
	tel, err := otelhold.New(&otelhold.Options{TracerProvider: sdk.NewTracerProvider(sdk.WithSyncer(tracetest.NewNoopExporter()))})
	if err != nil {
		t.Fatal(err)
	}
	return tel
}

// TestStore: the decorator keeps the contract and the abilities of the store below.
func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return telemetry(t).Store(memstore.New()) }, nil)
}

// TestBucket: the decorator keeps the contract and the abilities of the bucket below.
func TestBucket(t *testing.T) {
	objecttest.Run(t, func(t *testing.T) object.Bucket { return telemetry(t).Bucket(membucket.New()) }, nil)
}

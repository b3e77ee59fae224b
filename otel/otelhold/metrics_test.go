package otelhold_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/metrics"
	"github.com/holdfast-go/holdfast/observe/metrics/promtext"
	"github.com/holdfast-go/holdfast/otel/otelhold"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// prometheusName is the name that an exporter for Prometheus gives to an instrument, as the specification of
// OpenTelemetry demands.
func prometheusName(m metricdata.Metrics) string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	if m.Unit == "s" && !strings.Contains(name, "seconds") {
		name += "_seconds"
	}
	if sum, ok := m.Data.(metricdata.Sum[float64]); ok && sum.IsMonotonic {
		name += "_total"
	}
	return name
}

// exported returns all values as lines that also text makes of the metrics for Prometheus.
func exported(t *testing.T, reader *sdk.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	line := func(name string, attrs attribute.Set, suffix string) string {
		var pairs []string
		for _, a := range attrs.ToSlice() {
			pairs = append(pairs, string(a.Key), a.Value.AsString())
		}
		return name + suffix + "{" + promtext.Labels(sorted(pairs)...) + "}"
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			name := prometheusName(m)
			switch data := m.Data.(type) {
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					values[line(name, p.Attributes, "")] = p.Value
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					values[line(name, p.Attributes, "")] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					values[line(name, p.Attributes, "_sum")] = p.Sum
					values[line(name, p.Attributes, "_count")] = float64(p.Count)
				}
			default:
				t.Errorf("%s has data of type %T", m.Name, data)
			}
		}
	}
	return values
}

func sorted(pairs []string) (all []string) {
	byName := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		byName[pairs[i]] = pairs[i+1]
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, name, byName[name])
	}
	return all
}

// TestMetricsAgree: a program that records both kinds of metrics gets the same names, labels and values.
func TestMetricsAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdk.NewManualReader()
		o := &metrics.Options{Store: `memory "x"`, Label: metrics.ByName}
		tel, err := otelhold.New(&otelhold.Options{MeterProvider: sdk.NewMeterProvider(sdk.WithReader(reader)), Metrics: o})
		if err != nil {
			t.Fatal(err)
		}
		other := metrics.New(o)
		faults := faultstore.New(memstore.New(), faultstore.MustParse("put lock/lossy #1 lose; put lock/late #2- fail; put-unsynced lock/late fail"))
		c, err := lease.New(tel.Store(other.Store(faults)), &lease.Options{TTL: 10 * time.Second, OnEvent: func(e lease.Event) {
			tel.OnEvent(e)
			other.OnEvent(e)
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		for _, name := range []string{"a", "b/c", "lossy", "late", "a\"\n"} {
			g, err := c.Acquire(ctx, name, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = c.TryAcquire(ctx, name, nil)
			time.Sleep(25 * time.Second)
			_ = g.Release(ctx)
		}
		if _, err := c.Acquire(ctx, "held", nil); err != nil {
			t.Fatal(err)
		}
		for range store.List(ctx, tel.Store(faults), "") { // of tel alone; see below
			break
		}
		if err := c.FlushEvents(ctx); err != nil {
			t.Fatal(err)
		}
		got := exported(t, reader)
		for l := range got {
			if strings.Contains(l, `operation="list"`) {
				delete(got, l)
			}
		}
		want := map[string]float64{}
		var text strings.Builder
		if _, err := other.WriteTo(&text); err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(text.String()) {
			var value float64
			i := strings.LastIndexByte(l, ' ')
			name, rest, _ := strings.Cut(l[:i], "{")
			if strings.HasPrefix(l, "#") || strings.HasSuffix(name, "_bucket") {
				continue
			}
			if _, err := fmt.Sscan(l[i:], &value); err != nil {
				t.Fatal(err)
			}
			var pairs []string
			for _, p := range promtext.Pairs(strings.TrimSuffix(rest, "}")) {
				pairs = append(pairs, p[0], p[1])
			}
			if strings.HasSuffix(name, "_count") && value == 0 || strings.HasSuffix(name, "_sum") && value == 0 && got[name+"{"+promtext.Labels(sorted(pairs)...)+"}"] == 0 {
				delete(got, name+"{"+promtext.Labels(sorted(pairs)...)+"}")
				continue // OpenTelemetry leaves out a histogram without observations
			}
			want[name+"{"+promtext.Labels(sorted(pairs)...)+"}"] = value
		}
		for _, l := range slices.Sorted(maps.Keys(want)) {
			if v, ok := got[l]; !ok || v-want[l] > 1e-6 || want[l]-v > 1e-6 {
				t.Errorf("%s: got %v (%v), want %v", l, v, ok, want[l])
			}
		}
		for _, l := range slices.Sorted(maps.Keys(got)) {
			if _, ok := want[l]; !ok {
				t.Errorf("%s: got %v, want none", l, got[l])
			}
		}
		names := map[string]bool{}
		for l := range want {
			name, _, _ := strings.Cut(l, "{")
			names[name] = true
		}
		if len(names) < 20 {
			t.Errorf("only the metrics %q were compared", slices.Sorted(maps.Keys(names)))
		}
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := tel.Close(); err != nil {
			t.Fatal(err)
		}
		for l := range exported(t, reader) {
			if strings.HasPrefix(l, promtext.Acquired) {
				t.Errorf("after Close: %s", l)
			}
		}
	})
}

// TestNames: each instrument gets the name of a metric of the table.
func TestNames(t *testing.T) {
	reader := sdk.NewManualReader()
	_, err := otelhold.New(&otelhold.Options{MeterProvider: sdk.NewMeterProvider(sdk.WithReader(reader))})
	if err != nil {
		t.Fatal(err)
	}
	for l := range exported(t, reader) {
		name, _, _ := strings.Cut(l, "{")
		if !slices.ContainsFunc(promtext.WrittenBy(promtext.Program), func(m promtext.Metric) bool { return m.Name == name }) {
			t.Errorf("the metric %s is not in the table", name)
		}
	}
}

// sliced is a provider that cannot be compared.
type sliced struct {
	*sdk.MeterProvider
	_ []int
}

// TestTwoClients: a program has two clients. Each value is of both: the gauges, too, of which OpenTelemetry exports one
// observation. After Close the gauges are of the other client alone, and no counter falls.
func TestTwoClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdk.NewManualReader()
		provider, st := sdk.NewMeterProvider(sdk.WithReader(reader)), memstore.New()
		alone, err := otelhold.New(&otelhold.Options{MeterProvider: sliced{MeterProvider: provider}})
		if err != nil {
			t.Fatal(err)
		}
		if err := alone.Close(); err != nil {
			t.Error(err)
		}
		var tels []*otelhold.Telemetry
		var clients []*lease.Client
		take := func(i int, name string) {
			if _, err := clients[i].Acquire(t.Context(), name, nil); err != nil {
				t.Fatal(err)
			}
			if err := clients[i].FlushEvents(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		want := func(name string, value float64) {
			t.Helper()
			if got := exported(t, reader)[name+`{lock="jobs/*"}`]; got != value {
				t.Errorf("%s: got %v, want %v", name, got, value)
			}
		}
		for i, ttl := range []time.Duration{10 * time.Second, time.Minute} {
			tel, err := otelhold.New(&otelhold.Options{MeterProvider: provider})
			if err != nil {
				t.Fatal(err)
			}
			c, err := lease.New(tel.Store(st), &lease.Options{TTL: ttl, OnEvent: tel.OnEvent})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(t.Context())
			tels, clients = append(tels, tel), append(clients, c)
			take(i, fmt.Sprint("jobs/", i))
		}
		take(0, "jobs/2")
		want(promtext.Acquired, 3)
		want(promtext.Held, 3)
		shortest := exported(t, reader)[promtext.ShortestLease+`{lock="jobs/*"}`]
		if shortest <= 0 || shortest > 10 {
			t.Errorf("the first lease ends in %v s", shortest)
		}
		if err := tels[0].Close(); err != nil {
			t.Fatal(err)
		}
		want(promtext.Acquired, 3)
		want(promtext.Held, 1)
		for range 2 { // the second call changes nothing
			if err := tels[1].Close(); err != nil {
				t.Fatal(err)
			}
		}
		if value, ok := exported(t, reader)[promtext.Acquired+`{lock="jobs/*"}`]; ok {
			t.Errorf("after Close: %v", value)
		}
	})
}

package otelhold

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/metrics"
	"github.com/holdfast-go/holdfast/observe/metrics/promtext"
	"github.com/holdfast-go/holdfast/store"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// OnEvent is a value for [lease.Options].OnEvent: it counts what happens to locks.
func (t *Telemetry) OnEvent(e lease.Event) {
	if o, ok := t.metrics.Observe(e); ok {
		t.histograms[o.Name].Record(context.Background(), o.Took.Seconds(), metric.WithAttributes(labels(o.Labels)...))
	}
}

// observeRequest records how long a request took. A watch waits, so that its duration says nothing.
func (t *Telemetry) observeRequest(ctx context.Context, op store.Kind, took time.Duration) {
	if op == store.OpWatch {
		return
	}
	attrs := append(slices.Clone(t.storeLabel), attribute.String("operation", string(op)))
	t.histograms[promtext.RequestDuration].Record(ctx, took.Seconds(), metric.WithAttributes(attrs...))
}

// group has the metrics of all clients with one meter provider. OpenTelemetry wants one observation of each gauge, so one
// callback adds the values of all clients.
type group struct {
	registration metric.Registration

	mu     sync.Mutex // never held during a call of OpenTelemetry
	all    []*metrics.Metrics
	closed promtext.Set // the counters of clients that were closed, because no sum may fall
}

// groups has the groups that are not empty.
var groups = struct {
	sync.Mutex                // of which no callback waits
	of         map[any]*group // by their providers
}{of: map[any]*group{}}

// meter makes the instruments of the table of package promtext.
func (t *Telemetry) meter(provider metric.MeterProvider) (err error) {
	meter := provider.Meter(ScopeName)
	table := promtext.WrittenBy(promtext.Program)
	t.histograms = map[string]metric.Float64Histogram{}
	observed, all := map[string]metric.Float64Observable{}, []metric.Observable{}
	for _, m := range table {
		name, unit := instrument(table, m)
		var of metric.Float64Observable
		switch m.Kind {
		case promtext.Histogram:
			t.histograms[m.Name], err = meter.Float64Histogram(name, metric.WithDescription(m.Help), metric.WithUnit(unit), metric.WithExplicitBucketBoundaries(promtext.Bounds[:]...))
		case promtext.Counter:
			of, err = meter.Float64ObservableCounter(name, metric.WithDescription(m.Help), metric.WithUnit(unit))
		case promtext.Gauge:
			of, err = meter.Float64ObservableGauge(name, metric.WithDescription(m.Help), metric.WithUnit(unit))
		}
		if err != nil {
			return err
		}
		if of != nil {
			observed[m.Name], all = of, append(all, of)
		}
	}
	groups.Lock()
	defer groups.Unlock()
	key := any(provider)
	if !reflect.ValueOf(key).Comparable() {
		key = t // its clients cannot be found
	}
	g := groups.of[key]
	if g == nil {
		g = &group{}
		g.registration, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
			for _, v := range g.values() {
				if of := observed[v.Name]; of != nil {
					o.ObserveFloat64(of, v.Value, metric.WithAttributes(labels(v.Labels)...))
				}
			}
			return nil
		}, all...)
		if err != nil {
			return err
		}
		groups.of[key] = g
	}
	t.group = g
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, t.metrics)
	return nil
}

func (g *group) values() []promtext.Value {
	g.mu.Lock()
	defer g.mu.Unlock()
	set := metrics.Collect(g.all...)
	set.AddAll(&g.closed, "")
	return set.Values()
}

// Close removes the gauges of a client that the program needs no longer. Its counters stay in the sums until all
// clients with this meter provider are closed. Spans are still recorded.
func (t *Telemetry) Close() error {
	if t.group.remove(t.metrics) {
		return t.group.registration.Unregister()
	}
	return nil
}

// remove removes the metrics of a client. It reports whether they were the last ones.
func (g *group) remove(m *metrics.Metrics) (last bool) {
	groups.Lock()
	defer groups.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.all, m)
	if i < 0 {
		return false
	}
	values := metrics.Collect(m)
	g.closed.AddCounters(&values)
	g.all = slices.Delete(g.all, i, i+1)
	if len(g.all) > 0 {
		return false
	}
	maps.DeleteFunc(groups.of, func(_ any, of *group) bool { return of == g })
	return true
}

// instrument returns the name and the unit of the instrument of a metric. An exporter for Prometheus makes the
// name of the metric from them. The name has no unit, unless another metric has that name.
func instrument(table []promtext.Metric, m promtext.Metric) (name, unit string) {
	name = strings.TrimSuffix(m.Name, "_total")
	if plain, ok := strings.CutSuffix(name, "_seconds"); ok {
		unit = "s"
		if !slices.ContainsFunc(table, func(other promtext.Metric) bool { return strings.TrimSuffix(other.Name, "_total") == plain }) {
			name = plain
		}
	}
	return strings.Replace(name, "_", ".", 1), unit
}

func labels(pairs [][2]string) (attrs []attribute.KeyValue) {
	for _, p := range pairs {
		attrs = append(attrs, attribute.String(p[0], p[1]))
	}
	return attrs
}

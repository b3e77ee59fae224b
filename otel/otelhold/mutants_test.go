package otelhold_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"the end of a span waits for the exporter", "ending.go",
			"	e.add(func() { span.End(at) })\n", "	span.End(at)\n",
			"TestStuckExporter"},
		{"calls wait for an exporter that is stuck", "ending.go",
			"	if e.stuck.Load() {\n", "	if e.stuck.Load() && false {\n",
			"TestStuckExporter"},
		{"spans begin although the exporter is stuck", "telemetry.go",
			"	if t.ending.isFull() {\n", "	if t.ending.isFull() && false {\n",
			"TestStuckExporter"},
		{"the work is below the acquire", "lock.go",
			"	h.values.Store(&ctx)\n", "	_ = ctx\n",
			"TestDo"},
		{"a loss does not end the hold", "lock.go",
			"	context.AfterFunc(g.Context(), func() { h.end(g.Err()) })\n", "",
			"TestLoss"},
		{"a second release is a span", "lock.go",
			" || !h.released.CompareAndSwap(false, true) {", " {",
			"TestNoParent"},
		{"without a span of the caller, the hold has a trace of its own", "lock.go",
			"	if trace.SpanContextFromContext(ctx).IsValid() {\n		h.parent = ctx\n	}\n", "	h.parent = ctx\n",
			"TestNoParent"},
		{"a release below the hold", "lock.go",
			"!around.IsValid() || around.Equal(h.span.SpanContext())", "!around.IsValid()",
			"TestNoParent"},
		{"traces have no end", "lock.go",
			"h.requests.Add(1) > MaxRequests", "h.requests.Add(1) < 0",
			"TestMaxRequests"},
		{"the requests of the work count as those of the hold", "lock.go",
			"around.Equal(trace.SpanContextFromContext(*h.values.Load())) && ", "",
			"TestMaxRequests"},
		{"a lost reply is a success", "telemetry.go",
			"		return \"unknown\"\n", "		return \"ok\"\n",
			"TestUnknownOutcome"},
		{"a wait that its caller ends is a failure of the store", "store.go",
			"op == store.OpWatch && ctx.Err() != nil", "false",
			"TestNotAcquired"},
		{"a name of a metric has its unit twice", "metrics.go",
			"return strings.Replace(name, \"_\", \".\", 1), unit", "return strings.Replace(m.Name, \"_\", \".\", 1), unit",
			"TestNames"},
		{"each client observes its own gauges", "metrics.go",
			"set := metrics.Collect(g.all...)", "set := metrics.Collect(g.all[len(g.all)-1])",
			"TestTwoClients"},
		{"a counter falls", "metrics.go",
			"	g.closed.AddCounters(&values)\n", "	_ = values\n",
			"TestTwoClients"},
		{"an event is not observed", "metrics.go",
			"	if o, ok := t.metrics.Observe(e); ok {\n", "	if o, ok := t.metrics.Observe(e); ok && o.Name == \"\" {\n",
			"TestMetricsAgree"},
	})
}

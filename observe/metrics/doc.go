// Package metrics counts what the clients and the stores of a program do, for Prometheus.
//
// # Use
//
//	m := metrics.New(nil)
//	client, err := lease.New(m.Store(s), &lease.Options{OnEvent: m.OnEvent})
//	http.Handle("/metrics", m)
//
// Package promtext has the table of all metrics, and docs/metrics.md explains them. The directory of
// this package has rules for alerts and a dashboard for Grafana. The metrics of holdfast run
// --metrics have the same names.
//
// Use a Metrics for each client and its store, with a name for each store in [Options]. [Handler]
// serves several of them.
//
// # Bounds
//
// Metrics have labels for locks, and each further value of a label costs memory here and in
// Prometheus. So a function maps the names of locks to a bounded number of values; see
// [Options.Label]. The memory is bounded by this number and by the locks that are held or waited
// for now.
//
// # What the values mean
//
// The counters follow the events of the client. A client drops events if a handler is too slow.
// OnEvent itself takes microseconds, and waits for no reader. If events were dropped, the counter
// holdfast_events_dropped_total says how many, and the other counters lack them. The gauges recover:
// a lease whose release was dropped counts as held until its deadline, and the waits are forgotten
// until the next event of each lock. A detached lease counts as held until its deadline, too, unless
// a ticket renews or releases it through the same client.
package metrics

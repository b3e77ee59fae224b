// Package otelhold records what Holdfast does as spans and metrics of OpenTelemetry.
//
// # Use
//
// Pass a [Telemetry] to the store and to the options of the clients:
//
//	tel, err := otelhold.New(nil) // the global providers of OpenTelemetry
//	locks, err := lease.New(tel.Store(st), &lease.Options{Trace: tel.TraceLock, OnEvent: tel.OnEvent})
//	objects, err := object.New(tel.Bucket(bucket), &object.Options{Trace: tel.TraceCall})
//	items, err := largeitem.New(table, tel.Bucket(bucket), &largeitem.Options{Trace: tel.TraceCall})
//
// Everything else in the program remains as it is.
//
// # Spans
//
//   - "holdfast acquire": a call that takes a lock, with its wait.
//   - "holdfast hold": the time from the grant to the release, or to the loss of the lease. After a
//     loss, the status of the span is an error, and holdfast.reason is the reason. The context of the guard,
//     and the context of the function of a Do, have this span. So the spans of the work become its children. The renewals
//     are its children too.
//   - "holdfast release": a release.
//   - "holdfast put", "holdfast append", "holdfast rename", "holdfast update item" and so on: a call of an object
//     client, of a log, or of a store of large items.
//   - "holdfast store put", "holdfast bucket get" and so on: one request to the store. It is recorded only
//     if the context has a span, so background requests of a waiting client have no spans.
//
// If the caller's context has a span, acquire, hold and release are children of this span. Otherwise hold and release are
// children of acquire.
//
// # Attributes
//
//   - holdfast.lock is the name of the lock, and holdfast.token the token of the grant.
//   - holdfast.takeover is the reason of a takeover: why the earlier grant was over.
//   - holdfast.key is the key of a register, object or item, and holdfast.store the name of the store.
//   - holdfast.outcome is the result: see [Outcome].
//   - holdfast.holder is the holder of a lock that is held.
//   - holdfast.unrecorded is how many requests below the span were not recorded; see [MaxRequests].
//   - holdfast.reason is the reason of a loss, such as "expired".
//
// # Exporters
//
// No lease waits for an exporter. Spans end in a goroutine that exists only while there are spans to end. A
// call of a program waits until its own spans have ended, but at most one second, and not at all while the
// exporter is stuck. If [MaxEnding] spans wait for the exporter, new spans are not recorded.
package otelhold

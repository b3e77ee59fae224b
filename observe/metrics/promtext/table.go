// Package promtext has the names of all metrics of Holdfast, and writes their values in the text
// format of Prometheus. It needs no HTTP, so that small programs can write metrics into files.
package promtext

import "slices"

// Kind is the kind of a metric.
type Kind string

// The kinds of metrics.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Writer names what writes a metric.
type Writer string

// The writers of metrics.
const (
	Program Writer = "program" // a program with package metrics
	Run     Writer = "run"     // holdfast run --metrics
	Page    Writer = "serve"   // a program that watches the locks of others
)

// Metric describes a metric. Each also has the label store, if the writer knows a name.
type Metric struct {
	Name    string
	Kind    Kind
	Help    string
	Labels  []string
	Writers []Writer
}

// The names of the metrics.
const (
	Acquired          = "holdfast_acquired_total"
	Busy              = "holdfast_busy_total"
	RanAlready        = "holdfast_ran_already_total"
	Failed            = "holdfast_failed_total"
	Lost              = "holdfast_lost_total"
	Released          = "holdfast_released_total"
	WaitSeconds       = "holdfast_wait_seconds_total"
	HeldSeconds       = "holdfast_held_seconds_total"
	AcquireDuration   = "holdfast_acquire_duration_seconds"
	HoldDuration      = "holdfast_hold_duration_seconds"
	Waits             = "holdfast_waits_total"
	Takeovers         = "holdfast_takeovers_total"
	RenewalDuration   = "holdfast_renewal_duration_seconds"
	AtRisk            = "holdfast_at_risk_total"
	YieldRequests     = "holdfast_yield_requests_total"
	Unresponsive      = "holdfast_store_unresponsive_total"
	EventsDropped     = "holdfast_events_dropped_total"
	Held              = "holdfast_held"
	Waiting           = "holdfast_waiting"
	Sessions          = "holdfast_sessions"
	ShortestLease     = "holdfast_shortest_lease_seconds"
	Requests          = "holdfast_requests_total"
	RequestDuration   = "holdfast_request_duration_seconds"
	Runs              = "holdfast_runs_total"
	LastRun           = "holdfast_last_run_timestamp_seconds"
	LastSuccess       = "holdfast_last_success_timestamp_seconds"
	LastStatus        = "holdfast_last_exit_status"
	SeenHeld          = "holdfast_seen_held"
	SeenWaiting       = "holdfast_seen_waiting"
	SeenUnreadable    = "holdfast_seen_unreadable"
	SeenShortestLease = "holdfast_seen_shortest_lease_seconds"
	SeenAge           = "holdfast_seen_age_seconds"
)

var (
	lock       = []string{"lock"}
	lockReason = []string{"lock", "reason"}
	both       = []Writer{Program, Run}
	program    = []Writer{Program}
	run        = []Writer{Run}
	page       = []Writer{Page}
	stores     = []Writer{Program, Page}
)

// metrics is the table. Names and labels that were released do not change.
var metrics = []Metric{
	{Acquired, Counter, "Grants of the lock.", lock, both},
	{Busy, Counter, "Acquires that ended because the lock was held by another.", lock, both},
	{RanAlready, Counter, "Acquires that ended because the job had run in its period.", lock, both},
	{Failed, Counter, "Acquires that did not get the lock for another reason.", lockReason, both},
	{Lost, Counter, "Leases that were lost.", lockReason, both},
	{Released, Counter, "Leases that were released. If the result is unconfirmed, others may wait until the lease expires.", []string{"lock", "result"}, program},
	{WaitSeconds, Counter, "Seconds that acquires took until they had the lock, found it busy, or found that the job had run.", lock, both},
	{HeldSeconds, Counter, "Seconds for which leases were held.", lock, both},
	{AcquireDuration, Histogram, "Seconds that acquires took until they had the lock.", lock, program},
	{HoldDuration, Histogram, "Seconds from a grant to its release or loss.", lock, program},
	{Waits, Counter, "Grants of others that the program waited for.", lock, program},
	{Takeovers, Counter, "Grants that ended a grant that was not released.", lockReason, program},
	{RenewalDuration, Histogram, "Seconds from the sending of a renewal until it was known to be applied. Renewals of sessions have no label lock.", lock, program},
	{AtRisk, Counter, "Leases that were not renewed for so long that they were at risk.", lock, program},
	{YieldRequests, Counter, "Grants that other clients asked the program to release.", lock, program},
	{Unresponsive, Counter, "Reports that the store did not answer. A waiter repeats the report every 5 s.", nil, program},
	{EventsDropped, Counter, "Events that were dropped, so that the other counters lack them.", nil, program},
	{Held, Gauge, "Leases that the program holds now.", lock, program},
	{Waiting, Gauge, "Locks that the program waits for now.", lock, program},
	{Sessions, Gauge, "Sessions that are open now.", nil, program},
	{ShortestLease, Gauge, "Seconds until the first of the held leases ends, if no renewal succeeds. Absent if no lease is held.", lock, program},
	{Requests, Counter, "Calls of the store, by their outcome.", []string{"operation", "outcome"}, stores},
	{RequestDuration, Histogram, "Seconds that calls of the store took.", []string{"operation"}, stores},
	{Runs, Counter, "Runs that had the lock.", lock, run},
	{LastRun, Gauge, "Unix time at which the last run with the lock ended.", lock, run},
	{LastSuccess, Gauge, "Unix time at which the last run with the lock and status 0 ended; 0 if there was none.", lock, run},
	{LastStatus, Gauge, "Exit status of the last run that had the lock.", lock, run},
	{SeenHeld, Gauge, "Locks that clients of the store hold, as the page sees them.", nil, page},
	{SeenWaiting, Gauge, "Clients in the queues of locks, as the page sees them.", nil, page},
	{SeenUnreadable, Gauge, "Records of locks that the page cannot read.", nil, page},
	{SeenShortestLease, Gauge, "Seconds until the first of the leases that the page sees ends without a renewal. Expired leases do not count. Absent if no lease is held, or if the page has not read a lease since its deadline.", nil, page},
	{SeenAge, Gauge, "Seconds since the page has read the store with success.", nil, page},
}

// Metrics returns the table of all metrics.
func Metrics() []Metric { return slices.Clone(metrics) }

// WrittenBy returns the metrics that w writes.
func WrittenBy(w Writer) (found []Metric) {
	for _, m := range metrics {
		if slices.Contains(m.Writers, w) {
			found = append(found, m)
		}
	}
	return found
}

package lease

import (
	"time"

	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/event"
)

// EventKind names what happened to a lease.
type EventKind = event.Kind

// The events of a lease.
const (
	// EventWaiting: an Acquire found the lock held, and waits. The client sends this event once for
	// each grant that it waits for, even if several goroutines wait. If all of them give up, and
	// another goroutine waits later, the client sends it again.
	EventWaiting = event.Waiting

	// EventUnresponsive: for the time [UnresponsiveAfter] the store has answered no request, or
	// no write, of the client's waiters. The client repeats the event every 5 s, once for all
	// its waiters. It sends this event only with Options.StoreTimeout.
	EventUnresponsive = event.Unresponsive

	// EventAcquired: a grant began.
	EventAcquired = event.Acquired

	// EventTakenOver: the new grant ended another grant that had not been released. The client
	// sends it just before EventAcquired.
	EventTakenOver = event.TakenOver

	// EventRenewed: a renewal was applied.
	EventRenewed = event.Renewed

	// EventAtRisk: a renewal was due but has not succeeded, and half of the time between the due
	// time and the deadline has passed. The client sends this event at most once until the next
	// renewal.
	EventAtRisk = event.AtRisk

	// EventLost: the lease ended before it was released. The guard's context has ended already.
	EventLost = event.Lost

	// EventYieldRequested: another client asked the holder to yield; see [Client.RequestYield]. The
	// client sends this event once for each grant.
	EventYieldRequested = event.YieldRequested

	// EventReleased: the lease was released. If Err is set, the store may not have applied the
	// write that frees the lock. Then the lease expires in the store.
	EventReleased = event.Released

	// EventFailed: an Acquire or TryAcquire did not get the lock. Err says why.
	EventFailed = event.Failed

	// EventOpened and EventClosed: a session was opened, or closed. If Err is set, the store may
	// not have applied the write of the session's record. Then the session expires in the store.
	EventOpened = event.Opened
	EventClosed = event.Closed

	// EventRevoked: this client has revoked a session of another client, to take a lock under
	// that session. The session was not renewed in time, or its process is dead.
	EventRevoked = event.Revoked
)

// UnresponsiveAfter is a time: if the store has not answered for so long, a client sends
// [EventUnresponsive].
const UnresponsiveAfter = cell.UnresponsiveAfter

// Event reports what happened to one lock, or to a session.
type Event struct {
	Kind     EventKind
	Time     time.Time     // time of the event, by the wall clock
	Name     string        // name of the lock; empty if the event is about a session
	Session  string        // session of the event, or of the lock
	Token    uint64        // token of the grant; for a waiter, token of the grant that it waits for
	Holder   string        // for a waiter: holder of the lock; for a takeover: holder of the old grant; for a request to yield: the requesting client
	Reason   string        // for a takeover: why the old grant was over; for a request to yield: its reason
	Deadline time.Time     // time until which the holder trusts its lease, by the wall clock, for display
	Since    time.Time     // for a waiter: start of the grant that it waits for, by the holder's clock
	Wait     time.Duration // for a waiter: time until the takeover if the holder is dead; for an unresponsive store: time until the waiter gives up
	Err      error         // error that caused the risk, the loss or the failure of a release, if any; for an unresponsive store: the last error, or nil
	Dropped  int           // number of events that were dropped since the last delivered event

	Took         time.Duration // for a grant or a failure: how long the Acquire or TryAcquire took; for a renewal: time from its sending until the client knew that it was applied
	StopsWaiting bool          // for a failure: no call of this client waits for the lock any longer
}

// listeners returns the listeners that the options name.
func listeners(o *Options) (all event.Listeners) {
	if o.OnEvent != nil {
		all.Add(func(e event.Event) { o.OnEvent(Event(e)) })
	}
	if o.Logger != nil {
		all.AddLogger(o.Logger)
	}
	return all
}

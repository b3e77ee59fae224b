package lease

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/holding"
	"github.com/holdfast-go/holdfast/store"
)

// LockOptions are the options of the calls that take a lock. Nil and the zero value mean a plain
// lock with one holder; the call waits for this lock. Every call that takes a lock by its name
// accepts LockOptions as its last argument. The methods of a [Handle] use the options of the
// handle. If a call cannot use an option, its error matches [store.ErrInvalid].
type LockOptions struct {
	// Shared takes the lock as a reader. Several readers can hold a lock at the same time, but
	// never at the same time as a writer. Shared needs a [Session].
	//
	// A reader cannot become a writer: release the lock, and acquire it again. If a goroutine is a
	// reader and acquires the same lock as a writer, it waits for itself. If it passes the context
	// of the reader's guard, or of the function of a Do, Acquire returns [store.ErrInvalid]. With
	// any other context, Acquire waits until that context ends.
	Shared bool

	// If Slots is set, the lock is a semaphore with that number of slots, from 1 to [MaxMembers]. A
	// handle takes one slot. All handles of the lock must have the same number; see
	// [Client.Resize]. Slots needs a [Session], and cannot be combined with Shared. Default: no
	// semaphore.
	Slots int

	// With Fair the call waits in the queue of the lock, in the order of arrival. It needs a
	// [Session]. Waiters without Fair take the lock in no fixed order. They can take it only when
	// it is free and the queue is empty.
	Fair bool

	// With NoWait, if another handle holds the lock, Do and Once return a [*HeldError] and do
	// not run their function. Other calls refuse NoWait; use TryAcquire.
	NoWait bool

	// OnYieldRequest says what happens to the function of a Do, Lead or Once when a waiter asks
	// the holder to yield; see [Client.RequestYield]. The context of a guard from Acquire or
	// TryAcquire never ends for such a request. Default: [YieldOnRequest].
	OnYieldRequest YieldPolicy

	// Linger is the time for which a handle keeps the lease after the release of its last guard.
	// Only [Client.Handle] and [Session.Handle] accept it. During that time an Acquire or
	// TryAcquire of the same handle sends no request. It returns a guard of the kept lease with
	// the same token, and [Guard.WasLastHolder] of that guard is true.
	//
	// At the end of that time the handle frees the lock. If an Acquire of another handle waits, it
	// automatically sends a request to yield. Then the handle frees the lock with its next renewal,
	// or at once if the store reports changes. A TryAcquire of another handle sends no request to
	// yield: it finds the lock held. If the process dies during that time, the lock stays held
	// until the lease expires. [Client.Close] frees it.
	//
	// In whole milliseconds, at most 1 h. It cannot be combined with Shared, Slots, Fair,
	// Period, Options.ManualRenewal or Options.MinInterval. Default: none.
	Linger time.Duration

	// If Period is set, each grant is a run of a job. A job runs at most once in each period. If
	// the job has run in this period, Acquire and TryAcquire return an [*AlreadyRanError]. Call
	// [Guard.SetRunResult] before each Release; Do calls it by itself. Most programs use
	// [Client.Once], which has the period as an argument. A [Session], Lead and Election refuse
	// Period.
	//
	// The grant writes the start of the run into the record of the lock, and the release writes its
	// end. So a run costs no extra request. The run counts for the period in which it began, by the
	// clock of its machine. Another machine starts a new period by its own clock. So if the clocks
	// of two machines differ, a job can run twice around the boundary of two periods. But the lease
	// prevents two runs at the same time. If a clock is set back, the job does not run twice.
	//
	// If the lease is lost, or the guard is detached or released without a result, the
	// outcome of the run is [RunDied]. After [Guard.AllowRerun] the run does not count.
	Period Period

	// If a run failed or died, later calls on any machine may repeat it in the same period: at
	// most Retries times. Retries needs a Period. At most [MaxRetries]. Default: 0.
	Retries int
}

// maxLinger is the longest [LockOptions.Linger].
const maxLinger = time.Hour

// YieldPolicy says what a Do, Lead or Once does when a waiter asks the holder to yield.
type YieldPolicy int

const (
	// YieldOnRequest ends the context of the function, with a cause that matches
	// [ErrYieldRequested].
	YieldOnRequest YieldPolicy = iota

	// IgnoreYieldRequests lets the function decide; see [Guard.YieldRequested].
	IgnoreYieldRequests
)

// method is the kind of a call that takes LockOptions.
type method int

const (
	methodHandle method = iota
	methodAcquire
	methodDo
	methodOnce
	methodLead // and Election
)

// acquire takes the lock for a Do or Once with these options.
func (o *LockOptions) acquire(h *Handle, ctx context.Context) (*Guard, error) {
	if o != nil && o.NoWait {
		return h.TryAcquire(ctx)
	}
	return h.Acquire(ctx)
}

// plainOptions are those of a handle that was given none.
var plainOptions LockOptions

// choose sets the options of the handle for a call. It refuses those that the call cannot honour,
// and those that do not go together or with those of the client.
func (h *Handle) choose(o *LockOptions, call method) error {
	o = cmp.Or(o, &plainOptions)
	if *o == plainOptions && call != methodLead {
		return nil
	}
	set := h.space().Set
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: lock %q: %s", store.ErrInvalid, h.k.Name(), fmt.Sprintf(format, args...))
	}
	several, once := o.Shared || o.Slots != 0 || o.Fair, o.Period != Period{}
	switch {
	case o.NoWait && call != methodDo && call != methodOnce:
		return bad("NoWait is for Do and Once; call TryAcquire to take a lock without a wait")
	case o.Linger != 0 && call != methodHandle:
		return bad("only Client.Handle and Session.Handle accept Linger; call one of them with it")
	case (o.Shared || o.Slots != 0) && call == methodLead:
		return bad("a leader holds the lock alone; Shared and Slots are not for Lead and Election")
	case once && call == methodLead:
		return bad("Period is for jobs, not for Lead and Election")
	case several && h.k.Under == nil:
		return bad("Shared, Slots and Fair need a session; call OpenSession, then call this method of the session")
	case once && h.k.Under != nil:
		return bad("a session does not accept Period; call this method of the client")
	case o.Shared && o.Slots != 0:
		return bad("Shared and Slots cannot be combined")
	case o.Slots != 0 && lockrec.CheckSlots(o.Slots) != nil:
		return fmt.Errorf("lock %q: %w", h.k.Name(), lockrec.CheckSlots(o.Slots))
	case several && (o.Linger > 0 || set.MinInterval > 0):
		return bad("Linger and Options.MinInterval cannot be combined with Shared, Slots or Fair")
	case o.Linger < 0 || o.Linger > maxLinger || o.Linger%time.Millisecond != 0:
		return bad("Linger is %v; it can be from 0 to %v, in whole milliseconds", o.Linger, maxLinger)
	case o.Linger > 0 && (set.ManualRenewal || set.MinInterval > 0 || once):
		return bad("Linger cannot be combined with Period, Options.ManualRenewal or Options.MinInterval")
	case o.OnYieldRequest != YieldOnRequest && o.OnYieldRequest != IgnoreYieldRequests:
		return bad("OnYieldRequest is %d; it can be YieldOnRequest or IgnoreYieldRequests", o.OnYieldRequest)
	case o.Retries != 0 && !once:
		return bad("Retries is %d, but Period is empty; only a job with a Period is tried again", o.Retries)
	case o.Retries < 0 || o.Retries > MaxRetries:
		return bad("Retries is %d; it can be from 0 to %d", o.Retries, MaxRetries)
	}
	var work holding.Job
	if once {
		if err := o.Period.check(); err != nil {
			return err
		}
		work = &job{h: h, period: o.Period, retries: o.Retries, before: map[string]*Run{}}
	}
	h.k.Customize(holding.Options{
		Shared: o.Shared, Slots: o.Slots, Fair: o.Fair, Linger: o.Linger, Candidate: call == methodLead, OnYieldRequest: int(o.OnYieldRequest),
	}, work)
	return nil
}

package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// LockOptions say how a lock is taken. Nil, and the zero value, mean a lock that one holder has
// alone and that a call waits for. Every call that names a lock takes them as its last
// argument. A [Handle] has its options, so its methods take none. A call refuses an option that
// it cannot honour, with an error that matches [store.ErrInvalid].
type LockOptions struct {
	// Shared takes the lock as a reader, at the same time as other readers and never at the
	// same time as a writer. It needs a [Session].
	//
	// A reader does not become a writer: it releases the lock, and acquires it again. An Acquire
	// that waits for its own reader would never end. With the context of the reader's guard, or
	// of the function of a Do, the client sees that and refuses it with [store.ErrInvalid]. With
	// any other context the call waits until that ends: a handle in another goroutine
	// of the session may wait for the reader with good reason.
	Shared bool

	// Slots makes the lock a semaphore of that many slots, from 1 to [MaxMembers], of which a
	// handle takes one. All handles of the lock name the same number; see [Client.Resize]. It
	// needs a [Session], and does not go with Shared. Default: no semaphore.
	Slots int

	// Fair makes the call wait in the lock's queue, in the order of arrival. It needs a [Session].
	// Waiters that are not fair take the lock in no order, when it is free and the queue is empty.
	Fair bool

	// NoWait makes Do and Once fail with a [*HeldError] if another handle holds the lock. Their
	// function is not run then. The other calls refuse it: TryAcquire does not wait.
	NoWait bool

	// OnYieldRequest is what happens to the function of a Do, Lead or Once when a waiter asks the holder
	// to yield; see [Client.RequestYield]. Such a request never ends the context of a guard
	// that Acquire or TryAcquire returned. Default: [YieldOnRequest].
	OnYieldRequest YieldPolicy

	// Linger is for how long a handle keeps the lease after its last guard was released. Only
	// [Client.Handle] and [Session.Handle] accept it. An Acquire or TryAcquire of the same handle
	// takes the kept lease up without a request: the token is that of the grant before, and
	// [Guard.WasLastHolder] is true.
	//
	// The lock is free when that time has passed. An Acquire of another handle that waits asks
	// for the lock by itself. The handle then frees it with its next renewal, or
	// at once where the store reports changes. A TryAcquire of another handle does not ask: it
	// finds the lock held. If the process dies meanwhile, the lock stays held until the
	// lease expires. [Client.Close] frees it.
	//
	// In milliseconds, at most 1 h. It does not go with Shared, Slots, Fair, Period,
	// Options.ManualRenewal or Options.MinInterval. Default: none.
	Linger time.Duration

	// Period makes each grant a run of a job that runs at most once in each period. Acquire and
	// TryAcquire return an [*AlreadyRanError] when the job has run in this period. Call
	// [Guard.SetRunResult] before each Release; Do does it. [Client.Once] is the usual form, and
	// takes the period as an argument instead. A [Session], Lead and Election refuse it.
	//
	// A run is written into the lock's record with the grant, and its end with the release, so
	// that neither costs a request. It counts for the period in which it began, by the clock of
	// its machine. For another machine a period is over when its own clock says so. So periods
	// space runs and exclude nothing: the lease excludes. On machines whose clocks differ a job can run twice
	// within the true length of a period, once before and once after a boundary. A clock that is set
	// back never runs it twice.
	//
	// A guard that is released without a result, lost, or detached leaves a run that has died. With
	// [Guard.AllowRerun] the run does not count.
	Period Period

	// Retries is how often a run that failed or died is tried again in the same period, by
	// the next call on any machine. It needs a period. At most [MaxRetries]. Default: not at all.
	Retries int
}

// maxLinger is the longest [LockOptions.Linger].
const maxLinger = time.Hour

// YieldPolicy is what a Do, Lead or Once does when a waiter asks its holder to yield.
type YieldPolicy int

const (
	// YieldOnRequest ends the context of the function, with a cause that matches [ErrYieldRequested].
	YieldOnRequest YieldPolicy = iota

	// IgnoreYieldRequests leaves it to the function: see [Guard.YieldRequested].
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

// plainOptions are those of a handle that was given none: most have none, and share them.
var plainOptions LockOptions

// choose sets the options of the handle for a call. It refuses those that the call cannot honour,
// and those that do not go together or with those of the client.
func (h *Handle) choose(o *LockOptions, call method) error {
	if o == nil {
		return nil
	}
	own, set := *o, h.c.set
	h.opts = &own
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: lock %q: %s", store.ErrInvalid, h.name, fmt.Sprintf(format, args...))
	}
	several, once := o.Shared || o.Slots != 0 || o.Fair, o.Period != Period{}
	switch {
	case o.NoWait && call != methodDo && call != methodOnce:
		return bad("NoWait is for Do and Once; call TryAcquire to take a lock without a wait")
	case o.Linger != 0 && call != methodHandle:
		return bad("Linger needs a handle that is used again; call Handle with it")
	case (o.Shared || o.Slots != 0) && call == methodLead:
		return bad("a leader holds the lock alone; Shared and Slots are not for Lead and Election")
	case once && call == methodLead:
		return bad("Period is for jobs, not for Lead and Election")
	case several && h.under == nil:
		return bad("Shared, Slots and Fair need a session; call OpenSession, and this method of the session")
	case once && h.under != nil:
		return bad("Period needs a lease of its own; call this method of the client, not of a session")
	case o.Shared && o.Slots != 0:
		return bad("a handle is either Shared or has one of several Slots")
	case o.Slots != 0 && checkSlots(o.Slots) != nil:
		return fmt.Errorf("lock %q: %w", h.name, checkSlots(o.Slots))
	case several && (o.Linger > 0 || set.MinInterval > 0):
		return bad("neither Linger nor Options.MinInterval goes with Shared, Slots or Fair")
	case o.Linger < 0 || o.Linger > maxLinger || o.Linger%time.Millisecond != 0:
		return bad("Linger is %v; it can be from 0 to %v, in whole milliseconds", o.Linger, maxLinger)
	case o.Linger > 0 && (set.ManualRenewal || set.MinInterval > 0 || once):
		return bad("Linger does not go with Period, Options.ManualRenewal or Options.MinInterval")
	case o.OnYieldRequest != YieldOnRequest && o.OnYieldRequest != IgnoreYieldRequests:
		return bad("OnYieldRequest is %d; it can be YieldOnRequest or IgnoreYieldRequests", o.OnYieldRequest)
	case o.Retries != 0 && !once:
		return bad("Retries is %d; only a job with a Period is tried again", o.Retries)
	case o.Retries < 0 || o.Retries > MaxRetries:
		return bad("Retries is %d; it can be from 0 to %d", o.Retries, MaxRetries)
	case once:
		if err := o.Period.check(); err != nil {
			return err
		}
		h.job = &job{before: map[string]*Run{}}
	}
	return nil
}

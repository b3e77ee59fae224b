package lease

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// HandleOptions configures a [Handle]. The zero value of each field means its default.
type HandleOptions struct {
	// Shared makes the handle take the lock beside other readers. It needs a session.
	Shared bool

	// Slots makes the lock a semaphore of that many slots, from 1 to [MaxMembers], of which
	// the handle takes one. It needs a session.
	Slots int

	// Fair makes the handle wait in the lock's queue, in the order of arrival. It needs a
	// session. The others take the lock, when it is free and the queue is empty, in no order.
	// Shared, Slots and Fair do not go with Linger or Options.MinInterval.
	Fair bool

	// Linger is for how long a lease is kept after its last guard was released. An Acquire or
	// TryAcquire of the handle goes on with it meanwhile, without a request: the token is
	// that of the grant before, and [Guard.WasLastHolder] is true. The lock is free when that time has
	// passed, or sooner: an Acquire elsewhere that waits asks for it by itself, and the handle
	// frees it at once when it hears of that, with its next renewal, or at once where the
	// store tells of changes. A TryAcquire elsewhere does not ask: it finds the lock held. A
	// process that dies meanwhile leaves a lock that is held. [Client.Close] frees it. At
	// most 1 h, in milliseconds, and not together with Options.ManualRenewal or MinInterval.
	// Default: none.
	Linger time.Duration

	// OnYieldRequest is what a [Handle.Do] does when its holder is asked to give way; see
	// [Client.RequestYield]. Default: [YieldOnRequest].
	OnYieldRequest YieldPolicy
}

// maxLinger is the longest [HandleOptions.Linger].
const maxLinger = time.Hour

// YieldPolicy is what a [Handle.Do] does when its holder is asked to give way.
type YieldPolicy int

const (
	// YieldOnRequest ends the context of the function, with a cause that matches [ErrYieldRequested].
	YieldOnRequest YieldPolicy = iota

	// IgnoreYieldRequests leaves it to the function: see [Guard.YieldRequested].
	IgnoreYieldRequests
)

// HandleWith is [Client.Handle] with options. A nil o means all defaults.
func (c *Client) HandleWith(name string, o *HandleOptions) (*Handle, error) {
	h, err := c.Handle(name)
	if err != nil || o == nil {
		return h, err
	}
	return h, h.choose(*o)
}

// HandleWith is [Session.Handle] with options. A nil o means all defaults.
func (s *Session) HandleWith(name string, o *HandleOptions) (*Handle, error) {
	h, err := s.Handle(name)
	if err != nil || o == nil {
		return h, err
	}
	return h, h.choose(*o)
}

// plainOptions are those of a handle that was given none: most have none, and share them.
var plainOptions HandleOptions

// choose sets the options of the handle. It refuses those that do not go together, or with those
// of the client.
func (h *Handle) choose(o HandleOptions) error {
	h.opts = &o
	set := h.c.set
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: lock %q: %s", store.ErrInvalid, h.name, fmt.Sprintf(format, args...))
	}
	several := o.Shared || o.Slots != 0 || o.Fair
	switch {
	case several && h.under == nil:
		return bad("a handle that is shared, fair or of a semaphore needs a session")
	case o.Shared && o.Slots != 0:
		return bad("a handle is either shared or of a semaphore")
	case o.Slots != 0 && checkSlots(o.Slots) != nil:
		return fmt.Errorf("lock %q: %w", h.name, checkSlots(o.Slots))
	case several && (o.Linger > 0 || set.MinInterval > 0):
		return bad("neither Linger nor Options.MinInterval goes with a handle that is shared, fair or of a semaphore")
	case o.Linger < 0 || o.Linger > maxLinger || o.Linger%time.Millisecond != 0:
		return bad("it is kept for %v; it can be from 0 to %v, in whole milliseconds", o.Linger, maxLinger)
	case o.Linger > 0 && (set.ManualRenewal || set.MinInterval > 0):
		return bad("it cannot be kept with Options.ManualRenewal or Options.MinInterval")
	case o.OnYieldRequest != YieldOnRequest && o.OnYieldRequest != IgnoreYieldRequests:
		return bad("a policy for asks of %d", o.OnYieldRequest)
	}
	return nil
}

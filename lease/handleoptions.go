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

	// Slots makes the lock a semaphore of that many slots. It needs a session.
	Slots int

	// Fair makes the handle wait in the lock's queue, in the order of arrival. It needs a
	// session.
	Fair bool

	// Linger is for how long a lease is kept after its last guard was released. An Acquire or
	// TryAcquire of the handle goes on with it meanwhile, without a request: the token is
	// that of the grant before, and [Guard.Continuous] is true. The lock is free when that time has
	// passed, or sooner: an Acquire elsewhere that waits asks for it by itself, and the handle
	// frees it at once when it hears of that, with its next renewal, or at once where the
	// store tells of changes. A TryAcquire elsewhere does not ask: it finds the lock held. A
	// process that dies meanwhile leaves a lock that is held. [Client.Close] frees it. At
	// most [MaxLinger], in milliseconds, and not together with Options.Manual or AtLeast.
	// Default: none.
	Linger time.Duration

	// OnAsk is what a [Handle.Do] does when its holder is asked to give way; see
	// [Client.Ask]. Default: [StepDown].
	OnAsk AskPolicy
}

// MaxLinger is the longest [HandleOptions.Linger].
const MaxLinger = time.Hour

// AskPolicy is what a [Handle.Do] does when its holder is asked to give way.
type AskPolicy int

const (
	// StepDown ends the context of the function, with a cause that matches [ErrAsked].
	StepDown AskPolicy = iota

	// IgnoreAsks leaves it to the function: see [Guard.Asked].
	IgnoreAsks
)

// HandleWith is [Client.Handle] with options. A nil o means all defaults.
func (c *Client) HandleWith(name string, o *HandleOptions) (*Handle, error) {
	h, err := c.Handle(name)
	if err != nil || o == nil {
		return h, err
	}
	bad := func(format string, args ...any) (*Handle, error) {
		return nil, fmt.Errorf("%w: lock %q: %s", store.ErrInvalid, name, fmt.Sprintf(format, args...))
	}
	switch {
	case o.Shared || o.Slots != 0 || o.Fair:
		return bad("a handle that is shared, fair or of a semaphore needs a session")
	case o.Linger < 0 || o.Linger > MaxLinger || o.Linger%time.Millisecond != 0:
		return bad("it is kept for %v; it can be from 0 to %v, in whole milliseconds", o.Linger, MaxLinger)
	case o.Linger > 0 && (c.set.Manual || c.set.AtLeast > 0):
		return bad("it cannot be kept with Options.Manual or Options.AtLeast")
	case o.OnAsk != StepDown && o.OnAsk != IgnoreAsks:
		return bad("a policy for asks of %d", o.OnAsk)
	}
	h.opts = *o
	return h, nil
}

// HandleWith is [Session.Handle] with options. A nil o means all defaults.
func (s *Session) HandleWith(name string, o *HandleOptions) (*Handle, error) {
	h, err := s.c.HandleWith(name, o)
	if err != nil {
		return nil, err
	}
	h.under = s
	return h, nil
}

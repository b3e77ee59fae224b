package lease

import (
	"fmt"

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

	// OnAsk is what a [Handle.Do] does when its holder is asked to give way; see
	// [Client.Ask]. Default: [StepDown].
	OnAsk AskPolicy
}

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
	case o.OnAsk != StepDown && o.OnAsk != IgnoreAsks:
		return bad("a policy for asks of %d", o.OnAsk)
	}
	h.opts = *o
	return h, nil
}

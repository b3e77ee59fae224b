package checkpoint

import (
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// Verb names the method of [Store] that a [Change] describes.
type Verb string

// The verbs, named like the methods of a [Store].
const (
	VerbAdvance Verb = "advance"
	VerbFence   Verb = "fence"
	VerbReset   Verb = "reset"
	VerbDelete  Verb = "delete"
	VerbCopy    Verb = "copy" // of [RegisterStore]
)

// Change describes a call that may change a checkpoint. [Change.Decide] applies all rules of
// checkpoints. So an implementation of [Store] has only two tasks: to read a state, and to write
// the next state safely.
type Change struct {
	Verb             Verb
	Position         Position // for VerbAdvance and VerbReset
	Token            uint64   // the caller's fencing token; 0 means none
	Epoch            uint64   // for VerbAdvance: the epoch in which the caller's work began; 0 means any
	Force            bool     // allows a call without a token on a checkpoint with a token
	ExpectedSequence *uint64  // for VerbReset and VerbDelete: the sequence that must be saved

	// Source is for VerbCopy: the checkpoint of another store that is copied.
	Source *Checkpoint

	// LastShown, if not nil, is the state that the keeper last returned to its user. Set LastShown
	// if other programs can move checkpoints back without a new epoch. If the present state is
	// older than LastShown, an Advance gets RolledBack. If the present state is newer than
	// LastShown, the keeper refuses a Delete without ExpectedSequence.
	LastShown *Checkpoint
}

// Decision is the result of a [Change] on one state of its checkpoint.
type Decision struct {
	Next   Checkpoint // the state after the change; the unchanged state if Write is false
	Write  bool       // true if the caller must write Next
	Status Status     // for VerbAdvance and VerbCopy; see [Status.Err]
	Err    error      // for the other verbs: why the change was refused
}

// Decide returns the result of the change if the argument is the present state. It uses and sets
// only Exists, Position, Epoch and Token, and copies the other fields.
func (c *Change) Decide(now Checkpoint) Decision {
	fenced := c.Token != 0 && c.Token < now.Token || c.Token == 0 && now.Token != 0 && !c.Force
	next := now
	next.Token = max(now.Token, c.Token)
	switch c.Verb {
	case VerbAdvance:
		status := c.advance(now, fenced)
		if status != Advanced {
			return Decision{Next: now, Status: status}
		}
		next.Exists, next.Position = true, c.Position
		return Decision{Next: next, Write: true, Status: Advanced}
	case VerbFence:
		if fenced {
			return Decision{Next: now, Err: fencedOff(now, c.Token)}
		}
		return Decision{Next: next, Write: next.Token != now.Token}
	case VerbCopy:
		return c.copied(now)
	}
	if err := c.refusal(now, fenced); err != nil {
		return Decision{Next: now, Err: err}
	}
	next.Exists, next.Position = c.Verb == VerbReset, c.Position
	next.Epoch++
	return Decision{Next: next, Write: true}
}

// fencedOff is the error of a call with this token (0: none) that the state now refuses.
func fencedOff(now Checkpoint, token uint64) error {
	if token == 0 {
		return fmt.Errorf("%w: the checkpoint has token %d, but the call has no token", ErrFenced, now.Token)
	}
	return fmt.Errorf("%w: the checkpoint has token %d, but the call has token %d", ErrFenced, now.Token, token)
}

// advance returns the status of an Advance on the state now.
func (c *Change) advance(now Checkpoint, fenced bool) Status {
	switch s := c.LastShown; {
	case fenced:
		return Fenced
	case c.Epoch != 0 && c.Epoch != now.Epoch:
		return RolledBack
	case s != nil && s.Epoch == now.Epoch && s.Exists && (!now.Exists || now.Sequence < s.Sequence):
		return RolledBack
	case now.Exists && c.Position.Sequence < now.Sequence:
		return Behind
	case now.Exists && c.Position.Sequence == now.Sequence && now.Position.Matches(c.Position):
		return Unchanged
	case now.Exists && c.Position.Sequence == now.Sequence:
		return Mismatch
	}
	return Advanced
}

// copied returns the result of a copy of Source over the state now. The token rises in any case: then
// workers with lower tokens of the other store change nothing. The position never moves back.
func (c *Change) copied(now Checkpoint) Decision {
	from, next, status := c.Source, now, Advanced
	next.Token = max(now.Token, from.Token)
	switch {
	case now.Exists && (!from.Exists || from.Sequence < now.Sequence):
		status = Behind
	case now.Exists && from.Sequence == now.Sequence && !now.Position.Matches(from.Position):
		status = Mismatch
	case from.Exists && from.Epoch < now.Epoch && (!now.Exists || from.Sequence > now.Sequence):
		status = RolledBack
	default:
		next.Exists, next.Position, next.Epoch = from.Exists, from.Position, max(now.Epoch, from.Epoch)
		if next.Epoch == now.Epoch && next.Token == now.Token && next.Exists == now.Exists && (!next.Exists || next.Sequence == now.Sequence) {
			return Decision{Next: now, Status: Unchanged}
		}
	}
	return Decision{Next: next, Write: status == Advanced || next.Token != now.Token, Status: status}
}

// refusal returns why a Reset or Delete is refused on the state now, or nil.
func (c *Change) refusal(now Checkpoint, fenced bool) error {
	switch s := c.LastShown; {
	case fenced:
		return fencedOff(now, c.Token)
	case !now.Exists && (c.Verb == VerbDelete || c.ExpectedSequence != nil):
		return store.ErrNotFound
	case c.ExpectedSequence != nil && *c.ExpectedSequence != now.Sequence:
		return fmt.Errorf("%w: the checkpoint is at sequence %d, but the caller expects sequence %d", ErrUnexpectedSequence, now.Sequence, *c.ExpectedSequence)
	case c.Verb == VerbDelete && c.ExpectedSequence == nil && s != nil && s.Epoch == now.Epoch && s.Exists && now.Sequence > s.Sequence:
		return fmt.Errorf("%w: this keeper has read sequence %d, but the checkpoint has now advanced to sequence %d", ErrUnexpectedSequence, s.Sequence, now.Sequence)
	}
	return nil
}

// shared reports whether the change may be merged with others into one write.
func (c *Change) shared() bool { return c.Verb == VerbAdvance || c.Verb == VerbFence }

// decision is a [Decision] with the record to write.
type decision struct {
	Decision
	next record
}

// on returns the result of the change on the record r.
func (c *Change) on(r record) decision {
	v := c.Decide(Checkpoint{Exists: r.exists, Position: r.pos, Epoch: r.epoch, Token: r.token})
	next := r
	next.exists, next.pos, next.epoch, next.token = v.Next.Exists, v.Next.Position, v.Next.Epoch, v.Next.Token
	return decision{v, next}
}

package checkpoint

import (
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// verb is what a change does.
type verb string

const (
	verbAdvance verb = "advance"
	verbFence   verb = "fence"
	verbReset   verb = "reset"
	verbDelete  verb = "delete"
)

// change is one call that may change a checkpoint.
type change struct {
	verb   verb
	pos    Position
	token  uint64
	epoch  uint64 // of an advance: the epoch it belongs to; 0: not known yet
	force  bool
	expect *uint64
}

// shared reports whether the change may be merged with others into one write.
func (c *change) shared() bool { return c.verb == verbAdvance || c.verb == verbFence }

// verdict is what a change comes to on one state of the checkpoint.
type verdict struct {
	next   record // the state after it; the same one if nothing is to be written
	write  bool
	status Status // of an advance
	err    error  // the refusal of the others
}

// on judges the change against the state r. These are the rules of checkpoints, and
// all of them: everything else is about reading r and writing next safely.
func (c *change) on(r record) verdict {
	fenced := c.token != 0 && c.token < r.token || c.token == 0 && r.token != 0 && !c.force
	next := r
	next.token = max(r.token, c.token)
	switch c.verb {
	case verbAdvance:
		return c.advance(r, next, fenced)
	case verbFence:
		if fenced {
			return refuse(r, fmt.Errorf("%w: %d is lower than %d", ErrFenced, c.token, r.token))
		}
		return verdict{next: next, write: next.token != r.token}
	}
	switch {
	case fenced:
		return refuse(r, fmt.Errorf("%w: the checkpoint carries token %d", ErrFenced, r.token))
	case !r.exists && (c.verb == verbDelete || c.expect != nil):
		return refuse(r, store.ErrNotFound)
	case c.expect != nil && *c.expect != r.pos.Sequence:
		return refuse(r, fmt.Errorf("%w: it is %d, not %d", ErrExpected, r.pos.Sequence, *c.expect))
	}
	next.exists, next.pos = c.verb == verbReset, c.pos
	next.epoch++
	return verdict{next: next, write: true}
}

func (c *change) advance(r, next record, fenced bool) verdict {
	stay := func(s Status) verdict { return verdict{next: r, status: s} }
	switch {
	case fenced:
		return stay(Fenced)
	case c.epoch != 0 && c.epoch != r.epoch:
		return stay(RolledBack)
	case r.exists && c.pos.Sequence < r.pos.Sequence:
		return stay(Behind)
	case r.exists && c.pos.Sequence == r.pos.Sequence && r.pos.Agrees(c.pos):
		return stay(Unchanged)
	case r.exists && c.pos.Sequence == r.pos.Sequence:
		return stay(Mismatch)
	}
	next.exists, next.pos = true, c.pos
	return verdict{next: next, write: true, status: Advanced}
}

func refuse(r record, err error) verdict { return verdict{next: r, err: err} }

package avisofile

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/store"
)

// verb is what a change does. It is the name of the operation in errors, too.
type verb string

const (
	verbAdvance verb = "checkpoint advance"
	verbFence   verb = "checkpoint fence"
	verbReset   verb = "checkpoint reset"
	verbDelete  verb = "checkpoint delete"

	// verbRead changes nothing: it is a Get that needs the lock.
	verbRead verb = "checkpoint get"
)

// change is one call that needs the lock.
type change struct {
	verb   verb
	key    digest
	pos    checkpoint.Position
	token  uint64
	epoch  uint64 // of an advance: the epoch it belongs to; 0: that of sight
	force  bool
	expect *uint64
	sight  sight // what the user of this store knew of the key when the call came

	// ask says that the holder of the lease must have been asked under the token
	// asked: whoever takes the lease after that raises the token.
	ask   bool
	asked *uint64
}

// sight is what the user of a store was last shown of a key.
type sight struct {
	known    bool
	epoch    uint64
	exists   bool
	sequence uint64
}

// answer is what became of a change.
type answer struct {
	status  checkpoint.Status // of an advance
	current checkpoint.Checkpoint
	err     error // the refusal of the others
}

// errAsk says that the holder of the lease has to be asked first.
var errAsk = errors.New("the holder of the lease was not asked")

// work is a view with the changes of a batch on top.
type work struct {
	base    *view
	fences  fences // of the base, settled
	entries map[digest]*entry
	guards  map[digest]guard
	written bool // an entry was changed, perhaps back to what it was
}

func (w *work) entry(key digest) (entry, bool) {
	if e, ok := w.entries[key]; ok {
		if e == nil {
			return entry{}, false
		}
		return *e, true
	}
	return w.base.state.find(key)
}

func (w *work) guard(key digest) guard {
	if g, ok := w.guards[key]; ok {
		return g
	}
	return w.fences.guard(key)
}

func (w *work) checkpoint(key digest) checkpoint.Checkpoint {
	e, ok := w.entry(key)
	return show(key, e, ok, w.guard(key))
}

// set writes an entry, nil to remove it.
func (w *work) set(key digest, e *entry) {
	w.entries[key] = e
	w.written = true
}

// judge carries a change out on w and tells what came of it, as if it had come
// alone. These are the rules of checkpoints, and all of them; package checkpoint has
// the same for registers.
func (w *work) judge(c *change) answer {
	e, exists := w.entry(c.key)
	g := w.guard(c.key)
	a := answer{current: show(c.key, e, exists, g)}
	fenced := c.token != 0 && c.token < g.token || c.token == 0 && g.token != 0 && !c.force
	switch c.verb {
	case verbAdvance:
		a.status = c.advance(e, exists, g, fenced)
		if a.status != checkpoint.Advanced {
			return a
		}
		w.set(c.key, c.entry())
		w.raise(c.key, g, c.token)
	case verbFence:
		if fenced {
			a.err = fmt.Errorf("%w: %d is lower than %d", checkpoint.ErrFenced, c.token, g.token)
			return a
		}
		w.raise(c.key, g, c.token)
	case verbReset, verbDelete:
		if a.err = c.refusal(e, exists, g, fenced); a.err != nil {
			return a
		}
		if c.verb == verbReset {
			w.set(c.key, c.entry())
		} else {
			w.set(c.key, nil)
		}
		g.token = max(g.token, c.token)
		g.epoch++
		g.pending = true
		w.guards[c.key] = g
	}
	a.current = w.checkpoint(c.key)
	return a
}

// entry returns the entry that the change leaves.
func (c *change) entry() *entry {
	return &entry{key: c.key, sequence: c.pos.Sequence, event: c.pos.EventID, named: c.pos.EventID != ""}
}

// raise notes a token.
func (w *work) raise(key digest, g guard, token uint64) {
	if token > g.token {
		g.token = token
		w.guards[key] = g
	}
}

// advance tells the status of an advance on this entry and guard.
func (c *change) advance(e entry, exists bool, g guard, fenced bool) checkpoint.Status {
	epoch := c.epoch
	if epoch == 0 && c.sight.known {
		epoch = c.sight.epoch
	}
	saved := checkpoint.Position{Sequence: e.sequence, EventID: e.event}
	switch {
	case fenced:
		return checkpoint.Fenced
	case epoch != 0 && epoch != g.epoch:
		return checkpoint.RolledBack
	case c.sight.known && c.sight.epoch == g.epoch && c.sight.exists && (!exists || e.sequence < c.sight.sequence):
		// No reset or delete of ours has done that: a program that knows no epochs
		// has, or a file from a backup.
		return checkpoint.RolledBack
	case exists && c.pos.Sequence < e.sequence:
		return checkpoint.Behind
	case exists && c.pos.Sequence == e.sequence && saved.Agrees(c.pos):
		return checkpoint.Unchanged
	case exists && c.pos.Sequence == e.sequence:
		return checkpoint.Mismatch
	}
	return checkpoint.Advanced
}

// refusal tells why a reset or delete cannot be done, if it cannot.
func (c *change) refusal(e entry, exists bool, g guard, fenced bool) error {
	switch {
	case fenced:
		return fmt.Errorf("%w: the checkpoint carries token %d", checkpoint.ErrFenced, g.token)
	case !exists && (c.verb == verbDelete || c.expect != nil):
		return store.ErrNotFound
	case c.expect != nil && *c.expect != e.sequence:
		return fmt.Errorf("%w: it is %d, not %d", checkpoint.ErrExpected, e.sequence, *c.expect)
	case c.expect == nil && c.verb == verbDelete && c.sight.known && c.sight.epoch == g.epoch && c.sight.exists && e.sequence > c.sight.sequence:
		// A delete yields to a sequence that has advanced meanwhile.
		return fmt.Errorf("%w: it was %d when it was read, and has advanced to %d", checkpoint.ErrExpected, c.sight.sequence, e.sequence)
	case c.ask && (c.asked == nil || *c.asked != g.token):
		return errAsk
	}
	return nil
}

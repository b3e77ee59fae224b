package avisofile

import (
	"errors"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// change is one call that needs the lock. Without a verb it changes nothing: it is a
// Get that needs the lock.
type change struct {
	checkpoint.Change
	key digest

	// ask says that the holder of the lease must have been asked under the token
	// asked: whoever takes the lease after that raises the token.
	ask   bool
	asked *uint64
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
	written bool // an entry was changed
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

// judge carries a change out on w and tells what came of it, as if it had come
// alone.
func (w *work) judge(c *change) answer {
	now := w.checkpoint(c.key)
	if c.Verb == "" {
		return answer{current: now}
	}
	v := c.Judge(now)
	switch {
	case v.Err == nil && c.ask && (c.asked == nil || *c.asked != now.Token):
		return answer{current: now, err: errAsk}
	case !v.Write:
		return answer{current: now, status: v.Status, err: v.Err}
	}
	if c.Verb != checkpoint.VerbFence {
		w.entries[c.key] = c.entry()
		w.written = true // perhaps back to what it was
	}
	if v.Next.Token != now.Token || v.Next.Epoch != now.Epoch {
		g := w.guard(c.key)
		g.token, g.epoch = v.Next.Token, v.Next.Epoch
		g.pending = v.Next.Epoch != now.Epoch
		w.guards[c.key] = g
	}
	return answer{current: w.checkpoint(c.key), status: v.Status}
}

// entry returns the entry that the change leaves, nil for none.
func (c *change) entry() *entry {
	if c.Verb == checkpoint.VerbDelete {
		return nil
	}
	return &entry{key: c.key, sequence: c.Position.Sequence, event: c.Position.EventID, named: c.Position.EventID != ""}
}

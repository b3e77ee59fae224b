package avisofile

import (
	"errors"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// change is one call that needs the lock. Without a verb it is a Get that needs the lock.
type change struct {
	checkpoint.Change
	key digest

	// needsHolder says that HeldBy must be called before the change. tokenAtCheck is the
	// checkpoint's token at that call: a holder that takes the lease later raises the
	// token.
	needsHolder  bool
	tokenAtCheck *uint64
}

// answer is the result of a change.
type answer struct {
	status  checkpoint.Status // of an Advance
	current checkpoint.Checkpoint
	err     error // why another verb was refused
}

// errHolderUnchecked says that HeldBy must be called first.
var errHolderUnchecked = errors.New("HeldBy was not called")

// work is a view with the changes of a batch on top.
type work struct {
	base    *view
	fences  fences // of the base, with nothing pending
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

// apply carries out a change on w, as if the change had come alone.
func (w *work) apply(c *change) answer {
	now := w.checkpoint(c.key)
	if c.Verb == "" {
		return answer{current: now}
	}
	v := c.Decide(now)
	switch {
	case v.Err == nil && c.needsHolder && (c.tokenAtCheck == nil || *c.tokenAtCheck != now.Token):
		return answer{current: now, err: errHolderUnchecked}
	case !v.Write:
		return answer{current: now, status: v.Status, err: v.Err}
	}
	if c.Verb != checkpoint.VerbFence {
		w.entries[c.key] = c.entry()
		w.written = true // even if a later change of the batch restores the old content
	}
	if v.Next.Token != now.Token || v.Next.Epoch != now.Epoch {
		g := w.guard(c.key)
		g.token, g.epoch = v.Next.Token, v.Next.Epoch
		g.pending = v.Next.Epoch != now.Epoch
		w.guards[c.key] = g
	}
	return answer{current: w.checkpoint(c.key), status: v.Status}
}

// entry returns the entry after the change, nil for none.
func (c *change) entry() *entry {
	if c.Verb == checkpoint.VerbDelete {
		return nil
	}
	return &entry{key: c.key, sequence: c.Position.Sequence, event: c.Position.EventID, named: c.Position.EventID != ""}
}

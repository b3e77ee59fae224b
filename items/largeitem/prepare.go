package largeitem

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/store"
)

// PreparedWrite describes large attributes whose objects are in the bucket, while the item does not
// refer to them yet. Any number of goroutines may call its methods, any number of times.
type PreparedWrite struct {
	w      *write
	before current
	cond   Condition
	puts   []Put

	ready sysclock.Reading
	left  time.Duration // after that, for the caller's write
}

// Prepare uploads large attributes for a write that the caller sends itself, for example by an SDK
// or in a transaction. The caller follows these steps:
//
//  1. Write the item once, before [PreparedWrite.Deadline], on the condition
//     [PreparedWrite.Condition]. The write sets [PreparedWrite.References], and other attributes as
//     needed.
//  2. If the write was applied or may have been applied, call [PreparedWrite.Commit].
//  3. If it is certain that the write was not applied and never will be applied, call
//     [PreparedWrite.Abort].
//
// If the caller follows these steps, the write has the same promises as [Store.Update]. If the
// caller calls neither Commit nor Abort, the sweep removes objects to which the item does not
// refer.
//
// If [WriteOptions].Base is set, Prepare makes the condition from Base, and does not read the item.
// Prepare refuses [WriteOptions].If.
func (s *Store) Prepare(ctx context.Context, key Key, large Large, opts *WriteOptions) (*PreparedWrite, error) {
	return perform(ctx, s, opPrepare, key, func(ctx context.Context, schema Schema, key Key) (*PreparedWrite, error) {
		w := &write{s: s, op: opPrepare, schema: schema, key: key, o: *cmp.Or(opts, &WriteOptions{})}
		return w.prepared(ctx, large)
	})
}

func (w *write) prepared(ctx context.Context, large Large) (*PreparedWrite, error) {
	if len(large) == 0 {
		return nil, fmt.Errorf("%w: Large is empty, so there is nothing to prepare", ErrInvalid)
	}
	if w.hasIf() {
		return nil, fmt.Errorf("%w: Prepare does not accept WriteOptions.If; put this condition into your own write, together with PreparedWrite.Condition", ErrInvalid)
	}
	if err := w.prepare(large); err != nil {
		return nil, store.MarkNotApplied(err)
	}
	defer w.ups.close()
	now, err := w.first(ctx)
	if err == nil {
		err = w.upload(ctx, now)
	}
	var m orphanAges
	if err == nil {
		m, err = w.s.markOnce(ctx, true)
	}
	if err != nil {
		return nil, w.giveUp(ctx, err)
	}
	cond, _ := w.condition(now) // no condition of the caller's that it could contradict
	p := &PreparedWrite{w: w, before: now, cond: *cond, puts: w.puts(), ready: sysclock.Read(), left: w.ups.left(m.grace)}
	return p, nil
}

// Puts returns the large attributes that were passed to Prepare. For each attribute it says whether
// Prepare uploaded the content, or the item already had the content.
func (p *PreparedWrite) Puts() []Put { return slices.Clone(p.puts) }

// References returns the texts that the item must have in place of the large attributes, by name.
func (p *PreparedWrite) References() map[string]string {
	refs := make(map[string]string)
	for _, put := range p.puts {
		refs[put.Attr] = put.Reference.URI
	}
	return refs
}

// Change returns the change of the item that sets the references.
func (p *PreparedWrite) Change() Change {
	set := make(Attributes)
	for attr, uri := range p.References() {
		set[attr] = uri
	}
	return Change{Set: set}
}

// Condition returns the condition for the caller's write: the item still has the same references as
// before, or still does not exist.
func (p *PreparedWrite) Condition() Condition {
	c := p.cond
	c.Equal, c.Missing = c.Equal.Clone(), slices.Clone(c.Missing)
	return c
}

// Deadline returns the time by which the caller must send the write, by this machine's clock. The
// deadline is half of the orphan age after the start of the first upload. Compare the deadline with
// the wall clock, because the wall clock continues while the machine sleeps. If the machine has
// slept, or its wall clock was set back, call Deadline again.
func (p *PreparedWrite) Deadline() time.Time {
	now := sysclock.Read()
	byWall := p.ready.Wall.Add(p.left)
	if passed := now.Wall.Add(p.left - p.ready.Until(now)); passed.Before(byWall) {
		return passed
	}
	return byWall
}

// Commit ends a write that was applied or may have been applied. It reads the item. If the item has
// the new references, Commit succeeds; with [Options].RemoveSuperseded it also removes the
// superseded objects. If the item does not have these references, the write was not applied, or
// another write has followed. Commit then removes nothing, and returns an error whose outcome is
// unknown.
func (p *PreparedWrite) Commit(ctx context.Context) (*Result, error) {
	return traced(ctx, p.w.s, opCommit, p.w.key.String(), p.commit)
}

func (p *PreparedWrite) commit(ctx context.Context) (*Result, error) {
	w := p.w
	found, err := w.readItem(ctx)
	if err != nil {
		return nil, failed(opCommit, w.schema, w.key, store.MarkUnknown(err))
	}
	if !p.isIn(found) {
		return nil, failed(opCommit, w.schema, w.key, store.MarkUnknown(fmt.Errorf("the item does not have the prepared references: your write was not applied, or another write followed; Commit removed no object")))
	}
	r, err := w.done(ctx, p.before, found.attrs, nil)
	return r, failed(opCommit, w.schema, w.key, err)
}

// isIn reports whether the item has the prepared references: at least one that was uploaded,
// or all if none was.
func (p *PreparedWrite) isIn(found current) bool {
	if len(p.w.ups.now) > 0 {
		return p.w.ups.isIn(found.attrs)
	}
	return !slices.ContainsFunc(p.puts, func(put Put) bool { return found.attrs[put.Attr] != put.Reference.URI })
}

// Abort ends a write that was not applied and never will be applied. It reads the item, and removes
// the uploaded objects. If the item refers to these objects, Abort removes nothing, and the error
// matches [ErrCommitted]. After a timeout or a lost reply, do not call Abort, because the write may
// still be applied.
func (p *PreparedWrite) Abort(ctx context.Context) error {
	_, err := traced(ctx, p.w.s, opAbort, p.w.key.String(), func(ctx context.Context) (struct{}, error) { return struct{}{}, p.abort(ctx) })
	return err
}

func (p *PreparedWrite) abort(ctx context.Context) error {
	w := p.w
	found, err := w.readItem(ctx)
	if err != nil {
		return failed(opAbort, w.schema, w.key, store.MarkUnknown(err))
	}
	if w.ups.isIn(found.attrs) {
		return failed(opAbort, w.schema, w.key, appliedError{fmt.Errorf("%w: the item has the prepared references; Abort removed no object", ErrCommitted)})
	}
	w.aborted.Store(true)
	w.ups.discard(ctx, true)
	return nil
}

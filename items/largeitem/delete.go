package largeitem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/holdfast-go/holdfast/store"
)

// DeleteOptions are the options of [Store.Delete].
type DeleteOptions struct {
	// If is a condition for the delete. If there is no item, the error matches [store.ErrNotFound].
	// If the condition does not hold for the item, the error is a [ConditionFailedError].
	If Condition

	// Base is an Item that the caller has read. Delete removes the item only if the item still has
	// the same large attributes as Base.
	Base *Item
}

// Delete removes an item. With [Options].RemoveSuperseded, Delete then removes the objects of the
// item. If there is no item, a delete without a condition succeeds. If there is no item, a delete
// with a condition returns an error that matches [store.ErrNotFound]. The outcome of this error is
// unknown: a proxy may have sent the request twice, and the first of the two requests may have
// deleted the item.
//
// Delete sends one request for the item. If the reply to a delete without a condition is lost,
// Delete reads the item. If there is no item, the delete has succeeded. If there is an item, the
// outcome is unknown: another program may have created the item after the delete.
func (s *Store) Delete(ctx context.Context, key Key, opts *DeleteOptions) (*Result, error) {
	return perform(ctx, s, opDelete, key, func(ctx context.Context, schema Schema, key Key) (*Result, error) {
		d := &deletion{s: s, schema: schema, key: key}
		return d.run(ctx, *cmp.Or(opts, &DeleteOptions{}))
	})
}

type deletion struct {
	s      *Store
	schema Schema
	key    Key
	cond   *Condition // nil if there is none
}

func (d *deletion) run(ctx context.Context, o DeleteOptions) (*Result, error) {
	if err := d.schema.CheckCondition(&o.If); err != nil {
		return nil, fmt.Errorf("DeleteOptions.If: %w", err)
	}
	if o.If.Absent {
		return nil, fmt.Errorf("%w: DeleteOptions.If requires that the item does not exist, so there is nothing to delete", ErrInvalid)
	}
	if o.Base != nil {
		if o.Base.Key != d.key {
			return nil, fmt.Errorf("%w: DeleteOptions.Base is a state of the item %v, which is not the item to delete", ErrInvalid, o.Base.Key)
		}
		base := o.Base.all()
		o.If.Exists = true
		o.If.Equal = maps.Collect(maps.All(o.If.Equal)) // never nil
		for attr, value := range base {
			_, is, _ := d.s.refer(d.schema, d.key, attr, value)
			if wanted, ok := o.If.Equal[attr]; is && ok && !Equal(wanted, value) {
				return nil, &ConditionFailedError{Key: d.key, HasCurrent: true, Current: base}
			}
			if is {
				o.If.Equal[attr] = value
			}
		}
		if err := d.schema.CheckCondition(&o.If); err != nil {
			return nil, fmt.Errorf("DeleteOptions.If together with DeleteOptions.Base: %w", err)
		}
	}
	if c := o.If; c.Exists || c.Equal != nil || c.Missing != nil || c.Expr != nil {
		d.cond = &c
	}
	return d.send(ctx)
}

// send deletes the item, and finds the outcome after a lost reply.
func (d *deletion) send(ctx context.Context) (*Result, error) {
	var doubt error
	for tries := 1; ; tries++ {
		old, err := d.s.table.Delete(ctx, d.key, d.cond)
		if err == nil {
			return d.done(ctx, old), nil
		}
		again := store.OutcomeOf(err) == store.NotApplied && errors.Is(err, store.ErrUnavailable)
		if store.OutcomeOf(err) != store.NotApplied {
			doubt = cmp.Or(doubt, err)
			var deleted bool
			if deleted, again = d.resolve(ctx); deleted {
				return &Result{}, nil
			}
		}
		if again && tries < writeTries && d.s.sleep(ctx, tries) == nil {
			continue
		}
		return nil, d.failure(doubt, bare(d.key, err))
	}
}

// failure gives the last error its outcome.
func (d *deletion) failure(doubt, cause error) error {
	var refused *ConditionFailedError
	switch {
	case doubt != nil:
		return store.MarkUnknown(bare(d.key, doubt))
	case errors.As(cause, &refused) && refused.HasCurrent && refused.Current == nil:
		// A proxy can repeat a request: the table may have refused the second copy of it.
		return store.MarkUnknown(fmt.Errorf("%w: the item does not exist; another program has deleted it, or a proxy repeated the delete request of this program", store.ErrNotFound))
	}
	return store.MarkNotApplied(cause)
}

// resolve reads the item after a lost reply. deleted reports that there is no item, so that a
// delete without a condition has succeeded. again reports that the item still has a reference
// that the condition names, so that the delete was not made yet.
func (d *deletion) resolve(ctx context.Context) (deleted, again bool) {
	w := &write{s: d.s, schema: d.schema, key: d.key}
	found, err := w.readItem(ctx)
	switch {
	case err != nil:
		return false, false
	case d.cond == nil:
		return !found.exists(), false
	}
	for attr, value := range d.cond.Equal {
		r, is, foreign := d.s.refer(d.schema, d.key, attr, value)
		if is && foreign == nil && d.s.unique(d.schema, r) && found.attrs[attr] == r.URI {
			again = true
		}
	}
	return false, again
}

func (d *deletion) done(ctx context.Context, old Attributes) *Result {
	r := &Result{}
	if old != nil {
		r.Item = d.s.newItem(d.schema, d.key, old)
		d.s.supersede(ctx, d.schema, d.key, old, nil, r)
	}
	return r
}

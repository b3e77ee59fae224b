package largeitem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// WriteOptions are the options of [Store.Create], [Store.Update], [Store.Upsert],
// [Store.Replace] and [Store.Prepare].
type WriteOptions struct {
	// If is an additional condition. If the condition does not hold, the error is a
	// [ConditionFailedError].
	If Condition

	// Base is the item that the caller has read. The write is applied only if the item still has
	// all references that the write changes or keeps. Otherwise the error is a
	// [ConditionFailedError]. Without Base, the store first reads the item. If another writer
	// changes the item before the write, the store reads the item again.
	Base *Item

	// Progress, if not nil, is called with the number of bytes of all uploads that have reached
	// the bucket. See [object.Progress].
	Progress object.Progress
}

// Put is a large attribute of a write: its reference, and whether it was uploaded.
type Put struct {
	Attr      string
	Reference Reference

	// Uploaded is false if the item already referred to the same content.
	Uploaded bool
}

// Result is the result of a write.
type Result struct {
	// Item is the item after the write. If the reply was lost, Item is the item that the store has
	// read after the write. For a delete, Item is the deleted item, or nil if there was no item or
	// a reply was lost.
	Item *Item

	// Puts contains the large attributes that were passed to the call, sorted by name.
	Puts []Put

	// Superseded contains the references that the item no longer has. Removed is the number of
	// objects that the write has removed; see [Options].RemoveSuperseded.
	Superseded []Reference
	Removed    int
}

const (
	opCreate  store.Kind = "create item"
	opUpdate  store.Kind = "update item"
	opUpsert  store.Kind = "upsert item"
	opReplace store.Kind = "replace item"
	opDelete  store.Kind = "delete item"
	opGet     store.Kind = "get item"
	opPrepare store.Kind = "prepare item"
	opCommit  store.Kind = "commit item"
	opAbort   store.Kind = "abort item"
	opSweep   store.Kind = "sweep items"
	opVerify  store.Kind = "verify items"
)

const (
	// writeTries is how often a write is sent at most. readTries is how often the read is
	// sent that finds the outcome of a write.
	writeTries = 12
	readTries  = 6

	maxPause = 2 * time.Second
)

// Create writes a new item with its large attributes. If there is already an item, the error is a
// [ConditionFailedError].
//
// Create sends one request for each large attribute, and one for the item. If the reply is lost and
// the table does not have the item, the outcome is unknown. Create does not send the write again,
// because another program may have deleted the item meanwhile.
func (s *Store) Create(ctx context.Context, key Key, attrs Attributes, large Large, opts *WriteOptions) (*Result, error) {
	return s.write(ctx, opCreate, key, Change{Set: attrs}, large, opts)
}

// Update changes an existing item: large and small attributes in one atomic write. If there is no
// item, the error matches [store.ErrNotFound]. Then Update has uploaded nothing, unless another
// program deleted the item during the call. To remove a large attribute, name it in Change.Remove.
//
// The condition of the write is that the item still has the references that the write changes or
// keeps. If another writer was faster, Update reads the item again, and sends the write again with
// the same objects. If the content of an attribute is unchanged and its source can seek, Update
// does not upload it.
//
// Update sends one request to read the item, one for each uploaded attribute, and one to write the
// item. If no attribute of the change can be large, Update does not read the item.
func (s *Store) Update(ctx context.Context, key Key, change Change, large Large, opts *WriteOptions) (*Result, error) {
	return s.write(ctx, opUpdate, key, change, large, opts)
}

// Upsert changes an item in the same way as [Store.Update]. If there is no item, Upsert creates it.
func (s *Store) Upsert(ctx context.Context, key Key, change Change, large Large, opts *WriteOptions) (*Result, error) {
	return s.write(ctx, opUpsert, key, change, large, opts)
}

// Replace writes a whole item. If there is already an item, Replace removes the attributes that the
// new item does not have. It sends the same requests as [Store.Update].
func (s *Store) Replace(ctx context.Context, key Key, attrs Attributes, large Large, opts *WriteOptions) (*Result, error) {
	return s.write(ctx, opReplace, key, Change{Set: attrs}, large, opts)
}

func (s *Store) write(ctx context.Context, op store.Kind, key Key, change Change, large Large, opts *WriteOptions) (*Result, error) {
	return perform(ctx, s, op, key, func(ctx context.Context, schema Schema, key Key) (*Result, error) {
		w := &write{s: s, op: op, schema: schema, key: key, change: change, o: *cmp.Or(opts, &WriteOptions{})}
		if err := w.prepare(large); err != nil {
			return nil, store.MarkNotApplied(err)
		}
		defer w.ups.close()
		return w.run(ctx)
	})
}

// write is one call that writes an item.
type write struct {
	s      *Store
	op     store.Kind
	schema Schema
	key    Key
	change Change // of a whole item only Set
	o      WriteOptions
	ups    *uploads
	named  []string // the attributes of the change that can be large, and those of its Expr

	kept  map[string]Reference // what is not uploaded, since the item has it already
	doubt error                // of the first try whose outcome is not known
	loose bool                 // a refused try has a condition that can hold later
	tries int

	aborted atomic.Bool // the prepared objects were removed
}

// whole reports whether the write is of a whole item.
func (w *write) whole() bool { return w.op == opCreate || w.op == opReplace }

// current is what a write found out about an item. Attrs is nil if there is none.
type current struct{ attrs Attributes }

func (c current) exists() bool { return c.attrs != nil }

// prepare checks the arguments. Nothing is sent before.
func (w *write) prepare(large Large) error {
	bodies, err := newBodies(large)
	if err != nil {
		return err
	}
	w.ups = &uploads{s: w.s, schema: w.schema, key: w.key, bodies: bodies, updated: time.Now(), now: make(map[string]*upload), progress: w.o.Progress, done: make(map[string]int64)}
	w.kept = make(map[string]Reference)
	if err := w.schema.CheckChange(w.change); err != nil {
		return err
	}
	if err := w.schema.CheckCondition(&w.o.If); err != nil {
		return fmt.Errorf("WriteOptions.If: %w", err)
	}
	if err := w.checkNames(); err != nil {
		return err
	}
	if w.o.Base != nil && (w.op == opCreate || w.o.Base.Key != w.key) {
		return fmt.Errorf("%w: WriteOptions.Base is a state of the item %v; Base must be a state of the item to write, and must be nil for a create", ErrInvalid, w.o.Base.Key)
	}
	if w.op == opCreate && (w.o.If.Exists || len(w.o.If.Equal) > 0) || w.op == opUpdate && w.o.If.Absent {
		return fmt.Errorf("%w: WriteOptions.If contradicts the write; a create requires that the item does not exist, and an update requires that the item exists", ErrInvalid)
	}
	item, err := w.ups.check()
	if err != nil {
		return err
	}
	maps.Copy(item, w.change.Set)
	return w.schema.CheckItem(w.key, item)
}

// checkNames finds out which attributes the write is about.
func (w *write) checkNames() error {
	expr, err := w.exprNames()
	if err != nil {
		return err
	}
	w.named = expr
	for attr := range w.ups.bodies {
		for what, names := range map[string][]string{"Change.Set": slices.Collect(maps.Keys(w.change.Set)), "Change.Remove": w.change.Remove, "Change.Expr": expr} {
			if slices.Contains(names, attr) {
				if w.whole() {
					what = "the other attributes"
				}
				return fmt.Errorf("%w: the large attribute %q is also in %s; give the attribute once", ErrInvalid, attr, what)
			}
		}
		for _, a := range []KeyAttribute{w.schema.Partition, w.schema.Sort} {
			if attr == a.Name && attr != "" {
				return fmt.Errorf("%w: the large attribute %q is a part of the key of the table", ErrInvalid, attr)
			}
		}
	}
	for _, attr := range expr {
		if w.s.o.Attributes != nil && w.s.isLarge(attr) {
			return fmt.Errorf("%w: %q is a large attribute of this store (Options.Attributes), so Change.Expr cannot change it; give the content in Large, or remove the attribute with Change.Remove", ErrInvalid, attr)
		}
	}
	for attr, value := range w.change.Set {
		if w.s.o.Attributes != nil && w.s.isLarge(attr) {
			return fmt.Errorf("%w: %q is a large attribute of this store (Options.Attributes); give the content in Large, or remove the attribute", ErrInvalid, attr)
		}
		if _, is, _ := w.s.refer(w.schema, w.key, attr, value); is {
			return fmt.Errorf("%w: the attribute %q has the value %q, which looks like a reference; give the content in Large, or name the large attributes in Options.Attributes", ErrInvalid, attr, value)
		}
	}
	w.named = append(w.named, w.change.names()...)
	w.named = slices.DeleteFunc(w.named, func(attr string) bool { return !w.s.isLarge(attr) })
	return nil
}

func (w *write) exprNames() ([]string, error) {
	reader, ok := w.s.table.(ExprReader)
	if !ok || w.change.Expr == nil {
		return nil, nil
	}
	return reader.ExprAttributes(w.change.Expr)
}

// run makes the write.
func (w *write) run(ctx context.Context) (*Result, error) {
	now, err := w.first(ctx)
	if err != nil {
		return nil, w.giveUp(ctx, fmt.Errorf("the store cannot read the item before the write: %w", bare(w.key, err)))
	}
	for w.tries = 1; ; w.tries++ {
		if w.op == opUpdate && !now.exists() {
			return nil, w.giveUp(ctx, w.notFound())
		}
		cond, ok := w.condition(now)
		if !ok {
			return nil, w.giveUp(ctx, w.refused(now))
		}
		if err := w.upload(ctx, now); err != nil {
			return nil, w.giveUp(ctx, err)
		}
		item, replaced, err := w.send(ctx, cond)
		if err == nil {
			return w.done(ctx, now, item, replaced)
		}
		next, item, err := w.outcome(ctx, now, cond, err)
		switch {
		case item != nil:
			return w.done(ctx, now, item, nil)
		case err != nil:
			return nil, err
		}
		now = next
		if err := w.s.sleep(ctx, w.tries); err != nil {
			return nil, w.giveUp(ctx, err)
		}
	}
}

// sleep waits a random time before another try.
func (s *Store) sleep(ctx context.Context, tries int) error {
	_ = backoff.Wait(ctx, tries+1, s.pause, maxPause)
	return store.Cause(ctx)
}

// first returns the item before the first try.
func (w *write) first(ctx context.Context) (current, error) {
	if w.op == opCreate {
		return current{}, nil
	}
	if w.o.Base != nil {
		return current{w.o.Base.all()}, nil
	}
	var names []string
	switch {
	case w.op == opReplace && w.s.o.Attributes == nil: // all
	case w.op == opReplace:
		names = w.s.o.Attributes
	default:
		names = append(slices.Collect(maps.Keys(w.ups.bodies)), w.named...)
		if len(names) == 0 && w.op == opUpdate {
			return current{Attributes{}}, nil
		}
		slices.Sort(names)
		names = slices.Compact(names)
		if names == nil {
			names = []string{}
		}
	}
	return w.s.read(ctx, w.key, names)
}

// read reads attributes of an item, all if names is nil.
func (s *Store) read(ctx context.Context, key Key, names []string) (current, error) {
	item, err := s.table.Get(ctx, key, &GetOptions{Attributes: names})
	switch {
	case isNotFound(err):
		return current{}, nil
	case err != nil:
		return current{}, err
	case item == nil:
		item = Attributes{}
	}
	return current{item}, nil
}

// touched returns the attributes that the write is conditional on, where the item is as
// given: all large ones that it writes, and those others that hold a reference now.
func (w *write) touched(now current) []string {
	names := slices.Collect(maps.Keys(w.ups.bodies))
	candidates := w.named
	if w.op == opReplace {
		candidates = slices.Collect(maps.Keys(now.attrs))
		if w.s.o.Attributes != nil {
			candidates = w.s.o.Attributes
		}
	}
	for _, attr := range candidates {
		if _, is, _ := w.s.refer(w.schema, w.key, attr, now.attrs[attr]); is || w.s.o.Attributes != nil {
			names = append(names, attr)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// upload uploads what the item does not have yet.
func (w *write) upload(ctx context.Context, now current) error {
	clear(w.kept)
	var missing []string
	for attr, b := range w.ups.bodies {
		if w.ups.now[attr] != nil {
			continue
		}
		r, is, foreign := w.s.refer(w.schema, w.key, attr, now.attrs[attr])
		if is && foreign == nil {
			same, err := w.ups.same(ctx, b, r)
			if err != nil {
				return err
			}
			if same {
				w.kept[attr] = r
				continue
			}
		}
		missing = append(missing, attr)
	}
	if err := w.ups.run(ctx, missing); err != nil {
		return err
	}
	return w.ups.renew(ctx, w.doubt == nil)
}

// condition returns the condition of the write where the item is as given. It returns false
// if the caller's own condition contradicts what the item is.
func (w *write) condition(now current) (*Condition, bool) {
	c := w.o.If
	c.Equal, c.Missing = maps.Clone(c.Equal), slices.Clone(c.Missing)
	if !now.exists() {
		if c.Exists || len(c.Equal) > 0 {
			return nil, false
		}
		c.Absent = true
		return &c, true
	}
	if c.Absent {
		return nil, false
	}
	c.Exists = true
	if c.Equal == nil {
		c.Equal = make(Attributes)
	}
	for _, attr := range w.touched(now) {
		value, there := now.attrs[attr]
		wanted, equal := c.Equal[attr]
		switch {
		case there && (equal && !Equal(wanted, value) || slices.Contains(c.Missing, attr)), !there && equal:
			return nil, false
		case there:
			c.Equal[attr] = value
		case !slices.Contains(c.Missing, attr):
			c.Missing = append(c.Missing, attr)
		}
	}
	return &c, true
}

// references are what the item gets in place of the large attributes.
func (w *write) references() Attributes {
	refs := make(Attributes)
	for attr, u := range w.ups.now {
		refs[attr] = u.ref.URI
	}
	for attr, r := range w.kept {
		refs[attr] = r.URI
	}
	return refs
}

// send sends the write once. It returns the item that was made, and of a whole item what it
// replaced.
func (w *write) send(ctx context.Context, cond *Condition) (item, replaced Attributes, err error) {
	if err := store.CheckContext(ctx); err != nil {
		return nil, nil, err
	}
	for _, u := range w.ups.now {
		u.sent = true
	}
	set := w.references()
	maps.Copy(set, w.change.Set)
	if w.whole() {
		replaced, err = w.s.table.Put(ctx, w.key, set, cond)
		return set, replaced, err
	}
	item, err = w.s.table.Update(ctx, w.key, Change{Set: set, Remove: w.change.Remove, Expr: w.change.Expr}, cond)
	if err == nil && item == nil {
		item = Attributes{}
	}
	return item, nil, err
}

// done is the end of a write that was made.
func (w *write) done(ctx context.Context, before current, item, replaced Attributes) (*Result, error) {
	r := &Result{Item: w.s.newItem(w.schema, w.key, item), Puts: w.puts()}
	if !w.ups.inTime() || w.aborted.Load() {
		if err := w.ups.stillThere(ctx, item); err != nil {
			return r, err
		}
	}
	if replaced == nil {
		// What the write was conditional on is what it has replaced.
		replaced = before.attrs.Select(w.touched(before))
	}
	w.s.supersede(ctx, w.schema, w.key, replaced, item, r)
	w.ups.remove(ctx, w.ups.old, w.doubt == nil && w.removable())
	return r, nil
}

func (w *write) puts() (puts []Put) {
	for attr, u := range w.ups.now {
		puts = append(puts, Put{attr, u.ref, true})
	}
	for attr, ref := range w.kept {
		puts = append(puts, Put{attr, ref, false})
	}
	slices.SortFunc(puts, func(a, b Put) int { return strings.Compare(a.Attr, b.Attr) })
	return puts
}

// removable reports whether the uploads that a refused try has named may be removed.
func (w *write) removable() bool { return !w.loose || w.s.o.RemoveFailed }

// supersede finds the objects that an item no longer refers to, and removes them if it may.
func (s *Store) supersede(ctx context.Context, schema Schema, key Key, before, after Attributes, r *Result) {
	for _, attr := range slices.Sorted(maps.Keys(before)) {
		old, is, foreign := s.refer(schema, key, attr, before[attr])
		if !is || foreign != nil || after[attr] == old.URI {
			continue
		}
		r.Superseded = append(r.Superseded, old)
		if s.o.RemoveSuperseded && s.unique(schema, old) && s.expired(ctx, key, old.Object) && s.remove(ctx, key, old.Object) {
			r.Removed++
		}
	}
}

// outcome finds the outcome of a try that failed with cause. It returns the item if the write
// was made after all, an error if the write is over, and otherwise the item to try with
// again.
func (w *write) outcome(ctx context.Context, now current, cond *Condition, cause error) (next current, item Attributes, err error) {
	switch {
	case errors.As(cause, new(*funcError)):
	case store.OutcomeOf(cause) != store.NotApplied:
		if w.doubt == nil {
			w.doubt = bare(w.key, cause)
		}
		return w.resolve(ctx, now, cause)
	case errors.Is(cause, store.ErrConflict):
		return w.conflict(ctx, now, cond, cause)
	case errors.Is(cause, store.ErrUnavailable) && w.tries < writeTries && ctx.Err() == nil:
		return now, nil, nil
	}
	return now, nil, w.giveUp(ctx, cause)
}

// resolve finds the outcome of a write whose reply was lost.
func (w *write) resolve(ctx context.Context, now current, cause error) (current, Attributes, error) {
	found, err := w.readItem(ctx)
	switch {
	case err != nil:
		return now, nil, w.giveUp(ctx, cause)
	case w.ups.isIn(found.attrs):
		return now, found.attrs, nil
	case w.tries < writeTries && w.notYet(now, found):
		return now, nil, nil
	}
	return now, nil, w.giveUp(ctx, cause)
}

// readItem reads the whole item, and tries several times.
func (w *write) readItem(ctx context.Context) (current, error) {
	for tries := 1; ; tries++ {
		found, err := w.s.read(ctx, w.key, nil)
		if err == nil || tries == readTries || store.Permanent(err) || ctx.Err() != nil {
			return found, err
		}
		if err := w.s.sleep(ctx, tries); err != nil {
			return current{}, err
		}
	}
}

// notYet reports whether the item proves that none of the tries was made: it still has a
// reference that the write changes, and that would never come back.
func (w *write) notYet(now, found current) bool {
	refs := w.references()
	return slices.ContainsFunc(w.touched(now), func(attr string) bool {
		if _, kept := w.kept[attr]; kept {
			return false
		}
		r, is, foreign := w.s.refer(w.schema, w.key, attr, now.attrs[attr])
		_, set := w.change.Set[attr]
		changes := refs[attr] != nil || w.op == opReplace || set || slices.Contains(w.change.Remove, attr)
		return changes && is && foreign == nil && w.s.unique(w.schema, r) && found.attrs[attr] == r.URI
	})
}

// conflict is for a try that the table has refused.
func (w *write) conflict(ctx context.Context, now current, cond *Condition, cause error) (current, Attributes, error) {
	var refused *ConditionFailedError
	found := current{}
	if errors.As(cause, &refused) && refused.HasCurrent {
		found.attrs = refused.Current
	} else {
		var err error
		if found, err = w.readItem(ctx); err != nil {
			// A proxy can repeat a request: the table may have refused the second copy of it.
			return now, nil, store.MarkUnknown(fmt.Errorf("%v; after this error, the store could not read the present state of the item: %w", cause, err))
		}
	}
	if w.ups.isIn(found.attrs) {
		return now, found.attrs, nil
	}
	if w.doubt != nil {
		return now, nil, w.giveUp(ctx, cause)
	}
	w.loose = w.loose || !w.never(cond, found)
	moved := !w.same(now, found)
	switch {
	case w.op == opUpdate && !found.exists():
		return now, nil, w.giveUp(ctx, w.notFound())
	case w.op == opCreate && found.exists():
		return now, nil, w.giveUp(ctx, fmt.Errorf("the item exists already: %w", cause))
	case moved && w.o.Base != nil:
		return now, nil, w.giveUp(ctx, fmt.Errorf("the large attributes of the item differ from WriteOptions.Base: %w", cause))
	case w.tries >= writeTries:
		return now, nil, w.giveUp(ctx, fmt.Errorf("other writers changed the item before each of %d attempts: %w", w.tries, cause))
	case moved, (refused == nil || !refused.HasCurrent) && !w.hasIf():
		return found, nil, nil
	}
	return now, nil, w.giveUp(ctx, cause)
}

// hasIf reports whether the caller has a condition of its own.
func (w *write) hasIf() bool {
	c := w.o.If
	return c.Absent || c.Exists || len(c.Equal) > 0 || len(c.Missing) > 0 || c.Expr != nil
}

// same reports whether the item has what the write was conditional on.
func (w *write) same(now, found current) bool {
	if now.exists() != found.exists() {
		return false
	}
	for _, attr := range w.touched(now) {
		a, ok := now.attrs[attr]
		b, has := found.attrs[attr]
		if ok != has || ok && !Equal(a, b) {
			return false
		}
	}
	return true
}

// never reports whether a condition cannot hold any more: it names a reference that the item
// has lost.
func (w *write) never(cond *Condition, found current) bool {
	for attr, value := range cond.Equal {
		r, is, foreign := w.s.refer(w.schema, w.key, attr, value)
		if is && foreign == nil && w.s.unique(w.schema, r) && found.attrs[attr] != r.URI {
			return true
		}
	}
	return false
}

func (w *write) notFound() error {
	return store.MarkNotApplied(fmt.Errorf("%w: there is no such item", store.ErrNotFound))
}

// refused is the error of a write that was not sent, since the caller's own condition does
// not hold.
func (w *write) refused(now current) error {
	return &ConditionFailedError{Key: w.key, HasCurrent: !now.exists()}
}

// giveUp is the end of a write that was not made, or may have been. It removes the uploads
// that no item can refer to.
func (w *write) giveUp(ctx context.Context, cause error) error {
	cause = bare(w.key, cause)
	if w.doubt != nil {
		w.ups.discard(ctx, false)
		if !errors.Is(cause, w.doubt) {
			cause = fmt.Errorf("%w; then: %v", w.doubt, cause)
		}
		return store.MarkUnknown(cause)
	}
	w.ups.discard(ctx, w.removable())
	return store.MarkNotApplied(cause)
}

package dynamotable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/internal/aws/dynamocall"
	"github.com/holdfast-go/holdfast/internal/aws/transport"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// DefaultTimeout is the default of [Options].Timeout.
	DefaultTimeout = 10 * time.Second
)

// Options are the options of [New].
type Options struct {
	// Timeout bounds each request until its answer is complete. If the context of the call has a
	// deadline, a request gets at most half of the remaining time, but at least 500 ms. Timeout is
	// at least 100 ms; 0 means [DefaultTimeout].
	Timeout time.Duration

	// GlobalTable allows a global table whose regions do not share one order of writes. It is safe
	// only if all programs and the sweep use the table in the same region.
	GlobalTable bool

	// Logger receives a warning if the client sends credentials over http://. Nil means no log.
	Logger *slog.Logger
}

// Table is a table of items. Any number of goroutines may use it. It starts no goroutine, and
// needs no Close.
type Table struct {
	calls       *dynamocall.Table
	globalTable bool
	schema      atomic.Pointer[largeitem.Schema]

	// shownItem: a refusal without an item says that there is none.
	shownItem atomic.Bool
}

var (
	_ largeitem.Table       = (*Table)(nil)
	_ largeitem.BatchGetter = (*Table)(nil)
	_ largeitem.ExprReader  = (*Table)(nil)
)

// New returns the table with this name. The table sends its requests through the given client. New
// sends no request. The name may be the ARN of the table.
func New(client *dynamodb.Client, name string, opts *Options) (*Table, error) {
	o := *cmp.Or(opts, &Options{})
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Timeout < 100*time.Millisecond {
		return nil, fmt.Errorf("dynamotable: %w: Options.Timeout is %v, at least 100ms is needed", largeitem.ErrInvalid, o.Timeout)
	}
	calls, err := dynamocall.New(client, name, nil, o.Timeout, cmp.Or(o.Logger, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, fmt.Errorf("dynamotable: %w", err)
	}
	calls.Init, calls.Invalid = "holdfast item init", largeitem.ErrInvalid
	t := &Table{calls: calls, globalTable: o.GlobalTable}
	t.shownItem.Store(dynamocall.IsAWS(client.Options()))
	return t, nil
}

// maxPage is the most bytes of items in an answer to a Scan, as DynamoDB counts them. The
// last item of a page may lie partly above 1 MiB.
const maxPage = 1<<20 + largeitem.MaxItem

// Get implements [largeitem.Table], by one consistent GetItem.
func (t *Table) Get(ctx context.Context, key largeitem.Key, opts *largeitem.GetOptions) (largeitem.Attributes, error) {
	item, err := t.get(ctx, key, opts)
	if err != nil {
		return nil, t.failed(store.OpGet, key, err)
	}
	return item, nil
}

func (t *Table) get(ctx context.Context, key largeitem.Key, opts *largeitem.GetOptions) (largeitem.Attributes, error) {
	s, err := t.checked(ctx, key)
	if err != nil {
		return nil, err
	}
	in := &dynamodb.GetItemInput{TableName: &t.calls.Name, Key: toKey(s, key), ConsistentRead: aws.Bool(true)}
	if opts != nil {
		if in.ProjectionExpression, in.ExpressionAttributeNames, err = projection(s, opts.Attributes); err != nil {
			return nil, err
		}
	}
	out, err := dynamocall.Send(transport.ExpectItems(ctx, largeitem.MaxItem), t.calls.Repeat, t.calls.Client.GetItem, in)
	switch {
	case err != nil:
		return nil, err
	case len(out.Item) == 0:
		return nil, store.ErrNotFound
	}
	got, item, err := fromItem(s, out.Item)
	if err == nil && got != key {
		err = fmt.Errorf("%w: the server returned another item, %.200v", store.ErrCorrupt, got)
	}
	if opts != nil {
		item = item.Select(opts.Attributes)
	}
	return item, err
}

// maxExpression is the longest expression that DynamoDB takes, in bytes.
const maxExpression = 4 << 10

// projection returns the expression and the names for these attributes and those of the
// key, by which an item shows that it is there. It returns no expression, so that the server sends all
// attributes, for nil and for more names than an expression can have: the caller selects what it needs.
func projection(s largeitem.Schema, attributes []string) (*string, map[string]string, error) {
	if attributes == nil {
		return nil, nil, nil
	}
	e := newExpressions(s)
	names := []string{s.Partition.Name}
	if s.Sort.Name != "" {
		names = append(names, s.Sort.Name)
	}
	var all []string
	for _, name := range append(names, attributes...) {
		if name == "" {
			return nil, nil, fmt.Errorf("%w: an attribute has an empty name", largeitem.ErrInvalid)
		}
		if _, twice := e.ours[name]; !twice {
			all = append(all, e.name(name))
		}
	}
	if text := joined(all, ", "); len(*text) <= maxExpression {
		return text, e.names, nil
	}
	return nil, nil, nil
}

// Put implements [largeitem.Table], by one PutItem.
func (t *Table) Put(ctx context.Context, key largeitem.Key, item largeitem.Attributes, cond *largeitem.Condition) (largeitem.Attributes, error) {
	put, err := t.PutOf(ctx, key, item, cond)
	if err != nil {
		return nil, err
	}
	out, err := write(ctx, t, t.calls.Client.PutItem, &dynamodb.PutItemInput{
		TableName: put.TableName, Item: put.Item, ConditionExpression: put.ConditionExpression,
		ExpressionAttributeNames: put.ExpressionAttributeNames, ExpressionAttributeValues: put.ExpressionAttributeValues,
		ReturnValues: types.ReturnValueAllOld, ReturnValuesOnConditionCheckFailure: put.ReturnValuesOnConditionCheckFailure,
	})
	return t.written(store.OpPut, key, out.Attributes, err)
}

// Update implements [largeitem.Table], by one UpdateItem.
func (t *Table) Update(ctx context.Context, key largeitem.Key, change largeitem.Change, cond *largeitem.Condition) (largeitem.Attributes, error) {
	update, err := t.UpdateOf(ctx, key, change, cond)
	if err != nil {
		return nil, err
	}
	out, err := write(ctx, t, t.calls.Client.UpdateItem, &dynamodb.UpdateItemInput{
		TableName: update.TableName, Key: update.Key, UpdateExpression: update.UpdateExpression, ConditionExpression: update.ConditionExpression,
		ExpressionAttributeNames: update.ExpressionAttributeNames, ExpressionAttributeValues: update.ExpressionAttributeValues,
		ReturnValues: types.ReturnValueAllNew, ReturnValuesOnConditionCheckFailure: update.ReturnValuesOnConditionCheckFailure,
	})
	item, err := t.written("update", key, out.Attributes, err)
	if err == nil && item == nil {
		// It was applied, and the server does not tell what it has made.
		err = t.failed("update", key, fmt.Errorf("%w: the server did not return the item", store.ErrCorrupt))
	}
	return item, err
}

// Delete implements [largeitem.Table], by one DeleteItem.
func (t *Table) Delete(ctx context.Context, key largeitem.Key, cond *largeitem.Condition) (largeitem.Attributes, error) {
	del, err := t.DeleteOf(ctx, key, cond)
	if err != nil {
		return nil, err
	}
	if del.ConditionExpression == nil {
		// DynamoDB Local carries out a delete without a condition in two steps, and returns
		// one item to two deletes at the same time. A condition that always holds prevents it.
		del.ConditionExpression = aws.String("attribute_exists(#hf_0) OR attribute_not_exists(#hf_0)")
		del.ExpressionAttributeNames = map[string]string{"#hf_0": t.schema.Load().Partition.Name}
	}
	out, err := write(ctx, t, t.calls.Client.DeleteItem, &dynamodb.DeleteItemInput{
		TableName: del.TableName, Key: del.Key, ConditionExpression: del.ConditionExpression,
		ExpressionAttributeNames: del.ExpressionAttributeNames, ExpressionAttributeValues: del.ExpressionAttributeValues,
		ReturnValues: types.ReturnValueAllOld, ReturnValuesOnConditionCheckFailure: del.ReturnValuesOnConditionCheckFailure,
	})
	return t.written(store.OpDelete, key, out.Attributes, err)
}

// write sends a write, once.
func write[In, Out any](ctx context.Context, t *Table, method dynamocall.Method[In, Out], in *In) (*Out, error) {
	return dynamocall.Send(transport.ExpectItems(ctx, largeitem.MaxItem), t.calls.Call, method, in)
}

// written returns the attributes that the server answered to a write.
func (t *Table) written(op store.Kind, key largeitem.Key, answered map[string]types.AttributeValue, err error) (largeitem.Attributes, error) {
	s := *t.schema.Load() // it was needed for the request
	var refused *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &refused):
		return nil, t.failed(op, key, t.refused(s, key, refused.Item))
	case err != nil:
		return nil, t.failed(op, key, err)
	case len(answered) == 0:
		return nil, nil
	}
	_, item, err := fromItem(s, answered)
	if err != nil {
		// It was applied. Who reads the item finds that out, and meets the same error.
		return nil, t.failed(op, key, store.MarkUnknown(err))
	}
	return item, nil
}

// refused returns the error of a refused write.
func (t *Table) refused(s largeitem.Schema, key largeitem.Key, item map[string]types.AttributeValue) error {
	e := &largeitem.ConditionFailedError{Key: key}
	if len(item) == 0 {
		e.HasCurrent = t.shownItem.Load()
		return e
	}
	t.shownItem.Store(true)
	if _, current, err := fromItem(s, item); err == nil {
		e.HasCurrent, e.Current = true, current
	}
	return e
}

func (t *Table) failed(op store.Kind, key largeitem.Key, err error) error {
	return &store.OpError{Op: op, Key: key.String(), Store: t.calls.Where, Err: err}
}

// UpdateOf returns a conditional change of an item as a part of a transaction of the SDK
// (types.TransactWriteItem). The fields of the result can also be used in an UpdateItemInput. If
// the change is empty, the update expression is nil. The first call reads the schema of the table.
// Further calls send no request.
func (t *Table) UpdateOf(ctx context.Context, key largeitem.Key, change largeitem.Change, cond *largeitem.Condition) (*types.Update, error) {
	u := &types.Update{TableName: &t.calls.Name, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}
	e, err := t.prepare(ctx, key, change.Set, change, cond)
	if err == nil {
		u.Key = toKey(e.schema, key)
		u.UpdateExpression, err = e.update(change)
	}
	if err == nil {
		u.ConditionExpression, err = e.condition(cond)
	}
	if err != nil {
		return nil, t.failed("update", key, store.MarkNotApplied(err))
	}
	u.ExpressionAttributeNames, u.ExpressionAttributeValues = e.maps()
	return u, nil
}

// PutOf is like [Table.UpdateOf], but puts a whole item.
func (t *Table) PutOf(ctx context.Context, key largeitem.Key, item largeitem.Attributes, cond *largeitem.Condition) (*types.Put, error) {
	p := &types.Put{TableName: &t.calls.Name, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}
	e, err := t.prepare(ctx, key, item, largeitem.Change{}, cond)
	if err == nil {
		p.Item = toKey(e.schema, key)
		for name, v := range item {
			p.Item[name] = toValue(v)
		}
		p.ConditionExpression, err = e.condition(cond)
	}
	if err != nil {
		return nil, t.failed(store.OpPut, key, store.MarkNotApplied(err))
	}
	p.ExpressionAttributeNames, p.ExpressionAttributeValues = e.maps()
	return p, nil
}

// DeleteOf is like [Table.UpdateOf], but deletes an item.
func (t *Table) DeleteOf(ctx context.Context, key largeitem.Key, cond *largeitem.Condition) (*types.Delete, error) {
	d := &types.Delete{TableName: &t.calls.Name, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}
	e, err := t.prepare(ctx, key, nil, largeitem.Change{}, cond)
	if err == nil {
		d.Key = toKey(e.schema, key)
		d.ConditionExpression, err = e.condition(cond)
	}
	if err != nil {
		return nil, t.failed(store.OpDelete, key, store.MarkNotApplied(err))
	}
	d.ExpressionAttributeNames, d.ExpressionAttributeValues = e.maps()
	return d, nil
}

// prepare checks the arguments of a write.
func (t *Table) prepare(ctx context.Context, key largeitem.Key, item largeitem.Attributes, change largeitem.Change, cond *largeitem.Condition) (*expressions, error) {
	s, err := t.checked(ctx, key)
	if err == nil {
		err = s.CheckItem(key, item)
	}
	if err == nil {
		err = s.CheckChange(change)
	}
	if err == nil {
		err = s.CheckCondition(cond)
	}
	return newExpressions(s), err
}

// checked returns the schema, and the error of a key that cannot be of this table.
func (t *Table) checked(ctx context.Context, key largeitem.Key) (largeitem.Schema, error) {
	s, err := t.look(ctx)
	if err == nil {
		err = s.CheckKey(key)
	}
	return s, err
}

package dynamotable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/internal/aws/dynamocall"
	"github.com/holdfast-go/holdfast/internal/aws/transport"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

// Scan implements [largeitem.Table], by consistent Scans of at most 1 MiB each. Every row
// has a position.
func (t *Table) Scan(ctx context.Context, opts *largeitem.ScanOptions) iter.Seq2[largeitem.Row, error] {
	return func(yield func(largeitem.Row, error) bool) {
		if err := t.scan(ctx, opts, func(r largeitem.Row) bool { return yield(r, nil) }); err != nil {
			yield(largeitem.Row{}, &store.OpError{Op: "scan", Store: t.calls.Where, Err: err})
		}
	}
}

func (t *Table) scan(ctx context.Context, opts *largeitem.ScanOptions, yield func(largeitem.Row) bool) error {
	s, err := t.look(ctx)
	if err != nil {
		return err
	}
	in, o := &dynamodb.ScanInput{TableName: &t.calls.Name, ConsistentRead: aws.Bool(true)}, *cmp.Or(opts, &largeitem.ScanOptions{})
	if in.ProjectionExpression, in.ExpressionAttributeNames, err = projection(s, o.Attributes); err != nil {
		return err
	}
	if o.After != "" {
		var after largeitem.Key
		if err := after.UnmarshalText([]byte(o.After)); err != nil {
			return err
		}
		if err := s.CheckKey(after); err != nil {
			return err
		}
		in.ExclusiveStartKey = toKey(s, after)
	}
	pages := awscall.Pages{Endless: true}
	for {
		out, err := dynamocall.Send(transport.ExpectItems(ctx, maxPage), t.calls.Repeat, t.calls.Client.Scan, in)
		if err != nil {
			return err
		}
		for _, item := range out.Items {
			key, rest, err := fromItem(s, item)
			if err != nil {
				return err
			}
			position, err := key.MarshalText()
			if err != nil {
				return err
			}
			if !yield(largeitem.Row{Key: key, Attributes: rest.Select(o.Attributes), Position: string(position)}) {
				return nil
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return nil
		}
		last, _, err := fromItem(s, out.LastEvaluatedKey)
		if err == nil {
			err = pages.Next(last.String(), len(out.Items))
		}
		if err != nil {
			return err
		}
		in.ExclusiveStartKey = toKey(s, last)
	}
}

// maxBatch is how many items a BatchGetItem reads at most, and maxBatchSize how many bytes
// its answer has at most, as DynamoDB counts them.
const (
	maxBatch     = 100
	maxBatchSize = 16 << 20
)

// GetMany implements [largeitem.BatchGetter], by consistent BatchGetItems of at most 100 keys each.
// If the server leaves keys unprocessed, GetMany requests them again after a random pause, which
// grows to 5 s. After five answers in a row without an item, GetMany returns an error.
func (t *Table) GetMany(ctx context.Context, keys []largeitem.Key, opts *largeitem.GetOptions) ([]largeitem.Attributes, error) {
	items, err := t.getMany(ctx, keys, opts)
	if err != nil {
		return nil, &store.OpError{Op: store.OpGet, Key: fmt.Sprintf("%d items", len(keys)), Store: t.calls.Where, Err: err}
	}
	return items, nil
}

func (t *Table) getMany(ctx context.Context, keys []largeitem.Key, opts *largeitem.GetOptions) ([]largeitem.Attributes, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	s, err := t.look(ctx)
	if err != nil {
		return nil, err
	}
	// A request must not name an item twice.
	at := make(map[largeitem.Key][]int, len(keys))
	var once []largeitem.Key
	for i, key := range keys {
		if err := s.CheckKey(key); err != nil {
			return nil, err
		}
		if at[key] == nil {
			once = append(once, key)
		}
		at[key] = append(at[key], i)
	}
	names := *cmp.Or(opts, &largeitem.GetOptions{})
	b := &batch{t: t, s: s}
	if b.projection, b.names, err = projection(s, names.Attributes); err != nil {
		return nil, err
	}
	items := make([]largeitem.Attributes, len(keys))
	found := func(key largeitem.Key, item largeitem.Attributes) {
		item = item.Select(names.Attributes)
		for n, i := range at[key] {
			if n > 0 {
				item = item.Clone()
			}
			items[i] = item
		}
	}
	for len(once) > 0 {
		n := min(len(once), maxBatch)
		if err := b.get(ctx, once[:n], found); err != nil {
			return nil, err
		}
		once = once[n:]
	}
	return items, nil
}

// batch reads items in batches.
type batch struct {
	t          *Table
	s          largeitem.Schema
	projection *string
	names      map[string]string
}

// get calls found for each of these items that is there.
func (b *batch) get(ctx context.Context, keys []largeitem.Key, found func(largeitem.Key, largeitem.Attributes)) error {
	left := make(map[largeitem.Key]bool, len(keys)) // not answered yet
	for _, key := range keys {
		left[key] = true
	}
	for try := 1; ; try++ {
		before := len(left)
		later, err := b.once(ctx, left, found)
		if err != nil {
			return err
		}
		if len(later) == 0 {
			return nil
		}
		left = later
		if len(left) < before {
			try = 1
		}
		if try >= dynamocall.Tries {
			return fmt.Errorf("%w: the server throttles the requests: it repeatedly leaves %d keys unprocessed", store.ErrUnavailable, len(left))
		}
		if !awscall.Pause(ctx, dynamocall.FirstPause, try) {
			return store.CheckContext(ctx)
		}
	}
}

// errIncomplete: what is taken for absent is deleted by a sweep. So the server must have
// answered for every key.
var errIncomplete = errors.New("the server did not answer for every item")

// once sends one request, and returns the keys that the server leaves for later.
func (b *batch) once(ctx context.Context, keys map[largeitem.Key]bool, found func(largeitem.Key, largeitem.Attributes)) (later map[largeitem.Key]bool, err error) {
	in := types.KeysAndAttributes{ConsistentRead: aws.Bool(true), ProjectionExpression: b.projection, ExpressionAttributeNames: b.names}
	for key := range keys {
		in.Keys = append(in.Keys, toKey(b.s, key))
	}
	out, err := dynamocall.Send(transport.ExpectItems(ctx, maxBatchSize), b.t.calls.Repeat, b.t.calls.Client.BatchGetItem, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{b.t.calls.Name: in}})
	if err != nil {
		return nil, err
	}
	later = make(map[largeitem.Key]bool)
	for _, rest := range out.UnprocessedKeys {
		for _, item := range rest.Keys {
			key, _, err := fromItem(b.s, item)
			if err != nil {
				return nil, err
			}
			if !keys[key] {
				return nil, fmt.Errorf("%w: the server reports the key %.200v as unprocessed, but the request did not contain this key", store.ErrCorrupt, key)
			}
			later[key] = true
		}
	}
	if len(out.Responses) == 0 && len(later) < len(keys) {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, errIncomplete)
	}
	for _, items := range out.Responses {
		for _, item := range items {
			key, rest, err := fromItem(b.s, item)
			switch {
			case err != nil:
				return nil, err
			case !keys[key] || later[key]:
				return nil, fmt.Errorf("%w: the server returned the item %.200v, but the request did not contain the item, or the server also reports the item as unprocessed", store.ErrCorrupt, key)
			}
			found(key, rest)
		}
	}
	return later, nil
}

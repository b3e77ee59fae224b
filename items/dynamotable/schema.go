package dynamotable

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/internal/aws/dynamocall"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

// Schema implements [largeitem.Table], by one DescribeTable. If several goroutines make the first
// calls at the same time, each of them may send a DescribeTable. The ID consists of the ARN of the
// table and its TableId. If a DynamoDB-compatible server has no TableId, the ID consists of the
// name and the creation time of the table.
func (t *Table) Schema(ctx context.Context) (largeitem.Schema, error) {
	s, err := t.look(ctx)
	if err != nil {
		err = &store.OpError{Op: "stat", Key: t.calls.Name, Store: t.calls.Where, Err: err}
	}
	return s, err
}

// look returns the schema, and remembers it.
func (t *Table) look(ctx context.Context) (largeitem.Schema, error) {
	if s := t.schema.Load(); s != nil {
		return *s, nil
	}
	d, err := t.calls.Raw(ctx)
	if err != nil {
		return largeitem.Schema{}, err
	}
	if len(d.Replicas) > 0 && d.MultiRegionConsistency != types.MultiRegionConsistencyStrong && !t.globalTable {
		return largeitem.Schema{}, fmt.Errorf("%w: %s: it is a global table whose regions do not share one order of writes: "+
			"a reference to a deleted object could come back (unsafe=global-table in the URL accepts this risk, which does not exist while all programs use one region)",
			store.ErrUnsafe, t.calls.Where)
	}
	s := largeitem.Schema{Name: t.calls.Where, Table: cmp.Or(aws.ToString(d.TableName), t.calls.Name), MaxItem: largeitem.MaxItem}
	s.ID = dynamocall.ID(t.calls.Client.Options(), t.calls.Name)
	switch {
	case d.TableId != nil:
		s.ID = aws.ToString(d.TableArn) + "/" + *d.TableId
	case d.CreationDateTime != nil: // whatever address leads to it
		s.ID = aws.ToString(d.TableArn) + "/" + s.Table + "/" + d.CreationDateTime.UTC().Format(time.RFC3339Nano)
	}
	keys := dynamocall.KeysOf(d)
	for i, key := range keys {
		a := largeitem.KeyAttribute{Name: key.Name, Number: key.Type == types.ScalarAttributeTypeN}
		switch {
		case i > 1 || !a.Number && key.Type != types.ScalarAttributeTypeS:
			return largeitem.Schema{}, fmt.Errorf("%w: the keys of %s are %v; each key must be a text (S) or a number (N)", store.ErrMisconfigured, t.calls.Where, keys)
		case i == 0:
			s.Partition = a
		default:
			s.Sort = a
		}
	}
	if err := s.Check(); err != nil {
		return largeitem.Schema{}, fmt.Errorf("%w: %w", store.ErrMisconfigured, err)
	}
	t.schema.Store(&s)
	return s, nil
}

// CreateTable creates a table for items, with payment for each request, and waits until the table
// can be used. If the table has no sort key, pass the zero value as sort. If there is already a
// table with this name, CreateTable only checks that table. If the keys of the table are wrong, the
// error matches [store.ErrMisconfigured]. Of the options, CreateTable uses only Timeout.
func CreateTable(ctx context.Context, client *dynamodb.Client, name string, partition, sort largeitem.KeyAttribute, opts *Options) error {
	t, err := New(client, name, opts)
	if err != nil {
		return err
	}
	if err := (largeitem.Schema{Name: t.calls.Where, Partition: partition, Sort: sort}).Check(); err != nil {
		return err
	}
	for _, a := range []largeitem.KeyAttribute{partition, sort} {
		kind := types.ScalarAttributeTypeS
		if a.Number {
			kind = types.ScalarAttributeTypeN
		}
		if a.Name != "" {
			t.calls.Keys = append(t.calls.Keys, dynamocall.Key{Name: a.Name, Type: kind})
		}
	}
	return t.calls.Create(ctx)
}

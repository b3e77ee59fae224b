package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/aws/internal/awscall"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// Lack is something that makes a table unsafe, which a user may insist on.
type Lack string

const (
	// ConditionsIgnored: the server lets writes through whose condition does not
	// hold.
	ConditionsIgnored Lack = "conditions"

	// GlobalTable: the table is replicated between regions without one order of
	// writes, so that two regions can each grant a lock.
	GlobalTable Lack = "global-table"
)

// UnsafeError says why leases in a table are not safe. It matches
// [store.ErrUnsafe].
type UnsafeError struct {
	Name  string // of the store
	Lack  Lack
	Found string
}

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("%s: %s, two programs could hold one lock (holdfast doctor tells more; unsafe=%s would use it all the same)", e.Name, e.Found, e.Lack)
}

// StoreName returns Name, which the text has; see [store.OpError].
func (e *UnsafeError) StoreName() string { return e.Name }

// Is makes an UnsafeError match store.ErrUnsafe.
func (e *UnsafeError) Is(target error) bool { return target == store.ErrUnsafe }

// Outcome is NotApplied.
func (e *UnsafeError) Outcome() store.Outcome { return store.NotApplied }

// Table describes a table.
type Table struct {
	Status string // "ACTIVE", "CREATING", ...

	// KeysRight says that the primary key is what this package needs; Keys says
	// what it is.
	KeysRight bool
	Keys      string

	// Replicas are the other regions of a global table, and OneOrder says that all
	// regions share one order of writes (multi-region strong consistency).
	Replicas []string
	OneOrder bool

	// TTL is the attribute by which the table removes items; empty if it does not.
	// It cannot be one of a register. TTLUnknown says why it could not be read.
	TTL        string
	TTLUnknown error

	// Protected says that the table cannot be deleted by accident, and Recoverable
	// is not known here: a table that is restored brings old tokens back.
	Protected bool
}

// Describe looks at the table, in two requests.
func (s *Store) Describe(ctx context.Context) (Table, error) {
	found, err := s.t.describe(ctx)
	if err != nil {
		return Table{}, err
	}
	var out *dynamodb.DescribeTimeToLiveOutput
	err = s.t.repeat(ctx, func(ctx context.Context, opt func(*dynamodb.Options)) (err error) {
		out, err = s.t.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.t.name}, opt)
		return err
	})
	switch {
	case err != nil:
		found.TTLUnknown = err
	case out.TimeToLiveDescription != nil && out.TimeToLiveDescription.TimeToLiveStatus != types.TimeToLiveStatusDisabled:
		found.TTL = aws.ToString(out.TimeToLiveDescription.AttributeName)
	}
	return found, nil
}

func (t *table) describe(ctx context.Context) (Table, error) {
	var out *dynamodb.DescribeTableOutput
	err := t.repeat(ctx, func(ctx context.Context, opt func(*dynamodb.Options)) (err error) {
		out, err = t.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &t.name}, opt)
		return err
	})
	if err == nil && out.Table == nil {
		// Something else listens there, which says yes to everything.
		err = fmt.Errorf("%w: %s: the answer describes no table; is the endpoint right?", store.ErrMisconfigured, t.where)
	}
	if err != nil {
		return Table{}, err
	}
	d := out.Table
	found := Table{Status: string(d.TableStatus), Protected: aws.ToBool(d.DeletionProtectionEnabled)}
	kinds := make(map[string]types.ScalarAttributeType)
	for _, a := range d.AttributeDefinitions {
		kinds[aws.ToString(a.AttributeName)] = a.AttributeType
	}
	want := []string{attrPart, attrKey}
	found.KeysRight = len(d.KeySchema) == len(want)
	for i, k := range d.KeySchema {
		name := aws.ToString(k.AttributeName)
		found.Keys += fmt.Sprintf("%s (%s, %s) ", name, k.KeyType, kinds[name])
		found.KeysRight = found.KeysRight && name == want[i] && kinds[name] == types.ScalarAttributeTypeS
	}
	for _, r := range d.Replicas {
		found.Replicas = append(found.Replicas, aws.ToString(r.RegionName))
	}
	found.OneOrder = d.MultiRegionConsistency == types.MultiRegionConsistencyStrong
	return found, nil
}

// check looks at the table, before the first write.
func (t *table) check(ctx context.Context) error {
	found, err := t.describe(ctx)
	switch {
	case errors.Is(err, store.ErrDenied):
		t.o.Log.Warn("the table cannot be looked at: if it is a global table, its locks are not safe", "store", t.where, "error", err)
	case err != nil:
		return err
	case !found.KeysRight:
		return fmt.Errorf("%w: %s: the keys of the table are %sbut must be %s (HASH, S) and %s (RANGE, S); use another table, holdfast init makes it",
			store.ErrMisconfigured, t.where, found.Keys, attrPart, attrKey)
	case len(found.Replicas) > 0 && !found.OneOrder:
		return t.insists(&UnsafeError{t.where, GlobalTable, "it is a global table whose regions do not share one order of writes"})
	}
	return nil
}

// refuse returns the error for what a probe has found, or nil if the user insists.
func (t *table) refuse(found engine.LackError) error {
	return t.insists(&UnsafeError{t.where, ConditionsIgnored, cmp.Or(found.Create, found.Swap)})
}

// insists returns nil if the user wants to go on without what is lacking.
func (t *table) insists(e *UnsafeError) error {
	if !slices.Contains(t.o.Unsafe, e.Lack) {
		return e
	}
	t.o.Log.Warn("this store is used on request although it is not safe", "store", t.where, "found", e.Found)
	return nil
}

// CreateTable makes a table for registers, paid by request, and waits until it can
// be used. If a table of this name is there already, it is checked, and left as it
// is; the error matches [store.ErrMisconfigured] if its keys are others. Of opts it
// uses Timeout and Tries.
func CreateTable(ctx context.Context, client *dynamodb.Client, name string, opts *Options) error {
	t, err := newTable(client, name, opts)
	if err != nil {
		return err
	}
	err = t.repeat(ctx, func(ctx context.Context, opt func(*dynamodb.Options)) error {
		_, err := client.CreateTable(ctx, tableInput(name), opt)
		var there *types.ResourceInUseException
		if errors.As(err, &there) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("creating the table: %w", err)
	}
	for try := 1; ; try++ {
		found, err := t.describe(ctx)
		switch {
		case errors.Is(err, store.ErrMisconfigured) && try < 5: // not to be seen yet
		case err != nil:
			return fmt.Errorf("creating the table: %w", err)
		case !found.KeysRight:
			return fmt.Errorf("%w: %s is there, with the keys %s", store.ErrMisconfigured, t.where, found.Keys)
		case found.Status == string(types.TableStatusActive):
			return nil
		}
		if !awscall.Pause(ctx, 200*time.Millisecond, try) {
			return fmt.Errorf("creating the table: %w", context.Cause(ctx))
		}
	}
}

func tableInput(name string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:   &name,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(attrPart), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(attrKey), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(attrPart), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(attrKey), KeyType: types.KeyTypeRange},
		},
	}
}

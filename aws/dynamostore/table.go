package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/aws/internal/awscall"
	"github.com/holdfast-go/holdfast/store"
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
	t, err := s.describe(ctx)
	if err != nil {
		return Table{}, err
	}
	var out *dynamodb.DescribeTimeToLiveOutput
	err = s.repeat(ctx, func() error {
		return s.call(ctx, func(ctx context.Context, opt func(*dynamodb.Options)) (err error) {
			out, err = s.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.table}, opt)
			return err
		})
	})
	switch {
	case err != nil:
		t.TTLUnknown = err
	case out.TimeToLiveDescription != nil && out.TimeToLiveDescription.TimeToLiveStatus != types.TimeToLiveStatusDisabled:
		t.TTL = aws.ToString(out.TimeToLiveDescription.AttributeName)
	}
	return t, nil
}

func (s *Store) describe(ctx context.Context) (Table, error) {
	var out *dynamodb.DescribeTableOutput
	err := s.repeat(ctx, func() error {
		return s.call(ctx, func(ctx context.Context, opt func(*dynamodb.Options)) (err error) {
			out, err = s.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.table}, opt)
			return err
		})
	})
	if err == nil && out.Table == nil {
		// Something else listens there, which says yes to everything.
		err = fmt.Errorf("%w: %s: the answer describes no table; is the endpoint right?", store.ErrMisconfigured, s.where)
	}
	if err != nil {
		return Table{}, err
	}
	d := out.Table
	t := Table{Status: string(d.TableStatus), Protected: aws.ToBool(d.DeletionProtectionEnabled)}
	kinds := make(map[string]types.ScalarAttributeType)
	for _, a := range d.AttributeDefinitions {
		kinds[aws.ToString(a.AttributeName)] = a.AttributeType
	}
	want := []string{attrPart, attrKey}
	t.KeysRight = len(d.KeySchema) == len(want)
	for i, k := range d.KeySchema {
		name := aws.ToString(k.AttributeName)
		t.Keys += fmt.Sprintf("%s (%s, %s) ", name, k.KeyType, kinds[name])
		t.KeysRight = t.KeysRight && name == want[i] && kinds[name] == types.ScalarAttributeTypeS
	}
	for _, r := range d.Replicas {
		t.Replicas = append(t.Replicas, aws.ToString(r.RegionName))
	}
	t.OneOrder = d.MultiRegionConsistency == types.MultiRegionConsistencyStrong
	return t, nil
}

// probe is what is known of the table.
type probe struct {
	slot   chan struct{} // held by the one who looks
	passed atomic.Bool
	failed atomic.Pointer[UnsafeError]
}

// Verify looks whether the table is right and safe, unless that is known; the first
// write does so by itself. A failure that matches [store.ErrUnsafe] lasts. The user
// who knows that it passed in an earlier run sets [Options].Trusted.
func (s *Store) Verify(ctx context.Context) error {
	if s.o.Trusted || s.probe.passed.Load() {
		return nil
	}
	select {
	case s.probe.slot <- struct{}{}:
		defer func() { <-s.probe.slot }()
	case <-ctx.Done():
		return store.CheckContext(ctx)
	}
	if s.probe.passed.Load() {
		return nil
	}
	if failed := s.probe.failed.Load(); failed != nil {
		return failed
	}
	err := s.look(ctx)
	var unsafe *UnsafeError
	switch {
	case errors.As(err, &unsafe):
		s.probe.failed.Store(unsafe)
		return unsafe
	case err != nil:
		return store.MarkNotApplied(err)
	}
	s.probe.passed.Store(true)
	if s.o.OnVerified != nil {
		s.o.OnVerified()
	}
	return nil
}

// look looks at the table, and on a server that is not Amazon's at its conditions.
func (s *Store) look(ctx context.Context) error {
	t, err := s.describe(ctx)
	switch {
	case errors.Is(err, store.ErrDenied):
		s.o.Log.Warn("the table cannot be looked at: if it is a global table, its locks are not safe", "store", s.where, "error", err)
	case err != nil:
		return err
	case !t.KeysRight:
		return fmt.Errorf("%w: %s: the keys of the table are %sbut must be %s (HASH, S) and %s (RANGE, S); use another table, holdfast init makes it",
			store.ErrMisconfigured, s.where, t.Keys, attrPart, attrKey)
	case len(t.Replicas) > 0 && !t.OneOrder:
		found := &UnsafeError{s.where, GlobalTable, "it is a global table whose regions do not share one order of writes"}
		if err := s.insists(found); err != nil {
			return err
		}
	}
	if s.onAWS {
		return nil
	}
	found, err := s.tryConditions(ctx)
	if err != nil || found == "" {
		return err
	}
	return s.insists(&UnsafeError{s.where, ConditionsIgnored, found})
}

// insists returns nil if the user wants to go on without what is lacking.
func (s *Store) insists(e *UnsafeError) error {
	if !slices.Contains(s.o.Unsafe, e.Lack) {
		return e
	}
	s.o.Log.Warn("this store is used on request although it is not safe", "store", s.where, "found", e.Found)
	return nil
}

// tryConditions finds out whether conditions are honoured, on an item made for that
// which looks like a tombstone, and removed again.
func (s *Store) tryConditions(ctx context.Context) (found string, err error) {
	key := ".holdfast/probe/" + newNonce()
	defer s.remove(ctx, key)
	try := func(base item) (item, bool, error) {
		w := &writing{s: s, key: key, create: base.absent(), it: item{deleted: true, nonce: newNonce()}}
		w.against(base)
		var refused bool
		err := s.repeat(ctx, func() error {
			_, err := w.send(ctx)
			// A create that met the tombstone is to be sent again.
			if refused = errors.Is(err, store.ErrConflict) || errors.Is(err, errSendAgain); refused {
				return nil
			}
			return err
		})
		return w.it, refused, err
	}
	first, refused, err := try(item{})
	switch {
	case err != nil:
		return "", err
	case refused:
		return "it refused to create what was not there", nil
	}
	if _, refused, err = try(item{}); err != nil || !refused {
		return "it let a second create-if-absent through", err
	}
	second, refused, err := try(first)
	switch {
	case err != nil:
		return "", err
	case refused:
		return "it refused a write that named the current version", nil
	}
	if _, refused, err = try(first); err != nil || !refused {
		return "it let a write through that named an old version", err
	}
	if it, err := s.get(ctx, key); err != nil || it.nonce != second.nonce {
		return "it answered that a write with an old version failed, and wrote it", err
	}
	return "", nil
}

// remove removes the item of a probe; what cannot be removed stays as a tombstone.
func (s *Store) remove(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := s.repeat(ctx, func() error {
		return s.call(ctx, func(ctx context.Context, opt func(*dynamodb.Options)) error {
			_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.table, Key: s.itemKey(key)}, opt)
			return err
		})
	})
	if err != nil {
		s.o.Log.Warn("the item of a probe could not be removed", "key", key, "error", err)
	}
}

// CreateTable makes a table for registers, paid by request, and waits until it can
// be used. If a table of this name is there already, it is checked, and left as it
// is; the error matches [store.ErrMisconfigured] if its keys are others. Of opts it
// uses Timeout and Tries.
func CreateTable(ctx context.Context, client *dynamodb.Client, table string, opts *Options) error {
	s, err := New(client, table, opts)
	if err != nil {
		return err
	}
	err = s.repeat(ctx, func() error {
		return s.call(ctx, func(ctx context.Context, opt func(*dynamodb.Options)) error {
			_, err := client.CreateTable(ctx, tableInput(table), opt)
			var there *types.ResourceInUseException
			if errors.As(err, &there) {
				return nil
			}
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("creating the table: %w", err)
	}
	for try := 1; ; try++ {
		t, err := s.describe(ctx)
		switch {
		case errors.Is(err, store.ErrMisconfigured) && try < 5: // not to be seen yet
		case err != nil:
			return fmt.Errorf("creating the table: %w", err)
		case !t.KeysRight:
			return fmt.Errorf("%w: %s is there, with the keys %s", store.ErrMisconfigured, s.where, t.Keys)
		case t.Status == string(types.TableStatusActive):
			return nil
		}
		if !awscall.Pause(ctx, 200*time.Millisecond, try) {
			return fmt.Errorf("creating the table: %w", context.Cause(ctx))
		}
	}
}

func tableInput(table string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:   &table,
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

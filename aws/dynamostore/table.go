package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// Risk is something that makes a table unsafe, which a user may insist on.
type Risk string

const (
	// ConditionsIgnored: the server lets writes through whose condition does not
	// hold.
	ConditionsIgnored Risk = "conditions"

	// GlobalTable: the table is replicated between regions without one order of
	// writes, so that two regions can each grant a lock.
	GlobalTable Risk = "global-table"
)

// UnsafeError says why leases in a table are not safe. It matches
// [store.ErrUnsafe].
type UnsafeError struct {
	Name  string // of the store
	Risk  Risk
	Found string
}

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("%s: %s, two programs could hold one lock (see holdfast doctor; unsafe=%s would use it nevertheless)", e.Name, e.Found, e.Risk)
}

// StoreName returns Name, which the text has; see [store.OpError].
func (e *UnsafeError) StoreName() string { return e.Name }

// Is makes an UnsafeError match store.ErrUnsafe.
func (e *UnsafeError) Is(target error) bool { return target == store.ErrUnsafe }

// Outcome is NotApplied.
func (e *UnsafeError) Outcome() store.Outcome { return store.NotApplied }

// Description describes a table.
type Description struct {
	Status string // "ACTIVE", "CREATING", ...

	// KeysValid says that the primary key is what this package needs; Keys says
	// what it is.
	KeysValid bool
	Keys      string

	// Replicas are the other regions of a global table, and StronglyConsistent says that all
	// regions share one order of writes (multi-region strong consistency).
	Replicas           []string
	StronglyConsistent bool

	// TTL is the attribute by which the table removes items; empty if it does not.
	// It cannot be one of a register. TTLUnknown says why it could not be read.
	TTL    string
	TTLErr error

	// DeletionProtection says that the table cannot be deleted by accident, and Recoverable
	// is not known here: a table that is restored brings old tokens back.
	DeletionProtection bool
}

// Describe looks at the table, in two requests.
func (s *Store) Describe(ctx context.Context) (Description, error) {
	found, err := s.t.Describe(ctx)
	if err != nil {
		return Description{}, err
	}
	found.TTL, found.TTLErr = s.t.TTL(ctx)
	return Description{
		Status: found.Status, KeysValid: found.KeysValid, Keys: found.Keys.String(), Replicas: found.Replicas, StronglyConsistent: found.StronglyConsistent,
		TTL: found.TTL, TTLErr: found.TTLErr, DeletionProtection: found.DeletionProtection,
	}, nil
}

// check looks at the table, before the first write.
func (t *table) check(ctx context.Context) error {
	found, err := t.Describe(ctx)
	switch {
	case errors.Is(err, store.ErrDenied):
		t.o.Logger.Warn("the table cannot be looked at: if it is a global table, its locks are not safe", "store", t.Where, "error", err)
	case err != nil:
		return err
	case !found.KeysValid:
		return fmt.Errorf("%w: %s: the keys of the table are %v but must be %v; use another table, holdfast init makes it",
			store.ErrMisconfigured, t.Where, found.Keys, t.Keys)
	case len(found.Replicas) > 0 && !found.StronglyConsistent:
		return t.insists(&UnsafeError{t.Where, GlobalTable, "it is a global table whose regions do not share one order of writes"})
	}
	return nil
}

// refuse returns the error for what a probe has found, or nil if the user insists.
func (t *table) refuse(found engine.ConditionsIgnoredError) error {
	return t.insists(&UnsafeError{t.Where, ConditionsIgnored, cmp.Or(found.Create, found.Swap)})
}

// insists returns nil if the user wants to continue without what is lacking.
func (t *table) insists(e *UnsafeError) error {
	if !slices.Contains(t.o.Unsafe, e.Risk) {
		return e
	}
	t.o.Logger.Warn("this store is used on request although it is not safe", "store", t.Where, "found", e.Found)
	return nil
}

// CreateTable makes a table for registers, paid by request, and waits until it can
// be used. If a table of this name is there already, it is checked, and left as it
// is; the error matches [store.ErrMisconfigured] if its keys are others. Of opts it
// uses Timeout.
func CreateTable(ctx context.Context, client *dynamodb.Client, name string, opts *Options) error {
	t, err := newTable(client, name, opts)
	if err != nil {
		return err
	}
	return t.Create(ctx)
}

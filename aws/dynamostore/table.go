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

// Risk is a property that makes a table unsafe. A user may accept the risk.
type Risk string

const (
	// ConditionsIgnored: the server applies writes whose condition does not hold.
	ConditionsIgnored Risk = "conditions"

	// GlobalTable: the table has replicas in several regions, and the regions do not have the same
	// order of writes. So two regions can grant the same lock.
	GlobalTable Risk = "global-table"
)

// UnsafeError says why leases in a table are not safe. It matches [store.ErrUnsafe].
type UnsafeError struct {
	Name  string // name of the store
	Risk  Risk
	Found string
}

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("%s: %s, so two programs could hold one lock (see holdfast doctor; unsafe=%s in the URL accepts the risk)", e.Name, e.Found, e.Risk)
}

// StoreName returns Name, because the text of the error contains it; see [store.OpError].
func (e *UnsafeError) StoreName() string { return e.Name }

// Is makes an UnsafeError match store.ErrUnsafe.
func (e *UnsafeError) Is(target error) bool { return target == store.ErrUnsafe }

// Outcome returns NotApplied.
func (e *UnsafeError) Outcome() store.Outcome { return store.NotApplied }

// Description contains the properties of a table.
type Description struct {
	Status string // "ACTIVE", "CREATING", ...

	// KeysValid says that the table has the primary key that this package needs. Keys describes the
	// primary key of the table.
	KeysValid bool
	Keys      string

	// Replicas are the other regions of a global table. StronglyConsistent says that all regions
	// have the same order of writes (multi-region strong consistency).
	Replicas           []string
	StronglyConsistent bool

	// TTL is the attribute by which the table removes items. It is empty if the table removes no
	// items. The table never removes a register, because no attribute of a register is a number. If
	// Describe could not read TTL, TTLErr is the error.
	TTL    string
	TTLErr error

	// DeletionProtection says that the table is protected from an accidental deletion.
	DeletionProtection bool
}

// Describe reads the properties of the table, in two or three requests.
func (s *Store) Describe(ctx context.Context) (Description, error) {
	found, err := s.t.Describe(ctx)
	if err == nil {
		found.TTL, found.TTLErr = s.t.TTL(ctx)
	}
	return Description(found), err
}

// check looks at the table, before the first write.
func (t *table) check(ctx context.Context) error {
	found, err := t.Describe(ctx)
	switch {
	case errors.Is(err, store.ErrDenied):
		t.o.Logger.Warn("cannot read the settings of the table; if the table is a global table, its locks are not safe", "store", t.Where, "error", err)
	case err != nil:
		return err
	case !found.KeysValid:
		return fmt.Errorf("%w: the keys of %s are %v but must be %v; use another table, which holdfast init can create",
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
	t.o.Logger.Warn("the store is not safe, but the option Unsafe accepts the risk", "store", t.Where, "found", e.Found)
	return nil
}

// CreateTable creates a table for registers, with on-demand billing, and waits until the table is
// ready. If there is already a table with this name, CreateTable only checks that table. If the
// keys of the table are wrong, the error matches [store.ErrMisconfigured]. Of the options,
// CreateTable uses only Timeout.
func CreateTable(ctx context.Context, client *dynamodb.Client, name string, opts *Options) error {
	t, err := newTable(client, name, opts)
	if err != nil {
		return err
	}
	return t.Create(ctx)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/store"
)

func (a *app) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "init",
		Short:   "Create the directory or the tables of a store",
		GroupID: groupStore,
		Long: `Create the directory or the tables of a store, and test the store. init creates a directory, a
DynamoDB table (billed per request), or the tables in a database of SQLite or PostgreSQL. init
tests a bucket, but does not create it.

If the URL of a bucket names a table of reservations (reserve=dynamodb://TABLE,
conditional_put=dynamo:TABLE), init creates that table. Its keys are path and etag. DynamoDB
removes each row after the time in its attribute ttl.

init changes an existing directory or table in one case only: if DynamoDB does not remove old
rows of a table of reservations, init turns this removal on.`,
		Example: `  holdfast --store 'dynamodb://holdfast?region=eu-central-1' init
  holdfast --store 's3://bucket?reserve=dynamodb://locks' init`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.init(cmd.Context())
		},
	}
}

func (a *app) init(ctx context.Context) error {
	u, err := a.parseStore(a.storeURL)
	if err != nil {
		return err
	}
	raw := a.storeURL
	var table *reservationTable
	switch u.Scheme {
	case "s3":
		if raw, table, err = a.splitReservations(ctx, raw); err == nil {
			err = initBucket(ctx, raw)
		}
	case "dynamodb":
		// First read the store as every command does, so that init reports the same errors.
		// init can mend only one of them: a table that does not exist.
		if _, err = a.reads(ctx, raw); errors.Is(err, store.ErrMisconfigured) {
			if made := initTable(ctx, a.storeURL); made == nil || !store.InDoubt(made) {
				err = made
			}
		}
	case s3verstore.Scheme:
		err = initVersions(ctx, a.storeURL)
	case "sqlite", "postgres":
		err = initDatabase(ctx, u)
	}
	if err != nil {
		return err
	}
	name, err := a.reads(ctx, raw)
	result := map[string]any{"store": name, "usable": true}
	if err == nil && table != nil {
		result["reservations"] = table.String()
		result["reservations_made"], err = table.make(ctx, a)
	}
	if err == nil && a.json {
		return a.printJSON(result)
	}
	if err == nil {
		a.notef("%s can be used", name)
	}
	return err
}

// splitReservations returns the URL of a bucket without the parameters of reservations. It
// also returns the DynamoDB table that they name: nil if they name none.
func (a *app) splitReservations(ctx context.Context, raw string) (bare string, table *reservationTable, err error) {
	at, err := a.parseObject(raw, false)
	if err != nil {
		return "", nil, err
	}
	r, err := at.untriedReservations(ctx, a)
	if err != nil || r == nil {
		return raw, nil, err
	}
	return at.store(), r.table, r.Close()
}

// reads checks that the store of a URL can be read, and returns its name.
func (a *app) reads(ctx context.Context, raw string) (name string, err error) {
	st, err := a.openURL(ctx, raw)
	if err != nil {
		return "", err
	}
	defer st.Close()
	_, _, err = st.Get(ctx, "lock/.holdfast")
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return st.url, err
}

func initTable(ctx context.Context, raw string) error {
	config, err := dynamostore.ParseURL(raw)
	if err != nil {
		return err
	}
	client, err := config.Client(ctx)
	if err != nil {
		return err
	}
	return dynamostore.CreateTable(ctx, client, config.Table, config.Options(nil))
}

// initBucket refuses a bucket where locks of another program are, or another kind of store.
func initBucket(ctx context.Context, raw string) error {
	st, err := s3store.Open(ctx, raw, nil)
	if err != nil {
		return err
	}
	found, err := st.ForeignLocks(ctx)
	if errors.Is(err, store.ErrDenied) {
		return nil // locks need no listing
	}
	if err != nil {
		return err
	}
	if len(found.Legacy) > 0 {
		return fmt.Errorf("%w: another program has locks below this prefix, and its locks and Holdfast's locks do not exclude each other: %s", store.ErrUnsafe, strings.Join(found.Legacy, ", "))
	}
	if len(found.Shared) > 0 {
		return fmt.Errorf("%w: %s", store.ErrUnsafe, found.SharedText)
	}
	return nil
}

// initVersions refuses a bucket where a rule would remove versions that the store needs, or
// where locks of another program are.
func initVersions(ctx context.Context, raw string) error {
	st, err := s3verstore.Open(ctx, raw, nil)
	if err != nil {
		return err
	}
	settings, err := st.Settings(ctx)
	if err != nil {
		return err
	}
	return settings.Err()
}

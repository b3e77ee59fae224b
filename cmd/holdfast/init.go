package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/aws/s3verstore"
	"github.com/holdfast-go/holdfast/store"
)

func (a *app) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "init",
		Short:   "Make what a store needs: a directory, tables",
		GroupID: groupStore,
		Long: `Make what a store needs, and look whether it can be used. A directory is made, a
DynamoDB table, paid by request, and the tables in a database of SQLite or PostgreSQL.
A bucket is not made, only looked at. What is there already is left as it is.`,
		Example: `  holdfast --store 'dynamodb://holdfast?region=eu-central-1' init`,
		Args:    cobra.NoArgs,
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
	switch u.Scheme {
	case "dynamodb":
		err = initTable(ctx, a.storeURL)
	case "s3":
		err = initBucket(ctx, a.storeURL)
	case s3verstore.Scheme:
		err = initVersions(ctx, a.storeURL)
	case "sqlite", "postgres":
		err = initDatabase(ctx, u)
	}
	if err != nil {
		return err
	}
	st, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	if _, _, err := st.Get(ctx, "lock/.holdfast"); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	a.notef("%s can be used", st.url)
	return nil
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

func initBucket(ctx context.Context, raw string) error {
	bucket, _, err := s3bucket.Open(ctx, raw, nil)
	if err != nil {
		return err
	}
	if err := bucket.Exists(ctx); err != nil {
		return fmt.Errorf("make the bucket first: %w", err)
	}
	return nil
}

// initVersions refuses a bucket in which something would take away versions that are
// needed, or locks of another program lie.
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

package stores

import (
	"context"
	"errors"
	"io"
	"net/url"

	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/items/dynamotable"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

func dynamoScheme() *Scheme {
	return &Scheme{
		Name: "dynamodb", Form: "dynamodb://TABLE/PREFIX", what: "a table of DynamoDB",
		parameters: "region, endpoint, profile, anonymous, fips, dualstack, timeout, unsafe: as for s3:",
		open:       openDynamo, init: initDynamo, doctor: dynamoTarget,
		tables: dynamoItems{}, TableForm: "dynamodb://TABLE",
	}
}

// openDynamo opens dynamodb://TABLE/PREFIX; see [dynamostore.Open] for its
// parameters.
func openDynamo(ctx context.Context, a *Access, u *url.URL, _ bool) (Opened, error) {
	known := probeCacheFor(u)
	st, err := dynamostore.Open(ctx, u.String(), &dynamostore.Options{Trusted: known.is(), OnVerified: known.note, Logger: a.Log()})
	if err != nil {
		return Opened{}, err
	}
	return remote(st), nil
}

// initDynamo first reads the store as every command does, so that it reports the same errors. It can
// mend only one of them: a table that does not exist.
func initDynamo(ctx context.Context, a *Access, raw string) (map[string]any, error) {
	result, err := a.usable(ctx, raw)
	if !errors.Is(err, store.ErrMisconfigured) {
		return result, err
	}
	if made := createTable(ctx, raw); made != nil && store.InDoubt(made) {
		return nil, err
	} else if made != nil {
		return nil, made
	}
	return a.usable(ctx, raw)
}

func createTable(ctx context.Context, raw string) error {
	client, table, opts, err := dynamostore.FromURL(ctx, raw, nil)
	if err != nil {
		return err
	}
	return dynamostore.CreateTable(ctx, client, table, opts)
}

func dynamoTarget(ctx context.Context, _ *Access, u *url.URL) (*doctor.Target, func(), error) {
	client, table, opts, err := dynamostore.FromURL(ctx, u.String(), nil)
	if err != nil {
		return nil, nil, err
	}
	return doctor.DynamoDB(client, table, opts), func() {}, nil
}

// dynamoItems are tables of DynamoDB.
type dynamoItems struct{}

func (dynamoItems) open(ctx context.Context, a *Access, u *url.URL) (openTable, error) {
	t, err := dynamotable.Open(ctx, u.String(), &dynamotable.Options{Logger: a.Log()})
	return openTable{t, io.NopCloser(nil)}, err
}

func (dynamoItems) create(ctx context.Context, a *Access, u *url.URL, partition, sort largeitem.KeyAttribute) error {
	client, table, opts, err := dynamotable.FromURL(ctx, u.String(), &dynamotable.Options{Logger: a.Log()})
	if err != nil {
		return err
	}
	return dynamotable.CreateTable(ctx, client, table, partition, sort, opts)
}

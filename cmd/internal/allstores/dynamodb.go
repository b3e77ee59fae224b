package allstores

import (
	"context"
	"errors"
	"io"
	"net/url"

	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor/awsdoctor"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/items/dynamotable"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

// openDynamo opens dynamodb://TABLE/PREFIX; see [dynamostore.Open] for its
// parameters.
func openDynamo(ctx context.Context, a *stores.Access, u *url.URL, _ bool) (stores.Opened, error) {
	known := probeCacheFor(u)
	return opened(dynamostore.Open(ctx, u.String(), &dynamostore.Options{Trusted: known.is(), OnVerified: known.note, Logger: a.Log()}))
}

// initDynamo first reads the store as every command does, so that it reports the same errors. It can
// mend only one of them: a table that does not exist.
func initDynamo(ctx context.Context, a *stores.Access, raw string) (map[string]any, error) {
	result, err := a.Usable(ctx, raw, true)
	if !errors.Is(err, store.ErrMisconfigured) {
		return result, err
	}
	client, table, opts, failed := dynamostore.FromURL(ctx, raw, nil)
	if failed == nil {
		failed = dynamostore.CreateTable(ctx, client, table, opts)
	}
	switch {
	case store.InDoubt(failed):
		return nil, err
	case failed != nil:
		return nil, failed
	}
	return a.Usable(ctx, raw, true)
}

func dynamoTarget(ctx context.Context, _ *stores.Access, u *url.URL) (*doctor.Target, func(), error) {
	client, table, opts, err := dynamostore.FromURL(ctx, u.String(), nil)
	if err != nil {
		return nil, nil, err
	}
	return awsdoctor.DynamoDB(client, table, opts), func() {}, nil
}

// dynamoItems are tables of DynamoDB.
type dynamoItems struct{}

func (dynamoItems) Open(ctx context.Context, a *stores.Access, u *url.URL) (stores.Table, error) {
	t, err := dynamotable.Open(ctx, u.String(), &dynamotable.Options{Logger: a.Log()})
	return stores.Table{Table: t, Closer: io.NopCloser(nil)}, err
}

func (dynamoItems) Create(ctx context.Context, a *stores.Access, u *url.URL, partition, sort largeitem.KeyAttribute) error {
	client, table, opts, err := dynamotable.FromURL(ctx, u.String(), &dynamotable.Options{Logger: a.Log()})
	if err != nil {
		return err
	}
	return dynamotable.CreateTable(ctx, client, table, partition, sort, opts)
}

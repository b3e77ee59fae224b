package stores

import (
	"context"
	"io"
	"net/url"

	"github.com/holdfast-go/holdfast/items/largeitem"
)

// openTable is a table together with what a command needs to use it.
type openTable struct {
	largeitem.Table
	io.Closer
}

// tableKind opens and makes tables of one kind.
type tableKind interface {
	Open(ctx context.Context, a *Access, u *url.URL) (openTable, error)

	// Create makes a table with these attributes of the key; a zero sort stands for none.
	Create(ctx context.Context, a *Access, u *url.URL, partition, sort largeitem.KeyAttribute) error
}

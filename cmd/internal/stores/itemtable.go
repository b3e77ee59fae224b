package stores

import (
	"context"
	"io"
	"net/url"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/items/largeitem"
)

// ParseTable takes the URL of a table of items apart.
func ParseTable(raw string) (*url.URL, error) {
	name, _, _ := strings.Cut(raw, ":")
	if s := schemeOf(name); s != nil && s.tables == nil {
		return nil, exit.Usagef("%s: this kind of store cannot keep items; use %s", s.Name, TableForms())
	}
	return ParseURL(raw)
}

// OpenTable opens the table of items at a URL.
func (a *Access) OpenTable(ctx context.Context, u *url.URL) (openTable, error) {
	return schemeOf(u.Scheme).tables.open(ctx, a, u)
}

// CreateTable makes a table with these attributes of the key; a zero sort stands for none.
func (a *Access) CreateTable(ctx context.Context, u *url.URL, partition, sort largeitem.KeyAttribute) error {
	return schemeOf(u.Scheme).tables.create(ctx, a, u, partition, sort)
}

// openTable is a table together with what a command needs to use it.
type openTable struct {
	largeitem.Table
	io.Closer
}

// tableKind opens and makes tables of one kind.
type tableKind interface {
	open(ctx context.Context, a *Access, u *url.URL) (openTable, error)

	// create makes a table with these attributes of the key; a zero sort stands for none.
	create(ctx context.Context, a *Access, u *url.URL, partition, sort largeitem.KeyAttribute) error
}

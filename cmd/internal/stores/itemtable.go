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
func (a *Access) ParseTable(raw string) (*url.URL, error) {
	name, _, _ := strings.Cut(raw, ":")
	if s := schemeOf(name); s != nil && s.TableForm == "" {
		return nil, exit.Usagef("%s: this kind of store cannot keep items; use %s", s.Name, TableForms())
	}
	return a.ParseURL(raw)
}

// OpenTable opens the table of items at a URL.
func (a *Access) OpenTable(ctx context.Context, u *url.URL) (Table, error) {
	return a.driver(u).Tables.Open(ctx, a, u)
}

// CreateTable makes a table with these attributes of the key; a zero sort stands for none.
func (a *Access) CreateTable(ctx context.Context, u *url.URL, partition, sort largeitem.KeyAttribute) error {
	return a.driver(u).Tables.Create(ctx, a, u, partition, sort)
}

// Table is a table together with what a command needs to use it.
type Table struct {
	largeitem.Table
	io.Closer
}

// TableKind opens and makes tables of one kind.
type TableKind interface {
	Open(ctx context.Context, a *Access, u *url.URL) (Table, error)

	// Create makes a table with these attributes of the key; a zero sort stands for none.
	Create(ctx context.Context, a *Access, u *url.URL, partition, sort largeitem.KeyAttribute) error
}

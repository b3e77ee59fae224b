package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/sqltable"
)

// sqlItems are tables of SQLite and PostgreSQL. Of the parameters of their URLs, table names
// the table, and partition and sort the columns of the key.
type sqlItems struct{}

func (sqlItems) database(u *url.URL, create bool) (*database, *sqltable.Options, error) {
	query, bare := u.Query(), *u
	o := &sqltable.Options{}
	for name, a := range map[string]*largeitem.KeyAttribute{"partition": &o.Partition, "sort": &o.Sort} {
		if query.Has(name) && query.Get(name) == "" || len(query[name]) > 1 {
			return nil, nil, usagef("the parameter %s of the table's URL must be the name of one column", name)
		}
		a.Name = query.Get(name)
		query.Del(name)
	}
	bare.RawQuery = query.Encode()
	d, err := databaseOf(&bare, create, sqltable.MaxRow)
	if err != nil {
		return nil, nil, err
	}
	if d.opts.Prefix != "" {
		d.db.Close()
		return nil, nil, usagef("the URL of a table of items cannot have a prefix: name the table by the parameter table")
	}
	o.Table = d.opts.Table
	o.Hide = d.opts.Hide
	o.Name = fmt.Sprintf("%s, table %s", d.opts.Name, cmp.Or(o.Table, sqltable.DefaultTable))
	return d, o, nil
}

func (k sqlItems) open(_ context.Context, _ *app, u *url.URL) (openTable, error) {
	d, opts, err := k.database(u, false)
	if none := (noDatabase{}); errors.As(err, &none) {
		err = &statusError{statusUnsafe, noDatabase{none.path, "item init"}}
	}
	if err != nil {
		return openTable{}, err
	}
	t, err := sqltable.New(d.db, d.dialect, opts)
	if err != nil {
		d.db.Close()
	}
	return openTable{t, d.db}, err
}

func (k sqlItems) create(ctx context.Context, _ *app, u *url.URL, partition, sort largeitem.KeyAttribute) error {
	d, opts, err := k.database(u, true)
	if err != nil {
		return err
	}
	defer d.db.Close()
	for _, column := range []struct {
		parameter    string
		inURL, given largeitem.KeyAttribute
		standard     string
	}{{"partition", opts.Partition, partition, "pk"}, {"sort", opts.Sort, sort, ""}} {
		if column.inURL.Name != "" && column.given.Name == column.standard && column.inURL.Name != column.standard {
			return usagef("the table's URL has %s=%s: add --%[1]s %[2]s; if the values are numbers, add --%[1]s %[2]s:number", column.parameter, printable.Text(column.inURL.Name))
		}
		if column.inURL.Name != column.given.Name && (column.inURL.Name != "" || column.given.Name != column.standard) {
			return usagef("--%s is %q, but the table's URL does not contain this, and other commands need it: add the parameter %[1]s=%s to the URL", column.parameter, column.given.Name, url.QueryEscape(column.given.Name))
		}
	}
	opts.Partition, opts.Sort = partition, sort
	return sqltable.CreateTable(ctx, d.db, d.dialect, opts)
}

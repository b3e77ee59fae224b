package allstores

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/internal/drivers/storeurl"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/sqltable"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// sqlConnections is the largest number of connections that one command uses.
const sqlConnections = 8

// silenceLimit is how long a server may take for its first answer, if the URL does not say this by connect_timeout.
const silenceLimit = 5 * time.Second

// errSilent is the error of a connection on which a server has sent nothing.
func errSilent(limit time.Duration, kind string) error {
	return store.MarkNotApplied(fmt.Errorf("%w: the server accepted the connection, and did not answer within %v: it hangs, or it is not a server of %s", store.ErrUnavailable, limit, kind))
}

// database is what the URL of a database names.
type database struct {
	db      *sql.DB
	dialect sqlstore.Dialect
	opts    *sqlstore.Options

	largest    int    // row that is read, in bytes
	inTheClear string // a host to which a password may go unencrypted; empty: there is none
}

// sqlDriver returns the driver of databases. connect sets the database of a URL, whose parameters
// that all databases have are no longer in query.
func sqlDriver(connect databases) *stores.Driver {
	return &stores.Driver{Open: connect.openRegisters, Init: connect.init, Tables: connect}
}

// databases are the databases of one kind. As [stores.TableKind], they keep items: of the parameters of
// their URLs, table names the table, and partition and sort the columns of the key.
type databases func(d *database, u *url.URL, query url.Values, create bool) error

func (connect databases) openRegisters(_ context.Context, a *stores.Access, u *url.URL, _ bool) (stores.Opened, error) {
	d, err := connect.at(u, false, maxMessage)
	if err != nil {
		return stores.Opened{}, err
	}
	if d.inTheClear != "" {
		a.Log().Warn("the connection to the database may be unencrypted, and other machines of the network could read the password: add sslmode=verify-full or sslmode=require to the store's URL", "host", d.inTheClear)
	}
	d.opts.Logger = a.Log()
	st, err := sqlstore.New(d.db, d.dialect, d.opts)
	if err != nil {
		d.db.Close()
		return stores.Opened{}, err
	}
	return stores.Opened{Store: st, Closer: d.db, URL: d.opts.Name}, nil
}

// init makes the tables, and the file of an SQLite database.
func (connect databases) init(ctx context.Context, a *stores.Access, raw string) (map[string]any, error) {
	u, err := a.ParseStore(raw)
	if err != nil {
		return nil, err
	}
	d, err := connect.at(u, true, maxMessage)
	if err != nil {
		return nil, err
	}
	defer d.db.Close()
	if err := sqlstore.CreateTables(ctx, d.db, d.dialect, d.opts); err != nil {
		return nil, err
	}
	return a.Usable(ctx, raw, true)
}

// at returns what a URL names. It connects to nothing. With create, the first use
// makes a database file that does not exist. largest bounds what is read at a time.
func (connect databases) at(u *url.URL, create bool, largest int) (*database, error) {
	d := &database{opts: &sqlstore.Options{}, largest: largest}
	query := u.Query()
	for name, values := range query {
		if len(values) > 1 {
			return nil, exit.Usagef("the store's URL has the parameter %s twice", storeurl.Parameter(name, values))
		}
	}
	d.opts.Table, d.opts.Prefix = query.Get("table"), query.Get("prefix")
	query.Del("table")
	query.Del("prefix")
	if err := connect(d, u, query, create); err != nil {
		return nil, err
	}
	d.db.SetMaxOpenConns(sqlConnections)
	return d, nil
}

// named reads SCHEME://HOST/DATABASE/PREFIX, the URL of a database on a server. It returns the name of the database.
// The password is never in the URL, in whose path a @ is %40.
func (d *database) named(u *url.URL, query url.Values, parameters []string) (string, error) {
	name, prefix, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	switch {
	case query.Has("password") || strings.ContainsAny(name, ":@") || strings.Contains(u.EscapedPath(), "@"),
		slices.ContainsFunc(query["user"], func(user string) bool { return strings.Contains(user, ":") }):
		return "", credentials(u)
	case name == "" || u.Opaque != "":
		return "", exit.Usagef("store %s:...: the URL does not name a database: write %[1]s://HOST/DATABASE/PREFIX", u.Scheme)
	}
	for parameter, values := range query {
		if !slices.Contains(parameters, parameter) {
			return "", exit.Usagef("the store's URL has an unknown parameter %s (known: table, prefix, %s)", storeurl.Parameter(parameter, values), strings.Join(parameters, ", "))
		}
	}
	d.opts.Prefix = cmp.Or(prefix, d.opts.Prefix)
	d.opts.Name = strings.TrimSuffix(fmt.Sprintf("%s://%s/%s/%s", u.Scheme, u.Host, name, d.opts.Prefix), "/")
	return name, nil
}

// credentials is the error for a URL that has a password.
func credentials(u *url.URL) error {
	return exit.With(exit.Unsafe, fmt.Errorf("store %s:...: %w", u.Scheme, storeurl.ErrCredentials))
}

// ofItems returns the database and the table of items that a URL names.
func (connect databases) ofItems(u *url.URL, create bool) (*database, *sqltable.Options, error) {
	query, bare := u.Query(), *u
	o := &sqltable.Options{}
	for name, a := range map[string]*largeitem.KeyAttribute{"partition": &o.Partition, "sort": &o.Sort} {
		if query.Has(name) && query.Get(name) == "" || len(query[name]) > 1 {
			return nil, nil, exit.Usagef("the parameter %s of the table's URL must be the name of one column", name)
		}
		a.Name = query.Get(name)
		query.Del(name)
	}
	bare.RawQuery = query.Encode()
	d, err := connect.at(&bare, create, sqltable.MaxRow)
	if err != nil {
		return nil, nil, err
	}
	if d.opts.Prefix != "" {
		d.db.Close()
		return nil, nil, exit.Usagef("the URL of a table of items cannot have a prefix: name the table by the parameter table")
	}
	o.Table = d.opts.Table
	o.Hide = d.opts.Hide
	o.Name = fmt.Sprintf("%s, table %s", d.opts.Name, cmp.Or(o.Table, sqltable.DefaultTable))
	return d, o, nil
}

func (connect databases) Open(_ context.Context, _ *stores.Access, u *url.URL) (stores.Table, error) {
	d, opts, err := connect.ofItems(u, false)
	if none := (noDatabase{}); errors.As(err, &none) {
		err = exit.With(exit.Unsafe, noDatabase{none.path, "item init"})
	}
	if err != nil {
		return stores.Table{}, err
	}
	t, err := sqltable.New(d.db, d.dialect, opts)
	if err != nil {
		d.db.Close()
	}
	return stores.Table{Table: t, Closer: d.db}, err
}

func (connect databases) Create(ctx context.Context, _ *stores.Access, u *url.URL, partition, sort largeitem.KeyAttribute) error {
	d, opts, err := connect.ofItems(u, true)
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
			return exit.Usagef("the table's URL has %s=%s: add --%[1]s %[2]s; if the values are numbers, add --%[1]s %[2]s:number", column.parameter, printable.Text(column.inURL.Name))
		}
		if column.inURL.Name != column.given.Name && (column.inURL.Name != "" || column.given.Name != column.standard) {
			return exit.Usagef("--%s is %q, but the table's URL does not contain this, and other commands need it: add the parameter %[1]s=%s to the URL", column.parameter, column.given.Name, url.QueryEscape(column.given.Name))
		}
	}
	opts.Partition, opts.Sort = partition, sort
	return sqltable.CreateTable(ctx, d.db, d.dialect, opts)
}

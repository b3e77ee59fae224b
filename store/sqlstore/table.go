package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/holdfast-go/holdfast/internal/abandon"
	"github.com/holdfast-go/holdfast/internal/drivers/sqldialect"
	"github.com/holdfast-go/holdfast/store"
)

// defaultTable is the table of the registers; see [Options].
const defaultTable = "holdfast"

// Options are the options of [New] and [CreateTables]. The zero value of each field
// means its default.
type Options struct {
	// Table is the name of the table: lower-case letters, digits and underscores, at most
	// 40. Default: holdfast.
	Table string

	// Every key in the table begins with Prefix and a slash. Prefix is empty, or a valid key.
	Prefix string

	// Name names the store for people: the URL of the database without secrets. Name
	// also identifies the store for programs that order several stores, or remember
	// what they have read. Default: none.
	Name string

	// Listen receives the notifications of a channel; [Listener] returns such a function. When
	// Listen has begun to listen, it calls the function passed as ready. It passes each payload to
	// the function notify. Listen returns when its context ends or its connection is lost. The
	// store runs it in one goroutine while at least one Watch waits. If Listen is nil, the store
	// reports no changes, and waiters poll. [SQLite] and [MySQL] have no notifications, so with these
	// the store does not call Listen.
	Listen func(ctx context.Context, channel string, ready func(), notify func(payload string)) error

	// Hide removes secrets from a message of the database before the message becomes
	// part of an error: a server can repeat a password that it received. Nil hides
	// nothing.
	Hide func(text string) string

	// Logger receives the outcomes of writes whose reply was lost. Nil means no log.
	Logger *slog.Logger
}

// CreateTables creates the tables that [New] and [Fence] need, if they do not exist.
func CreateTables(ctx context.Context, db *sql.DB, dialect Dialect, opts *Options) error {
	t, err := newTable(db, dialect, opts)
	if err != nil {
		return err
	}
	for _, statement := range t.texts.create {
		create := func(ctx context.Context) error {
			_, err := db.ExecContext(ctx, statement)
			return err
		}
		err := sqldialect.Bounded(ctx, create)
		if err != nil { // PostgreSQL refuses one of two programs that create a table at the same time
			err = sqldialect.Bounded(ctx, create)
		}
		if err != nil {
			return fmt.Errorf("sqlstore: create the tables: %w", t.explain(err))
		}
	}
	return nil
}

// table carries out single statements for the engine.
type table struct {
	db      *sql.DB
	dialect Dialect
	rules   sqldialect.Rules
	texts   texts
	prefix  string // ends with a slash unless it is empty
	o       Options

	abandoned *abandon.Calls // of a database whose statements wait for a disk; else nil
}

// validTable reports whether name is a name of at most 40 lower-case letters, digits and
// underscores that does not begin with a digit.
func validTable(name string) bool {
	return name != "" && len(name) <= 40 && (name[0] < '0' || name[0] > '9') &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

func newTable(db *sql.DB, dialect Dialect, opts *Options) (*table, error) {
	o := *cmp.Or(opts, &Options{})
	o.Table = cmp.Or(o.Table, defaultTable)
	below, err := store.Below(strings.TrimSuffix(o.Prefix, "/"))
	t := &table{db: db, dialect: dialect, prefix: below, o: o}
	switch {
	case db == nil:
		return nil, errors.New("sqlstore: the database db is nil")
	case !validTable(t.o.Table):
		return nil, fmt.Errorf("sqlstore: Options.Table is %.50q; a name has at most 40 lower-case letters, digits and underscores, and does not begin with a digit", t.o.Table)
	case err != nil:
		return nil, fmt.Errorf("sqlstore: Options.Prefix: %w", err)
	}
	var known bool
	if t.rules, known = sqldialect.Of(string(dialect)); !known {
		return nil, fmt.Errorf("sqlstore: unknown dialect %q; use PostgreSQL, SQLite or MySQL", string(dialect))
	}
	if dialect == SQLite {
		t.abandoned = &abandon.Calls{}
	}
	t.rules.Hide = t.o.Hide
	t.texts = dialect.texts(t.o.Table)
	return t, nil
}

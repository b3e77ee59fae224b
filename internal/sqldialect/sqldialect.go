// Package sqldialect has what is known of the databases that package database/sql reaches:
// which session loses commits, what an error proves, and how long a statement may take. It
// serves store/sqlstore and items/sqltable.
package sqldialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/abandon"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// ErrBusy: the database refused a statement for now, and wrote nothing.
var ErrBusy = engine.ErrBusy

const (
	// maxMessage is how much of a database's error is repeated, in bytes.
	maxMessage = 600

	// statementTime is how long one statement may take, with the connection that is
	// made for it. It is longer than a writer of SQLite should wait for another.
	statementTime = 10 * time.Second
)

// Rules are what is known of a database.
type Rules struct {
	// Check reports why a commit of this session to these tables would not be durable, or
	// would not be a commit of the primary server. A table need not exist.
	Check func(ctx context.Context, db *sql.DB, tables ...string) error

	// Classify returns what an error of a statement proves. [ErrBusy]: nothing was
	// written, and a retry may succeed soon. A sentinel of package store: nothing was
	// written, and a retry does not help. Nil: the error proves nothing.
	Classify func(err error) error

	// Hide takes secrets out of a text of the database. Nil: there are none.
	Hide func(text string) string
}

// Of returns the rules of a dialect by its name.
func Of(name string) (Rules, bool) {
	switch name {
	case "postgresql":
		return Rules{Check: checkPostgres, Classify: classifyPostgres}, true
	case "sqlite":
		return Rules{Check: checkSQLite, Classify: classifySQLite}, true
	}
	return Rules{}, false
}

// Bounded calls f with a context that ends when one statement has taken too long.
func Bounded(ctx context.Context, f func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	err := f(within)
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		return fmt.Errorf("%w: no answer within %v: %w", store.ErrUnavailable, statementTime, short{text: err.Error()})
	}
	return err
}

// Read is Bounded for a statement whose result is read with it. If calls is not nil, a statement
// that ignores the end of its context is abandoned: SQLite waits for a disk that hangs.
func Read[T any](ctx context.Context, calls *abandon.Calls, f func(context.Context) (T, error)) (result T, err error) {
	err = Bounded(ctx, func(ctx context.Context) (err error) {
		if calls == nil {
			result, err = f(ctx)
		} else {
			result, err = abandon.Do(ctx, calls, "statement", func() (T, error) { return f(ctx) })
		}
		return err
	})
	return result, err
}

// Explain makes an error of a statement match what it proves; see Classify. The error of a
// database that lacks something ends with hint.
func (r Rules) Explain(err error, hint string) error {
	if err != nil && r.Hide != nil {
		text := err.Error()
		if hidden := r.Hide(text[:min(len(text), 4*maxMessage)]); hidden != text {
			err = short{err, hidden}
		}
	}
	for _, known := range []error{nil, context.Canceled, context.DeadlineExceeded, store.ErrUnavailable, store.ErrUnsafe, store.ErrMisconfigured} {
		if errors.Is(err, known) {
			return err
		}
	}
	kind := r.Classify(err)
	err = short{err, err.Error()}
	switch {
	case kind == nil:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case errors.Is(kind, store.ErrMisconfigured):
		return fmt.Errorf("%w: %w (%s)", kind, err, hint)
	default:
		return fmt.Errorf("%w: %w", kind, err)
	}
}

// short is an error of a database, whose text can be of any length.
type short struct {
	error
	text string
}

func (e short) Error() string {
	if len(e.text) > maxMessage {
		return strings.ToValidUTF8(e.text[:maxMessage], "") + " ..."
	}
	return e.text
}

func (e short) Unwrap() error { return e.error }

// Package sqldialect has the rules of the databases behind package database/sql. They say which session
// can lose a commit, what an error proves, and how long a statement may take. Packages store/sqlstore and
// items/sqltable use it.
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

// ErrBusy says that the database refused a statement for now, and wrote nothing.
var ErrBusy = engine.ErrBusy

const (
	// maxMessage is how much of a database's error is repeated, in bytes.
	maxMessage = 600

	// statementTime is how long one statement may take, with the connection that is
	// made for it. It is longer than a writer of SQLite should wait for another.
	statementTime = 10 * time.Second
)

// Rules are the rules of one kind of database.
type Rules struct {
	// Check returns an error if a commit of this session to these tables would not be durable, or if the
	// server is not the primary server. The tables need not exist.
	Check func(ctx context.Context, db *sql.DB, tables ...string) error

	// Classify returns what an error of a statement proves. If the result is [ErrBusy], nothing was
	// written, and a retry may succeed soon. If it is a sentinel of package store, nothing was written,
	// and a retry does not help. Nil means that the error proves nothing.
	Classify func(err error) error

	// Hide removes secrets from a text of the database. Nil means that there are no secrets.
	Hide func(text string) string
}

// Of returns the rules of a dialect by its name.
func Of(name string) (Rules, bool) {
	switch name {
	case "postgresql":
		return Rules{Check: checkPostgres, Classify: classifyPostgres}, true
	case "mysql":
		return Rules{Check: checkMySQL, Classify: classifyMySQL}, true
	case "sqlite":
		return Rules{Check: checkSQLite, Classify: classifySQLite}, true
	}
	return Rules{}, false
}

// Bounded calls f with a context that also ends after the longest time of one statement.
func Bounded(ctx context.Context, f func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	err := f(within)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case within.Err() != nil:
		return fmt.Errorf("%w: no answer within %v: %w", store.ErrUnavailable, statementTime, short{text: err.Error()})
	case errors.Is(err, context.DeadlineExceeded): // a time limit of the driver
		return fmt.Errorf("%w: %w", store.ErrUnavailable, short{text: err.Error()})
	}
	return err
}

// Read is [Bounded] for a statement with a result. If calls is not nil, Read abandons a statement that
// ignores the end of its context. For example, SQLite waits for a disk that hangs.
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

// Explain makes an error of a statement match the sentinel that Classify returns. If the error says that
// something is missing in the database, its text ends with hint.
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

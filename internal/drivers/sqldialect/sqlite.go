package sqldialect

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

func checkSQLite(ctx context.Context, db *sql.DB, _ ...string) error {
	var level int
	if err := db.QueryRowContext(ctx, `PRAGMA synchronous`).Scan(&level); err != nil {
		return err
	}
	if level < 2 { // FULL; EXTRA is 3
		return fmt.Errorf("%w: a power failure can lose a commit; open the database with PRAGMA synchronous = FULL", store.ErrUnsafe)
	}
	var journal, file string
	if err := db.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&journal); err != nil {
		return err
	}
	if err := db.QueryRowContext(ctx, `SELECT COALESCE(max(file), '') FROM pragma_database_list WHERE name = 'main'`).Scan(&file); err != nil {
		return err
	}
	if file != "" && (journal == "off" || journal == "memory") {
		return fmt.Errorf("%w: a crash can damage the database: its journal_mode is %s; open it with PRAGMA journal_mode = WAL", store.ErrUnsafe, journal)
	}
	return nil
}

// classifySQLite uses SQLite's own messages, which all drivers pass on: a statement that
// could not get its lock, or could not begin, was rolled back.
func classifySQLite(err error) error {
	for _, known := range []struct {
		words string
		is    error
	}{
		{"database is locked", ErrBusy},
		{"database table is locked", ErrBusy},
		{"no such table", store.ErrMisconfigured},
		{"no such function", store.ErrMisconfigured}, // in an old version
		{"no such column", store.ErrMisconfigured},
		{"constraint failed", store.ErrInvalid},
		{"datatype mismatch", store.ErrInvalid},
		{"string or blob too big", store.ErrInvalid},
		{"cannot store", store.ErrInvalid}, // a type, in a column of a strict table
		{"file is not a database", store.ErrMisconfigured},
		{"unable to open database file", store.ErrMisconfigured},
		{"attempt to write a readonly database", store.ErrDenied},
	} {
		if strings.Contains(err.Error(), known.words) {
			return known.is
		}
	}
	return nil
}

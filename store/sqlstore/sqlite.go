package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

func sqliteTexts(table string) texts {
	return texts{
		create: []string{`CREATE TABLE IF NOT EXISTS ` + table + ` (key TEXT PRIMARY KEY NOT NULL,
			version TEXT NOT NULL, deleted INTEGER NOT NULL, record TEXT NOT NULL) WITHOUT ROWID`},
		read:   selectRecord + table + ` WHERE key = ?1`,
		insert: `INSERT INTO ` + table + ` (key, version, deleted, record) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key) DO NOTHING RETURNING 1`,
		update: `UPDATE ` + table + ` SET version = ?2, deleted = ?3, record = ?4 WHERE key = ?1 AND version = ?5 RETURNING 1`,
		list:   `SELECT key FROM ` + table + ` WHERE length(key) <= 2000 AND key > ?1 AND key < ?2 AND NOT deleted ORDER BY key LIMIT ?3`,
	}
}

func checkSQLite(ctx context.Context, db *sql.DB) error {
	var level int
	if err := db.QueryRowContext(ctx, `PRAGMA synchronous`).Scan(&level); err != nil {
		return err
	}
	if level < 2 { // FULL; EXTRA is 3
		return fmt.Errorf("%w: a commit can be lost with the power: open the database with PRAGMA synchronous = FULL", store.ErrUnsafe)
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
		{"database is locked", engine.ErrBusy},
		{"database table is locked", engine.ErrBusy},
		{"no such table", store.ErrMisconfigured},
		{"no such column", store.ErrMisconfigured},
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

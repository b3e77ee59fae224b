package sqldialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

func checkPostgres(ctx context.Context, db *sql.DB, tables ...string) error {
	var commit, fsync string
	var standby bool
	row := db.QueryRowContext(ctx, `SELECT current_setting('synchronous_commit'), current_setting('fsync'), pg_is_in_recovery()`)
	switch err := row.Scan(&commit, &fsync, &standby); {
	case err != nil:
		return err
	case standby:
		return fmt.Errorf("%w: this server is a standby, which can be behind its primary; add target_session_attrs=read-write to the connection", store.ErrMisconfigured)
	case commit == "off" || fsync == "off":
		return fmt.Errorf("%w: a power failure can lose a commit: synchronous_commit is %s and fsync is %s; set each to on", store.ErrUnsafe, commit, fsync)
	}
	for _, table := range tables {
		var lost string
		switch err := db.QueryRowContext(ctx, lostTables, table).Scan(&lost); {
		case err != nil:
			return err
		case lost != "":
			return fmt.Errorf("%w: a crash can lose a commit: %s; use an ordinary table (ALTER TABLE ... SET LOGGED)", store.ErrUnsafe, lost)
		}
	}
	return nil
}

// lostTables names a part of a table, or the table itself, that a crash or the end of the
// session empties.
const lostTables = `WITH RECURSIVE part AS (
		SELECT c.oid FROM pg_class c WHERE c.relname = $1::text AND pg_table_is_visible(c.oid)
		UNION SELECT i.inhrelid FROM pg_inherits i JOIN part p ON i.inhparent = p.oid)
	SELECT COALESCE(min(c.relname::text || CASE c.relpersistence WHEN 'u' THEN ' is UNLOGGED' ELSE ' is a temporary table' END), '')
	FROM part p JOIN pg_class c ON c.oid = p.oid WHERE c.relpersistence <> 'p'`

// classifyPostgres uses the SQLSTATE that the server sent: a statement that the server
// reports as failed was rolled back. A lost connection proves nothing.
func classifyPostgres(err error) error {
	var reported interface{ SQLState() string }
	if !errors.As(err, &reported) || len(reported.SQLState()) != 5 {
		return nil
	}
	switch code := reported.SQLState(); {
	case code == "40003": // "statement completion unknown"
		return nil
	case code[:2] == "40" || code[:2] == "53" || code[:2] == "55":
		return ErrBusy // a deadlock, too many connections, a lock that was not available
	case code[:2] == "28":
		return store.ErrCredentials
	case code == "42501":
		return store.ErrDenied
	case code[:2] == "22" || code[:2] == "23" || code[:2] == "54" || code[:2] == "P0":
		return store.ErrInvalid // a value that the type, a constraint, a limit or a trigger refuses
	case code[:2] == "42" || code[:2] == "3D" || code[:2] == "3F" || code[:2] == "25":
		return store.ErrMisconfigured // no such table, database or schema; a session that may only read
	}
	return nil
}

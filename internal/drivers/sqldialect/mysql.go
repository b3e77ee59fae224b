package sqldialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// checkMySQL reads variables, since their names are what MySQL and MariaDB have in common. A variable that
// a server does not have is empty.
func checkMySQL(ctx context.Context, db *sql.DB, tables ...string) error {
	v, err := pairs(ctx, db, `SHOW VARIABLES WHERE Variable_name IN ('autocommit', 'sql_mode', 'read_only', 'super_read_only', 'innodb_read_only',
		'transaction_read_only', 'tx_read_only', 'transaction_isolation', 'tx_isolation', 'innodb_flush_log_at_trx_commit', 'innodb_flush_method', 'debug_no_sync', 'log_bin', 'sync_binlog', 'wsrep_on', 'wsrep_sync_wait')`)
	if err != nil {
		return err
	}
	for _, name := range []string{"read_only", "super_read_only", "innodb_read_only", "transaction_read_only", "tx_read_only"} {
		if on(v[name]) {
			return fmt.Errorf("%w: this server or session only reads: %s is %s; use the address of the primary server", store.ErrMisconfigured, name, v[name])
		}
	}
	flush, wait := v["innodb_flush_log_at_trx_commit"], v["wsrep_sync_wait"]
	bits, _ := strconv.Atoi(wait)
	switch {
	case flush == "0":
		return fmt.Errorf("%w: a crash of the server can lose the commits of the last second: innodb_flush_log_at_trx_commit is 0; set it to 1", store.ErrUnsafe)
	case flush != "1" && flush != "3":
		return fmt.Errorf("%w: a power failure can lose the commits of the last second: innodb_flush_log_at_trx_commit is %s; set it to 1", store.ErrUnsafe, flush)
	case on(v["log_bin"]) && v["sync_binlog"] != "1":
		return fmt.Errorf("%w: a power failure can lose commits: the server writes a binary log, and sync_binlog is %s; set it to 1", store.ErrUnsafe, v["sync_binlog"])
	case v["innodb_flush_method"] == "nosync" || on(v["debug_no_sync"]):
		return fmt.Errorf("%w: a power failure can lose commits: the server runs with innodb_flush_method=nosync or debug_no_sync", store.ErrUnsafe)
	case on(v["wsrep_on"]) && bits&1 == 0:
		return fmt.Errorf("%w: a server of a Galera cluster can be behind the others: wsrep_sync_wait is %s; set it to 1", store.ErrUnsafe, wait)
	case !on(v["autocommit"]):
		return fmt.Errorf("%w: the session does not commit statements by itself: set autocommit to 1", store.ErrMisconfigured)
	case slices.Contains([]string{v["transaction_isolation"], v["tx_isolation"]}, "READ-UNCOMMITTED"):
		return fmt.Errorf("%w: the session reads what is not committed: its isolation is READ-UNCOMMITTED; use READ-COMMITTED or REPEATABLE-READ", store.ErrMisconfigured)
	case !strings.Contains(v["sql_mode"], "STRICT_"):
		return fmt.Errorf("%w: the server would cut long values without an error: add STRICT_TRANS_TABLES to the sql_mode of the session", store.ErrMisconfigured)
	}
	// Without the right to see this, a writable replica remains unknown.
	replica, err := firstRow(ctx, db, `SHOW REPLICA STATUS`)
	if kind := classifyMySQL(err); err != nil && !errors.Is(kind, store.ErrDenied) && !errors.Is(kind, store.ErrMisconfigured) {
		return err
	}
	if on(replica["Slave_SQL_Running"]) || on(replica["Replica_SQL_Running"]) {
		return fmt.Errorf("%w: this server is a replica, which can be behind its primary; use the address of the primary server", store.ErrMisconfigured)
	}
	for _, table := range tables {
		// Unlike information_schema, this statement also finds a temporary table.
		shown, err := firstRow(ctx, db, "SHOW CREATE TABLE `"+strings.ReplaceAll(table, "`", "``")+"`")
		switch definition := shown["Create Table"]; {
		case number(err) == noTable || errors.Is(classifyMySQL(err), store.ErrDenied):
			continue // the caller does not use the table, or learns of the missing right when it does
		case err != nil:
			return err
		case !strings.HasPrefix(definition, "CREATE TABLE"):
			return fmt.Errorf("%w: %.80s is a view or a temporary table; use an ordinary table", store.ErrUnsafe, table)
		}
		var engine string
		err = db.QueryRowContext(ctx, `SELECT coalesce(min(engine), '') FROM information_schema.tables WHERE table_schema = database() AND table_name = ? AND NOT engine <=> 'InnoDB'`, table).Scan(&engine)
		if err != nil {
			return err
		}
		if engine != "" {
			return fmt.Errorf("%w: a crash can lose a commit: the table %.80s has the storage engine %.40s; use InnoDB (ALTER TABLE ... ENGINE = InnoDB)", store.ErrUnsafe, table, engine)
		}
	}
	return nil
}

// on reports whether a variable or status is set. Servers write OFF, No or 0 if it is not.
func on(value string) bool {
	return !slices.Contains([]string{"", "0", "OFF", "NO"}, strings.ToUpper(value))
}

// pairs runs a statement whose rows are names and values.
func pairs(ctx context.Context, db *sql.DB, text string) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := make(map[string]string)
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		all[name] = value
	}
	return all, rows.Err()
}

// firstRow returns the columns of the first row of a result, and nil if there is none.
func firstRow(ctx context.Context, db *sql.DB, text string) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil || !rows.Next() {
		return nil, errors.Join(err, rows.Err())
	}
	values, to := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range values {
		to[i] = &values[i]
	}
	if err := rows.Scan(to...); err != nil {
		return nil, err
	}
	row := make(map[string]string, len(names))
	for i, name := range names {
		row[name] = values[i].String
	}
	return row, rows.Err()
}

const noTable = 1146

// number returns the number in an error of the server, and 0 in another error. It reads the text
// "Error 1213 (40001): ..." of go-sql-driver, whose error type has no method for the number.
func number(err error) int {
	for ; err != nil; err = errors.Unwrap(err) {
		if text, found := strings.CutPrefix(err.Error(), "Error "); found {
			n, _ := strconv.Atoi(text[:max(0, strings.IndexAny(text, " :"))])
			return n
		}
	}
	return 0
}

// classifyMySQL uses the number that the server sent: a statement that the server refuses was rolled back.
// A statement that was interrupted (1317, 1969, 3024, 1053) proves nothing: the interruption can come
// while the server already commits.
func classifyMySQL(err error) error {
	switch number(err) {
	case 1205, 1213, 1020, 1206, 1040, 1203, 1226, 1114:
		return ErrBusy // a lock that was not available, a deadlock, too many connections, a full disk
	case 1062, 1586:
		return store.ErrConflict
	case 1045, 1698, 1820, 1862, 3118, 4151:
		return store.ErrCredentials
	case 1044, 1130, 1142, 1143, 1227:
		return store.ErrDenied
	case 1153:
		return store.ErrTooLarge // larger than max_allowed_packet
	case 1048, 1118, 1264, 1265, 1292, 1366, 1406, 1451, 1452, 1644, 1690, 3140, 3819, 4025:
		return store.ErrInvalid // a value that the type, a constraint or a trigger refuses
	case noTable, 1046, 1049, 1054, 1064, 1136, 1290, 1305, 1364, 1792, 1836, 3159:
		return store.ErrMisconfigured // no such table, database or column; a server that may only read
	}
	return nil
}

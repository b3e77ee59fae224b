package sqlstore

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/store/engine"
)

// mysqlTexts are the statements of MySQL and MariaDB. They use nothing that only one of the two has:
// neither RETURNING nor names for inserted values. All columns have types without a character set. A
// comparison of texts would ignore spaces at the end, also with the collation utf8mb4_bin. Two
// inserts of one key end with error 1062, a conflict. INSERT IGNORE would cut values without an error.
func mysqlTexts(table string) texts {
	const list = " WHERE length(`key`) <= 2100 AND `key` > ? AND `key` < ?"
	const options = " ENGINE = InnoDB ROW_FORMAT = DYNAMIC"
	return texts{
		create: []string{
			"CREATE TABLE IF NOT EXISTS " + table + " (`key` varbinary(2100) NOT NULL PRIMARY KEY, " +
				"version varbinary(100) NOT NULL, deleted boolean NOT NULL, record mediumblob NOT NULL)" + options,
			"CREATE TABLE IF NOT EXISTS " + FenceTable + " (name varbinary(1600) NOT NULL PRIMARY KEY, " +
				"token bigint NOT NULL, checks bigint NOT NULL)" + options,
		},
		read:   fmt.Sprintf("SELECT substr(version, 1, 100), substr(record, 1, %d) FROM %s WHERE `key` = ?", engine.MaxText+1, table),
		insert: "INSERT INTO " + table + " (`key`, version, deleted, record) VALUES (?, ?, ?, ?)",
		update: "UPDATE " + table + " SET version = ?, deleted = ?, record = ? WHERE `key` = ? AND version = ?",
		list:   "SELECT `key` FROM " + table + list + " AND NOT deleted ORDER BY `key` LIMIT ?",
		tags:   "SELECT `key`, substr(version, 1, 100) FROM " + table + list + " AND NOT deleted ORDER BY `key` LIMIT ?",
		all:    "SELECT `key` FROM " + table + list + " ORDER BY `key` LIMIT ?",
		remove: "DELETE FROM " + table + " WHERE `key` = ?",
		// InnoDB shows a transaction to others before its log is on the disk. The log has one order, so a later
		// commit makes this transaction durable. No lock has this name, see plain.
		sync: "INSERT INTO " + FenceTable + " (name, token, checks) VALUES ('!sync', 0, 0) ON DUPLICATE KEY UPDATE checks = checks + 1",
	}
}

// fenceMySQL reports whether no higher token was announced. The first statement waits for other
// transactions with this lock. The second statement always changes the row that it finds, since it
// counts the checks. So its result does not depend on what the driver counts.
func fenceMySQL(ctx context.Context, tx Execer, name string, token uint64) (bool, error) {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (name, token, checks) VALUES ('%s', 0, 0) ON DUPLICATE KEY UPDATE checks = checks + 1", FenceTable, name))
	if err != nil {
		return false, err
	}
	return changed(tx.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET token = %d, checks = checks + 1 WHERE name = '%s' AND token <= %[2]d", FenceTable, token, name)))
}

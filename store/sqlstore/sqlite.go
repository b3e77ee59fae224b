package sqlstore

import (
	"fmt"

	"github.com/holdfast-go/holdfast/store/engine"
)

// sqliteTexts are the statements of SQLite. A search in a table WITHOUT ROWID would load
// every row that it passes. octet_length loads no content, but substr loads the whole text.
func sqliteTexts(table string) texts {
	const list = ` WHERE length(key) <= 2100 AND key > ?1 AND key < ?2`
	return texts{
		create: []string{`CREATE TABLE IF NOT EXISTS ` + table + ` (key TEXT PRIMARY KEY NOT NULL,
			version TEXT NOT NULL, deleted INTEGER NOT NULL, record TEXT NOT NULL)`, createFence},
		read: fmt.Sprintf(`SELECT CASE WHEN octet_length(version) <= 100 THEN version ELSE '' END,
			CASE WHEN octet_length(record) <= %[1]d THEN record ELSE hex(zeroblob(%[1]d)) END FROM %[2]s WHERE key = ?1`, engine.MaxText, table),
		insert: `INSERT INTO ` + table + ` (key, version, deleted, record) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key) DO NOTHING RETURNING 1`,
		update: `UPDATE ` + table + ` SET version = ?2, deleted = ?3, record = ?4 WHERE key = ?1 AND version = ?5 RETURNING 1`,
		list:   `SELECT key FROM ` + table + list + ` AND NOT deleted ORDER BY key LIMIT ?3`,
		tags:   `SELECT key, CASE WHEN octet_length(version) <= 100 THEN version ELSE '' END FROM ` + table + list + ` AND NOT deleted ORDER BY key LIMIT ?3`,
		all:    `SELECT key FROM ` + table + list + ` ORDER BY key LIMIT ?3`,
		remove: `DELETE FROM ` + table + ` WHERE key = ?1`,
	}
}

package sqlstore

import (
	"fmt"

	"github.com/holdfast-go/holdfast/store/engine"
)

// postgresTexts are the statements of PostgreSQL. A write notifies waiters in the same
// statement, so that they learn of it only after it has committed.
func postgresTexts(table string) texts {
	const written = `WITH written AS (%s RETURNING 1) SELECT pg_notify('%s', $1) FROM written`
	insert := `INSERT INTO ` + table + ` (key, version, deleted, record) VALUES ($1, $2, $3, $4) ON CONFLICT (key) DO NOTHING`
	update := `UPDATE ` + table + ` SET version = $2, deleted = $3, record = $4 WHERE key = $1 AND version = $5`
	const list = ` WHERE length(key) <= 2100 AND key > $1 AND key < $2`
	return texts{
		create: []string{`CREATE TABLE IF NOT EXISTS ` + table + ` (key text COLLATE "C" PRIMARY KEY,
			version text NOT NULL, deleted boolean NOT NULL, record text NOT NULL)`, createFence},
		read:   fmt.Sprintf(`SELECT substr(version, 1, 100), substr(record, 1, %d) FROM %s WHERE key = $1`, engine.MaxText+1, table),
		insert: fmt.Sprintf(written, insert, table),
		update: fmt.Sprintf(written, update, table),
		list:   `SELECT key FROM ` + table + list + ` AND NOT deleted ORDER BY key LIMIT $3`,
		tags:   `SELECT key, substr(version, 1, 100) FROM ` + table + list + ` AND NOT deleted ORDER BY key LIMIT $3`,
		all:    `SELECT key FROM ` + table + list + ` ORDER BY key LIMIT $3`,
		remove: `DELETE FROM ` + table + ` WHERE key = $1`,
	}
}

package sqlstore

func sqliteTexts(table string) texts {
	const list = ` WHERE length(key) <= 2000 AND key > ?1 AND key < ?2`
	return texts{
		create: []string{`CREATE TABLE IF NOT EXISTS ` + table + ` (key TEXT PRIMARY KEY NOT NULL,
			version TEXT NOT NULL, deleted INTEGER NOT NULL, record TEXT NOT NULL) WITHOUT ROWID`},
		read:   selectRecord + table + ` WHERE key = ?1`,
		insert: `INSERT INTO ` + table + ` (key, version, deleted, record) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key) DO NOTHING RETURNING 1`,
		update: `UPDATE ` + table + ` SET version = ?2, deleted = ?3, record = ?4 WHERE key = ?1 AND version = ?5 RETURNING 1`,
		list:   `SELECT key FROM ` + table + list + ` AND NOT deleted ORDER BY key LIMIT ?3`,
		tags:   `SELECT key, substr(version, 1, 100) FROM ` + table + list + ` AND NOT deleted ORDER BY key LIMIT ?3`,
		all:    `SELECT key FROM ` + table + list + ` ORDER BY key LIMIT ?3`,
		remove: `DELETE FROM ` + table + ` WHERE key = ?1`,
	}
}

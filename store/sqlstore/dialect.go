package sqlstore

// Dialect names the language of a database.
type Dialect string

// The dialects.
const (
	PostgreSQL Dialect = "postgresql" // 9.5 and later
	SQLite     Dialect = "sqlite"     // 3.43 and later
	MySQL      Dialect = "mysql"      // MySQL 8.0 and later, MariaDB 10.5 and later
)

// texts are the statements of a dialect. The comments name the parameters, then the
// result.
type texts struct {
	create []string // the table of the registers, and that of [Fence]

	read   string // key: version and record
	insert string // key, version, deleted, record: a row if there was none
	update string // key, version, deleted, record, version before: a row if the version was current
	list   string // after, before, limit: keys that are not deleted, of at most 2,100 characters, sorted by bytes
	tags   string // the same: keys and versions
	all    string // list with tombstones
	remove string // key
	sync   string // makes all transactions durable that reads have shown; empty: they are durable
}

func (d Dialect) texts(table string) texts {
	switch d {
	case SQLite:
		return sqliteTexts(table)
	case MySQL:
		return mysqlTexts(table)
	}
	return postgresTexts(table)
}

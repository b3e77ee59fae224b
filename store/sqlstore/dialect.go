package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/holdfast-go/holdfast/store/engine"
)

// Dialect names the language of a database.
type Dialect string

// The dialects.
const (
	PostgreSQL Dialect = "postgresql" // 9.5 and later
	SQLite     Dialect = "sqlite"     // 3.35 and later
)

// texts are the statements of a dialect. The comments name the parameters, then the
// result.
type texts struct {
	create []string

	read   string // key: version and record
	insert string // key, version, deleted, record: a row if there was none
	update string // key, version, deleted, record, version before: a row if that stood there
	list   string // after, before, limit: keys that are not deleted, nor absurdly long, sorted by bytes
}

// selectRecord begins the statement read. What another program has put there is bounded
// before it is read: engine.MaxText and one character more.
var selectRecord = fmt.Sprintf(`SELECT substr(version, 1, 100), substr(record, 1, %d) FROM `, engine.MaxText+1)

// rules are what differs between dialects.
type rules struct {
	texts func(table string) texts

	// check reports why a commit of this session would not be durable, or would not be a
	// commit of the primary server.
	check func(ctx context.Context, db *sql.DB) error

	// classify returns what an error of a statement proves. [engine.ErrBusy]: nothing was
	// written, and a retry may succeed soon. A sentinel of package store: nothing was
	// written, and a retry does not help. Nil: the error proves nothing.
	classify func(err error) error
}

func (d Dialect) rules() (rules, bool) {
	switch d {
	case PostgreSQL:
		return rules{postgresTexts, checkPostgres, classifyPostgres}, true
	case SQLite:
		return rules{sqliteTexts, checkSQLite, classifySQLite}, true
	}
	return rules{}, false
}

func (d Dialect) texts(table string) (texts, error) {
	r, ok := d.rules()
	if !ok {
		return texts{}, fmt.Errorf("sqlstore: there is no dialect %q", string(d))
	}
	return r.texts(table), nil
}

func (d Dialect) check(ctx context.Context, db *sql.DB, explain func(error) error) error {
	r, _ := d.rules()
	return explain(r.check(ctx, db))
}

func (d Dialect) classify(err error) error {
	r, _ := d.rules()
	return r.classify(err)
}

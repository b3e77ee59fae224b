// Package sqltable stores items as rows of a table in PostgreSQL (12 and later), SQLite (3.43 and
// later), MySQL (8.0 and later) or MariaDB (10.5 and later). It uses [database/sql] and imports no
// driver: the caller opens the database.
//
//	db, err := sql.Open("pgx", "postgres://db.example/app") // github.com/jackc/pgx/v5/stdlib
//	...
//	err = sqltable.CreateTable(ctx, db, sqlstore.PostgreSQL, nil) // once, or use an existing table
//	...
//	table, err := sqltable.New(db, sqlstore.PostgreSQL, nil)
//	...
//	items, err := largeitem.New(table, bucket, nil) // see package largeitem
//
// # What is stored
//
// An item is a row. The columns of the key are texts or numbers. Together they are the primary
// key or another unique key of the table. Each further column is an attribute with the name of
// the column. If the column is NULL, the item does not have the attribute. The type of the column
// decides the type of the attribute:
//
//   - A [largeitem.Number] in a column of numbers. The table refuses a number that the column
//     cannot store exactly.
//   - A bool in a boolean column.
//   - Bytes in a bytea, BLOB or VARBINARY column.
//   - A text in all columns of other types. A read returns the text in the database's own form,
//     which can differ from the text that the caller has written.
//
// All attributes without a column are in one text column, as the JSON of [largeitem.MarshalTyped];
// see [Options].JSON. If there is no such column, the table refuses these attributes. It also
// refuses a value that does not suit its column: for example a null, or a text with a zero
// character.
//
// MySQL compares most texts without regard to case or to spaces at the end. So in MySQL a key column of
// texts has the type VARBINARY or a collation that compares texts exactly (utf8mb4_0900_bin, or in
// MariaDB utf8mb4_nopad_bin). CreateTable makes VARBINARY columns, and numbers with 35 digits before the
// point and 30 after it. A column of the type TINYINT(1) is a boolean column.
//
// A new row gets the default of each column that the item does not have. The table neither reads
// nor writes generated columns.
//
// # Cost
//
// A read is one SELECT by the key. A GetMany is one SELECT for each 50 keys. A write reads the row
// and checks the condition. It then replaces or deletes the row by one statement, on the condition
// that the row has not changed. If another writer has changed the row, the write begins again after
// a random pause. If the condition is that there is no item, the write is one INSERT. The table
// holds no lock of the database between statements.
//
// On MySQL, a write that makes or changes a row is a transaction of four to five statements: it locks the
// row, compares it with what was read, writes it and reads the result.
//
// # Outcomes and durability
//
// The table sends a statement that may change the row only once. If its reply is lost, the outcome
// is unknown. An acknowledged write is as durable as a commit of the database. Like package
// sqlstore, the table refuses sessions in which a power loss may undo a commit, tables that a crash
// can empty, and servers that are a standby or a replica.
//
// # Expressions
//
// The Expr of a condition has the type [SQL]. The Expr of a change has the type [Set]. If the item
// does not exist, no condition with an expression holds.
package sqltable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/abandon"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/drivers/sqldialect"
	"github.com/holdfast-go/holdfast/items/internal/rewrite"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

const (
	// DefaultTable is the default of [Options].Table.
	DefaultTable = "items"

	defaultJSON = "holdfast_attributes"

	// busyTime is how long a statement is sent again that the database refused for now.
	busyTime = 10 * time.Second

	// maxPause is the longest pause of a write that lost against another one.
	maxPause = 250 * time.Millisecond

	// maxStuck is how often in a row a statement may find another row than the one that
	// was read before and after it.
	maxStuck = 30
)

// Options are the options of [New] and [CreateTable].
type Options struct {
	// Table is the name of the table: 1 to 63 bytes. The default is "items".
	Table string

	// Partition and Sort are the columns of the key. Only CreateTable uses their field Number,
	// because [New] reads the types of the columns. The default is a partition key "pk" that is a
	// text, and no sort key.
	Partition, Sort largeitem.KeyAttribute

	// JSON is the name of the text column for all attributes that have no column. The default is
	// "holdfast_attributes". If JSON is empty and the table has no column of this name, the table
	// stores only attributes that have a column.
	JSON string

	// Columns are the names of the columns that are attributes; nil means all columns except those
	// of the key.
	Columns []string

	// Name is the name of the table for people, for example the URL of the database without
	// secrets. The default consists of the dialect and the name of the table.
	Name string

	// Hide removes secrets from a message of the database before an error repeats the message. A
	// server can repeat a password that it received. Nil means that messages are not changed.
	Hide func(text string) string
}

// SQL is an expression in the language of the database. It has a question mark for each argument. A
// question mark in quotes is not an argument. If the expression needs an operator with a question
// mark, write two question marks.
//
//	&largeitem.Condition{Expr: sqltable.SQL{Text: "stock >= ?", Args: []any{5}}}
//
// If the expression is false or NULL, the [largeitem.Condition] does not hold. The expression must
// have no side effects, and may be evaluated several times. Never put input of users into Text.
type SQL struct {
	Text string
	Args []any
}

// Set is the type of Expr in a [largeitem.Change]. It maps columns to expressions for their new
// values. In an expression, the name of a column means the value before the change. For a new item
// all columns are NULL.
//
//	largeitem.Change{Expr: sqltable.Set{"stock": {Text: "stock - ?", Args: []any{5}}}}
//
// The limit on the size of an item does not include the results of expressions.
type Set map[string]SQL

// Table is a table of a database. Any number of goroutines may use it, and it needs no Close. The
// caller closes the database.
type Table struct {
	writes
	db      *sql.DB
	run     querier // the database, or a transaction
	dialect dialect
	rules   sqldialect.Rules
	o       Options
	layout  *atomic.Pointer[layout] // to nil until it was read

	abandoned *abandon.Calls // of a database whose statements can ignore the end of their context; else nil
}

// writes has the methods Put, Update and Delete.
type writes = rewrite.Writes

// querier is a *sql.DB or a *sql.Tx.
type querier interface {
	sqlstore.Execer
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

var (
	_ largeitem.Table       = (*Table)(nil)
	_ largeitem.BatchGetter = (*Table)(nil)
	_ largeitem.ExprReader  = (*Table)(nil)
)

// New returns a table of a database. It sends no request: the first call reads the schema of the
// table.
func New(db *sql.DB, d sqlstore.Dialect, opts *Options) (*Table, error) {
	t := &Table{db: db, run: db, layout: new(atomic.Pointer[layout]), o: *cmp.Or(opts, &Options{})}
	t.writes = t.write
	t.o.Table = cmp.Or(t.o.Table, DefaultTable)
	t.o.JSON = cmp.Or(t.o.JSON, defaultJSON)
	t.o.Partition = cmp.Or(t.o.Partition, largeitem.KeyAttribute{Name: "pk"})
	t.o.Name = cmp.Or(t.o.Name, string(d)+":"+t.o.Table)
	t.o.Columns = slices.Clone(t.o.Columns)
	if db == nil {
		return nil, fmt.Errorf("sqltable: %w: the database is nil", largeitem.ErrInvalid)
	}
	switch d {
	case sqlstore.PostgreSQL:
		t.dialect = postgres{}
	case sqlstore.SQLite:
		t.dialect, t.abandoned = sqlite{}, new(abandon.Calls) // it waits for a disk that hangs
	case sqlstore.MySQL:
		t.dialect, t.abandoned = mysql{}, new(abandon.Calls) // see replaceLocked
	default:
		return nil, fmt.Errorf("sqltable: %w: the dialect %q is unknown", largeitem.ErrInvalid, string(d))
	}
	t.rules, _ = sqldialect.Of(string(d))
	t.rules.Hide = t.o.Hide
	for _, name := range append([]string{t.o.Table, t.o.JSON, t.o.Partition.Name, cmp.Or(t.o.Sort.Name, "none")}, t.o.Columns...) {
		if name == "" || len(name) > 63 || strings.ContainsRune(name, 0) {
			return nil, fmt.Errorf("sqltable: %w: %.80q is not a name of a table or column; such a name has 1 to 63 bytes", largeitem.ErrInvalid, name)
		}
	}
	schema := largeitem.Schema{Name: t.o.Name, Partition: t.o.Partition, Sort: t.o.Sort}
	if err := schema.Check(); err != nil {
		return nil, fmt.Errorf("sqltable: %w", err)
	}
	if t.o.JSON == t.o.Partition.Name || t.o.JSON == t.o.Sort.Name {
		return nil, fmt.Errorf("sqltable: %w: Options.JSON is %q, which is a column of the key; name another column", largeitem.ErrInvalid, t.o.JSON)
	}
	return t, nil
}

// InTx returns the table for use in a transaction of the caller. Its writes take effect when that
// transaction commits. For example, use InTx for the write after [largeitem.Store.Prepare]. The
// result of a write is valid only if the Commit of the transaction succeeds. After an error, roll
// the transaction back. On SQLite, begin the transaction with BEGIN IMMEDIATE.
//
// If the table has not read its schema yet, the first call reads the schema outside of the
// transaction, by another connection.
//
// On MySQL, a write locks the row that it reads, and sees its newest state. A Get sees the state at the
// first read of the transaction.
func (t *Table) InTx(tx *sql.Tx) *Table {
	within := *t
	within.run, within.writes = tx, within.write
	return &within
}

// Schema implements [largeitem.Table]. The ID has two parts: a random text that [CreateTable] has
// written into a comment of the table, and the place of the table. If another program created the
// table, the ID is only the place. In PostgreSQL the place is the number of the table in its
// database and server. In MySQL it is the name of the table, its database and the server_uuid; MariaDB
// has no server_uuid, and Options.Name takes its place. In SQLite it is the file, identified by its inode and creation time, and the
// name of the table. So the place does not change if the file is renamed, or if a program uses
// another path to the file.
//
// So a copy of a table has another ID. A table that was restored or moved to another file, server
// or database also has another ID. With [largeitem.Options].AdoptPrefix, a Store for such a table
// claims the objects. A backup that is restored into the same file or table has the same ID. A
// clone of a whole disk or cluster has the same ID as the original. Do not give the clone access to
// the bucket of the original.
func (t *Table) Schema(ctx context.Context) (largeitem.Schema, error) {
	l, err := t.open(ctx)
	if err != nil {
		return largeitem.Schema{}, err
	}
	return l.schema, nil
}

// ExprAttributes implements [largeitem.ExprReader]: for a [Set], it returns the columns that the
// Set changes. It does not return the columns that the expressions read.
func (t *Table) ExprAttributes(expr any) ([]string, error) {
	switch e := expr.(type) {
	case Set:
		return slices.Sorted(maps.Keys(e)), nil
	case SQL:
		return nil, nil
	}
	return nil, fmt.Errorf("%w: Expr has the type %T; use sqltable.SQL or sqltable.Set", largeitem.ErrInvalid, expr)
}

// Get implements [largeitem.Table].
func (t *Table) Get(ctx context.Context, key largeitem.Key, opts *largeitem.GetOptions) (largeitem.Attributes, error) {
	var r row
	l, err := t.open(ctx)
	if err == nil {
		err = l.checkKey(key)
	}
	if err == nil {
		r, err = t.read(ctx, l, key, nil, false)
	}
	if err == nil && r.item == nil {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, t.failed(store.OpGet, key, err)
	}
	if opts != nil {
		r.item = r.item.Select(opts.Attributes)
	}
	return r.item, nil
}

// write returns the item before and after.
func (t *Table) write(ctx context.Context, w rewrite.Write) (old, next largeitem.Attributes, err error) {
	l, err := t.open(ctx)
	if err == nil {
		err = w.Check(l.schema)
	}
	if err == nil {
		err = l.checkKey(w.Key)
	}
	if err == nil {
		old, next, err = t.swap(ctx, l, w)
	}
	if err != nil {
		return nil, nil, t.failed(w.Op, w.Key, err)
	}
	return old, next, nil
}

// swap reads, decides and replaces what it has read, until no other writer is faster. All
// errors but those of the replacing statement prove that nothing was written.
func (t *Table) swap(ctx context.Context, l *layout, w rewrite.Write) (old, next largeitem.Attributes, err error) {
	where, set, err := t.expressions(l, &w)
	if err != nil {
		return nil, nil, err
	}
	busyUntil := time.Now().Add(busyTime)
	assumeAbsent := w.Op != store.OpDelete && w.Cond != nil && w.Cond.Absent
	var r row
	stuck := 0
	for try := 1; ; try++ {
		if before := r; !assumeAbsent {
			r, err = t.read(ctx, l, w.Key, where, true)
			if err = store.MarkNotApplied(err); err == nil && (before.item == nil) == (r.item == nil) && slices.Equal(before.cells, r.cells) {
				stuck++
			} else {
				stuck = 0
			}
		}
		assumeAbsent = false
		if stuck > maxStuck {
			err = store.MarkNotApplied(fmt.Errorf("%w: statements on the row have no effect, although no other program changes the row; look for a trigger, a rule, a row security policy or another unique key", store.ErrMisconfigured))
		}
		written := false
		if err == nil {
			next, written, err = t.attempt(ctx, l, w, r, where, set)
		}
		switch {
		case errors.Is(err, sqldialect.ErrBusy) && t.run == querier(t.db) && time.Now().Before(busyUntil):
			stuck = 0
		case err != nil || written:
			return r.item, next, err
		}
		if backoff.Wait(ctx, try, time.Millisecond, maxPause) != nil {
			return nil, nil, store.CheckContext(ctx)
		}
	}
}

// attempt decides about a row that was read, and replaces it.
func (t *Table) attempt(ctx context.Context, l *layout, w rewrite.Write, r row, where *SQL, set Set) (next largeitem.Attributes, written bool, err error) {
	if next, err = w.Next(l.schema, r.item); err != nil {
		return nil, false, err
	}
	if r.moves && (where != nil || set != nil) {
		// The expressions see the columns only.
		_, _, err := t.replace(ctx, l, w.Key, r, r.item, nil, nil)
		return nil, false, store.MarkNotApplied(err)
	}
	if where != nil && !r.holds {
		return nil, false, &largeitem.ConditionFailedError{Key: w.Key, HasCurrent: true, Current: r.item}
	}
	if err := store.CheckContext(ctx); err != nil {
		return nil, false, err
	}
	return t.replace(ctx, l, w.Key, r, next, where, set)
}

// expressions takes the expressions out of a write, and writes them for the database. where
// is nil if there is none.
func (t *Table) expressions(l *layout, w *rewrite.Write) (where *SQL, set Set, err error) {
	if w.Cond != nil && w.Cond.Expr != nil {
		e, ok := w.Cond.Expr.(SQL)
		if !ok {
			return nil, nil, fmt.Errorf("%w: Condition.Expr has the type %T; use sqltable.SQL", largeitem.ErrInvalid, w.Cond.Expr)
		}
		if err := e.check(t.dialect); err != nil {
			return nil, nil, err
		}
		cond := *w.Cond
		cond.Expr = nil
		cond.Exists = true
		if cond.Absent {
			return nil, nil, fmt.Errorf("%w: the condition contradicts itself: it requires that the item does not exist, and it names attributes of the item", largeitem.ErrInvalid)
		}
		w.Cond, where = &cond, &e
	}
	if w.Change.Expr == nil {
		return where, nil, nil
	}
	set, ok := w.Change.Expr.(Set)
	if !ok {
		return nil, nil, fmt.Errorf("%w: Change.Expr has the type %T; use sqltable.Set", largeitem.ErrInvalid, w.Change.Expr)
	}
	for name, e := range set {
		_, twice := w.Change.Set[name]
		switch err := e.check(t.dialect); {
		case err != nil:
			return nil, nil, err
		case twice || slices.Contains(w.Change.Remove, name):
			return nil, nil, fmt.Errorf("%w: Change.Expr changes the attribute %.80q, which is also in Set or Remove", largeitem.ErrInvalid, name)
		case l.column(name) == nil:
			return nil, nil, fmt.Errorf("%w: Change.Expr sets the column %[3]q, but the table %[2]s has no such column", largeitem.ErrInvalid, t.o.Name, name)
		}
	}
	w.Change.Expr = nil
	return where, set, nil
}

// row is what was read of a row. Its item is nil where there is none.
type row struct {
	item  largeitem.Attributes
	cells []sql.NullString // of the columns but those of the key
	holds bool             // the expression of the condition
	moves bool             // the JSON has an attribute that got a column later: the next write writes all columns
}

// read reads the row of a key, and whether the expression holds for it. A transaction of MySQL reads rows as
// they were at its begin, unless it locks them.
func (t *Table) read(ctx context.Context, l *layout, key largeitem.Key, where *SQL, toWrite bool) (row, error) {
	s := t.statement("SELECT ", l.cells())
	if where != nil {
		s.add(", CASE WHEN (").expression(*where).add(") THEN 1 ELSE 0 END")
	} else {
		s.add(", 1")
	}
	s.add(" FROM ", t.dialect.quote(t.o.Table)).key(l, key)
	if toWrite && !t.dialect.upsert() && t.run != querier(t.db) {
		s.add(" FOR UPDATE")
	}
	var r row
	err := t.query(ctx, s, len(l.attributes)+2, func(cells []sql.NullString) (err error) {
		last := len(cells) - 1
		r, err = l.row(cells[1:last])
		r.holds = cells[last].String == "1"
		return err
	})
	return r, err
}

// replace replaces a row by an item, nil to delete it, by one statement. It reports whether
// the row was still what was read. The item that it returns is what the table has now.
func (t *Table) replace(ctx context.Context, l *layout, key largeitem.Key, r row, next largeitem.Attributes, where *SQL, set Set) (largeitem.Attributes, bool, error) {
	values, err := l.values(next)
	if err != nil {
		return nil, false, err
	}
	var s *statement
	switch {
	case next == nil && r.item == nil:
		return nil, true, nil
	case next == nil:
		s = t.statement("DELETE FROM ", t.dialect.quote(t.o.Table)).key(l, key).unchanged(l, r).where(where)
	case r.item == nil:
		s = t.insert(l, key, values, set)
	default:
		if s = t.update(l, key, r, values, set); s == nil {
			return r.item, true, nil // there is nothing to change
		}
		if s.key(l, key); t.dialect.upsert() {
			s.unchanged(l, r).where(where)
		}
	}
	if !t.dialect.upsert() {
		return t.replaceLocked(ctx, l, key, r, s, where, next == nil)
	}
	written := false
	err = t.query(ctx, s.add(" RETURNING ", l.cells()), len(l.attributes)+1, func(cells []sql.NullString) error {
		written = true
		if next == nil {
			return nil
		}
		now, err := l.row(cells[1:])
		next = now.item
		return store.MarkUnknown(err) // the statement was carried out
	})
	return next, written, err
}

// insert makes a row, if there is none.
func (t *Table) insert(l *layout, key largeitem.Key, values []any, set Set) *statement {
	names := l.keyNames()
	for i, c := range l.attributes {
		if _, computed := set[c.name]; computed || values[i] != nil {
			names = append(names, c.name)
		}
	}
	s := t.statement("INSERT INTO ", t.dialect.quote(t.o.Table), " (", quoteAll(t.dialect, names), ") SELECT ").keyValues(l, key)
	for i, c := range l.attributes {
		if e, computed := set[c.name]; computed {
			s.add(", (").expression(e).add(")")
		} else if values[i] != nil {
			s.add(", ").value(c, values[i])
		}
	}
	if len(set) > 0 {
		// The expressions see an item without attributes.
		nulls := make([]string, len(l.attributes))
		for i, c := range l.attributes {
			nulls[i] = t.dialect.null(c) + " AS " + t.dialect.quote(c.name)
		}
		s.add(" FROM (SELECT ", strings.Join(nulls, ", "), ") AS ", t.dialect.quote(t.o.Table))
	}
	if !t.dialect.upsert() {
		return s
	}
	return s.add(" WHERE true ON CONFLICT (", quoteAll(t.dialect, l.keyNames()), ") DO NOTHING")
}

// update begins the statement that changes a row; nil: nothing is changed.
func (t *Table) update(l *layout, key largeitem.Key, r row, values []any, set Set) *statement {
	old, err := l.values(r.item)
	s, next := t.statement("UPDATE ", t.dialect.quote(t.o.Table)), ""
	precomputed := len(set) > 0 && !t.dialect.upsert()
	if precomputed {
		s.computed(l, key, t.o.Table, set)
	}
	s.add(" SET ")
	for i, c := range l.attributes {
		e, computed := set[c.name]
		if !computed && err == nil && !r.moves && sameValue(old[i], values[i]) {
			continue // it stays as it is, in whatever form that is
		}
		s.add(next, t.dialect.quote(c.name), " = ")
		next = ", "
		if computed && precomputed {
			s.add(computedName(c.name))
		} else if computed {
			s.add("(").expression(e).add(")")
		} else {
			s.value(c, values[i])
		}
	}
	if next == "" {
		return nil
	}
	return s
}

// query runs a statement that returns one row at most, of n cells.
func (t *Table) query(ctx context.Context, s *statement, n int, f func(cells []sql.NullString) error) error {
	cells, err := sqldialect.Read(ctx, t.abandoned, func(ctx context.Context) (cells []sql.NullString, err error) {
		rows, err := t.run.QueryContext(ctx, s.text(), s.args...)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		if rows.Next() {
			if cells, err = scanCells(rows, n); err != nil {
				return nil, err
			}
		}
		for rows.Next() { // to the end of the statement, which commits
		}
		return cells, errors.Join(rows.Err(), rows.Close())
	})
	if err != nil || cells == nil {
		return t.explain(err)
	}
	return f(cells)
}

// exec runs a statement of MySQL without a result. It reports whether it made or removed a row; for an UPDATE
// of a row that is locked, this means nothing.
func (t *Table) exec(ctx context.Context, s *statement) (written bool, err error) {
	err = sqldialect.Bounded(ctx, func(ctx context.Context) error {
		result, err := t.run.ExecContext(ctx, s.text(), s.args...)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		written = n > 0
		return err
	})
	return written, t.explain(err)
}

func scanCells(rows *sql.Rows, n int) ([]sql.NullString, error) {
	cells := make([]sql.NullString, n)
	to := make([]any, n)
	for i := range cells {
		to[i] = &cells[i]
	}
	return cells, rows.Scan(to...)
}

// explain makes an error of a statement match what it proves.
func (t *Table) explain(err error) error {
	return t.rules.Explain(err, "create the table with holdfast item init")
}

func (t *Table) failed(op store.Kind, key largeitem.Key, err error) error {
	return &store.OpError{Op: op, Key: key.String(), Store: t.o.Name, Err: err}
}

package sqltable

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/drivers/sqldialect"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// class is the kind of attribute of a column.
type class int

const (
	classText   class = iota // every text
	classOther               // a text, in the form of the database
	classNumber              // a largeitem.Number
	classBool
	classBytes
	classJSON // of the attributes without a column
)

// column is a column of the table.
type column struct {
	name, kind string // kind is the type in the database's words
	class      class
	caseless   bool // it compares some different values as equal
	keyText    bool // a column of bytes that is a text if it is a column of the key
}

// layout is what is known of the table.
type layout struct {
	d          dialect
	schema     largeitem.Schema
	keys       []*column // partition key and, if there is one, sort key
	attributes []*column // with that of the JSON, if there is one
	json       *column
}

// description is what a dialect finds out about a table.
type description struct {
	columns []*column
	unique  [][]string // the columns of each unique key
	name    string     // of the table, where the database may write it in another way
	comment string     // of the table
	place   string     // identifies the table; a copy of it has another one
}

// dialect is what differs between databases.
type dialect interface {
	placeholder(n int) string
	quote(name string) string

	// quotes are the characters that begin and end a name or a text.
	quotes() string

	// upsert reports whether the dialect has ON CONFLICT and RETURNING. Without them, the table
	// locks a row before it replaces the row.
	upsert() bool

	// describe returns a description without columns if there is no such table.
	describe(ctx context.Context, db *sql.DB, table, name string) (description, error)

	// create returns the statements that make a table with a comment.
	create(table string, keys []largeitem.KeyAttribute, json, comment string) []string

	// cell is an expression for the text in which a column is read, and value for a value
	// of a column, from an argument. text is a text, null is NULL with the column's type.
	cell(c *column) string
	value(c *column, argument string) string
	text(argument string) string
	null(c *column) string

	// param returns the argument for a value of a column, or says why there is none; read
	// is the opposite of cell.
	param(c *column, v any) (any, error)
	read(c *column, text string) (any, error)
}

const (
	// maxJSON is the longest JSON of attributes that is written, in bytes. That of the
	// largest item is shorter, in whatever way its attributes are written: no way takes
	// more than twelve bytes for one of the item.
	maxJSON = 5 << 20

	// maxCell is the longest value of a column that is read, in bytes. A column of the type
	// jsonb returns somewhat more than was written.
	maxCell = 6 << 20

	// MaxRow is an upper bound in bytes: the text of every row that a Table writes is smaller. If a
	// driver can limit the size of the rows that it reads, use MaxRow as the limit.
	MaxRow = 16 << 20

	idMark = "holdfast-id:"
	idSize = 26 // that of rand.Text
)

var errTooLong = fmt.Errorf("the value has more than %d bytes", maxCell)

// CreateTable creates a table with the columns of the key and one column for the attributes as
// JSON. You may add other columns later, while no program uses the table: the next write of an item
// moves the values of these columns out of the JSON. If a table with this name and the same key
// exists, CreateTable does not change it. If its key is different, the error matches
// [store.ErrMisconfigured].
func CreateTable(ctx context.Context, db *sql.DB, d sqlstore.Dialect, opts *Options) error {
	t, err := New(db, d, opts)
	if err != nil {
		return err
	}
	found, err := t.describe(ctx)
	if err == nil && len(found.columns) == 0 {
		err = t.create(ctx)
	}
	l, openErr := t.open(ctx)
	if openErr != nil {
		if err == nil {
			err = openErr
		}
		return fmt.Errorf("sqltable: create the table: %w", err)
	}
	if l.schema.Partition != t.o.Partition || l.schema.Sort != t.o.Sort {
		return fmt.Errorf("%w: the table %s already exists, but has another key", store.ErrMisconfigured, t.o.Name)
	}
	return nil
}

func (t *Table) create(ctx context.Context) error {
	keys := []largeitem.KeyAttribute{t.o.Partition}
	if t.o.Sort.Name != "" {
		keys = append(keys, t.o.Sort)
	}
	return t.explain(sqldialect.Bounded(ctx, func(ctx context.Context) error {
		tx, err := t.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		for _, statement := range t.dialect.create(t.o.Table, keys, t.o.JSON, idMark+rand.Text()) {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return tx.Commit()
	}))
}

func (t *Table) describe(ctx context.Context) (found description, err error) {
	err = sqldialect.Bounded(ctx, func(ctx context.Context) error {
		found, err = t.dialect.describe(ctx, t.db, t.o.Table, t.o.Name)
		return err
	})
	return found, store.MarkNotApplied(t.explain(err))
}

// open looks at the table once. Its errors prove that nothing was written.
func (t *Table) open(ctx context.Context) (*layout, error) {
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	if l := t.layout.Load(); l != nil {
		return l, nil
	}
	err := sqldialect.Bounded(ctx, func(ctx context.Context) error { return t.rules.Check(ctx, t.db, t.o.Table) })
	if err != nil {
		return nil, store.MarkNotApplied(t.explain(err))
	}
	found, err := t.describe(ctx)
	if err != nil {
		return nil, err
	}
	l, err := t.arrange(found)
	if err != nil {
		return nil, fmt.Errorf("%w: the table %s: %w", store.ErrMisconfigured, t.o.Name, err)
	}
	t.layout.Store(l)
	return l, nil
}

// arrange finds the columns of the key and of the attributes.
func (t *Table) arrange(found description) (*layout, error) {
	l := &layout{d: t.dialect, schema: largeitem.Schema{Name: t.o.Name, Table: cmp.Or(found.name, t.o.Table), ID: found.place, MaxItem: largeitem.MaxItem}}
	if len(found.columns) == 0 {
		return nil, fmt.Errorf("it does not exist; create it with holdfast item init")
	}
	if _, after, ok := strings.Cut(found.comment, idMark); ok && len(after) >= idSize {
		l.schema.ID = "sql:" + after[:idSize] + "@" + found.place
	}
	named := func(name string) *column {
		i := slices.IndexFunc(found.columns, func(c *column) bool { return c.name == name })
		if i < 0 {
			return nil
		}
		return found.columns[i]
	}
	for i, key := range []largeitem.KeyAttribute{t.o.Partition, t.o.Sort} {
		if key.Name == "" {
			continue
		}
		c := named(key.Name)
		switch {
		case c == nil:
			return nil, fmt.Errorf("it has no column %q for the key", key.Name)
		case c.keyText:
			c.class = classText
		}
		if c.class != classText && c.class != classNumber || c.caseless {
			return nil, fmt.Errorf("the key column %q has the type %s; it must have a number type, or a text type that compares texts exactly", key.Name, c.kind)
		}
		l.keys = append(l.keys, c)
		a := largeitem.KeyAttribute{Name: c.name, Number: c.class == classNumber}
		if i == 0 {
			l.schema.Partition = a
		} else {
			l.schema.Sort = a
		}
	}
	names := slices.Sorted(slices.Values(l.keyNames()))
	if !slices.ContainsFunc(found.unique, func(key []string) bool { return slices.Equal(slices.Sorted(slices.Values(key)), names) }) {
		return nil, fmt.Errorf("the key columns %s must be the primary key or another unique key of the table", strings.Join(names, ", "))
	}
	for _, c := range found.columns {
		switch {
		case slices.Contains(names, c.name):
		case c.name == t.o.JSON:
			if c.class != classText && c.class != classOther {
				return nil, fmt.Errorf("the JSON column %q has the type %s; it must have a text type", c.name, c.kind)
			}
			c.class = classJSON
			l.json = c
			l.attributes = append(l.attributes, c)
		case t.o.Columns == nil || slices.Contains(t.o.Columns, c.name):
			l.attributes = append(l.attributes, c)
		}
	}
	for _, name := range t.o.Columns {
		if l.column(name) == nil {
			return nil, fmt.Errorf("it has no column %q", name)
		}
	}
	if l.json == nil && t.o.JSON != defaultJSON {
		return nil, fmt.Errorf("it has no JSON column %q", t.o.JSON)
	}
	return l, l.schema.Check()
}

func (l *layout) keyNames() []string {
	var names []string
	for _, c := range l.keys {
		names = append(names, c.name)
	}
	return names
}

// column returns the column of an attribute; nil if it has none.
func (l *layout) column(name string) *column {
	for _, c := range l.attributes {
		if c.name == name && c != l.json {
			return c
		}
	}
	return nil
}

// cells are the expressions of a row: one that is always there, and those of the attributes.
func (l *layout) cells() string {
	cells := []string{"1"}
	for _, c := range l.attributes {
		cells = append(cells, l.d.cell(c))
	}
	return strings.Join(cells, ", ")
}

// row returns what the cells of the attributes say.
func (l *layout) row(cells []sql.NullString) (row, error) {
	r := row{item: make(largeitem.Attributes), cells: cells}
	for i, c := range l.attributes {
		if !cells[i].Valid {
			continue
		}
		text := cells[i].String
		v, err := any(nil), errTooLong
		if len(text) <= maxCell+1 {
			v, err = l.d.read(c, text)
		}
		if err != nil {
			return row{}, fmt.Errorf("%w: the column %q: %v", store.ErrCorrupt, c.name, err)
		}
		if c != l.json {
			r.item[c.name] = v
			continue
		}
		rest, err := largeitem.UnmarshalTyped([]byte(v.(string)))
		if err != nil {
			return row{}, fmt.Errorf("%w: the column %q: %v", store.ErrCorrupt, c.name, err)
		}
		for name, v := range rest {
			r.moves = r.moves || l.column(name) != nil
			if _, ok := r.item[name]; !ok {
				r.item[name] = v
			}
		}
	}
	return r, nil
}

// values returns the arguments for the columns of the attributes, nil for NULL.
func (l *layout) values(item largeitem.Attributes) ([]any, error) {
	values := make([]any, len(l.attributes))
	rest := make(largeitem.Attributes)
	for name, v := range item {
		i := slices.IndexFunc(l.attributes, func(c *column) bool { return c.name == name && c != l.json })
		if i < 0 {
			rest[name] = v
			continue
		}
		var err error
		if values[i], err = l.d.param(l.attributes[i], v); err != nil {
			return nil, fmt.Errorf("%w: the attribute %q does not fit its column of the type %s: %v", largeitem.ErrInvalid, name, l.attributes[i].kind, err)
		}
	}
	if l.json == nil {
		for name := range rest {
			return nil, fmt.Errorf("%w: the table %s has no column %q, and no JSON column for attributes without a column", largeitem.ErrInvalid, l.schema.Name, name)
		}
		return values, nil
	}
	text, err := largeitem.MarshalTyped(rest)
	if err != nil {
		return nil, err
	}
	if len(text) > maxJSON {
		return nil, fmt.Errorf("%w: the item has %d bytes as JSON; at most %d are allowed", store.ErrTooLarge, len(text), maxJSON)
	}
	v, err := l.d.param(l.json, string(text))
	if err != nil {
		return nil, fmt.Errorf("%w: the attributes do not fit the column %q of the type %s: %v", largeitem.ErrInvalid, l.json.name, l.json.kind, err)
	}
	values[slices.Index(l.attributes, l.json)] = v
	return values, nil
}

func keyValues(key largeitem.Key) []largeitem.KeyValue {
	if key.HasSort() {
		return []largeitem.KeyValue{key.Partition, key.Sort}
	}
	return []largeitem.KeyValue{key.Partition}
}

// checkKey reports why key cannot be in the columns of the key.
func (l *layout) checkKey(key largeitem.Key) error {
	if err := l.schema.CheckKey(key); err != nil {
		return err
	}
	for i, v := range keyValues(key) {
		if _, err := l.d.param(l.keys[i], v.Any()); err != nil {
			return fmt.Errorf("%w: the value %.80v does not fit the column %q of the type %s: %v", largeitem.ErrKey, v, l.keys[i].name, l.keys[i].kind, err)
		}
	}
	return nil
}

// keyParams returns the arguments for a key that was checked.
func (l *layout) keyParams(key largeitem.Key) []any {
	var params []any
	for i, v := range keyValues(key) {
		p, _ := l.d.param(l.keys[i], v.Any())
		params = append(params, p)
	}
	return params
}

// exactFloat reports whether a float with so many bits is read back as the number.
func exactFloat(n largeitem.Number, bits int) (float64, bool) {
	f, err := strconv.ParseFloat(string(n), bits)
	if err != nil {
		return 0, false
	}
	back, err := floatNumber(f, bits)
	return f, err == nil && largeitem.Equal(back, n)
}

func floatNumber(f float64, bits int) (largeitem.Number, error) {
	return largeitem.Number(strconv.FormatFloat(f, 'g', -1, bits)).Canonical()
}

// typed returns v as a T, or says what the column has.
func typed[T any](v any, what string) (T, error) {
	t, ok := v.(T)
	if !ok {
		return t, fmt.Errorf("the column needs %s, but the value is a %T", what, v)
	}
	return t, nil
}

// canonical returns a number in its canonical form.
func canonical(v any) (largeitem.Number, error) {
	n, err := typed[largeitem.Number](v, "a number")
	if err != nil {
		return "", err
	}
	return n.Canonical()
}

package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast/items/itemtest"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/sqltable"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// itemsIn is a table of items that knows where it is.
type itemsIn struct {
	*sqltable.Table
	d    database
	opts *sqltable.Options
}

func (d database) items(t testing.TB, opts *sqltable.Options) itemsIn {
	t.Helper()
	db := d.open(t)
	if err := sqltable.CreateTable(t.Context(), db, d.dialect, opts); err != nil {
		t.Fatal(err)
	}
	table, err := sqltable.New(db, d.dialect, opts)
	if err != nil {
		t.Fatal(err)
	}
	return itemsIn{table, d, opts}
}

// TestSQLItems checks tables of items on each database. The parts share one server.
func TestSQLItems(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t)
	maria := servers.NewMariaDB(t, "--max-allowed-packet=64M")
	for name, open := range map[string]func(t *testing.T) database{
		"sqlite":     newSQLite,
		"postgresql": func(t *testing.T) database { return newPostgres(t, server) },
		"mysql":      func(t *testing.T) database { return newMariaDB(t, maria).standard() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("Suite", func(t *testing.T) { checkSQLItems(t, open) })
			t.Run("Expressions", func(t *testing.T) { checkSQLExpressions(t, open) })
			t.Run("Columns", func(t *testing.T) { checkSQLColumns(t, open(t)) })
			t.Run("AddedColumn", func(t *testing.T) { checkSQLAddedColumn(t, open(t)) })
			t.Run("JSON", func(t *testing.T) { checkSQLJSON(t, open) })
			t.Run("SetUp", func(t *testing.T) { checkSQLSetUp(t, open) })
			t.Run("Transactions", func(t *testing.T) { checkSQLTransactions(t, open(t)) })
			t.Run("Largest", func(t *testing.T) { checkSQLLargest(t, open) })
			t.Run("Copies", func(t *testing.T) { checkSQLCopies(t, open(t), maria) })
			t.Run("ForeignRows", func(t *testing.T) { checkSQLForeignRows(t, open(t)) })
		})
	}
	t.Run("Plans", func(t *testing.T) { checkSQLPlans(t, newPostgres(t, server)) })
	t.Run("Cuts", func(t *testing.T) { checkSQLItemCuts(t, server.Address, newPostgres(t, server)) })
	t.Run("CutsMySQL", func(t *testing.T) { checkSQLItemCuts(t, maria.Address, newMariaDB(t, maria)) })
}

// checkSQLItems runs the suite of tables of items.
func checkSQLItems(t *testing.T, open func(t *testing.T) database) {
	for name, c := range map[string]struct {
		opts  *sqltable.Options
		suite itemtest.Options
	}{
		"texts":   {&sqltable.Options{Table: `it"ems`, Sort: largeitem.KeyAttribute{Name: "s k"}}, itemtest.Options{Racers: 4, Rounds: 5, Items: 600}},
		"numbers": {&sqltable.Options{Partition: largeitem.KeyAttribute{Name: "id", Number: true}}, itemtest.Options{Racers: 2, Rounds: 2, Items: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			c.suite.Reopen = func(t *testing.T, first largeitem.Table) largeitem.Table {
				f := first.(itemsIn)
				return f.d.items(t, f.opts)
			}
			switch t.Name() {
			case "TestSQLItems/sqlite/Suite/numbers":
				c.suite.Skip = map[string]string{"NumberKeys": "SQLite keeps integers of 64 bits and floats; other numbers are refused"}
			case "TestSQLItems/mysql/Suite/numbers":
				c.suite.Skip = map[string]string{"NumberKeys": "MySQL keeps 35 digits before the point and 30 after it; other numbers are refused"}
			}
			itemtest.Run(t, func(t *testing.T) largeitem.Table { return open(t).items(t, c.opts) }, &c.suite)
		})
	}
}

// with is a database after these statements.
func (d database) with(t testing.TB, statements ...string) database {
	t.Helper()
	db := d.open(t)
	for _, statement := range statements {
		if d.dialect == sqlstore.MySQL {
			statement = forMySQL.Replace(statement)
		}
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return d
}

// standard is a database of MySQL whose sessions write names as the standard says.
func (d database) standard() database {
	d.url += "?sql_mode=%27STRICT_TRANS_TABLES,ANSI_QUOTES%27"
	return d
}

// forMySQL adapts types: a key of MySQL has a length, and bytes keep spaces at its end.
var forMySQL = strings.NewReplacer("pk text", "pk varbinary(700)", "sk text", "sk varbinary(700)", "id text", "id varbinary(700)",
	"jsonb", "json", "rest varchar(500000)", "rest mediumtext", "rest text", "rest mediumtext")

// checkSQLExpressions: expressions in SQL take part in conditions and changes.
func checkSQLExpressions(t *testing.T, open func(t *testing.T) database) {
	o := &itemtest.Options{
		Add: func(attr string, n int) any {
			return sqltable.Set{attr: {Text: fmt.Sprintf(`COALESCE("%s", 0) + ?`, attr), Args: []any{n}}}
		},
		Above: func(attr string, n int) any {
			return sqltable.SQL{Text: fmt.Sprintf(`"%s" > ? AND '?''' <> '"'`, attr), Args: []any{n}}
		},
	}
	table := func(t *testing.T) largeitem.Table {
		return open(t).with(t, `CREATE TABLE items (pk text PRIMARY KEY, n integer, holdfast_attributes text)`).items(t, nil)
	}
	for _, f := range itemtest.Check(t, table, o, "Expressions") {
		t.Error(f)
	}
	tb, ctx := table(t), t.Context()
	key := itemKey(t, "a")
	// An item that is made sees no columns; what the expression does not name is kept.
	got, err := tb.Update(ctx, key, largeitem.Change{Set: largeitem.Attributes{"other": "x"}, Expr: o.Add("n", 5)}, nil)
	if want := (largeitem.Attributes{"other": "x", "n": largeitem.Number("5")}); err != nil || !sameItem(got, want) {
		t.Errorf("made by an expression: %v, %v", got, err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				if _, err := tb.Update(ctx, key, largeitem.Change{Expr: o.Add("n", 1)}, &largeitem.Condition{Expr: o.Above("n", 4)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got, err := tb.Get(ctx, key, nil); err != nil || !largeitem.Equal(got["n"], largeitem.Number("25")) {
		t.Errorf("after 20 increments: %v, %v", got, err)
	}
	for _, bad := range []struct {
		change largeitem.Change
		cond   *largeitem.Condition
		want   error
	}{
		{largeitem.Change{}, &largeitem.Condition{Expr: sqltable.SQL{Text: "n > ?"}}, store.ErrInvalid},
		{largeitem.Change{}, &largeitem.Condition{Expr: sqltable.SQL{Text: "n > 1", Args: []any{1}}}, store.ErrInvalid},
		{largeitem.Change{}, &largeitem.Condition{Expr: sqltable.SQL{Text: "n > '?"}}, store.ErrInvalid},
		{largeitem.Change{}, &largeitem.Condition{Expr: sqltable.SQL{}}, store.ErrInvalid},
		{largeitem.Change{}, &largeitem.Condition{Absent: true, Expr: sqltable.SQL{Text: "n > 1"}}, store.ErrInvalid},
		{largeitem.Change{}, &largeitem.Condition{Expr: sqltable.SQL{Text: "none > 1"}}, store.ErrMisconfigured},
		{largeitem.Change{Expr: sqltable.Set{"none": {Text: "1"}}}, nil, store.ErrInvalid},
		{largeitem.Change{Expr: sqltable.Set{"holdfast_attributes": {Text: "1"}}}, nil, store.ErrInvalid},
		{largeitem.Change{Expr: sqltable.Set{"pk": {Text: "'b'"}}}, nil, store.ErrInvalid},
		{largeitem.Change{Remove: []string{"n"}, Expr: sqltable.Set{"n": {Text: "1"}}}, nil, store.ErrInvalid},
	} {
		if _, err := tb.Update(ctx, key, bad.change, bad.cond); !errors.Is(err, bad.want) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%+v, %+v: got %v (%v), want %v", bad.change, bad.cond, err, store.OutcomeOf(err), bad.want)
		}
	}
}

func itemKey(t testing.TB, partition any, sort ...any) largeitem.Key {
	t.Helper()
	key, err := largeitem.NewKey(partition, sort...)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sameItem(a, b largeitem.Attributes) bool {
	return largeitem.Equal(map[string]any(a), map[string]any(b))
}

// checkSQLColumns: attributes in columns of the user's own keep their values, or are
// refused; nothing is cut, rounded or changed.
func checkSQLColumns(t *testing.T, d database) {
	type num = largeitem.Number
	tables := map[sqlstore.Dialect]string{
		sqlstore.PostgreSQL: `CREATE TABLE items (id bigint NOT NULL, kind varchar(20) NOT NULL, t text, v varchar(3), c char(3), s smallint, i integer, l bigint, n numeric, d numeric(6,2),
			r real, f double precision, b boolean, x bytea, u uuid, z timestamptz, j jsonb, ds numeric(6,2)[], ns numeric[], made text DEFAULT 'now', upper text GENERATED ALWAYS AS (upper(t)) STORED, UNIQUE (kind, id))`,
		sqlstore.MySQL: `CREATE TABLE items (id bigint NOT NULL, kind varbinary(20) NOT NULL, t text, v varchar(3), c char(3), lat varchar(9) CHARACTER SET latin1, s smallint, m mediumint unsigned, i integer, l bigint,
			u bigint unsigned, d numeric(6,2), n numeric(65,30), r float, f double, b boolean, x blob, fix binary(2), bits bit(64), z datetime, day date, e enum('one', 'two'), j json, made text DEFAULT ('now'),
			upper varchar(200) GENERATED ALWAYS AS (upper(v)) STORED, UNIQUE (kind, id))`,
		sqlstore.SQLite: `CREATE TABLE items (id INTEGER NOT NULL, kind VARCHAR(20) NOT NULL, t TEXT, i INTEGER, d DECIMAL(6,2), f REAL, b BOOLEAN, x BLOB, z DATETIME,
			made TEXT DEFAULT 'now', upper TEXT GENERATED ALWAYS AS (upper(t)), UNIQUE (kind, id))`,
	}
	good := map[sqlstore.Dialect]largeitem.Attributes{
		sqlstore.PostgreSQL: {"t": "  é'\"?$1 ", "v": "äöü", "c": "abc", "s": num("-32768"), "i": num("2147483647"), "l": num("-9223372036854775808"), "n": num("1E-130"), "d": num("-1234.5"),
			"r": num("0.1"), "f": num("1E-100"), "b": false, "x": []byte{}, "u": "6f1f6f3e-8f5e-4a38-9d55-0a1b2c3d4e5f", "j": `{"a": 1}`, "ns": "{1,2.5}", "made": "then"},
		sqlstore.MySQL: {"t": "  é'\"?`\\\x00 ", "v": "ä\U0001F512 ", "c": "abc", "lat": "é", "s": num("-32768"), "m": num("16777215"), "i": num("2147483647"), "l": num("-9223372036854775808"), "u": num("18446744073709551615"),
			"d": num("-1234.5"), "n": num("12345678901234567890123456789012345.125"), "r": num("0.1"), "f": num("1E-100"), "b": false, "x": []byte{}, "fix": []byte{0, 255}, "bits": num("18446744073709551615"),
			"z": "2025-01-02 03:04:05", "day": "2025-01-02", "e": "two", "j": `{"a": 1}`, "made": "then"},
		sqlstore.SQLite: {"t": "  é'\"?1 ", "i": num("-9223372036854775808"), "d": num("-1234.5"), "f": num("1E-100"), "b": false, "x": []byte{}, "z": "2025-01-02 03:04:05", "made": "then"},
	}
	bad := map[sqlstore.Dialect]map[string][]any{
		sqlstore.PostgreSQL: {
			"t": {num("1"), nil, []byte("x"), "a\x00", true}, "v": {"four", num("1"), "x   "}, "c": {"four"}, "s": {num("32768"), num("1.5"), "1"}, "i": {num("2147483648"), num("1E+30")}, "l": {num("9223372036854775808")},
			"n": {"1"}, "d": {num("1.234"), num("10000")}, "r": {num("0.123456789")}, "f": {num("0.12345678901234567891"), num("1.2345678901234567890123E+50")},
			"b": {"true", num("1")}, "x": {"x"}, "u": {"no uuid"}, "z": {"no time"}, "j": {"{"}, "ds": {"{1.234}"}, "ns": {"{x}", num("1")}, "upper": {"X"},
		},
		sqlstore.MySQL: {
			"t": {num("1"), nil, []byte("x"), true, strings.Repeat(" ", 1<<16)}, "v": {"four", num("1"), "x   "}, "c": {"four", "a "}, "lat": {"\U0001F512"}, "s": {num("32768"), num("1.5"), "1"}, "m": {num("-1"), num("16777216")},
			"i": {num("2147483648"), num("1E+30")}, "l": {num("9223372036854775808")}, "u": {num("-1"), num("18446744073709551616")}, "d": {num("1.234"), num("10000"), num("1E+30")},
			"n": {num("1E-31"), num("1E+35"), num("123456789012345678901234567890123456")}, "r": {num("0.123456789")}, "f": {num("0.12345678901234567891")}, "b": {"true", num("1")}, "x": {"x"}, "fix": {[]byte{0}},
			"bits": {num("-1"), num("18446744073709551616")}, "z": {"no time", "2025-13-01 00:00:00"}, "day": {"2025-02-30"}, "e": {"three", ""}, "j": {"{"}, "upper": {"X"},
		},
		sqlstore.SQLite: {
			"t": {num("1"), nil, []byte("x"), "a\x00", true}, "i": {num("12345678901234567890123"), "1"}, "d": {num("0.12345678901234567891")}, "f": {num("9007199254740993")},
			"b": {"true", num("1")}, "x": {"x"}, "z": {"20250102", num("1")}, "upper": {"X"},
		},
	}
	d.with(t, tables[d.dialect])
	table := d.items(t, &sqltable.Options{Partition: largeitem.KeyAttribute{Name: "kind"}, Sort: largeitem.KeyAttribute{Name: "id", Number: true}})
	ctx, key := t.Context(), itemKey(t, "a", 1)
	item := good[d.dialect]
	if _, err := table.Put(ctx, key, item, &largeitem.Condition{Absent: true}); err != nil {
		t.Fatal(err)
	}
	if got, err := table.Get(ctx, key, nil); err != nil || !sameItem(got, item) {
		t.Errorf("got %v, %v\nwant %v", got, err, item)
	}
	for row, err := range table.Scan(ctx, nil) {
		if err != nil || row.Key != key || !sameItem(row.Attributes, item) {
			t.Errorf("scanned %v %v, %v", row.Key, row.Attributes, err)
		}
	}
	for name, v := range item {
		got, err := table.Update(ctx, key, largeitem.Change{Set: largeitem.Attributes{name: v}}, &largeitem.Condition{Equal: item})
		if err != nil || !sameItem(got, item) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, values := range bad[d.dialect] {
		for _, v := range values {
			_, err := table.Update(ctx, key, largeitem.Change{Set: largeitem.Attributes{name: v}}, nil)
			_, putErr := table.Put(ctx, itemKey(t, "b", 1), largeitem.Attributes{name: v}, nil)
			for _, err := range []error{err, putErr} {
				if !errors.Is(err, store.ErrInvalid) || store.OutcomeOf(err) != store.NotApplied {
					t.Errorf("%s = %#v: got %v (%v)", name, v, err, store.OutcomeOf(err))
				}
			}
		}
	}
	if _, err := table.Put(ctx, key, largeitem.Attributes{"without a column": "x"}, nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("an attribute without a column: %v", err)
	}
	badKeys := []largeitem.Key{itemKey(t, "a", num("1E+30"))}
	if d.dialect != sqlstore.SQLite { // it has no bounds of texts, and floats in every column
		badKeys = append(badKeys, itemKey(t, strings.Repeat("x", 21), 1), itemKey(t, strings.Repeat("x", 20)+" ", 1), itemKey(t, "a", num("1.5")))
	} else {
		badKeys[0] = itemKey(t, "a", num("12345678901234567890123"))
	}
	for _, bad := range badKeys {
		if _, err := table.Put(ctx, bad, nil, nil); !errors.Is(err, store.ErrInvalid) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("the key %v: %v (%v)", bad, err, store.OutcomeOf(err))
		}
	}
	if got, err := table.Get(ctx, key, nil); err != nil || !sameItem(got, item) {
		t.Errorf("at the end: got %v, %v\nwant %v", got, err, item)
	}
	// Defaults of a new row, and none for what is replaced.
	made := itemKey(t, "made", 1)
	for _, want := range []largeitem.Attributes{{"made": "now"}, {}} {
		if _, err := table.Put(ctx, made, nil, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := table.Get(ctx, made, nil); err != nil || !sameItem(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
}

// checkSQLAddedColumn: an attribute gets a column when items have a value for it in the JSON. No earlier value
// comes back from the JSON after a write, and expressions see the value.
func checkSQLAddedColumn(t *testing.T, d database) {
	type num = largeitem.Number
	item := largeitem.Attributes{"n": num("5"), "other": "x"}
	change := func(set largeitem.Attributes, remove ...string) func(itemsIn, largeitem.Key, *largeitem.Condition) (largeitem.Attributes, error) {
		return func(table itemsIn, key largeitem.Key, cond *largeitem.Condition) (largeitem.Attributes, error) {
			return table.Update(t.Context(), key, largeitem.Change{Set: set, Remove: remove}, cond)
		}
	}
	above := &largeitem.Condition{Expr: sqltable.SQL{Text: "n > ?", Args: []any{4}}}
	for name, c := range map[string]struct {
		write func(itemsIn, largeitem.Key, *largeitem.Condition) (largeitem.Attributes, error)
		cond  *largeitem.Condition
		want  largeitem.Attributes
	}{
		"remove":          {change(nil, "n"), nil, largeitem.Attributes{"other": "x"}},
		"set":             {change(largeitem.Attributes{"n": num("7")}), nil, largeitem.Attributes{"n": num("7"), "other": "x"}},
		"set another one": {change(largeitem.Attributes{"other": "y"}), nil, largeitem.Attributes{"n": num("5"), "other": "y"}},
		"a condition":     {change(largeitem.Attributes{"other": "y"}), above, largeitem.Attributes{"n": num("5"), "other": "y"}},
		"replace": {func(table itemsIn, key largeitem.Key, _ *largeitem.Condition) (largeitem.Attributes, error) {
			_, err := table.Put(t.Context(), key, nil, nil)
			return largeitem.Attributes{}, err
		}, nil, largeitem.Attributes{}},
		"compute": {func(table itemsIn, key largeitem.Key, cond *largeitem.Condition) (largeitem.Attributes, error) {
			return table.Update(t.Context(), key, largeitem.Change{Expr: sqltable.Set{"n": {Text: "COALESCE(n, 0) + 1"}}}, cond)
		}, above, largeitem.Attributes{"n": num("6"), "other": "x"}},
	} {
		key := itemKey(t, "a")
		if _, err := d.items(t, nil).Put(t.Context(), key, item, nil); err != nil {
			t.Fatal(err)
		}
		table := d.with(t, "ALTER TABLE items ADD COLUMN n integer").items(t, nil)
		if got, err := table.Get(t.Context(), key, nil); err != nil || !sameItem(got, item) {
			t.Errorf("before %s: %v, %v", name, got, err)
		}
		got, err := c.write(table, key, c.cond)
		if err != nil || !sameItem(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
		if got, err := table.Get(t.Context(), key, nil); err != nil || !sameItem(got, c.want) {
			t.Errorf("after %s: %v, %v, want %v", name, got, err, c.want)
		}
		delete(c.want, "n")
		if got, err := change(nil, "n")(table, key, nil); err != nil || !sameItem(got, c.want) {
			t.Errorf("after %s and remove: %v, %v, want %v", name, got, err, c.want)
		}
		d.with(t, "DROP TABLE items")
	}
}

// checkSQLJSON: attributes without a column may be in a column of any type for texts or JSON.
func checkSQLJSON(t *testing.T, open func(t *testing.T) database) {
	for _, kind := range []string{"jsonb", "json", "varchar(500000)"} {
		table := func(t *testing.T) largeitem.Table {
			d := open(t).with(t, `CREATE TABLE items (pk text PRIMARY KEY, rest `+kind+`)`)
			return d.items(t, &sqltable.Options{JSON: "rest"})
		}
		for _, f := range itemtest.Check(t, table, nil, "PutGet", "Update", "Equal", "Scan", "RaceCount") {
			t.Errorf("%s: %s", kind, f)
		}
	}
}

// checkSQLLargest: the item whose JSON is the longest of all is read in each form of the
// column.
func checkSQLLargest(t *testing.T, open func(t *testing.T) database) {
	for _, kind := range []string{"text", "json", "jsonb"} {
		d := open(t)
		if kind != "text" && d.dialect == sqlstore.SQLite {
			continue
		}
		table := d.with(t, `CREATE TABLE items (pk text PRIMARY KEY, rest `+kind+`)`).items(t, &sqltable.Options{JSON: "rest"})
		key, ctx := itemKey(t, "a"), t.Context()
		item := largeitem.Attributes{"v": slices.Repeat([]any{largeitem.StringSet{""}}, largeitem.MaxItem-len("pk"+"a"+"v")-3)}
		if _, err := table.Put(ctx, key, item, nil); err != nil {
			t.Errorf("%s: put: %v", kind, err)
		}
		if got, err := table.Get(ctx, key, nil); err != nil || got.Size() != item.Size() {
			t.Errorf("%s: get: %d bytes, %v", kind, got.Size(), err)
		}
		if old, err := table.Delete(ctx, key, nil); err != nil || old.Size() != item.Size() {
			t.Errorf("%s: delete: %d bytes, %v", kind, old.Size(), err)
		}
	}
}

// checkSQLSetUp: a table that cannot hold items is refused before anything is written.
func checkSQLSetUp(t *testing.T, open func(t *testing.T) database) {
	const notMySQL = "all but MySQL"
	sorted := &sqltable.Options{Sort: largeitem.KeyAttribute{Name: "sk"}}
	for name, c := range map[string]struct {
		only  sqlstore.Dialect
		table string
		opts  *sqltable.Options
	}{
		"no table":           {"", `CREATE TABLE other (pk text PRIMARY KEY)`, nil},
		"no partition":       {"", `CREATE TABLE items (id text PRIMARY KEY)`, nil},
		"no sort":            {"", `CREATE TABLE items (pk text PRIMARY KEY)`, sorted},
		"not unique":         {"", `CREATE TABLE items (pk text, sk text)`, sorted},
		"unique in part":     {"", `CREATE TABLE items (pk text PRIMARY KEY, sk text)`, sorted},
		"another unique key": {"", `CREATE TABLE items (pk text, sk text, PRIMARY KEY (pk, sk))`, nil},
		"no JSON":            {"", `CREATE TABLE items (pk text PRIMARY KEY)`, &sqltable.Options{JSON: "rest"}},
		"no column":          {"", `CREATE TABLE items (pk text PRIMARY KEY, a text)`, &sqltable.Options{Columns: []string{"a", "b"}}},
		"JSON is a number":   {"", `CREATE TABLE items (pk text PRIMARY KEY, holdfast_attributes integer)`, nil},
		"a time as key":      {"", `CREATE TABLE items (pk timestamp PRIMARY KEY)`, nil},
		"a partial key":      {notMySQL, `CREATE TABLE items (pk text, a integer); CREATE UNIQUE INDEX one ON items (pk) WHERE a > 1`, nil},
		"a caseless key":     {sqlstore.SQLite, `CREATE TABLE items (pk TEXT COLLATE NOCASE PRIMARY KEY)`, nil},
		"a caseless column":  {sqlstore.SQLite, `CREATE TABLE items (pk TEXT COLLATE NOCASE NOT NULL); CREATE UNIQUE INDEX exact ON items (pk COLLATE BINARY)`, nil},
		"spaces in a column": {sqlstore.SQLite, `CREATE TABLE items (pk TEXT COLLATE RTRIM NOT NULL); CREATE UNIQUE INDEX exact ON items (pk COLLATE BINARY)`, nil},
		"a caseless type":    {sqlstore.PostgreSQL, `CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false); CREATE TABLE items (pk text COLLATE ci PRIMARY KEY)`, nil},
		"a deferred key":     {sqlstore.PostgreSQL, `CREATE TABLE items (pk text UNIQUE DEFERRABLE INITIALLY DEFERRED)`, nil},
		"texts without case": {sqlstore.MySQL, `CREATE TABLE items (pk varchar(100) PRIMARY KEY)`, nil},
		"ignored spaces":     {sqlstore.MySQL, `CREATE TABLE items (pk varchar(100) COLLATE utf8mb4_bin PRIMARY KEY)`, nil},
		"a part of a text":   {sqlstore.MySQL, `CREATE TABLE items (pk varbinary(100) NOT NULL, UNIQUE (pk(3)))`, nil},
		"a float as key":     {sqlstore.MySQL, `CREATE TABLE items (pk double PRIMARY KEY)`, nil},
		"MySQL's char":       {sqlstore.MySQL, `CREATE TABLE items (pk char(10) COLLATE utf8mb4_bin PRIMARY KEY)`, nil},
		"padded texts":       {sqlstore.PostgreSQL, `CREATE TABLE items (pk char(10) PRIMARY KEY)`, nil},
	} {
		d := open(t)
		if c.only == notMySQL && d.dialect == sqlstore.MySQL || c.only != "" && c.only != notMySQL && c.only != d.dialect {
			continue
		}
		db := d.with(t, strings.Split(c.table, "; ")...).open(t)
		table, err := sqltable.New(db, d.dialect, c.opts)
		if err != nil {
			t.Fatal(err)
		}
		key := itemKey(t, "a")
		if c.opts == sorted {
			key = itemKey(t, "a", "b")
		}
		if _, err := table.Put(t.Context(), key, nil, nil); !errors.Is(err, store.ErrMisconfigured) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: got %v (%v)", name, err, store.OutcomeOf(err))
		}
	}
	d := open(t)
	first, err := d.items(t, nil).Schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.items(t, nil).Schema(t.Context())
	if err != nil || again != first {
		t.Errorf("created twice: %+v, %+v, %v", first, again, err)
	}
	for _, o := range []*sqltable.Options{sorted, {Partition: largeitem.KeyAttribute{Name: "pk", Number: true}}} {
		if err := sqltable.CreateTable(t.Context(), d.open(t), d.dialect, o); !errors.Is(err, store.ErrMisconfigured) {
			t.Errorf("created with another key: %v", err)
		}
	}
	anew, err := d.with(t, "DROP TABLE items").items(t, nil).Schema(t.Context())
	if err != nil || anew.ID == first.ID {
		t.Errorf("a table made anew: %+v, %v", anew, err)
	}
}

// checkSQLPlans: PostgreSQL computes what is constant in a statement each time it plans it, and
// a plan of a statement of Holdfast has nothing large in it.
func checkSQLPlans(t *testing.T, d database) {
	d.items(t, nil) // makes the table
	config, err := pgx.ParseConfig(d.url)
	if err != nil {
		t.Fatal(err)
	}
	statements := &tracedStatements{}
	config.Tracer = statements
	db := stdlib.OpenDB(*config)
	defer db.Close()
	table, err := sqltable.New(db, d.dialect, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Put(t.Context(), itemKey(t, "a"), largeitem.Attributes{"a": "x"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Delete(t.Context(), itemKey(t, "a"), nil); err != nil {
		t.Fatal(err)
	}
	explained := 0
	for _, s := range slices.Clone(statements.all) {
		if !strings.Contains(s.SQL, "holdfast_attributes") || !strings.Contains(s.SQL, "$1") {
			continue
		}
		explained++
		rows, err := d.open(t).QueryContext(t.Context(), "EXPLAIN (VERBOSE) "+s.SQL, s.Args...)
		if err != nil {
			t.Fatalf("%s: %v", s.SQL, err)
		}
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Error(err)
			} else if len(line) > 100_000 {
				t.Errorf("the plan has a line of %d bytes: %s", len(line), s.SQL)
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Error(err)
		}
	}
	if explained == 0 {
		t.Errorf("no statement was explained: %v", statements.all)
	}
}

// tracedStatements remembers the statements of a connection.
type tracedStatements struct{ all []pgx.TraceQueryStartData }

func (s *tracedStatements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.all = append(s.all, data)
	return ctx
}

func (*tracedStatements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// checkSQLForeignRows: what another program has written is reported, and never read whole,
// nor written over.
func checkSQLForeignRows(t *testing.T, d database) {
	ctx := t.Context()
	table := d.items(t, nil)
	db := d.open(t)
	huge := "repeat('x', 50000000)"
	if d.dialect == sqlstore.SQLite {
		huge = "hex(zeroblob(25000000))"
	}
	for i, cell := range []string{`'text'`, `'{"a":1}'`, `'{"a":{"S":"x"}'`, huge} {
		key := fmt.Sprintf("bad%d", i)
		if _, err := db.ExecContext(ctx, fmt.Sprintf("INSERT INTO items (pk, holdfast_attributes) VALUES ('%s', %s)", key, cell)); err != nil {
			t.Fatal(err)
		}
		_, getErr := table.Get(ctx, itemKey(t, key), nil)
		_, putErr := table.Put(ctx, itemKey(t, key), nil, nil)
		_, deleteErr := table.Delete(ctx, itemKey(t, key), nil)
		for _, err := range []error{getErr, putErr, deleteErr} {
			if !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%.30s: %v", cell, err)
			}
		}
		var last error
		for _, err := range table.Scan(ctx, nil) {
			last = err
		}
		if !errors.Is(last, store.ErrCorrupt) {
			t.Errorf("the scan over %.30s ends with %v", cell, last)
		}
		if result, err := db.ExecContext(ctx, "DELETE FROM items WHERE pk = '"+key+"'"); err != nil {
			t.Error(err)
		} else if n, _ := result.RowsAffected(); n != 1 {
			t.Errorf("%.30s was deleted", cell)
		}
	}
	// NULL is no attributes.
	if _, err := db.ExecContext(ctx, "INSERT INTO items (pk) VALUES ('null')"); err != nil {
		t.Fatal(err)
	}
	got, err := table.Update(ctx, itemKey(t, "null"), largeitem.Change{Set: largeitem.Attributes{"a": "x"}}, &largeitem.Condition{Exists: true, Missing: []string{"a"}})
	if err != nil || !sameItem(got, largeitem.Attributes{"a": "x"}) {
		t.Errorf("a row with NULL: %v, %v", got, err)
	}
}

// checkSQLItemCuts: connections to a database are cut before and after the server has
// carried a statement out. Every increment that was said to be applied is there, and what is
// more than that was said to be of unknown outcome.
func checkSQLItemCuts(t *testing.T, address func() string, direct database) {
	var cuts atomic.Int64
	proxy := servers.NewTCPProxy(t, address, func() (before, after bool) {
		n := rand.IntN(20)
		if n < 2 {
			cuts.Add(1)
		}
		return n == 0, n == 1
	})
	d := direct.through(proxy.Address)
	table := direct.items(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	key := itemKey(t, "counter")
	if _, err := table.Put(ctx, key, largeitem.Attributes{"n": largeitem.Number("0")}, nil); err != nil {
		t.Fatal(err)
	}
	var applied, unknown atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		cut, err := sqltable.New(d.open(t), d.dialect, nil)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for done := 0; done < 30 && ctx.Err() == nil; {
				item, err := cut.Get(ctx, key, nil)
				if err != nil {
					continue
				}
				was := item["n"].(largeitem.Number)
				n, _ := strconv.Atoi(string(was))
				_, err = cut.Update(ctx, key, largeitem.Change{Set: largeitem.Attributes{"n": largeitem.Number(strconv.Itoa(n + 1))}},
					&largeitem.Condition{Equal: largeitem.Attributes{"n": was}})
				switch store.OutcomeOf(err) {
				case store.Applied:
					done++
					applied.Add(1)
				case store.Unknown:
					unknown.Add(1)
				}
			}
		})
	}
	wg.Wait()
	item, err := table.Get(ctx, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	counted, _ := strconv.ParseInt(string(item["n"].(largeitem.Number)), 10, 64)
	if applied.Load() != 120 || counted < applied.Load() || counted > applied.Load()+unknown.Load() {
		t.Errorf("counted %d after %d increments that were applied and %d of unknown outcome", counted, applied.Load(), unknown.Load())
	}
	if cuts.Load() < 10 || unknown.Load() == 0 {
		t.Errorf("%d connections were cut and %d outcomes unknown: the test tests little", cuts.Load(), unknown.Load())
	}
	t.Logf("%d connections were cut, %d outcomes unknown", cuts.Load(), unknown.Load())
}

// checkSQLTransactions: a large attribute that is prepared is written in the caller's own
// transaction, and takes effect with it; a rollback undoes the item, and Abort the upload.
func checkSQLTransactions(t *testing.T, d database) {
	d.with(t, `CREATE TABLE ledger (n integer)`, `CREATE TABLE items (pk text PRIMARY KEY, state text, pdf text, holdfast_attributes text)`)
	table, ctx := d.items(t, nil), t.Context()
	bucket := membucket.New()
	items, err := largeitem.New(table, bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	key := itemKey(t, "invoice/7")
	_, err = items.Create(ctx, key, largeitem.Attributes{"state": "sent", "other": nil}, largeitem.Large{"pdf": largeitem.Bytes([]byte("one")), "scan": largeitem.Bytes([]byte("two"))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	read := func() string {
		t.Helper()
		item, err := items.Get(ctx, key, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer item.Close()
		text := fmt.Sprint(item.Attributes["state"])
		for _, attr := range []string{"pdf", "scan"} {
			all, err := io.ReadAll(item.Body(attr))
			if err != nil {
				t.Fatal(err)
			}
			text += " " + string(all)
		}
		return text
	}
	objects := func() (n int) {
		for _, err := range bucket.List(ctx, "", nil) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	before := objects()
	pay := func(large largeitem.Large, commit bool) *largeitem.PreparedWrite {
		t.Helper()
		prepared, err := items.Prepare(ctx, key, large, nil)
		if err != nil {
			t.Fatal(err)
		}
		tx, err := table.d.open(t).BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, `INSERT INTO ledger VALUES (7)`); err != nil {
			t.Fatal(err)
		}
		change, cond := prepared.Change(), prepared.Condition()
		change.Set["state"] = "paid"
		if _, err := table.InTx(tx).Update(ctx, key, change, &cond); err != nil {
			t.Fatal(err)
		}
		if commit {
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		return prepared
	}
	undone := pay(largeitem.Large{"pdf": largeitem.Bytes([]byte("three"))}, false)
	if got := read(); got != "sent one two" {
		t.Errorf("after a rollback: %s", got)
	}
	if _, err := undone.Commit(ctx); err == nil {
		t.Error("Commit after a rollback says that the item was written")
	}
	if err := undone.Abort(ctx); err != nil || objects() != before {
		t.Errorf("Abort: %v, %d objects, before %d", err, objects(), before)
	}
	done := pay(largeitem.Large{"pdf": largeitem.Bytes([]byte("three")), "scan": largeitem.Bytes([]byte("four"))}, true)
	if _, err := done.Commit(ctx); err != nil {
		t.Error(err)
	}
	if got := read(); got != "paid three four" {
		t.Errorf("after the commit: %s", got)
	}
	if err := done.Abort(ctx); err == nil {
		t.Error("Abort after the commit says that nothing was written")
	}
	if got := read(); got != "paid three four" {
		t.Errorf("after an Abort that came too late: %s", got)
	}
	var n int
	if err := table.d.open(t).QueryRowContext(ctx, `SELECT count(*) FROM ledger`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d entries in the ledger, %v", n, err)
	}
	// A prepared write whose item has moved on is refused within the transaction.
	late, err := items.Prepare(ctx, key, largeitem.Large{"pdf": largeitem.Bytes([]byte("five"))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := items.Update(ctx, key, largeitem.Change{}, largeitem.Large{"pdf": largeitem.Bytes([]byte("six"))}, nil); err != nil {
		t.Fatal(err)
	}
	tx, err := table.d.open(t).BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	cond := late.Condition()
	var refused *largeitem.ConditionFailedError
	if _, err := table.InTx(tx).Update(ctx, key, late.Change(), &cond); !errors.As(err, &refused) {
		t.Errorf("a prepared write after another one: %v", err)
	}
}

// TestSQLiteTablesOfUsers: tables that sqltable has not made, in two files, are two tables:
// they do not share the names of objects. Whatever a program calls it, a table is one.
func TestSQLiteTablesOfUsers(t *testing.T) {
	t.Parallel()
	bucket := membucket.New()
	open := func(d database, name string) *largeitem.Store {
		t.Helper()
		table, err := sqltable.New(d.open(t), d.dialect, &sqltable.Options{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		s, err := largeitem.New(table, bucket, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	made := "CREATE TABLE items (pk TEXT PRIMARY KEY, body TEXT)"
	one, two := newSQLite(t).with(t, made), newSQLite(t).with(t, made)
	large := largeitem.Large{"body": largeitem.Text("x")}
	for i, name := range []string{"", "another name for people"} {
		if _, err := open(one, name).Create(t.Context(), itemKey(t, fmt.Sprint(i)), nil, large, nil); err != nil {
			t.Error(err)
		}
	}
	var other *largeitem.OtherTableError
	if _, err := open(two, "").Create(t.Context(), itemKey(t, "a"), nil, large, nil); !errors.As(err, &other) {
		t.Errorf("the table of another file: %v", err)
	}
	if _, err := open(two, "").Sweep(t.Context(), nil); !errors.As(err, &other) {
		t.Errorf("a sweep for the table of another file: %v", err)
	}
}

// checkSQLCopies: a copy of a table has the mark of the original, and not its place. So it
// removes nothing that the original refers to, until it is adopted, which ends that of the
// original. The table itself is known by whatever way leads to it.
func checkSQLCopies(t *testing.T, d database, server *servers.MariaDB) {
	ctx, bucket, key := t.Context(), membucket.New(), itemKey(t, "a")
	items := func(table largeitem.Table, adopt bool) *largeitem.Store {
		s, err := largeitem.New(table, bucket, &largeitem.Options{AdoptPrefix: adopt, RemoveSuperseded: true, RemoveYoung: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	put := func(s *largeitem.Store, body string) error {
		_, err := s.Replace(ctx, key, nil, largeitem.Large{"body": largeitem.Text(body)}, nil)
		return err
	}
	original := d.items(t, nil)
	if err := put(items(original, false), "one"); err != nil {
		t.Fatal(err)
	}
	copied := original
	if d.dialect == sqlstore.SQLite {
		path, rest, _ := strings.Cut(strings.TrimPrefix(d.url, "file:"), "?")
		if _, err := d.open(t).ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".copy", content, 0o600); err != nil {
			t.Fatal(err)
		}
		d2 := d
		d2.url = "file:" + path + ".copy?" + rest
		copied = d2.items(t, nil)
		if err := os.Symlink(path, path+".link"); err != nil {
			t.Fatal(err)
		}
		d2.url = "file:" + path + ".link?" + rest
		if err := put(items(d2.items(t, &sqltable.Options{Table: "ITEMS"}), false), "two"); err != nil {
			t.Errorf("by another path and another way to write its name: %v", err)
		}
	} else if d.dialect == sqlstore.MySQL {
		other := newMariaDB(t, server)
		name, _, _ := strings.Cut(d.url[strings.LastIndex(d.url, "/")+1:], "?")
		copied = other.with(t, "CREATE TABLE items LIKE "+name+".items", "INSERT INTO items SELECT * FROM "+name+".items").items(t, nil)
	} else {
		var comment string
		if err := d.open(t).QueryRowContext(ctx, "SELECT obj_description('items'::regclass)").Scan(&comment); err != nil {
			t.Fatal(err)
		}
		schema := d.url[strings.LastIndex(d.url, "=")+1:] + "_copy"
		d.with(t, "CREATE SCHEMA "+schema, "CREATE TABLE "+schema+".items (LIKE items INCLUDING ALL)",
			"INSERT INTO "+schema+".items SELECT * FROM items", "COMMENT ON TABLE "+schema+".items IS '"+comment+"'")
		other := d
		other.url += "_copy"
		copied = other.items(t, nil)
	}
	var other *largeitem.OtherTableError
	if err := put(items(copied, false), "three"); !errors.As(err, &other) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("a write to the copy: %v", err)
	}
	if r, err := items(copied, false).Delete(ctx, key, nil); err != nil || r.Removed != 0 {
		t.Errorf("a delete in the copy: %+v, %v", r, err)
	}
	if err := put(items(copied, true), "four"); err != nil {
		t.Errorf("the copy that was adopted: %v", err)
	}
	if err := put(items(original, false), "five"); !errors.As(err, &other) {
		t.Errorf("the original, after the adoption of the copy: %v", err)
	}
}

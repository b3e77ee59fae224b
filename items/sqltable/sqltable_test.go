package sqltable

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/abandon"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

func TestQuestionMarks(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
		ok   bool
	}{
		{"a", []string{"a"}, true},
		{"a > ?", []string{"a > ", ""}, true},
		{"? = ?", []string{"", " = ", ""}, true},
		{"a = '?' AND b = ?", []string{"a = '?' AND b = ", ""}, true},
		{`"a?" = 'it''s?'`, []string{`"a?" = 'it''s?'`}, true},
		{"j ?? 'x' AND a = ?", []string{"j ? 'x' AND a = ", ""}, true},
		{"a = 'x", nil, false},
		{`"a`, nil, false},
	} {
		got, ok := SQL{Text: c.text}.parts(`'"`)
		if ok != c.ok || ok && !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, %v", c.text, got, ok)
		}
	}
}

// A column of numbers refuses what it would not give back.
func TestExactNumbers(t *testing.T) {
	for _, c := range []struct {
		d    dialect
		kind string
		good []largeitem.Number
		bad  []largeitem.Number
	}{
		{postgres{}, "smallint", []largeitem.Number{"32767", "-32768", "1e2"}, []largeitem.Number{"32768", "0.5", "1e20"}},
		{postgres{}, "bigint", []largeitem.Number{"9223372036854775807"}, []largeitem.Number{"9223372036854775808"}},
		{postgres{}, "numeric", []largeitem.Number{"1e125", "1e-130", "0.12345678901234567890123456789012345678"}, nil},
		{postgres{}, "numeric(6,2)", []largeitem.Number{"0.25", "1e3", "-7"}, []largeitem.Number{"0.125", "1e-3", "1E-50"}},
		{postgres{}, "numeric(5,0)", []largeitem.Number{"1e3"}, []largeitem.Number{"0.5"}},
		{postgres{}, "real", []largeitem.Number{"0.1", "16777216"}, []largeitem.Number{"16777217", "0.123456789", "1e50"}},
		{postgres{}, "double precision", []largeitem.Number{"0.1", "1e100"}, []largeitem.Number{"9007199254740993", "1.00000000000000000001"}},
		{sqlite{}, "INTEGER", []largeitem.Number{"9223372036854775807", "0.5"}, []largeitem.Number{"9223372036854775809", "0.12345678901234567890"}},
		{sqlite{}, "DOUBLE", []largeitem.Number{"0.1"}, []largeitem.Number{"9223372036854775807"}},
	} {
		column := &column{kind: c.kind, class: classNumber}
		for i, n := range append(slices.Clone(c.good), c.bad...) {
			if _, err := c.d.param(column, n); (err == nil) != (i < len(c.good)) {
				t.Errorf("%s in %s: %v", n, c.kind, err)
			}
		}
	}
}

// The type of a column decides what its attribute is.
func TestClasses(t *testing.T) {
	for kind, want := range map[string]class{
		"text": classText, "character varying(20)": classText, "character(3)": classOther, "numeric(6,2)": classNumber, "double precision": classNumber, "boolean": classBool,
		"bytea": classBytes, "uuid": classOther, "timestamp with time zone": classOther, "integer[]": classOther, "interval": classOther, "jsonb": classOther, "numeric(6,2)[]": classOther, "character varying(3)[]": classOther,
	} {
		if got := postgresClass(kind); got != want {
			t.Errorf("PostgreSQL's %s: got %d, want %d", kind, got, want)
		}
	}
	for kind, want := range map[string]class{
		"": classOther, "TEXT": classText, "varchar(20)": classText, "BIGINT": classNumber, "DECIMAL(6,2)": classNumber, "NUMERIC": classNumber, "REAL": classNumber,
		"BLOB": classBytes, "BOOLEAN": classBool, "DATETIME": classOther, "JSON": classOther,
	} {
		if got := sqliteClass(kind); got != want {
			t.Errorf("SQLite's %s: got %d, want %d", kind, got, want)
		}
	}
}

// answering is a database that answers each statement by a function: a driver.Connector.
type answering struct {
	answer func(ctx context.Context, text string) (row func(n int, to []driver.Value) error, err error)
}

func (a *answering) Connect(context.Context) (driver.Conn, error) { return conn{a}, nil }
func (a *answering) Driver() driver.Driver                        { return nil }

type conn struct{ a *answering }

func (c conn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not here") }
func (c conn) Close() error                        { return nil }
func (c conn) Begin() (driver.Tx, error)           { return nil, errors.New("not here") }

func (c conn) QueryContext(ctx context.Context, text string, _ []driver.NamedValue) (driver.Rows, error) {
	row, err := c.a.answer(ctx, text)
	return &rows{row: row}, err
}

type rows struct {
	row func(n int, to []driver.Value) error
	n   int
}

func (r *rows) Columns() []string { return make([]string, 2) }
func (r *rows) Close() error      { return nil }
func (r *rows) Next(to []driver.Value) error {
	r.n++
	return r.row(r.n-1, to)
}

// newAnswering returns a table of one column for the key, whose look at itself is over.
func newAnswering(t *testing.T, answer func(ctx context.Context, text string) (func(n int, to []driver.Value) error, error)) *Table {
	t.Helper()
	db := sql.OpenDB(&answering{answer})
	t.Cleanup(func() { db.Close() })
	table, err := New(db, sqlstore.PostgreSQL, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := table.arrange(description{columns: []*column{{name: "pk", kind: "text"}}, unique: [][]string{{"pk"}}, place: "x"})
	if err != nil {
		t.Fatal(err)
	}
	table.layout.Store(l)
	return table
}

// state is an error with an SQLSTATE.
type state string

func (s state) Error() string    { return "the server says " + string(s) }
func (s state) SQLState() string { return string(s) }

func none(int, []driver.Value) error { return io.EOF }

// The outcome of a write follows from which statement failed, and how.
func TestOutcomes(t *testing.T) {
	lost := errors.New("connection reset")
	for what, c := range map[string]struct {
		read, write error
		want        store.Outcome
		is          error
	}{
		"the read is lost":        {lost, nil, store.NotApplied, store.ErrUnavailable},
		"the write is lost":       {nil, lost, store.Unknown, store.ErrUnavailable},
		"a constraint":            {nil, state("23505"), store.NotApplied, store.ErrInvalid},
		"a value":                 {nil, state("22001"), store.NotApplied, store.ErrInvalid},
		"a limit of an index":     {nil, state("54000"), store.NotApplied, store.ErrInvalid},
		"a trigger":               {nil, state("P0001"), store.NotApplied, store.ErrInvalid},
		"no right":                {nil, state("42501"), store.NotApplied, store.ErrDenied},
		"no table":                {state("42P01"), nil, store.NotApplied, store.ErrMisconfigured},
		"busy for too long":       {nil, state("40001"), store.NotApplied, store.ErrUnavailable},
		"completion unknown":      {nil, state("40003"), store.Unknown, store.ErrUnavailable},
		"the server is shut down": {nil, state("57P01"), store.Unknown, store.ErrUnavailable},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				writes := 0
				table := newAnswering(t, func(_ context.Context, text string) (func(int, []driver.Value) error, error) {
					if strings.HasPrefix(text, "SELECT") {
						return none, c.read
					}
					writes++
					return none, c.write
				})
				key, err := largeitem.NewKey("a")
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				_, err = table.Put(t.Context(), key, nil, nil)
				if store.OutcomeOf(err) != c.want || !errors.Is(err, c.is) || errors.Is(err, store.ErrConflict) {
					t.Errorf("got %v (%v), want %v", err, store.OutcomeOf(err), c.want)
				}
				if busy := c.write == state("40001"); busy != (writes > 1) || time.Since(start) > time.Minute {
					t.Errorf("%d writes in %v", writes, time.Since(start))
				}
			})
		})
	}
}

// A database that carries out nothing, because of a trigger or a policy, is reported, after a
// while; nothing was written.
func TestNothingIsCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newAnswering(t, func(context.Context, string) (func(int, []driver.Value) error, error) { return none, nil })
		key, err := largeitem.NewKey("a")
		if err != nil {
			t.Fatal(err)
		}
		for _, cond := range []*largeitem.Condition{nil, {Absent: true}} {
			start := time.Now()
			_, err = table.Put(t.Context(), key, nil, cond)
			if !errors.Is(err, store.ErrMisconfigured) || store.OutcomeOf(err) != store.NotApplied || time.Since(start) > time.Minute {
				t.Errorf("got %v (%v) after %v", err, store.OutcomeOf(err), time.Since(start))
			}
		}
	})
}

// A database that does not answer is unavailable after a while, also for a caller that waits
// for ever; a write that was not answered is of unknown outcome.
func TestHangingDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newAnswering(t, func(ctx context.Context, text string) (func(int, []driver.Value) error, error) {
			if strings.HasPrefix(text, "INSERT") || strings.Contains(text, "ORDER BY") {
				<-ctx.Done()
				return none, ctx.Err()
			}
			return none, nil
		})
		key, err := largeitem.NewKey("a")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = table.Put(t.Context(), key, nil, nil)
		if !errors.Is(err, store.ErrUnavailable) || store.OutcomeOf(err) != store.Unknown {
			t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
		}
		for _, err := range table.Scan(t.Context(), nil) {
			if !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("scan: %v", err)
			}
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

// Every call ends although a statement of SQLite ignores the end of its context, because its disk hangs.
func TestHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		thawed := make(chan struct{})
		table := newAnswering(t, func(context.Context, string) (func(int, []driver.Value) error, error) {
			<-thawed
			return none, nil
		})
		table.dialect, table.abandoned = sqlite{}, new(abandon.Calls)
		key, err := largeitem.NewKey("a")
		if err != nil {
			t.Fatal(err)
		}
		for what, call := range map[string]func(context.Context) error{
			"get": func(ctx context.Context) error { _, err := table.Get(ctx, key, nil); return err },
			"insert": func(ctx context.Context) error {
				_, err := table.Put(ctx, key, nil, &largeitem.Condition{Absent: true})
				return err
			},
			"many": func(ctx context.Context) error {
				_, err := table.GetMany(ctx, []largeitem.Key{key}, nil)
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			start := time.Now()
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || store.OutcomeOf(err) != store.Unknown || time.Since(start) > 2*time.Second {
				t.Errorf("%s: got %v (%v) after %v", what, err, store.OutcomeOf(err), time.Since(start))
			}
			cancel()
		}
		close(thawed)
		synctest.Wait()
	})
}

// A scan of a database that does not do what it is asked ends, and keeps no more than a
// page.
func TestHostileScans(t *testing.T) {
	read := 0
	for what, key := range map[string]func(n int) string{
		"endless":         func(n int) string { return fmt.Sprintf("k%09d", read) },
		"always the same": func(int) string { return "k" },
	} {
		t.Run(what, func(t *testing.T) {
			pages := 0
			table := newAnswering(t, func(context.Context, string) (func(int, []driver.Value) error, error) {
				pages++
				return func(n int, to []driver.Value) error {
					read++
					to[0] = "1"
					to[len(to)-1] = key(n)
					return nil
				}, nil
			})
			rows, last := 0, error(nil)
			for _, err := range table.Scan(t.Context(), nil) {
				last = err
				if rows++; rows == 3*pageRows {
					break
				}
			}
			if what == "endless" && (last != nil || pages > 4) || what != "endless" && !errors.Is(last, store.ErrMisconfigured) {
				t.Errorf("%d rows of %d pages, %v", rows, pages, last)
			}
		})
	}
}

// TestTextsOfOtherTypes: a column refuses a text that it would store as another value.
func TestTextsOfOtherTypes(t *testing.T) {
	for _, c := range []struct {
		d         dialect
		kind      string
		good, bad []string
	}{
		{mysql{}, "enum('a','7')", []string{"a", "7"}, []string{"2", " 1", "07"}},
		{mysql{}, "set('x','z')", []string{"x,z", "x"}, []string{"3"}},
		{mysql{}, "year(4)", []string{"2069"}, []string{"69", "7"}},
		{postgres{}, "character(3)", []string{"ab", "abc"}, []string{"ab "}},
	} {
		for i, text := range append(slices.Clone(c.good), c.bad...) {
			if _, err := c.d.param(&column{kind: c.kind, class: classOther}, text); (err == nil) != (i < len(c.good)) {
				t.Errorf("%q in %s: %v", text, c.kind, err)
			}
		}
	}
}

// TestSQLiteTextsLikeNumbers: in a column that is no text column, SQLite stores a text that looks like a number as a
// number. A large one would become infinity.
func TestSQLiteTextsLikeNumbers(t *testing.T) {
	for text, stored := range map[string]bool{"a12e45": true, "12e45x": true, "2026-11-29": true, "12": false, " 12e45 ": false, "12e4567": false, "-1e999": false} {
		if _, err := (sqlite{}).param(&column{class: classOther}, text); (err == nil) != stored {
			t.Errorf("%q: %v", text, err)
		}
		if _, err := (sqlite{}).param(&column{class: classText}, text); err != nil {
			t.Errorf("%q in a text column: %v", text, err)
		}
	}
}

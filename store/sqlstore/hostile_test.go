package sqlstore_test

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

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// answers is a database that answers every statement with the same: a driver.Connector.
type answers struct {
	columns int
	row     func(n int, to []driver.Value) error // of row n, from 0
	rows    int                                  // how many were read
	err     error                                // instead
	hang    bool                                 // until the context ends
}

func (a *answers) Connect(context.Context) (driver.Conn, error) { return conn{a}, nil }
func (a *answers) Driver() driver.Driver                        { return nil }

type conn struct{ a *answers }

func (c conn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not here") }
func (c conn) Close() error                        { return nil }
func (c conn) Begin() (driver.Tx, error)           { return nil, errors.New("not here") }

func (c conn) QueryContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Rows, error) {
	if c.a.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &rows{a: c.a}, c.a.err
}

type rows struct {
	a *answers
	n int
}

func (r *rows) Columns() []string { return make([]string, r.a.columns) }
func (r *rows) Close() error      { return nil }
func (r *rows) Next(to []driver.Value) error {
	r.n++
	r.a.rows++
	return r.a.row(r.n-1, to)
}

func open(t *testing.T, a *answers) store.Lister {
	t.Helper()
	db := sql.OpenDB(a)
	t.Cleanup(func() { db.Close() })
	st, err := sqlstore.New(db, sqlstore.PostgreSQL, nil)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// A listing ends with an error, and takes little memory, if a hostile server returns other
// rows than requested.
func TestHostileListings(t *testing.T) {
	for what, c := range map[string]struct {
		key  func(n int) string
		want error
		most int // rows that may be read
	}{
		"endless":          {func(n int) string { return fmt.Sprintf("k%09d", n) }, store.ErrMisconfigured, 1001},
		"always the same":  {func(int) string { return "k" }, store.ErrMisconfigured, 2},
		"descending":       {func(n int) string { return fmt.Sprintf("k%09d", 1e6-n) }, store.ErrMisconfigured, 2},
		"of another store": {func(int) string { return string(rune(0x10ffff)) + strings.Repeat(string(rune(0x10ffff)), 600) }, store.ErrMisconfigured, 1},
		"long":             {func(int) string { return strings.Repeat("k", 1<<20) }, store.ErrMisconfigured, 1},
	} {
		t.Run(what, func(t *testing.T) {
			a := &answers{columns: 1, row: func(n int, to []driver.Value) error { to[0] = c.key(n); return nil }}
			var got error
			for _, err := range open(t, a).List(t.Context(), "") {
				got = err
			}
			if !errors.Is(got, c.want) || a.rows > c.most {
				t.Errorf("got %v after %d rows, want %v within %d", got, a.rows, c.want, c.most)
			}
		})
	}
	t.Run("pages without end", func(t *testing.T) {
		page := 0
		a := &answers{columns: 1, row: func(n int, to []driver.Value) error {
			if n == 1000 {
				page++
				return io.EOF
			}
			to[0] = fmt.Sprintf("%09d", page*1000+n) + strings.Repeat("k", 500)
			return nil
		}}
		var got error
		names := 0
		for _, err := range open(t, a).List(t.Context(), "") {
			got = err
			names++
		}
		if !errors.Is(got, store.ErrCorrupt) || names > 70_000 {
			t.Errorf("got %v after %d names", got, names)
		}
	})
}

// TestKeysOfOthers: a listing leaves out rows that other programs have added, if their keys are not valid.
func TestKeysOfOthers(t *testing.T) {
	keys := []string{"a//b", "job", "job/", "job/\xff", "jobs"}
	a := &answers{columns: 1, row: func(n int, to []driver.Value) error {
		if n == len(keys) {
			return io.EOF
		}
		to[0] = keys[n]
		return nil
	}}
	var got []string
	for key, err := range open(t, a).List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, key)
	}
	if want := []string{"job", "jobs"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
}

// A database that does not answer is unavailable after a while, also for a caller without a
// deadline.
func TestHangingDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t, &answers{hang: true}).(store.Store)
		for what, call := range map[string]func() error{
			"get": func() error { _, _, err := st.Get(t.Context(), "k"); return err },
			"put": func() error { _, err := st.Put(t.Context(), "k", "", nil); return err },
			"list": func() error {
				for _, err := range st.(store.Lister).List(t.Context(), "") {
					return err
				}
				return nil
			},
		} {
			start := time.Now()
			if err := call(); !errors.Is(err, store.ErrUnavailable) || time.Since(start) > time.Minute {
				t.Errorf("%s: got %v after %v", what, err, time.Since(start))
			}
		}
		synctest.Wait()
	})
}

// An error repeats only a part of a long message of the database.
func TestLongMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t, &answers{err: errors.New(strings.Repeat("é", 1<<20))}).(store.Store)
		if _, _, err := st.Get(t.Context(), "k"); !errors.Is(err, store.ErrUnavailable) || len(err.Error()) > 1000 {
			t.Errorf("got %.80v, %d bytes", err, len(err.Error()))
		}
	})
}

// TestTimeLimitOfDriver: a time limit of the driver, for example for a new connection, is not the end of the caller's
// context.
func TestTimeLimitOfDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t, &answers{err: fmt.Errorf("dial tcp 192.0.2.1:5432: %w", context.DeadlineExceeded)}).(store.Store)
		if _, _, err := st.Get(t.Context(), "k"); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		<-ctx.Done()
		if _, _, err := st.Get(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

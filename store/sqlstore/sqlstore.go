package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/drivers/sqldialect"
	"github.com/holdfast-go/holdfast/internal/drivers/wakeup"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

const (
	// pageSize is how many keys one statement of a listing returns.
	pageSize = 1000

	// maxKey is more than the bytes of any key in the table.
	maxKey = 8000

	// maxListing is the most bytes of keys that one listing returns.
	maxListing = 32 << 20
)

// Store is a space of registers in a table. It may be used by any number of goroutines and needs no
// closing; the caller closes the database. Package engine contains its methods, and decides the
// outcome of each write.
type Store struct {
	*engine.Store
	t   *table
	hub *wakeup.Hub
}

// New returns a store in a table of the database db. [CreateTables] creates that table. New sends
// no request.
func New(db *sql.DB, dialect Dialect, opts *Options) (*Store, error) {
	t, err := newTable(db, dialect, opts)
	if err != nil {
		return nil, err
	}
	traits := store.Traits{Name: t.o.Name, Local: dialect == SQLite, Trusted: true}
	if t.o.Name != "" {
		traits.ID, traits.Prefix = "sql:"+t.o.Name+":"+t.o.Table, t.prefix
	}
	var sync func(context.Context) error
	if t.texts.sync != "" {
		traits.ReadsUnsynced, sync = true, t.sync
	}
	registers, err := engine.New(t, &engine.Options{
		Traits:          traits,
		ReadTries:       engine.DefaultTries,
		Check:           t.check,
		TrustConditions: true,
		Sync:            sync,
		Logger:          t.o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	return &Store{registers, t, newHub(t)}, nil
}

// read returns the columns version and record of a register.
func (t *table) read(ctx context.Context, key string) (version, record string, err error) {
	row, err := sqldialect.Read(ctx, t.abandoned, func(ctx context.Context) (row [2]string, err error) {
		err = t.db.QueryRowContext(ctx, t.texts.read, t.column(key)).Scan(&row[0], &row[1])
		return row, err
	})
	return row[0], row[1], err
}

// Read implements [engine.Driver].
func (t *table) Read(ctx context.Context, key string, _ engine.Tag) (engine.Stored, error) {
	version, record, err := t.read(ctx, key)
	if errors.Is(err, sql.ErrNoRows) {
		return engine.Stored{}, store.ErrNotFound
	}
	if err != nil {
		return engine.Stored{}, t.explain(err)
	}
	e, err := engine.Decode([]byte(record))
	if err == nil && e.ID() != version {
		err = fmt.Errorf("%w: the columns record and version (%.40q) of the row belong to different states: another program changed the row", store.ErrCorrupt, version)
	}
	return engine.Stored{Envelope: e}, err
}

// ReadRaw implements [engine.RawReader].
func (t *table) ReadRaw(ctx context.Context, key string) (body []byte, on engine.Stored, err error) {
	version, record, err := t.read(ctx, key)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, on, store.ErrNotFound
	case err != nil:
		return nil, on, t.explain(err)
	case len(record) > engine.MaxText:
		return nil, on, fmt.Errorf("%w: the record has %d bytes, more than a register can have, so another program wrote the record. Move the row to another key with the tools of the database", store.ErrTooLarge, len(record))
	}
	return []byte(record), engine.Stored{Envelope: engine.Envelope{Nonce: version}}, nil
}

// Write implements [engine.Driver] by one statement. If the condition of the statement holds, the
// statement returns a row; on MySQL, it changes a row.
func (t *table) Write(ctx context.Context, key string, on engine.Stored, e engine.Envelope) (engine.Tag, error) {
	text, args := t.texts.insert, []any{t.column(key), e.ID(), e.Deleted, string(e.Encode())}
	if !on.Absent() {
		text, args = t.texts.update, append(args, on.ID())
		if t.dialect == MySQL {
			args = append(args[1:4:4], args[0], on.ID()) // in the order of the question marks
		}
	}
	written, err := sqldialect.Read(ctx, t.abandoned, func(ctx context.Context) (bool, error) {
		if t.dialect == MySQL {
			return changed(t.db.ExecContext(ctx, text, args...))
		}
		rows, err := t.db.QueryContext(ctx, text, args...)
		if err != nil {
			return false, err
		}
		written := rows.Next()
		for rows.Next() { // to the end of the statement, which commits
		}
		return written, errors.Join(rows.Err(), rows.Close())
	})
	if err != nil {
		return "", t.explain(err)
	}
	if !written {
		return "", &engine.ConditionFailedError{}
	}
	return "", nil
}

// changed reports whether a statement changed a row. On MySQL, a driver can count the rows that match
// instead. These are the same rows, since each write has a new version.
func changed(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// sync makes all transactions durable that reads have shown. See [engine.Options].
func (t *table) sync(ctx context.Context) error {
	err := sqldialect.Bounded(ctx, func(ctx context.Context) error {
		_, err := t.db.ExecContext(ctx, t.texts.sync)
		return err
	})
	return t.explain(err)
}

// Remove implements [engine.Remover].
func (t *table) Remove(ctx context.Context, key string) error {
	_, err := sqldialect.Read(ctx, t.abandoned, func(ctx context.Context) (sql.Result, error) {
		return t.db.ExecContext(ctx, t.texts.remove, t.column(key))
	})
	return t.explain(err)
}

// List implements [engine.Driver].
func (t *table) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return list(ctx, t, t.texts.list, prefix, keyOf)
}

// ListAll does the same as List, but also yields the keys of tombstones. A program that has created
// registers to test a store finds them with ListAll and removes them with Erase.
func (s *Store) ListAll(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return list(ctx, s.t, s.t.texts.all, prefix, keyOf)
}

// ListTags implements [store.TagLister]. The tag is the content of the column version.
func (s *Store) ListTags(ctx context.Context, prefix string) iter.Seq2[store.Tagged, error] {
	return engine.Listing(ctx, s.Store, store.OpListTags, prefix, func(ctx context.Context, prefix string) iter.Seq2[store.Tagged, error] {
		return list(ctx, s.t, s.t.texts.tags, prefix, func(row store.Tagged) store.Tagged { return row })
	})
}

// ListCost implements [store.TagLister]. One statement of a listing returns a thousand rows. On
// PostgreSQL it takes about as long as ten Gets, and on SQLite about as long as twenty Gets.
func (s *Store) ListCost() store.ListCost { return store.ListCost{Gets: 10, Keys: pageSize} }

func keyOf(row store.Tagged) string { return row.Key }

// list calls show for each row that a statement finds below prefix, and yields the results.
// It reads pages, so that no statement is open while the caller handles a key.
func list[T any](ctx context.Context, t *table, text, prefix string, show func(store.Tagged) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		below := t.column("")
		if prefix != "" {
			below = t.column(prefix) + "/"
		}
		total := 0
		for last := below; ; {
			page, err := t.page(ctx, text, last, below)
			for _, row := range page {
				total += len(row.Key)
			}
			if err == nil && total > maxListing {
				err = fmt.Errorf("%w: the keys below the prefix have more than %d bytes, too many for a listing; list a longer prefix", store.ErrCorrupt, maxListing)
			}
			if err != nil {
				yield(show(store.Tagged{}), err)
				return
			}
			for _, row := range page {
				last = row.Key
				row.Key = strings.TrimPrefix(unescape.Replace(row.Key), t.prefix)
				if store.CheckKey(row.Key) == nil && !yield(show(row), nil) { // a row of others may have no valid key
					return
				}
			}
			if len(page) < pageSize {
				return
			}
		}
	}
}

// page runs a statement for the next rows: those with keys after last that begin with
// below. Their versions are empty unless the statement is for tags.
func (t *table) page(ctx context.Context, text, last, below string) ([]store.Tagged, error) {
	// All keys that begin with "a/" sort before "a0".
	end := strings.Repeat(string(rune(utf8.MaxRune)), store.MaxKey)
	if below != "" {
		end = strings.TrimSuffix(below, "/") + "0"
	}
	page, err := sqldialect.Read(ctx, t.abandoned, func(ctx context.Context) (page []store.Tagged, err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // ends a statement that the loop has left
		rows, err := t.db.QueryContext(ctx, text, last, end, pageSize)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		var row store.Tagged
		columns := []any{&row.Key}
		if text == t.texts.tags {
			columns = append(columns, &row.Tag)
		}
		for rows.Next() {
			if err := rows.Scan(columns...); err != nil {
				return nil, err
			}
			// Without this check a page could be endless, and the listing would never end.
			if row.Key <= last || row.Key >= end || len(row.Key) > maxKey || len(page) == pageSize {
				return nil, fmt.Errorf("%w: the database returned keys out of order or outside the prefix; use a table that holdfast init or CreateTables created", store.ErrMisconfigured)
			}
			last = row.Key
			page = append(page, row)
		}
		return page, rows.Err()
	})
	return page, t.explain(err)
}

// A text of PostgreSQL cannot contain zero bytes. The escapes keep the order of the keys.
var (
	escape   = strings.NewReplacer("\x00", "\x01a", "\x01", "\x01b")
	unescape = strings.NewReplacer("\x01a", "\x00", "\x01b", "\x01")
)

// column returns the value of the column key for a register.
func (t *table) column(key string) string { return escape.Replace(t.prefix + key) }

// check checks the set-up of the store, before its first write.
func (t *table) check(ctx context.Context) error {
	if _, err := t.page(ctx, t.texts.list, "", "0"); err != nil {
		return store.MarkNotApplied(err)
	}
	return store.MarkNotApplied(sqldialect.Bounded(ctx, func(ctx context.Context) error { return t.explain(t.rules.Check(ctx, t.db, t.o.Table, FenceTable)) }))
}

// explain makes an error of a statement match the sentinels that the engine checks.
func (t *table) explain(err error) error {
	return t.rules.Explain(err, "create the tables with holdfast init")
}

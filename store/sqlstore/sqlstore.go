package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// pageSize is how many keys one statement of a listing returns.
const pageSize = 1000

// Store is a space of registers in a table. It may be used by any number of goroutines
// and needs no closing; the database is the caller's to close. Its methods are those of
// [engine.Store], which tells what becomes of a write.
type Store struct {
	*engine.Store
	t   *table
	hub *hub
}

// New returns the registers in a table of db, which [CreateTables] has made. It sends
// nothing.
func New(db *sql.DB, dialect Dialect, opts *Options) (*Store, error) {
	t, err := newTable(db, dialect, opts)
	if err != nil {
		return nil, err
	}
	traits := store.Traits{Name: t.o.Name, Local: dialect == SQLite, Trusted: true}
	if t.o.Name != "" {
		traits.ID, traits.Prefix = "sql:"+t.o.Name+":"+t.o.Table, t.prefix
	}
	registers, err := engine.New(t, engine.Options{
		Traits:    traits,
		ReadTries: engine.DefaultTries,
		Check:     t.check,
		Honest:    true,
		Log:       t.o.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	return &Store{registers, t, newHub(t)}, nil
}

// Read implements [engine.Driver].
func (t *table) Read(ctx context.Context, key string, _ engine.Tag) (engine.Stored, error) {
	var version, record string
	err := t.db.QueryRowContext(ctx, t.texts.read, t.column(key)).Scan(&version, &record)
	if errors.Is(err, sql.ErrNoRows) {
		return engine.Stored{}, store.ErrNotFound
	}
	if err != nil {
		return engine.Stored{}, t.explain(err)
	}
	if len(record) > engine.MaxText {
		return engine.Stored{}, fmt.Errorf("%w: a record of %d bytes", store.ErrCorrupt, len(record))
	}
	e, err := engine.Decode([]byte(record))
	if err == nil && e.ID() != version {
		err = fmt.Errorf("%w: the record is not that of its version %.40q", store.ErrCorrupt, version)
	}
	return engine.Stored{Envelope: e}, err
}

// Write implements [engine.Driver], by one statement that returns a row if its condition
// held.
func (t *table) Write(ctx context.Context, key string, on engine.Stored, e engine.Envelope) (engine.Tag, error) {
	text, args := t.texts.insert, []any{t.column(key), e.ID(), e.Deleted, string(e.Encode())}
	if !on.Absent() {
		text, args = t.texts.update, append(args, on.ID())
	}
	rows, err := t.db.QueryContext(ctx, text, args...)
	if err != nil {
		return "", t.explain(err)
	}
	written := rows.Next()
	for rows.Next() { // to the end of the statement, which commits
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return "", t.explain(err)
	}
	if !written {
		return "", &engine.Refused{}
	}
	return "", nil
}

// List implements [engine.Driver], by pages, so that no statement is open while the
// caller works.
func (t *table) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		below := t.column("")
		if prefix != "" {
			below = t.column(prefix) + "/"
		}
		for last := below; ; {
			keys, err := t.page(ctx, last, below)
			if err != nil {
				yield("", err)
				return
			}
			for _, key := range keys {
				if !yield(strings.TrimPrefix(unescape.Replace(key), t.prefix), nil) {
					return
				}
				last = key
			}
			if len(keys) < pageSize {
				return
			}
		}
	}
}

// page returns the next keys after last that begin with below.
func (t *table) page(ctx context.Context, last, below string) ([]string, error) {
	// All keys that begin with "a/" lie before "a0".
	end := strings.Repeat(string(rune(utf8.MaxRune)), store.MaxKey)
	if below != "" {
		end = strings.TrimSuffix(below, "/") + "0"
	}
	rows, err := t.db.QueryContext(ctx, t.texts.list, last, end, pageSize)
	if err != nil {
		return nil, t.explain(err)
	}
	defer rows.Close()
	var keys []string
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			return nil, t.explain(err)
		}
		keys = append(keys, key)
	}
	return keys, t.explain(rows.Err())
}

// A text of PostgreSQL has no zero bytes. The escapes keep the order of the keys.
var (
	escape   = strings.NewReplacer("\x00", "\x01a", "\x01", "\x01b")
	unescape = strings.NewReplacer("\x01a", "\x00", "\x01b", "\x01")
)

// column returns the column key of a register.
func (t *table) column(key string) string { return escape.Replace(t.prefix + key) }

// check looks at what the store needs, before its first write.
func (t *table) check(ctx context.Context) error {
	if _, err := t.page(ctx, "", "0"); err != nil {
		return store.MarkNotApplied(err)
	}
	return store.MarkNotApplied(t.dialect.check(ctx, t.db, t.explain))
}

// explain makes an error of a statement match what the engine must know of it.
func (t *table) explain(err error) error {
	for _, known := range []error{nil, context.Canceled, context.DeadlineExceeded, store.ErrUnsafe, store.ErrMisconfigured} {
		if errors.Is(err, known) {
			return err
		}
	}
	switch kind := t.dialect.classify(err); {
	case kind == nil:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case errors.Is(kind, store.ErrMisconfigured):
		return fmt.Errorf("%w: %w (holdfast init, or CreateTables, makes the tables)", kind, err)
	default:
		return fmt.Errorf("%w: %w", kind, err)
	}
}

package sqltable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/internal/drivers/sqldialect"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// pageRows is how many rows one statement of a scan returns, and pageBytes how many
	// bytes of them are kept.
	pageRows  = 500
	pageBytes = 4 << 20

	// manyKeys is how many items one statement of GetMany reads.
	manyKeys = 50
)

// Scan implements [largeitem.Table], in the order of the key. One statement reads up to 500 rows,
// or rows of up to 4 MiB together. No statement is open while the caller processes a row.
func (t *Table) Scan(ctx context.Context, opts *largeitem.ScanOptions) iter.Seq2[largeitem.Row, error] {
	return func(yield func(largeitem.Row, error) bool) {
		o := *cmp.Or(opts, &largeitem.ScanOptions{})
		if err := t.scan(ctx, o, yield); err != nil {
			yield(largeitem.Row{}, &store.OpError{Op: "scan", Key: t.o.Table, Store: t.o.Name, Err: err})
		}
	}
}

// scan returns an error that is still to be yielded.
func (t *Table) scan(ctx context.Context, o largeitem.ScanOptions, yield func(largeitem.Row, error) bool) error {
	l, err := t.open(ctx)
	if err != nil {
		return err
	}
	var after *largeitem.Key
	if o.After != "" {
		var key largeitem.Key
		if key.UnmarshalText([]byte(o.After)) != nil || l.checkKey(key) != nil {
			return fmt.Errorf("%w: ScanOptions.After is %.60q, which is not a position in this table", largeitem.ErrInvalid, o.After)
		}
		after = &key
	}
	for more := true; more; {
		var page []largeitem.Row
		if page, more, err = t.page(ctx, l, after, o.Attributes); err != nil {
			return err
		}
		for _, row := range page {
			if after != nil && row.Key == *after {
				return fmt.Errorf("%w: the database does not return rows in the order of the key", store.ErrMisconfigured)
			}
			after = &row.Key
			if !yield(row, nil) {
				return nil
			}
		}
	}
	return nil
}

// page returns the next rows after a key, nil for the first ones, and whether there may be
// more.
func (t *Table) page(ctx context.Context, l *layout, after *largeitem.Key, attributes []string) (page []largeitem.Row, more bool, err error) {
	keys := quoteAll(l.d, l.keyNames())
	s := t.selectRows(l)
	if after != nil {
		// The first comparison follows from the second. MySQL needs it to use the index.
		s.add(" WHERE ", l.d.quote(l.keys[0].name), " >= ").value(l.keys[0], l.keyParams(*after)[0])
		s.add(" AND (", keys, ") > (").keyValues(l, *after).add(")")
	}
	s.add(" ORDER BY ", keys, fmt.Sprintf(" LIMIT %d", pageRows))
	size := 0
	page, err = t.rows(ctx, l, s, attributes, func(n, bytes int) bool {
		size += bytes
		return size <= pageBytes && n < pageRows
	})
	return page, err == nil && (size > pageBytes || len(page) == pageRows), err
}

// GetMany implements [largeitem.BatchGetter]. It sends one statement for each 50 keys.
func (t *Table) GetMany(ctx context.Context, keys []largeitem.Key, opts *largeitem.GetOptions) ([]largeitem.Attributes, error) {
	l, err := t.open(ctx)
	for _, key := range keys {
		if err == nil {
			err = l.checkKey(key)
		}
	}
	var names []string
	if opts != nil {
		names = opts.Attributes
	}
	items := make([]largeitem.Attributes, len(keys))
	for done := 0; err == nil && done < len(keys); done += manyKeys {
		err = t.getMany(ctx, l, keys[done:min(done+manyKeys, len(keys))], names, items[done:])
	}
	if err != nil {
		return nil, &store.OpError{Op: store.OpGet, Key: fmt.Sprintf("%d items", len(keys)), Store: t.o.Name, Err: err}
	}
	return items, nil
}

// getMany reads some items by one statement.
func (t *Table) getMany(ctx context.Context, l *layout, keys []largeitem.Key, names []string, items []largeitem.Attributes) error {
	wanted := make(map[largeitem.Key][]int, len(keys))
	s := t.selectRows(l).add(" WHERE (", quoteAll(l.d, l.keyNames()), ") IN (")
	if l.d.upsert() {
		s.add("VALUES ")
	}
	for i, key := range keys {
		if wanted[key] = append(wanted[key], i); i > 0 {
			s.add(", ")
		}
		s.add("(").keyValues(l, key).add(")")
	}
	rows, err := t.rows(ctx, l, s.add(")"), names, func(n, _ int) bool { return n < len(wanted) })
	for _, row := range rows {
		for _, i := range wanted[row.Key] {
			items[i] = row.Attributes.Clone()
		}
	}
	return err
}

// selectRows begins the statement that reads attributes and keys.
func (t *Table) selectRows(l *layout) *statement {
	s := t.statement("SELECT ", l.cells())
	for _, c := range l.keys {
		s.add(", ", t.dialect.cell(c))
	}
	return s.add(" FROM ", t.dialect.quote(t.o.Table))
}

// rows runs a statement of selectRows. It calls more with the number of rows so far and the size of the last
// one, and reads rows until more returns false.
func (t *Table) rows(ctx context.Context, l *layout, s *statement, attributes []string, more func(n, bytes int) bool) ([]largeitem.Row, error) {
	n := 1 + len(l.attributes)
	all, err := sqldialect.Read(ctx, t.abandoned, func(ctx context.Context) (all []largeitem.Row, err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // a database that continues is left
		rows, err := t.run.QueryContext(ctx, s.text(), s.args...)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			cells, err := scanCells(rows, n+len(l.keys))
			if err != nil {
				return nil, err
			}
			row, err := l.scanned(cells[1:n], cells[n:], attributes)
			if err != nil {
				return all, err
			}
			size := 0
			for _, cell := range cells {
				size += len(cell.String)
			}
			if all = append(all, row); !more(len(all), size) {
				return all, nil
			}
		}
		return all, rows.Err()
	})
	if errors.Is(err, store.ErrCorrupt) {
		return all, err
	}
	return all, t.explain(err)
}

// scanned makes a row of its cells.
func (l *layout) scanned(cells, keys []sql.NullString, attributes []string) (largeitem.Row, error) {
	var values []any
	for i, c := range l.keys {
		v, err := any(nil), error(nil)
		if keys[i].Valid {
			v, err = l.d.read(c, keys[i].String)
		}
		if err != nil {
			return largeitem.Row{}, fmt.Errorf("%w: the column %q: %v", store.ErrCorrupt, c.name, err)
		}
		values = append(values, v)
	}
	key, err := largeitem.NewKey(values[0], values[1:]...)
	if err != nil {
		return largeitem.Row{}, fmt.Errorf("%w: a row has a key that no item can have: %v", store.ErrCorrupt, err)
	}
	r, err := l.row(cells)
	if err != nil {
		return largeitem.Row{}, fmt.Errorf("the item %.200v: %w", key, err)
	}
	position, err := key.MarshalText()
	return largeitem.Row{Key: key, Attributes: r.item.Select(attributes), Position: string(position)}, err
}

// each runs a statement, and f for each row.
func each(ctx context.Context, db *sql.DB, text string, args []any, f func(scan func(...any) error) error) error {
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

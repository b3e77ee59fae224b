package largeitem

import (
	"context"
	"iter"
)

// List yields the items of the table, without opening their large attributes, in no promised
// order. It promises what [Table.Scan] promises: it yields every item that exists throughout.
// An error ends the listing. The exception is an error that matches store.ErrCorrupt: it can
// concern one damaged item, and the other items follow. Where opts names attributes, an item
// has no others.
//
// It costs what the table's scan costs: DynamoDB reads the whole table.
func (s *Store) List(ctx context.Context, opts *ScanOptions) iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) {
		schema, err := s.table.Schema(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		for row, err := range s.table.Scan(ctx, opts) {
			if err != nil {
				if !yield(nil, err) {
					return
				}
				continue
			}
			if !yield(s.newItem(schema, row.Key, row.Attributes), nil) {
				return
			}
		}
	}
}

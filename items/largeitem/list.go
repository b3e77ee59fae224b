package largeitem

import (
	"context"
	"iter"
)

// List yields the items of the table in no particular order, without their large attributes. It
// yields every item that exists during the whole listing. If the options name attributes, the items
// have only these attributes. An error ends the listing, with one exception: after an error that
// matches store.ErrCorrupt, List may continue with other items, because only one item is damaged.
//
// List scans the table: DynamoDB reads the whole table, and charges for it.
func (s *Store) List(ctx context.Context, opts *ScanOptions) iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) {
		schema, err := s.table.Schema(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		for row, err := range s.table.Scan(ctx, opts) {
			var item *Item
			if err == nil {
				item = s.newItem(schema, row.Key, row.Attributes)
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

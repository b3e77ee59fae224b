package reserve

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/object"
)

// Reservation is a reservation as it stands in the table.
type Reservation struct {
	Row

	// Since is when the row was written, in whole seconds: its TTL minus [Options].TTL. It
	// is wrong for a writer with another TTL, and zero where that shows, or where the row
	// has no TTL.
	Since time.Time

	// Live says that waiters respect the reservation: its holder has not released it, and
	// its timeout has not passed [Options].Rate times since Since. A waiter still waits
	// that long from when it first saw the row.
	Live bool
}

// List yields the reservations that stand in the table, in no promised order, by pages where
// the table has them. It changes nothing. An error that matches store.ErrCorrupt is about one
// row, and the listing continues; after any other error it ends. A table that is no [Lister]
// is refused with an error that matches errors.ErrUnsupported.
func (r *Reserver) List(ctx context.Context) iter.Seq2[Reservation, error] {
	return func(yield func(Reservation, error) bool) {
		table, ok := r.table.(Lister)
		if !ok {
			yield(Reservation{}, fmt.Errorf("reserve: %w", &object.UnsupportedError{Found: "the table cannot list its rows"}))
			return
		}
		for row, err := range table.Rows(ctx) {
			s := Reservation{Row: row, Live: row.Timeout > 0}
			now := time.Now()
			if since := time.Unix(row.TTL, 0).Add(-r.o.TTL); row.TTL > 0 && !since.After(now.Add(time.Second)) {
				s.Since = since
				s.Live = s.Live && now.Sub(since) <= r.waitOf(row)
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

package reserve

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/object"
)

// Reservation is a row of the table, with the time when it was written.
type Reservation struct {
	Row

	// Since is the time when the row was written, in whole seconds. It is the TTL of the row minus
	// [Options].TTL. If the writer of the row has another Options.TTL, Since is wrong. If the
	// result is in the future, or the row has no TTL, Since is zero.
	Since time.Time

	// Live says that waiters must wait for this reservation: its holder has not released it, and it
	// is younger than Row.Timeout * [Options].MaxClockSkewRate. Live uses the time in Since. A
	// waiter does not use Since: it measures from its own first read of the row.
	Live bool
}

// List yields the reservations of the table in no particular order. It changes nothing. An error
// that matches store.ErrCorrupt is about one row, and the listing continues. Any other error ends
// the listing. If the table is not a [Lister], the error matches errors.ErrUnsupported.
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

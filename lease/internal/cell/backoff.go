package cell

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
)

// RetryPause is a pause that doubles from min to max, with full jitter.
type RetryPause struct {
	min, max time.Duration
	random   func() float64
	Tries    int
}

func (c *Space) Backoff(from, to time.Duration) *RetryPause {
	return &RetryPause{min: from, max: max(from, to), random: c.Random}
}

// ResolveBackoff is the pause between two reads that resolve a write in doubt.
func (c *Space) ResolveBackoff() *RetryPause { return c.Backoff(10*time.Millisecond, time.Second) }

// Pause returns the next pause.
func (b *RetryPause) Pause() time.Duration {
	b.Tries++
	return time.Duration(b.random()*float64(backoff.Pause(b.Tries, b.min, b.max))) + 1
}

// Wait sleeps for the next pause, as [Sleep] does.
func (b *RetryPause) Wait(ctx context.Context) error { return Sleep(ctx, b.Pause()) }

// Sleep waits for d. If ctx has ended by then, Sleep returns its [store.Cause].
func Sleep(ctx context.Context, d time.Duration) error {
	_ = backoff.Sleep(ctx, d)
	return store.Cause(ctx)
}

// Contention spreads the writes of many clients that change one record: each write that is applied
// makes those of the others conflict. The holder's own write comes first. After a conflict the
// others pause for longer than the holder needs to read the record and to write over it. The pause
// doubles after each further conflict.
type Contention struct {
	cell      *Cell
	pause     time.Duration
	Conflicts int
	Free      int // conflicts after which the next try does not wait
}

// Contention returns the pauses of a client that writes over the cell. The first free conflicts do
// not delay it.
func (c *Cell) Contention(free int) Contention { return Contention{cell: c, Free: free} }

// FreeConflicts is after how many conflicts in a row a holder's write waits before its next try. It
// counts only where there is no hurry: where the holder's session is renewed elsewhere.
const FreeConflicts = 2

// renewalTakes is how many times as long as one write a renewal takes that conflicts, with an
// allowance: the write, a read, and the write over the record that was read.
const renewalTakes = 4

// If no holder renews the record, the pauses delay only those that enter it, so they are shorter: otherwise one that
// has bad luck stays out of a queue for many turns of the others. A conflict on a store of this machine costs little
// more than processor time: there the pauses are between these bounds.
const (
	leastPause = time.Millisecond
	mostPause  = 32 * time.Millisecond

	pausePart = 8 // elsewhere they are at most this part of Options.MaxPoll, unless the store is slow
)

// Conflict notes a conflict with the record r. It pauses, and then returns what is in the record: the
// state that the conflict carried is old by then.
func (c *Contention) Conflict(ctx context.Context, r *lockrec.Record) (*Seen, error) {
	if c.Conflicts++; c.Conflicts <= c.Free {
		return nil, nil
	}
	set := c.cell.Space.Set
	least, most := max(renewalTakes*c.cell.Space.takes(), leastPause), set.MaxPoll
	switch renewed := lockrec.IsRenewed(r); {
	case !renewed && set.Traits.Local:
		least, most = leastPause, mostPause
	case !renewed:
		most = min(max(most/pausePart, 4*least), most)
	}
	c.pause = min(max(2*c.pause, least), most)
	if err := Sleep(ctx, c.pause+time.Duration(c.cell.Space.Random()*float64(c.pause))); err != nil {
		return nil, err
	}
	return c.cell.Reread(ctx)
}

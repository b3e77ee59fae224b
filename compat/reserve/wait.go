package reserve

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

// WaitError says that a writer stopped waiting for the reservation of another writer. Err is the
// reason.
type WaitError struct {
	Row       Row           // the reservation of the other writer
	Remaining time.Duration // time until the waiter would have taken the row over
	Err       error
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("another writer has reserved %q (generation %d, timeout %v); this writer could have taken the reservation over in %v: %v",
		e.Row.Key, e.Row.Generation, e.Row.Timeout, e.Remaining.Round(time.Millisecond), e.Err)
}

// Unwrap returns Err.
func (e *WaitError) Unwrap() error { return e.Err }

// Outcome returns NotApplied.
func (e *WaitError) Outcome() store.Outcome { return store.NotApplied }

// polls is the pauses between two checks of a waiter. The first has full jitter, so that
// waiters which begin at one time differ. The others grow to the bound, and are shortened
// by up to a tenth.
type polls struct {
	next, most time.Duration
	readAfter  time.Duration // after this time the waiter reads the row itself
}

// firstReadFraction is the part of the wait after which a waiter reads the row for the first
// time: its holder may have released it. The time doubles with each read.
const firstReadFraction = 16

func (r *Reserver) polls(wait time.Duration) polls {
	return polls{most: max(2*TestInterval, wait/40), readAfter: max(wait/firstReadFraction, TestInterval)}
}

func (p *polls) pause(first time.Duration) time.Duration {
	if p.next == 0 {
		p.next = first
		return rand.N(first) + 1
	}
	p.next = min(p.next*3/2, p.most)
	return p.next - rand.N(p.next/10+1)
}

// waitOf is how long a waiter waits before it takes a row over: 0 if its holder has
// released it.
func (r *Reserver) waitOf(seen Row) time.Duration {
	rate := time.Duration(r.o.MaxClockSkewRate)
	if seen.Timeout > math.MaxInt64/rate {
		return math.MaxInt64
	}
	return seen.Timeout * rate
}

// wait waits for the holder of the row that this attempt has found. It returns the row when
// the writer may take it over, and nil when the writer should read the row, by an insertion.
func (a *attempt) wait(ctx context.Context) (over *Row, err error) {
	seen := &a.entry.seen
	wait := a.r.waitOf(seen.Row)
	if seen.Nonce != "" && seen.Nonce == a.entry.spent {
		wait = 0
	}
	late := time.Duration(0) // waiters of other processes wait until the same instant
	if wait > 0 {
		late = rand.N(TestInterval)
	}
	for {
		if err := a.check(ctx); err != nil {
			return nil, err
		}
		waited := time.Since(seen.since)
		left := wait - waited
		if wait == 0 || left < 0 && -left >= late {
			met := seen.Row
			return &met, nil
		}
		if waited >= seen.readAfter && left > 0 {
			seen.readAfter *= 2
			return nil, nil
		}
		pause := seen.pause(TestInterval)
		if pause-late > left {
			pause = left + late + 1
		}
		if backoff.Sleep(ctx, pause) != nil {
			return nil, &WaitError{seen.Row, max(wait-time.Since(seen.since), 0), store.Cause(ctx)}
		}
	}
}

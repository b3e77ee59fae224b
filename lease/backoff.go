package lease

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is a pause that doubles from min to max, with full jitter.
type backoff struct {
	min, max time.Duration
	next     time.Duration
}

// pause returns the next pause.
func (b *backoff) pause() time.Duration {
	b.next = min(max(2*b.next, b.min), max(b.max, b.min))
	return rand.N(b.next) + 1
}

// wait sleeps for the next pause, or returns the reason why ctx ended.
func (b *backoff) wait(ctx context.Context) error { return sleep(ctx, b.pause()) }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

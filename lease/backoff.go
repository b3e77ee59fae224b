package lease

import (
	"context"
	"time"
)

// backoff is a pause that doubles from min to max, with full jitter.
type backoff struct {
	min, max time.Duration
	random   func() float64
	next     time.Duration
}

func (c *Client) backoff(from, to time.Duration) *backoff {
	return &backoff{min: from, max: max(from, to), random: c.random}
}

// settling is the pause between two looks at an outcome that is not clear.
func (c *Client) settling() *backoff { return c.backoff(10*time.Millisecond, time.Second) }

// pause returns the next pause.
func (b *backoff) pause() time.Duration {
	b.next = min(max(2*b.next, b.min), b.max)
	return time.Duration(b.random()*float64(b.next)) + 1
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

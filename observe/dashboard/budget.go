package dashboard

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
)

// budget bounds the requests of the reader. It saves what was not used for ten seconds.
type budget struct {
	each time.Duration // between two requests

	mu   sync.Mutex
	free time.Time // from when on the next request may be sent; in the past if requests were saved
}

// saved is for how long unused requests are kept.
const saved = 10 * time.Second

// take waits until n requests may be sent. It returns false if the context ends.
func (b *budget) take(ctx context.Context, n int) bool { return backoff.Sleep(ctx, b.spend(n)) == nil }

// spend counts n requests, and returns for how long their sender has to wait.
func (b *budget) spend(n int) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if oldest := now.Add(-saved); b.free.Before(oldest) {
		b.free = oldest
	}
	wait := b.free.Sub(now)
	b.free = b.free.Add(time.Duration(n) * b.each)
	return wait
}

// timeFor returns the time in which n requests may be sent.
func (b *budget) timeFor(n int) time.Duration { return time.Duration(n) * b.each }

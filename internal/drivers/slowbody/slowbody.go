// Package slowbody reads the body of an answer, and ends the request when the body arrives too slowly.
package slowbody

import (
	"context"
	"fmt"
	"io"
	"time"
)

// minRate is how fast a body has to come on average, in bytes a second, when more than the limit was spent in
// reading it.
const minRate = 16 << 10

// Body is the body of an answer. The time that its reader spends between two reads does not count.
type Body struct {
	io.ReadCloser                 // missing until [Body.Begin]
	Context       context.Context // of the request

	cancel  context.CancelCauseFunc
	timer   *time.Timer
	limit   time.Duration
	explain func(ctx context.Context, err error) error
	spent   time.Duration // in reading
	size    int64         // that was read
}

// New returns the body of a request. The request ends with the given cause if its answer does not begin within
// the time first, or if a later read takes longer than limit. A body also fails when it has taken longer than limit,
// and the time for its bytes at 16 KiB a second. The function explain returns the error of a read for the caller. Its
// context is that of the request.
func New(ctx context.Context, limit, first time.Duration, cause error, explain func(ctx context.Context, err error) error) *Body {
	b := &Body{limit: limit, explain: explain}
	b.Context, b.cancel = context.WithCancelCause(ctx)
	b.timer = time.AfterFunc(first, func() { b.cancel(cause) })
	return b
}

// Begin says that the answer has begun.
func (b *Body) Begin(body io.ReadCloser) {
	b.timer.Stop()
	b.ReadCloser = body
}

// Read implements [io.Reader].
func (b *Body) Read(p []byte) (int, error) {
	b.timer.Reset(b.limit)
	start := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	b.spent += time.Since(start)
	b.size += int64(n)
	if err == nil && b.spent > b.limit+time.Duration(float64(b.size)/minRate*float64(time.Second)) {
		err = fmt.Errorf("the answer was too slow: less than %d bytes a second arrived", minRate)
	}
	if err != nil && err != io.EOF {
		err = b.explain(b.Context, err)
	}
	return n, err
}

// Close ends the request. A request without an answer has no body to close.
func (b *Body) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	if b.ReadCloser == nil {
		return nil
	}
	return b.ReadCloser.Close()
}

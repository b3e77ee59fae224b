package holding

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
)

// outbox writes lines in order, and never makes the goroutine that puts them wait: the input is
// read, and its end is seen, even if no program reads the output.
type outbox struct {
	failed chan struct{} // closed when the output cannot be written

	mu     sync.Mutex
	lines  []holdLine
	wake   chan struct{} // has an element if there is something to do
	ending bool
	err    error
	done   chan struct{}
}

func newOutbox(w io.Writer) *outbox {
	o := &outbox{failed: make(chan struct{}), wake: make(chan struct{}, 1), done: make(chan struct{})}
	go o.write(printable.JSON(w))
	return o
}

func (o *outbox) put(line holdLine) {
	line.Time, line.Deadline = time.Now().UTC(), line.Deadline.UTC()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.lines) >= maxUnread {
		o.fail(fmt.Errorf("your program has not read %d lines of the output", maxUnread))
	}
	if o.err == nil {
		o.lines = append(o.lines, line)
		o.ring()
	}
}

func (o *outbox) ring() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// fail ends the output. The caller holds the mutex.
func (o *outbox) fail(err error) {
	if o.err == nil {
		o.err, o.lines = err, nil
		close(o.failed)
		o.ring()
	}
}

func (o *outbox) write(out *json.Encoder) {
	defer close(o.done)
	for range o.wake {
		o.mu.Lock()
		lines, ending := o.lines, o.ending || o.err != nil
		o.lines = nil
		o.mu.Unlock()
		for _, line := range lines {
			if err := out.Encode(line); err != nil {
				o.mu.Lock()
				o.fail(err)
				o.mu.Unlock()
				return
			}
		}
		if ending {
			return
		}
	}
}

// close waits until all lines are written, or the reader has not taken them for a time.
func (o *outbox) close(within time.Duration) error {
	o.mu.Lock()
	o.ending = true
	o.ring()
	o.mu.Unlock()
	select {
	case <-o.done:
	case <-time.After(within):
		return fmt.Errorf("your program has not read the output for %v", within)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

package output

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Queue writes texts in order, and never makes the goroutine that writes them wait, even if no program reads the
// output.
type Queue struct {
	Failed chan struct{} // closed when the output cannot be written; never if the queue may leave out texts

	to    io.Writer
	most  int  // texts that wait
	leave bool // leave out the oldest text if too many wait, and each text that cannot be written

	mu    sync.Mutex
	texts [][]byte
	done  chan struct{} // of the goroutine that writes them; nil if there is none
	err   error
}

// NewQueue returns a queue that fails if a write fails, or if more than most texts wait.
func NewQueue(to io.Writer, most int) *Queue {
	return &Queue{Failed: make(chan struct{}), to: to, most: most}
}

// Write puts a text into the queue.
func (q *Queue) Write(text []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.texts) >= q.most {
		q.fail(fmt.Errorf("your program has not read %d lines of the output", q.most))
		q.texts = q.texts[min(1, len(q.texts)):]
	}
	if q.err != nil {
		return 0, q.err
	}
	q.texts = append(q.texts, slices.Clone(text))
	if q.done == nil {
		q.done = make(chan struct{})
		go q.write()
	}
	return len(text), nil
}

// fail ends the output, unless the queue may leave out texts. The caller holds the mutex.
func (q *Queue) fail(err error) {
	if q.err == nil && !q.leave {
		q.err, q.texts = err, nil
		close(q.Failed)
	}
}

// write writes the texts until none is left.
func (q *Queue) write() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.texts) > 0 {
		text := q.texts[0]
		q.texts = q.texts[1:]
		q.mu.Unlock()
		_, err := q.to.Write(text)
		q.mu.Lock()
		if err != nil {
			q.fail(err)
		}
	}
	close(q.done)
	q.done = nil
}

// Flush waits until all texts are written, or no program has read them for a time.
func (q *Queue) Flush(within time.Duration) error {
	q.mu.Lock()
	done := q.done
	q.mu.Unlock()
	if done != nil {
		select {
		case <-done:
		case <-time.After(within):
			return fmt.Errorf("your program has not read the output for %v", within)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

package output

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
)

// Wait is what stderr shows of the lock that the command waits for.
type Wait struct {
	mu    sync.Mutex
	name  string // of the lock; empty if it waits for none
	since time.Time
	stop  chan struct{} // closed when another holder has the lock, or the wait ends
	drawn bool          // the last line of the terminal shows the wait
}

// End ends what is shown of the wait for a lock; the empty name means any.
func (w *Wait) End(out io.Writer, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.name == "" || name != "" && name != w.name {
		return
	}
	close(w.stop)
	w.name = ""
	w.clear(out)
}

// clear clears the line of the wait. The caller holds w.mu.
func (w *Wait) clear(out io.Writer) {
	if w.drawn {
		fmt.Fprint(out, "\r\x1b[K")
		w.drawn = false
	}
}

// Begin notes that another holder has the lock that the command waits for.
func (w *Wait) Begin(name string) (since time.Time, stop chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.name != "" {
		close(w.stop)
	}
	if w.name != name {
		w.name, w.since = name, time.Now()
	}
	w.stop = make(chan struct{})
	return w.since, w.stop
}

// Draw draws the line of a wait, cut to the width of a terminal.
func (w *Wait) Draw(out io.Writer, terminal *os.File, text, end string, stop chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-stop:
		return
	default:
	}
	width := widthOf(terminal)
	if width <= 0 {
		width = 80
	}
	// A terminal may begin another line after its last column.
	line := truncateLine([]byte(printable.Text(text)), max(1, width-1-len(end)))
	fmt.Fprintf(out, "\r\x1b[K%s%s", line, end)
	w.drawn = true
}

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/lease"
)

// unresponsiveTimeout is how long the command keeps asking a store that does not answer.
const unresponsiveTimeout = 30 * time.Second

// When a wait is shown: on a terminal after showAfter, on a line that is kept up to date; elsewhere
// after noteAfter, and then each time that the wait is twice as long, at least every noteEvery.
const (
	showAfter = 2 * time.Second
	noteAfter = 5 * time.Second
	noteEvery = 10 * time.Minute
)

// shownWait is what stderr shows of the lock that the command waits for.
type shownWait struct {
	mu    sync.Mutex
	name  string // of the lock; empty if it waits for none
	since time.Time
	stop  chan struct{} // closed when another holder has the lock, or the wait ends
	drawn bool          // the last line of the terminal shows the wait
}

// end ends what is shown of the wait for a lock; the empty name means any.
func (w *shownWait) end(out io.Writer, name string) {
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
func (w *shownWait) clear(out io.Writer) {
	if w.drawn {
		fmt.Fprint(out, "\r\x1b[K")
		w.drawn = false
	}
}

// begin notes that another holder has the lock that the command waits for.
func (w *shownWait) begin(name string) (since time.Time, stop chan struct{}) {
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

// waitingLine returns the receiver of the events of a client on a store. It shows, after a
// moment, which holder the command waits for, since when the holder has the lock, and how long
// the wait has lasted; and that the store does not answer. --quiet hides both, and --verbose
// shows every event. It calls holders with a record to learn the name of its holder.
func (a *app) waitingLine(url string, f *leaseFlags, holders func(lease.Record) string) func(lease.Event) {
	return func(e lease.Event) {
		if a.verbose {
			e.Holder = holders(lease.Record{Holder: e.Holder})
		}
		switch {
		case e.Kind == lease.EventUnresponsive:
			a.silent(url, e)
		case a.verbose:
			a.event(e, url)
		}
		switch {
		case a.quiet || f.reportsWaits || e.Kind == lease.EventUnresponsive:
		case e.Kind == lease.EventWaiting:
			since, stop := a.wait.begin(e.Name)
			go a.showWait(e, url, holders, since, stop)
		default:
			a.wait.end(a.stderr, e.Name)
		}
	}
}

// silent says that a store does not answer, or fails.
func (a *app) silent(url string, e lease.Event) {
	what := fmt.Sprintf("the store %s does not answer", url)
	if e.Err != nil {
		if what = oneLine(e.Err); !strings.Contains(what, url) {
			what = fmt.Sprintf("the store %s reports an error: %s", url, what)
		}
	}
	a.notef("%s; holdfast tries again for up to %v", what, e.Wait.Round(time.Second))
}

// showWait shows a wait until stop.
func (a *app) showWait(e lease.Event, url string, holders func(lease.Record) string, since time.Time, stop chan struct{}) {
	file, _ := a.stderr.(*os.File)
	terminal := file != nil && !a.json && term.IsTerminal(int(file.Fd()))
	next, every := noteAfter, noteEvery
	if terminal {
		next, every = showAfter, time.Second
	}
	for next < time.Since(since) { // an earlier holder's part of the wait has been shown
		next = later(next, every)
	}
	text := ""
	for {
		timer := time.NewTimer(time.Until(since.Add(next)))
		select {
		case <-stop:
			timer.Stop()
			return
		case <-timer.C:
		}
		if text == "" {
			holder := "held by " + holders(lease.Record{Holder: e.Holder})
			if !e.Since.IsZero() {
				holder += " since " + shortTime(e.Since)
			}
			text = fmt.Sprintf("%s, on %s", holder, url)
		}
		waited := time.Since(since).Round(time.Second)
		if terminal {
			a.wait.draw(file, fmt.Sprintf("waiting for lock %q, %s", e.Name, text), fmt.Sprint(": ", waited), stop)
		} else {
			a.notef("waiting for lock %q for %v: %s", e.Name, waited, text)
		}
		next = later(next, every)
	}
}

// later returns after how much of a wait it is shown next.
func later(next, every time.Duration) time.Duration { return next + min(next, every) }

// draw draws the line of a wait, cut to the width of the terminal.
func (w *shownWait) draw(file *os.File, text, end string, stop chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-stop:
		return
	default:
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	// A terminal may begin another line after its last column.
	line := truncateLine([]byte(printable.Text(text)), max(1, width-1-len(end)))
	fmt.Fprintf(file, "\r\x1b[K%s%s", line, end)
	w.drawn = true
}

// event writes an event on one line.
func (a *app) event(e lease.Event, url string) {
	line := fmt.Sprintf("lock %s %s (token %d) on %s", e.Name, e.Kind, e.Token, url)
	if e.Name == "" {
		line = fmt.Sprintf("session %s %s on %s", e.Session, strings.TrimPrefix(string(e.Kind), "session "), url)
	}
	if e.Holder != "" {
		line += ": " + e.Holder
	}
	if e.Kind == lease.EventWaiting && !e.Since.IsZero() {
		line += " since " + e.Since.Local().Format(time.RFC3339)
	}
	if e.Reason != "" {
		line += ": " + e.Reason
	}
	if e.Err != nil {
		line += ": " + oneLine(e.Err)
	}
	a.warnf("%s", line)
}

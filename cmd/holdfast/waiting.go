package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/lease"
)

// waitingLine returns the receiver of a client's events. On a terminal it shows for
// whom a lock is waited, and how long already; in a pipe it is silent, unless
// --verbose asks for every event.
func (a *app) waitingLine() func(lease.Event) {
	f, isFile := a.stderr.(*os.File)
	show := !a.quiet && isFile && term.IsTerminal(int(f.Fd()))
	var (
		mu    sync.Mutex
		since time.Time
		stop  chan struct{}
		ended chan struct{}
	)
	clear := func() {
		if stop != nil {
			close(stop)
			<-ended
			stop = nil
			fmt.Fprint(a.stderr, "\r\x1b[K")
		}
	}
	return func(e lease.Event) {
		mu.Lock()
		defer mu.Unlock()
		if show {
			clear()
			switch e.Kind {
			case lease.EventWaiting:
				if since.IsZero() {
					since = time.Now()
				}
				stop, ended = make(chan struct{}), make(chan struct{})
				go showWait(a, e, since, stop, ended)
			default:
				since = time.Time{}
			}
		}
		if a.verbose {
			a.event(e)
		}
	}
}

// showWait keeps one line up to date until stop.
func showWait(a *app, e lease.Event, since time.Time, stop, ended chan struct{}) {
	defer close(ended)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		fmt.Fprintf(a.stderr, "\r\x1b[Kwaiting for %s, held by %s (token %d): %v", printable.Text(e.Name), printable.Text(e.Holder), e.Token, time.Since(since).Round(time.Second))
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

// event tells an event on one line.
func (a *app) event(e lease.Event) {
	line := fmt.Sprintf("lock %s %s (token %d)", e.Name, e.Kind, e.Token)
	if e.Holder != "" {
		line += " " + e.Holder
	}
	if e.Reason != "" {
		line += ": " + e.Reason
	}
	if e.Err != nil {
		line += ": " + oneLine(e.Err)
	}
	a.warnf("%s", line)
}

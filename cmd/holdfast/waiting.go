package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/lease"
)

// patience is how long the command keeps asking a store that does not answer.
const patience = 30 * time.Second

// showAfter is how long a wait lasts before a terminal shows it.
const showAfter = 2 * time.Second

// waitingLine returns the receiver of the events of a client on a store. On a terminal it
// shows, after a moment, which holder the command waits for, since when the holder has the
// lock, and how long the wait has lasted. In a pipe it shows none of this, unless --verbose
// asks for every event. In both it says if the store does not answer, unless --quiet. It calls
// holders with a record to learn the name of its holder.
func (a *app) waitingLine(url string, holders func(lease.Record) string) func(lease.Event) {
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
		}
	}
	return func(e lease.Event) {
		mu.Lock()
		defer mu.Unlock()
		if show || a.verbose {
			e.Holder = holders(lease.Record{Holder: e.Holder})
		}
		if show {
			clear()
			switch e.Kind {
			case lease.EventWaiting:
				if since.IsZero() {
					since = time.Now()
				}
				stop, ended = make(chan struct{}), make(chan struct{})
				go showWait(a, e, url, since, stop, ended)
			default:
				since = time.Time{}
			}
		}
		switch {
		case e.Kind == lease.EventSilent:
			a.silent(url, e.Wait)
		case a.verbose:
			a.event(e, url)
		}
	}
}

// silent says that a store does not answer.
func (a *app) silent(url string, left time.Duration) {
	a.notef("the store %s does not answer; it is asked for %v more", url, left.Round(time.Second))
}

// showWait keeps one line up to date until stop, and then clears it.
func showWait(a *app, e lease.Event, url string, since time.Time, stop, ended chan struct{}) {
	defer close(ended)
	holder := "held by " + e.Holder
	if !e.Since.IsZero() {
		holder += " since " + shortTime(e.Since)
	}
	first := time.NewTimer(time.Until(since.Add(showAfter)))
	defer first.Stop()
	select {
	case <-stop:
		return
	case <-first.C:
	}
	defer fmt.Fprint(a.stderr, "\r\x1b[K")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		line := fmt.Sprintf("waiting for %s, %s (token %d) on %s: %v", e.Name, holder, e.Token, url, time.Since(since).Round(time.Second))
		fmt.Fprintf(a.stderr, "\r\x1b[K%s", printable.Text(line))
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
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

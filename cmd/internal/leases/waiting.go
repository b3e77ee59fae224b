package leases

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/lease"
)

// UnresponsiveTimeout is how long the command keeps asking a store that does not answer.
const UnresponsiveTimeout = 30 * time.Second

// When a wait is shown: on a terminal after ShowAfter, on a line that is kept up to date; elsewhere
// after noteAfter, and then each time that the wait is twice as long, at least every noteEvery.
const (
	ShowAfter = 2 * time.Second
	noteAfter = 5 * time.Second
	noteEvery = 10 * time.Minute
)

// waitingLine returns the receiver of the events of a client on a store. It shows, after a
// moment, which holder the command waits for, since when the holder has the lock, and how long
// the wait has lasted; and that the store does not answer. --quiet hides both, and --verbose
// shows every event. It calls holders with a record to learn the name of its holder, and notBefore to
// learn until when a free lock cannot be taken.
func (a *Opener) waitingLine(url string, f *Flags, holders func(lease.Record) string, notBefore func(name string) time.Time) func(lease.Event) {
	return func(e lease.Event) {
		if a.Verbose {
			e.Holder = holders(lease.Record{Holder: e.Holder})
		}
		switch {
		case e.Kind == lease.EventUnresponsive:
			a.silent(url, e)
		case a.Verbose:
			a.event(e, url)
		}
		switch {
		case a.Quiet || f.ReportsWaits || e.Kind == lease.EventUnresponsive:
		case e.Kind == lease.EventWaiting:
			since, stop := a.Wait.Begin(e.Name)
			go a.showWait(e, url, holders, notBefore, since, stop)
		default:
			a.Wait.End(a.Messages(), e.Name)
		}
	}
}

// silent says that a store does not answer, or fails.
func (a *Opener) silent(url string, e lease.Event) {
	what := fmt.Sprintf("the store %s does not answer", url)
	if e.Err != nil {
		if what = output.OneLine(e.Err); !strings.Contains(what, url) {
			what = fmt.Sprintf("the store %s reports an error: %s", url, what)
		}
	}
	a.Notef("%s; holdfast tries again for up to %v", what, e.Wait.Round(time.Second))
}

// showWait shows a wait until stop.
func (a *Opener) showWait(e lease.Event, url string, holders func(lease.Record) string, notBefore func(string) time.Time, since time.Time, stop chan struct{}) {
	file := output.Terminal(a.Stderr)
	terminal := file != nil && !a.JSON
	next, every := noteAfter, noteEvery
	if terminal {
		next, every = ShowAfter, time.Second
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
		if text == "" || !terminal { // a terminal shows it each second
			holder := "held by " + holders(lease.Record{Holder: e.Holder})
			if !e.Since.IsZero() {
				holder += " since " + output.ShortTime(e.Since)
			}
			if t := notBefore(e.Name); !t.IsZero() {
				holder = FreeAfter(t)
			}
			text = fmt.Sprintf("%s, on %s", holder, url)
			select {
			case <-stop: // meanwhile
				return
			default:
			}
		}
		waited := time.Since(since).Round(time.Second)
		if terminal {
			a.Wait.Draw(a.Messages(), file, fmt.Sprintf("waiting for lock %q, %s", e.Name, text), fmt.Sprint(": ", waited), stop)
		} else {
			a.Notef("waiting for lock %q for %v: %s", e.Name, waited, text)
		}
		next = later(next, every)
	}
}

// FreeAfter says that no client can take a free lock before a time.
func FreeAfter(t time.Time) string {
	return fmt.Sprintf("free, but clients cannot take it before %s (--min-interval)", output.ShortTime(t))
}

// later returns after how much of a wait it is shown next.
func later(next, every time.Duration) time.Duration { return next + min(next, every) }

// event writes an event on one line.
func (a *Opener) event(e lease.Event, url string) {
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
		line += ": " + output.OneLine(e.Err)
	}
	a.Warnf("%s", line)
}

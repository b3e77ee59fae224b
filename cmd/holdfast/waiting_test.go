package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
)

// lockedBuffer is a buffer that goroutines write to while others read it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A wait whose stderr is no terminal is reported after five seconds, and then more and more rarely,
// also if other holders come in between. The events of other locks do not end the report.
func TestWaitingInAPipe(t *testing.T) {
	for _, args := range [][]string{nil, {"--quiet"}, {"--json"}} {
		synctest.Test(t, func(t *testing.T) {
			var out lockedBuffer
			a := &app{stderr: &out, quiet: fmt.Sprint(args) == "[--quiet]", json: fmt.Sprint(args) == "[--json]"}
			hear := a.waitingLine("file:/locks", &leaseFlags{}, func(r lease.Record) string { return r.Holder })
			lines := func() int { return strings.Count(out.String(), "\n") }
			hear(lease.Event{Kind: lease.EventWaiting, Name: "job", Holder: "ada", Token: 7})
			time.Sleep(4 * time.Second)
			if lines() > 0 {
				t.Errorf("after 4 s: %s", &out)
			}
			time.Sleep(2 * time.Second)
			hear(lease.Event{Kind: lease.EventRenewed, Name: "other"})
			first := `waiting for lock "job" for 5s: held by ada, on file:/locks`
			if a.json {
				first = strings.ReplaceAll(first, `"`, `\"`)
			}
			switch {
			case a.quiet && lines() == 0:
			case !a.quiet && lines() == 1 && strings.Contains(out.String(), first) && strings.HasPrefix(out.String(), "{") == a.json:
			default:
				t.Errorf("after 6 s: %s", &out)
			}
			for range 60 {
				time.Sleep(time.Minute)
				hear(lease.Event{Kind: lease.EventWaiting, Name: "job", Holder: "bob", Token: 8})
			}
			if n := lines(); !a.quiet && (n < 10 || n > 14) { // at 5, 10, 20, ..., 640 s, and every ten minutes
				t.Errorf("after an hour %d lines: %s", n, &out)
			}
			hear(lease.Event{Kind: lease.EventAcquired, Name: "job"})
			n := lines()
			time.Sleep(time.Hour)
			if lines() != n {
				t.Errorf("after the wait: %s", &out)
			}
		})
	}
}

// Wide characters are cut by the columns that they take.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"waiting", 7, "waiting"}, {"waiting", 6, "waiti…"}, {"waiting", 1, "…"}, {"waiting", 0, "waiting"},
		{"夜間作業", 8, "夜間作業"}, {"夜間作業", 7, "夜間作…"}, {"夜間作業", 6, "夜間…"}, {"", 3, ""},
	} {
		if got := string(truncateLine([]byte(c.line), c.width)); got != c.want {
			t.Errorf("cut(%q, %d) = %q, want %q", c.line, c.width, got, c.want)
		}
	}
}

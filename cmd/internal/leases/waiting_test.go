package leases

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
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
			a := &Opener{&cmdline.Invocation{Access: stores.Access{Printer: output.Printer{Stderr: &out, Quiet: fmt.Sprint(args) == "[--quiet]", JSON: fmt.Sprint(args) == "[--json]"}}}}
			hear := a.waitingLine("file:/locks", &Flags{}, func(r lease.Record) string { return r.Holder }, func(string) (none time.Time) { return none })
			lines := func() int { return strings.Count(out.String(), "\n") }
			hear(lease.Event{Kind: lease.EventWaiting, Name: "job", Holder: "ada", Token: 7})
			time.Sleep(4 * time.Second)
			if lines() > 0 {
				t.Errorf("after 4 s: %s", &out)
			}
			time.Sleep(2 * time.Second)
			hear(lease.Event{Kind: lease.EventRenewed, Name: "other"})
			first := `waiting for lock "job" for 5s: held by ada, on file:/locks`
			if a.JSON {
				first = strings.ReplaceAll(first, `"`, `\"`)
			}
			switch {
			case a.Quiet && lines() == 0:
			case !a.Quiet && lines() == 1 && strings.Contains(out.String(), first) && strings.HasPrefix(out.String(), "{") == a.JSON:
			default:
				t.Errorf("after 6 s: %s", &out)
			}
			for range 60 {
				time.Sleep(time.Minute)
				hear(lease.Event{Kind: lease.EventWaiting, Name: "job", Holder: "bob", Token: 8})
			}
			if n := lines(); !a.Quiet && (n < 10 || n > 14) { // at 5, 10, 20, ..., 640 s, and every ten minutes
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

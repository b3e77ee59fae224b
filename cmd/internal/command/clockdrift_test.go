package command

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// How long a waiter watches a lock, and whether that time is over, depends on the waiter's --max-clock-drift, by
// the clock of the store and by this machine's.
func TestExpiryByTheClockDriftOfWaiters(t *testing.T) {
	const ttl = 100 * time.Second
	for _, c := range []struct {
		drift float64
		since time.Duration
		want  string
		wait  string
	}{
		{0, 110 * time.Second, "expired", "1m42."},
		{0.2, 110 * time.Second, "held", ""},
		{0.2, 151 * time.Second, "expired", "2m30s"},
	} {
		client, err := lease.New(memstore.New(), &lease.Options{Tuning: lease.Tuning{MaxClockDrift: c.drift}})
		if err != nil {
			t.Fatal(err)
		}
		for _, age := range []time.Duration{c.since, -1} {
			info := lease.Info{Age: age, Liveness: store.LivenessUnknown}
			info.Record = lease.Record{Name: "job", State: lease.Held, TTL: ttl, Renewed: time.Now().Add(-c.since)}
			v := leases.ViewOf(client, info, "file:x")
			if got := strings.TrimSuffix(v.PlainState(), "?"); got != c.want || !strings.Contains(v.Explained(), c.wait) {
				t.Errorf("drift %v, %v: %s, %s", c.drift, c.since, got, v.Explained())
			}
		}
		if err := client.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, command := range []string{"show job", "ls", "watch"} {
		if said, status := executed(append(strings.Fields(command), "--max-clock-drift", "0.5", "--store", "file:"+t.TempDir())); status != exit.Usage || !strings.Contains(said, "--max-clock-drift: the maximal clock drift is 0.5") {
			t.Errorf("%s: status %d, %s", command, status, said)
		}
	}
}

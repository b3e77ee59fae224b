package locks

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/jsontest"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// The JSON that programs read stays as it is, and as the schema says.
func TestJSON(t *testing.T) {
	at := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	lock := leases.ViewOf(nil, lease.Info{Liveness: store.Alive, Record: lease.Record{
		Name: "jobs/nightly", State: lease.Held, Token: 1795220270042, Holder: "ada@db1 pid 4711",
		TTL: 30 * time.Second, Granted: at, Renewed: at.Add(10 * time.Second), Data: []byte("step 3"),
	}}, "file:/var/lib/holdfast")
	seen := viewOfLeader("jobs", lease.Leader{Name: "jobs", State: lease.LeaderActive, Value: []byte{0xff}, Token: 7, Holder: "ada", Since: at}, nil, "file:/x")
	seen.Time = &at
	jsontest.Golden(t, map[string]any{
		"history": viewOfEntry("jobs/nightly", lease.HistoryEntry{Seq: 1795485601000004, Time: at, Kind: lease.HistoryTakenOver, Token: 7, Holder: "ada", By: "bob", Reason: "why", Slot: 2, Missing: 3}, "file:/x"),
		"gap":     viewOfEntry("jobs/nightly", lease.HistoryEntry{Seq: 9, Kind: lease.HistoryUnrecorded, Missing: 3}, "file:/x"),
		"watch":   watchLine{Time: at, LockView: lock},
		"asked": viewOfStatus(lease.YieldStatus{
			YieldRequest: lease.YieldRequest{Grant: "G", By: "bob", Reason: "why", At: at, Acknowledged: true, RefusalReason: "no"},
			Name:         "jobs/nightly", Token: 7, Holder: "ada", GrantEnded: true, Current: lease.Record{State: lease.Held, Holder: "eve"},
		}, "file:/x"),
		"askreaders": viewOfStatus(lease.YieldStatus{YieldRequest: lease.YieldRequest{By: "bob", At: at}, Name: "doc", Token: 7, Holder: "session S"}, "file:/x"),
		"elected":    viewOfLeader("jobs", lease.Leader{Name: "jobs", State: lease.LeaderActive, Value: []byte("ada:8080"), Token: 7, Holder: "ada", Since: at}, nil, "file:/x"),
		"seen":       seen,
		"unled":      viewOfLeader("jobs", lease.Leader{}, errors.New("why"), "file:/x"),
		"none":       viewOfLeader("jobs", lease.Leader{State: lease.LeaderNone}, lease.ErrNoLeader, "file:/x"),
	})
	jsontest.GoldenFits(t, map[string]string{
		"history": "history", "gap": "history",
		"watch": "lock", "asked": "ask", "askreaders": "ask", "elected": "leader", "seen": "leader", "unled": "leader", "none": "leader",
	})
	jsontest.Fields(t, "lock", watchLine{}, "A lock: ")
	jsontest.Fields(t, "ask", askView{}, "`ask`, `leader`")
	jsontest.Fields(t, "history", historyView{}, "`history`")
	jsontest.Fields(t, "leader", leaderView{}, "`ask`, `leader`")
}

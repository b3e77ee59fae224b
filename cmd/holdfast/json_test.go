package main

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/jsontest"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// The JSON that programs read stays as it is.
func TestJSONGolden(t *testing.T) {
	at := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	record := lease.Record{
		Name: "jobs/nightly", State: lease.Held, Token: 1795220270042, Holder: "ada@db1 pid 4711",
		TTL: 30 * time.Second, Granted: at, Renewed: at.Add(10 * time.Second), Data: []byte("step 3"),
	}
	lock := leases.ViewOf(nil, lease.Info{Record: record, Liveness: store.Alive}, "file:/var/lib/holdfast")
	member := lease.Member{Session: "S", Grant: "S.1", TTL: 30 * time.Second, Since: at, Token: 1795220270042}
	reader, slot, waiter := member, member, member
	reader.Mode, slot.Mode, slot.Slot, waiter.Mode, waiter.Token = lease.ModeShared, lease.ModeSlot, 2, lease.ModeExclusive, 0
	read := record
	read.State, read.Data, read.Holders, read.Queue = lease.Shared, nil, []lease.Member{reader}, []lease.Member{waiter}
	slots := read
	slots.Slots, slots.Holders, slots.Queue = 5, []lease.Member{slot}, nil
	under := record
	under.Session, under.Linger = "S", time.Minute
	under.YieldRequest = &lease.YieldRequest{Grant: "S.1", By: "bob", Reason: "why", At: at, Acknowledged: true, RefusalReason: "no"}
	locks := []leases.HeldLock{{Store: "file:/var/lib/holdfast", Name: "jobs/nightly", Token: 1795220270042}}
	pool := []leases.HeldLock{{Store: "file:/x", Name: "pool", Token: 8, Slot: 2}}
	line := read
	line.State, line.Holders = lease.Held, nil
	line.Queue = []lease.Member{{Session: "S", Grant: "S.2", Mode: lease.ModeCandidate, TTL: time.Minute, Since: at}}
	seen := viewOfLeader("jobs", lease.Leader{Name: "jobs", State: lease.LeaderActive, Value: []byte{0xff}, Token: 7, Holder: "ada", Since: at}, nil, "file:/x")
	seen.Time = &at
	acquired := at.Add(time.Second)
	jsontest.Golden(t, map[string]any{

		"watch": watchLine{Time: at, LockView: lock},
		"hold":  holdLine{Event: "held", Lock: "jobs/nightly", Token: 7, Time: at, Deadline: at.Add(22 * time.Second), Store: "file:/x"},
		"asked": viewOfStatus(lease.YieldStatus{
			YieldRequest: lease.YieldRequest{Grant: "G", By: "bob", Reason: "why", At: at, Acknowledged: true, RefusalReason: "no"},
			Name:         "jobs/nightly", Token: 7, Holder: "ada", GrantEnded: true, Current: lease.Record{State: lease.Held, Holder: "eve"},
		}, "file:/x"),
		"elected":    viewOfLeader("jobs", lease.Leader{Name: "jobs", State: lease.LeaderActive, Value: []byte("ada:8080"), Token: 7, Holder: "ada", Since: at}, nil, "file:/x"),
		"seen":       seen,
		"unled":      viewOfLeader("jobs", lease.Leader{}, errors.New("why"), "file:/x"),
		"inslot":     &report{Names: []string{"pool"}, Command: []string{"job.sh"}, Result: "ran", Started: at, Acquired: &acquired, Ended: at.Add(time.Minute), Locks: pool},
		"askreaders": viewOfStatus(lease.YieldStatus{YieldRequest: lease.YieldRequest{By: "bob", At: at}, Name: "doc", Token: 7, Holder: "session S"}, "file:/x"),
		"none":       viewOfLeader("jobs", lease.Leader{State: lease.LeaderNone}, lease.ErrNoLeader, "file:/x"),
		"lost":       holdLine{Event: "lost", Lock: "jobs/nightly", Token: 7, Time: at, Error: "why"},
		"report": &report{
			Names: []string{"jobs/nightly"}, Command: []string{"job.sh"}, Result: "ran", Status: 3,
			Started: at, Acquired: &acquired, Ended: at.Add(time.Minute), Locks: locks,
		},
		"handle": &handleFile{
			Holdfast: 1, Kind: handleKind, Store: "file:/x", TTL: "1h0m0s", Margin: "6m0s", Grace: "5s", Deadline: at,
			Ticket: &lease.Ticket{Name: "deploy", Token: 7, Grant: "G", Version: "V", Nonce: "N", TTL: time.Hour, Sent: at, Epoch: "E", SentBoot: 5},
		},
	})
	jsontest.GoldenFits(t, map[string]string{
		"watch": "lock", "asked": "ask", "askreaders": "ask", "elected": "leader", "seen": "leader", "unled": "leader", "none": "leader",
		"report": "report", "inslot": "report", "hold": "hold", "lost": "hold",
	})
	jsontest.Fields(t, "lock", watchLine{}, "A lock: ")
	jsontest.Fields(t, "ask", askView{}, "`ask`, `leader`")
	jsontest.Fields(t, "leader", leaderView{}, "`ask`, `leader`")
	jsontest.Fields(t, "report", report{}, "`run --report")
}

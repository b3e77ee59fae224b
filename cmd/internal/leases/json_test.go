package leases

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/jsontest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// The JSON that programs read stays as it is, and as the schema says.
func TestJSON(t *testing.T) {
	at := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	record := lease.Record{
		Name: "jobs/nightly", State: lease.Held, Token: 1795220270042, Holder: "ada@db1 pid 4711",
		TTL: 30 * time.Second, Granted: at, Renewed: at.Add(10 * time.Second), Data: []byte("step 3"),
	}
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
	line := read
	line.State, line.Holders = lease.Held, nil
	line.Queue = []lease.Member{{Session: "S", Grant: "S.2", Mode: lease.ModeCandidate, TTL: time.Minute, Since: at}}
	jsontest.Golden(t, map[string]any{
		"lock":       ViewOf(nil, lease.Info{Record: record, Liveness: store.Alive}, "file:/var/lib/holdfast"),
		"readers":    ViewOf(nil, lease.Info{Record: read}, "file:/x"),
		"slots":      ViewOf(nil, lease.Info{Record: slots}, "file:/x"),
		"insession":  ViewOf(nil, lease.Info{Record: under}, "file:/x"),
		"candidates": ViewOf(nil, lease.Info{Record: line}, "file:/x"),
	})
	jsontest.GoldenFits(t, map[string]string{"lock": "lock", "readers": "lock", "slots": "lock", "insession": "lock", "candidates": "lock"})
	jsontest.Fields(t, "member", MemberView{}, "A lock: ")
	jsontest.Fields(t, "run", RunView{}, "A lock: ")
	jsontest.Fields(t, "yield_request", YieldRequestView{}, "A lock: ")
	jsontest.Fields(t, "held", HeldLock{}, "`run --report")
}

// TestJSONOfALateClock: a record can be renewed so late that its lease ends after the last time that JSON can have.
// Then the view of the lock leaves that out, and the views of other locks are not lost with it.
func TestJSONOfALateClock(t *testing.T) {
	at := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, state := range []lease.State{lease.Held, lease.Broken} {
		for _, zone := range []*time.Location{time.UTC, time.FixedZone("", -3600)} {
			view := ViewOf(nil, lease.Info{Record: lease.Record{Name: "job", State: state, TTL: time.Minute, Granted: at, Renewed: at.In(zone)}}, "file:/x")
			if b, err := json.Marshal(view); err != nil {
				t.Errorf("%s: %s, %v", state, b, err)
			}
		}
	}
}

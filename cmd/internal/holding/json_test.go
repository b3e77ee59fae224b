package holding

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/jsontest"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/lease"
)

// The JSON that programs read stays as it is, and as the schema says.
func TestJSON(t *testing.T) {
	at := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	acquired := at.Add(time.Second)
	jsontest.Golden(t, map[string]any{
		"hold": holdLine{Event: "held", Lock: "jobs/nightly", Token: 7, Time: at, Deadline: at.Add(22 * time.Second), Store: "file:/x"},
		"lost": holdLine{Event: "lost", Lock: "jobs/nightly", Token: 7, Time: at, Error: "why"},
		"report": &report{
			Names: []string{"jobs/nightly"}, Command: []string{"job.sh"}, Result: "ran", Status: 3,
			Started: at, Acquired: &acquired, Ended: at.Add(time.Minute),
			Locks: []leases.HeldLock{{Store: "file:/var/lib/holdfast", Name: "jobs/nightly", Token: 1795220270042}},
		},
		"inslot": &report{
			Names: []string{"pool"}, Command: []string{"job.sh"}, Result: "ran", Started: at, Acquired: &acquired, Ended: at.Add(time.Minute),
			Locks: []leases.HeldLock{{Store: "file:/x", Name: "pool", Token: 8, Slot: 2}},
		},
		"handle": &handleFile{
			Holdfast: 1, Kind: handleKind, Store: "file:/x", TTL: "1h0m0s", Margin: "6m0s", Grace: "5s", Deadline: at,
			Ticket: &lease.Ticket{Name: "deploy", Token: 7, Grant: "G", Version: "V", Nonce: "N", TTL: time.Hour, Sent: at, Epoch: "E", SentBoot: 5},
		},
	})
	jsontest.GoldenFits(t, map[string]string{"hold": "hold", "lost": "hold", "report": "report", "inslot": "report"})
	jsontest.Fields(t, "report", report{}, "`run --report")
}

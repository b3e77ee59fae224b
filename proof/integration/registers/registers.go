// Package registers tests a kind of registers on its real server: with the suites of registers, leases and
// checkpoints, through a proxy that cuts connections, and while the server is killed and started again.
package registers

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/lease/leasetest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// Server is a server that a test can kill and start again. Package servers has such servers.
type Server interface {
	// Address returns the address of the present server. Each start can use another one.
	Address() string

	// Kill ends the server as kill -9 does.
	Kill()

	// Start starts the server with the data that it had.
	Start(ctx context.Context) error
}

// Open opens a handle on a space of registers, as another process would. The address is that of the server,
// or of a proxy to the server.
type Open func(t testing.TB, address string) store.Store

// Kind is a kind of registers on a kind of server.
type Kind struct {
	// Start starts a server without data. When the test ends, the server ends.
	Start func(t *testing.T) Server

	// NewSpace creates a space without registers on a server.
	NewSpace func(t *testing.T, server Server) Open

	// TTL is the TTL of leases; 0 means 4 s.
	TTL time.Duration

	// Registers adapts the suite of registers. Run sets Reopen.
	Registers storetest.Options

	// OneCutIn is the average number of pieces of data between two cut connections; 0 means 20.
	OneCutIn int

	// Loses says that the server can lose acknowledged writes if it is killed. Then the test of the kills
	// does not count them.
	Loses bool
}

// handle is a store that can be opened again.
type handle struct {
	store.Store
	open    Open
	address string
}

func (h handle) Unwrap() store.Store { return h.Store }

// another opens another handle on the space of first.
func another(t *testing.T, first store.Store) store.Store {
	h := first.(handle)
	return handle{h.open(t, h.address), h.open, h.address}
}

// Run runs all tests of a kind.
func (k Kind) Run(t *testing.T) { k.run(t, "Registers", "Leases", "Checkpoints", "Cuts", "Kills") }

// RunRegisters runs only the suite of registers, and the test that cuts connections. Use it for a second set-up that
// differs in how it reads or writes one register.
func (k Kind) RunRegisters(t *testing.T) { k.run(t, "Registers", "Cuts") }

func (k Kind) run(t *testing.T, names ...string) {
	t.Parallel()
	server := k.Start(t)
	space := func(t *testing.T) store.Store {
		open, address := k.NewSpace(t, server), server.Address()
		return handle{open(t, address), open, address}
	}
	ttl := cmp.Or(k.TTL, 4*time.Second)
	tests := map[string]func(t *testing.T){
		"Registers": func(t *testing.T) {
			o := k.Registers
			o.Reopen, o.Rounds = another, cmp.Or(o.Rounds, 3)
			storetest.Run(t, space, &o)
		},
		"Leases": func(t *testing.T) {
			leasetest.Run(t, space, &leasetest.Options{TTL: ttl, Second: another, Parallel: true, CaseTimeout: 3 * time.Minute})
		},
		"Checkpoints": func(t *testing.T) {
			open := k.NewSpace(t, server)
			checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
				st, err := checkpoint.New(open(t, server.Address()), nil)
				if err != nil {
					t.Fatal(err)
				}
				return st
			}, nil)
		},
		"Cuts":  func(t *testing.T) { cuts(t, server, k.NewSpace(t, server), cmp.Or(k.OneCutIn, 20)) },
		"Kills": func(t *testing.T) { kills(t, k, ttl) },
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tests[name](t)
		})
	}
}

package lockmodel_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/proof/explore"
	"github.com/holdfast-go/holdfast/proof/lockmodel"
)

// Worlds with tickets. A client must have the TTL of the lease that it attaches to: so
// both have one, and in the last world one believes that of its ticket.
var (
	ticketWorld  = lockmodel.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 1, Tickets: true}
	fileWorld    = lockmodel.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 1, Tickets: true, Crash: true}
	deadWorld    = lockmodel.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 1, Tickets: true, Crash: true, Presence: true}
	lateTickets  = lockmodel.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 2, Tickets: true}
	unequalWorld = lockmodel.Config{TTL: [2]int{2, 4}, Attempts: 1, Flight: 1, Tickets: true}
)

// TestTickets visits all states of a world with two clients, their files, and copies of
// them.
func TestTickets(t *testing.T) { visit(t, ticketWorld, 2_000_000) }

// TestTicketsAndDeath visits all states of a world in which processes end at any time, too,
// and records name them.
func TestTicketsAndDeath(t *testing.T) {
	visitAtLength(t, deadWorld, 10_000_000, lockmodel.TicketEvents()...)
}

// TestLateTickets visits all states of a world in which a write with a ticket may be applied long
// after its sender has given it up, while another is under way.
func TestLateTickets(t *testing.T) { visitAtLength(t, lateTickets, 9_000_000) }

// TestTicketReductions compares states with their reduced forms: the nearest ones of the
// right protocol and of each fault of tickets.
func TestTicketReductions(t *testing.T) {
	c := deadWorld
	c.Flight, c.Attempts = 2, 2
	compareFaults(t, c, 10, explore.Between(lockmodel.TicketTakesGrant, lockmodel.BreakNamesItself))
}

package model_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lease/internal/explore"
	"github.com/holdfast-go/holdfast/lease/internal/model"
)

// Worlds with tickets. A client must have the TTL of the lease that it attaches to: so
// both have one, and in the last world one believes that of its ticket.
var (
	ticketWorld  = model.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 1, Tickets: true}
	fileWorld    = model.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 1, Tickets: true, Crash: true}
	deadWorld    = model.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 1, Tickets: true, Crash: true, Presence: true}
	lateTickets  = model.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 2, Tickets: true}
	unequalWorld = model.Config{TTL: [2]int{2, 4}, Attempts: 1, Flight: 1, Tickets: true}
)

// TestTickets visits all states of a world with two clients, their files, and copies of
// them.
func TestTickets(t *testing.T) { visit(t, ticketWorld, 100_000, 2_000_000) }

// TestTicketsAndDeath visits all states of a world in which processes end at any time, too,
// and records name them.
func TestTicketsAndDeath(t *testing.T) {
	visitAtLength(t, deadWorld, 10_000_000, model.TicketEvents()...)
}

// TestLateTickets visits all states of a world in which a write with a ticket may be applied long
// after its sender has given it up, while another is under way.
func TestLateTickets(t *testing.T) { visitAtLength(t, lateTickets, 9_000_000) }

// TestTicketReductions compares states with their reduced forms: the nearest ones of the
// right protocol and of each fault of tickets.
func TestTicketReductions(t *testing.T) {
	c := deadWorld
	c.Flight, c.Attempts = 2, 2
	compareFaults(t, c, 10, explore.Between(model.TicketTakesGrant, model.BreakNamesItself))
}

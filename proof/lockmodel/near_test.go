package lockmodel_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
	"github.com/holdfast-go/holdfast/proof/lockmodel"
)

// TestNear visits the nearest states of the worlds in which faults are looked for. They show each
// mutant of the rules of a record.
func TestNear(t *testing.T) {
	for name, c := range map[string]lockmodel.Config{
		"plain": plainWorld, "break": breakWorld, "presence": presentWorld, "age": agedWorld, "request": askWorld, "ticket": ticketWorld, "sweep": {Attempts: 1, Flight: 1, Break: true, Sweep: true},
	} {
		t.Run(name, func(t *testing.T) {
			lab.Visit(t, c, lockmodel.Options{Probe: 64, MaxStates: 60_000}, 0)
		})
	}
}

// TestMutants puts faults into the rules that this model and package lease run.
func TestMutants(t *testing.T) {
	const (
		judge  = "../../internal/lockrec/judge.go"
		write  = "../../internal/lockrec/write.go"
		record = "../../internal/lockrec/record.go"
		ticket = "../../internal/lockrec/ticket.go"
	)
	mutanttest.Run(t, []mutanttest.Mutant{
		// Whether a record may be taken.
		{"a lock is taken without waiting", judge,
			"expiry := Expiry(r.TTL, f.Factor)",
			"expiry := time.Duration(0)",
			"TestNear/plain"},
		{"the waiter waits for the TTL and forgets that clocks differ", judge,
			"expiry := Expiry(r.TTL, f.Factor)",
			"expiry := r.TTL",
			"TestNear/plain"},
		{"the waiter allows for its own clock, and forgets that of the holder", judge,
			"return (1 + drift) / (1 - drift)",
			"return 1 + drift",
			"TestNear/plain"},
		{"a broken lock is taken without waiting", judge,
			"	case r == nil, r.State == Free:\n",
			"	case r == nil, r.State == Free, r.State == Broken:\n",
			"TestNear/break"},
		{"a client waits for its own former grant", judge,
			"	case f.OwnEnded:\n",
			"	case f.OwnEnded && r.State == Held:\n",
			"TestNear/break"},
		{"a version is old enough at the TTL by the store's clock", judge,
			"holderWriteAge(r, f.Age) >= expiry && f.Renewed >= expiry",
			"holderWriteAge(r, f.Age) >= r.TTL && f.Renewed >= expiry",
			"TestNear/age"},
		{"a broken record counts as old as its version and what it broke, twice", write,
			"		stood += r.HolderWriteAge\n",
			"		stood += 2*r.HolderWriteAge + stood\n",
			"TestNear/age"},
		{"a waiter times the version of a broken record", record,
			"		return cmp.Or(r.BrokenNonce, r.HolderNonce, r.Nonce)\n",
			"		return r.Nonce\n",
			"TestNear/break"},
		{"a waiter times the version that a request to yield made", record,
			"	return cmp.Or(r.HolderNonce, r.Nonce)\n",
			"	return r.Nonce\n",
			"TestNear/request"},
		{"a waiter continues its watch of any write of the grant", judge,
			"return HolderWrite{r.Grant, HolderNonce(r)}",
			"return HolderWrite{r.Grant, \"\"}",
			"TestNear/plain"},
		{"a waiter continues its watch over a break, although that broke another write", judge,
			"return HolderWrite{r.Grant, HolderNonce(r)}",
			"if r.State == Broken {\n		return HolderWrite{Grant: r.Grant}\n	}\n	return HolderWrite{r.Grant, HolderNonce(r)}",
			"TestNear/break"},

		// What a write makes of a record.
		{"an acquire does not raise the token", write,
			"	rec.Token, err = NextToken(base)\n",
			"	rec.Token, err = base.Token, error(nil)\n",
			"TestNear/plain"},
		{"a break does not raise the token", write,
			"Broken, raised, time.Time{}",
			"Broken, max(r.Token, raised-1), time.Time{}",
			"TestNear/break"},
		{"a broken record does not name the grant that it broke", write,
			"	if r.State == Held {\n		next.BrokenNonce",
			"	next.Grant, next.Process = \"\", \"\"\n	if r.State == Held {\n		next.BrokenNonce",
			"TestNear/break"},
		{"a broken record does not name the presence of the holder", write,
			"	if r.State == Held {\n		next.BrokenNonce",
			"	next.Presence = \"\"\n	if r.State == Held {\n		next.BrokenNonce",
			"TestNear/presence"},
		{"a broken record does not name the write that it broke", write,
			"		next.BrokenNonce = HolderNonce(r)\n",
			"		next.BrokenNonce = r.BrokenNonce\n",
			"TestNear/break"},
		{"a broken record tells a shorter TTL", write,
			"	next.Immediate, next.Run = now, AllowRerun(r)\n",
			"	next.Immediate, next.Run, next.TTL = now, AllowRerun(r), r.TTL/2\n",
			"TestNear/break"},
		{"a renewal writes a shorter TTL than the grant was given with", write,
			"\"\", 0, nil, now\n",
			"\"\", 0, nil, now\n	next.TTL /= 2\n",
			"TestNear/plain"},
		{"a request to yield over another one marks that one, and not the holder's write", write,
			" = HolderNonce(r), holderWriteAge(r, age)\n	next.OtherWrites",
			" = r.Nonce, holderWriteAge(r, age)\n	next.OtherWrites",
			"TestNear/request"},
		{"a renewal leaves the mark of a request to yield", write,
			"next.HolderNonce, next.HolderWriteAge, next.LocksToCheck, next.Renewed = \"\", 0, nil, now",
			"next.HolderWriteAge, next.LocksToCheck, next.Renewed = 0, nil, now",
			"TestAsk"},
		{"a release lowers the token", record,
			"	free.Renewed = at\n",
			"	free.Renewed, free.Token = at, r.Token-1\n",
			"TestNear/plain"},
		{"a release leaves the record as it is", record,
			"	Vacate(&free)\n",
			"",
			"TestNear/plain"},

		// What a record that was read shows.
		{"a request to yield over a write is not recognised", judge,
			"(read.Nonce == r.Nonce || read.HolderNonce == r.Nonce)",
			"(read.Nonce == r.Nonce)",
			"TestNear/request"},
		{"a holder takes every grant for its own", ticket,
			"	case r.State != Held || r.Grant != grant:\n",
			"	case r.State != Held:\n",
			"TestNear/plain"},
		{"a holder keeps a grant that was broken", ticket,
			"	case r.State == Broken:\n		return ErrBroken\n",
			"	case r.State == Broken:\n		return nil\n",
			"TestNear/break"},
		{"a request to yield takes the grant from its holder", ticket,
			"	case r.State != Held || r.Grant != grant:\n",
			"	case r.State != Held || r.Grant != grant || r.HolderNonce != \"\":\n",
			"TestNear/request"},

		// Whether a record may be removed.
		{"a sweep removes the record of a held lock", write,
			"case r == nil, r.State != Free,",
			"case r == nil, r.State == Revoked,",
			"TestSweep"},
		{"a sweep removes the record of a broken lock", write,
			"case r == nil, r.State != Free,",
			"case r == nil, r.State == Held,",
			"TestNear/sweep"},

		// Whether a ticket may be used.
		{"a ticket is good for any state of its grant", ticket,
			"		return -1, ErrTicketUsed\n",
			"		return -1, nil\n",
			"TestTickets"},
		{"a process frees any state of its ticket's grant", ticket,
			"	if write = pending(HolderNonce(r)); write < 0 {\n",
			"	if write = pending(HolderNonce(r)); write < 0 && !release {\n",
			"TestTickets"},
		{"a ticket is not good for a write that it announced", ticket,
			"write = pending(HolderNonce(r)); write < 0",
			"write = pending(HolderNonce(r)); true",
			"TestNear/ticket"},
	})
}

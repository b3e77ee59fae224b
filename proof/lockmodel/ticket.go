package lockmodel

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/proof/explore"
)

// A ticket is a lease that no process holds. It is in a file of each client, which survives the
// client, and which may be copied at any time. Time has no part in it: a ticket may count as fresh
// or as too late at any time. So the checks hold for any clocks, and for tickets whose times were
// altered.

const maxAnnounced = 2

// ticket is what a file holds. There is none if grant is zero.
type ticket struct {
	ver   uint8 // the version that it names
	grant uint8
	tok   uint8
	good  uint8 // ghost: its lease was not taken up since, so that it must work
	n     uint8 // writes in ann
	ann   [maxAnnounced]uint8
}

func (t *ticket) announces(ver uint8) bool { return slices.Contains(t.ann[:t.n], ver) }

func (t *ticket) announce(ver uint8) { explore.Put(t.ann[:], &t.n, ver) }

// The ways to use a ticket.
const (
	forAttach uint8 = iota
	forRenewal
	forRelease
)

// detach ends the belief of a holder and leaves a ticket in its file, which announces
// the renewals of unknown outcome.
func (w *world) detach(c int) bool {
	cl := &w.cl[c]
	if cl.n > maxAnnounced {
		return false
	}
	w.hand[c] = ticket{ver: cl.base.ver, grant: cl.grant, tok: cl.tok, good: 1}
	w.Note(Detached)
	if w.Fault != TicketForgetsPending {
		for _, a := range cl.att[:cl.n] {
			w.hand[c].announce(a.ver)
		}
	}
	*cl = client{}
	return true
}

// copyTicket gives the other client a copy of the file of client c.
func (w *world) copyTicket(c int) bool {
	w.hand[1-c] = w.hand[c]
	return true
}

// use reads the register for a ticket. If the ticket is good for that record, the client continues
// with it.
func (w *world) use(c int, what uint8) bool {
	cl, t := &w.cl[c], &w.hand[c]
	announced, why := w.fits(c, t, &w.reg, what == forRelease)
	anyVersion := what == forAttach && w.Fault == TicketTakesGrant || what == forRelease && w.Fault == TicketFreesGrant
	switch {
	case why == lockrec.ErrTicketUsed && !anyVersion:
		w.Note(TicketRefused)
		if t.good == 1 {
			w.Fail(TicketKept)
		}
		return true
	case why != nil && why != lockrec.ErrTicketUsed:
		return false
	case announced:
		w.Note(UsedAnnounced)
	}
	*cl = client{mode: attaching + what, grant: t.grant, tok: t.tok, base: w.reg}
	if what == forRenewal && w.Fault != TicketSentFirst {
		return w.announceNext(c)
	}
	return true
}

// announceNext writes the nonce of the next write into the file before the write is sent.
// Announcements over a version that was replaced are void.
func (w *world) announceNext(c int) bool {
	cl, t := &w.cl[c], &w.hand[c]
	*t = w.carried(c)
	if t.n == maxAnnounced {
		return false
	}
	t.announce(freshVersion)
	cl.wver = freshVersion
	return true
}

// sendAttach renews the lease of a ticket for a guard.
func (w *world) sendAttach(c int) bool {
	if w.Fault == TicketTrustsAnnounced && !w.announceNext(c) {
		return false
	}
	if next := w.carried(c); int(next.n)+int(w.cl[c].n) >= maxAnnounced {
		return false // the next ticket could not announce it
	}
	return w.sendHeld(c, toAttach)
}

// carried is the ticket of client c at the version over which it writes next.
func (w *world) carried(c int) ticket {
	next := w.hand[c]
	if base := w.cl[c].base.ver; next.announces(base) { // announcements over the version before are void
		next.ver, next.n, next.ann = base, 0, [maxAnnounced]uint8{}
	}
	return next
}

// keep is what some faults keep of the record before.
func (w *world) keep(rec, before *record) {
	switch w.Fault {
	case TicketTTL:
		rec.ttl = before.ttl
	case AttachKeepsProcess:
		rec.owner = before.owner
	case AttachKeepsPresence:
		rec.pres = before.pres
	}
}

// sendRenewal renews the lease of a ticket, once for each announcement.
func (w *world) sendRenewal(c int) bool {
	cl := &w.cl[c]
	if cl.n > 0 {
		return false
	}
	return w.sendHeld(c, toExtend)
}

// renewedTicket is the end of a renewal: the file gets the next ticket.
func (w *world) renewedTicket(c int, ver uint8) {
	cl := &w.cl[c]
	w.Note(TicketRenewed)
	w.hand[c] = ticket{ver: ver, grant: cl.grant, tok: cl.tok}
	if ver == w.reg.ver {
		w.hand[c].good = 1
	}
	*cl = client{}
}

// leave ends a use of a ticket whose outcome is not known. An attach leaves a new ticket, with the
// writes that were sent; a renewal has announced its writes.
func (w *world) leave(c int) bool {
	cl, t := &w.cl[c], &w.hand[c]
	if cl.mode == attaching && cl.n > 0 && cl.grant == t.grant && w.Fault != TicketTrustsAnnounced {
		next := w.carried(c)
		for _, a := range cl.att[:cl.n] {
			if next.n < maxAnnounced { // otherwise the file was exchanged meanwhile
				next.announce(a.ver)
			}
		}
		if _, why := w.fits(c, &next, &w.reg, false); why == nil {
			next.good = 1
		}
		*t = next
	}
	*cl = client{}
	return true
}

// settleTicket resolves a use of a ticket by a read-back.
func (w *world) settleTicket(c int, rec record) {
	cl, t := &w.cl[c], &w.hand[c]
	own := slices.ContainsFunc(cl.att[:cl.n], func(a attempt) bool { return a.ver == rec.ver })
	announced, _ := w.fits(c, t, &rec, false)
	switch {
	case rec.ver == cl.base.ver:
		w.Note(ResolvedNotApplied)
	case own && cl.mode == attaching:
		w.Note(ResolvedOurs)
		w.adopt(c, rec.ver, 0)
	case own:
		w.Note(ResolvedOurs)
		w.renewedTicket(c, rec.ver)
	case announced:
		w.Note(UsedAnnounced)
		cl.base = rec
		cl.forget()
		if cl.mode == extending {
			*cl = client{} // the file announces a write over a version that was replaced: the client starts again
		}
	default:
		w.Note(TicketRefused)
		*cl = client{}
		w.observe(c, rec)
	}
}

// usedUp notes which files are void after a write was applied. Those that announce the write stay
// good, and so must those that should announce it.
func (w *world) usedUp(r *request) {
	for h := range w.hand {
		t := &w.hand[h]
		owed := r.grant == t.grant && (r.what == toRenew || w.Fault == TicketSentFirst && r.what == toExtend && int(r.by) == h)
		if t.good == 1 && !t.announces(r.rec.ver) && !owed {
			t.good = 0
		}
	}
}

// dieAt marks the presence of client c dead wherever it is named.
func (w *world) dieAt(c int) {
	mark := func(r *record) {
		if r.pres == uint8(c)+1 {
			r.pres = deadPresence
		}
	}
	mark(&w.reg)
	mark(&w.was)
	for i := range w.n {
		mark(&w.flight[i].rec)
	}
	for i := range w.cl {
		mark(&w.cl[i].base)
		mark(&w.cl[i].reply)
	}
}

// deadPresence is the presence of a process that has ended; 1 and 2 are those of A and B.
const deadPresence = 3

// tidyHands forgets announcements that can never be applied, versions that were replaced, and
// tickets of grants that are over. A version is never used twice, so that such writes are always
// refused.
func (s *state) tidyHands() {
	for h := range s.hand {
		t := &s.hand[h]
		explore.Keep(t.ann[:], &t.n, func(ver *uint8) bool { return *ver == s.reg.ver || s.underWay(*ver) })
		if t.ver != s.reg.ver {
			t.ver = explore.GoneVersion
		}
		over := s.reg.kind != held || s.reg.grant != t.grant
		for i := range s.n {
			over = over && s.flight[i].grant != t.grant
		}
		if over {
			*t = ticket{}
		}
	}
}

// underWay says whether a write may still be applied: it is in flight, or announced and about to be
// sent over the present version.
func (s *state) underWay(ver uint8) bool {
	for i := range s.n {
		if s.flight[i].rec.ver == ver {
			return true
		}
	}
	for i := range s.cl {
		c := &s.cl[i]
		if c.mode == extending && c.wver == ver && c.n == 0 && c.base.ver == s.reg.ver {
			return true
		}
	}
	return false
}

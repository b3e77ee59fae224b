package lockmodel

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/proof/explore"
)

// The rules of a record are those of package lockrec. A state has its records in a small form, which
// is made a record of lockrec for a rule, and small again. A version stands for the nonce of the write
// that made it, and a unit of a clock is a second.

const unit = time.Second

// aside is longer than any time of the model.
const aside = lockrec.MaxTTL

func (r *record) full() *lockrec.Record {
	f := r.value() // on the stack of the caller, since the compiler inlines full
	return &f
}

func (r *record) value() lockrec.Record {
	return lockrec.Record{
		State:       [...]lockrec.State{absent: lockrec.Free, free: lockrec.Free, held: lockrec.Held, broken: lockrec.Broken, brokenNow: lockrec.Broken}[r.kind],
		Immediate:   r.kind == brokenNow,
		Token:       uint64(r.tok),
		Grant:       explore.Text(r.grant),
		Process:     explore.Text(r.owner + 1),
		Presence:    explore.Text(r.pres),
		TTL:         time.Duration(r.ttl) * unit,
		Nonce:       explore.Text(r.ver),
		HolderNonce: explore.Text(r.mark),
		BrokenNonce: explore.Text(r.broke), HolderWriteAge: time.Duration(r.stood) * unit,
	}
}

// small returns a record that is about to be written: its version is not known yet.
func small(f *lockrec.Record) record {
	r := record{
		kind: free, tok: uint8(f.Token), grant: explore.Number(f.Grant), owner: explore.Number(f.Process) - 1, pres: explore.Number(f.Presence),
		ttl: units(f.TTL), mark: explore.Number(f.HolderNonce), broke: explore.Number(f.BrokenNonce), stood: units(f.HolderWriteAge),
	}
	switch {
	case f.State == lockrec.Held:
		r.kind = held
	case f.Immediate: // who held the lock does not matter any more
		r.kind, r.pres, r.broke, r.stood = brokenNow, 0, 0, 0
	case f.State == lockrec.Broken:
		r.kind = broken
	default:
		r = record{kind: free, tok: r.tok}
	}
	return r
}

func units(d time.Duration) uint8 { return uint8((d + unit - 1) / unit) }

// facts are those of a waiter that sees a record for the first time.
func (m *machine) facts() lockrec.Facts {
	return lockrec.Facts{Factor: lockrec.Factor(1.0 / 3), Age: -1}
}

// patience is how long, on its own clock, client c must see rec unchanged before it may take it;
// zero if it may be taken at once.
func (m *machine) patience(c int, rec record) uint8 {
	if m.Fault == WaitOwnTTL {
		rec.ttl = m.ttl[c]
	}
	return units(lockrec.Judge(rec.full(), m.facts()).Wait)
}

// isOld says whether a record, together with what it broke, is old enough to be taken, by the
// store's clock.
func (m *machine) isOld(r *record) bool {
	f := m.facts()
	f.Age, f.Renewed = time.Duration(r.age)*unit, aside
	return m.Age && r.isTaken() && lockrec.Judge(r.full(), f).Open
}

// isTaken says whether a waiter has to wait for the holder in a record.
func (r *record) isTaken() bool { return r.kind == held || r.kind == broken }

// isOpen says whether client c may take what a record says without a wait: it is the client's own
// former grant, or that of a dead process. The records that clients wait on have lost their TTL.
func (m *machine) isOpen(c int, r *record) bool {
	f, rec := m.facts(), r.full()
	rec.TTL, f.OwnEnded, f.Dead = aside, r.formerlyOf(c), r.pres == deadPresence
	return r.isTaken() && lockrec.Judge(rec, f).Open
}

// sees says whether rec shows the same write of the holder as what client c waits on, which has lost
// the id of its grant.
func (w *world) sees(c int, rec *record) bool {
	base := w.cl[c].base
	base.grant = rec.grant
	return base.ver != rec.ver && lockrec.LastWrite(base.full()) == lockrec.LastWrite(rec.full())
}

// has says whether a record that client c has read has its present grant in force.
func (w *world) has(c int, read *record) bool {
	return lockrec.Loss(read.full(), explore.Text(w.cl[c].grant)) == nil
}

// isBroken says whether a record that client c has read is a break of its present grant.
func (w *world) isBroken(c int, read *record) bool {
	grant := w.cl[c].grant
	return read.of(grant) && lockrec.Loss(read.full(), explore.Text(grant)) == lockrec.ErrBroken
}

// fits returns why the ticket of client c is not good for a record, and whether one of the writes that
// it announces made the record. The TTL of the ticket is that of the client: otherwise the client would
// refuse the ticket.
func (w *world) fits(c int, t *ticket, read *record, release bool) (announced bool, why error) {
	says := &lockrec.Ticket{Grant: explore.Text(t.grant), Token: uint64(t.tok), TTL: time.Duration(w.ttl[c]) * unit, Nonce: explore.Text(t.ver)}
	for _, ver := range t.ann[:t.n] {
		says.PendingWrites = append(says.PendingWrites, lockrec.PendingWrite{Nonce: explore.Text(ver)})
	}
	if w.Fault == TicketTTL {
		says.TTL = time.Duration(read.ttl) * unit
	}
	write, why := lockrec.UseTicket(read.full(), says, read.ver == t.ver, release)
	return write >= 0, why
}

// own is the record over which client c writes, as it knows it.
func (w *world) own(c int) record {
	cl := &w.cl[c]
	return record{ver: cl.base.ver, mark: cl.base.mark, kind: held, owner: uint8(c), grant: cl.grant, tok: cl.tok, ttl: w.ttl[c]}
}

// wrote returns which attempt of client c wrote what it has read, or -1.
func (w *world) wrote(c int, read *record) int {
	cl := &w.cl[c]
	return slices.IndexFunc(cl.att[:cl.n], func(a attempt) bool {
		sent := record{ver: a.ver, kind: held, grant: cl.grant}
		return lockrec.Wrote(sent.full(), read.full())
	})
}

// onlyOthers says whether others made what client c has read from the record over which it writes.
func (w *world) onlyOthers(c int, read *record) bool {
	base, now := w.own(c), *read
	now.mark = now.lastWrite() // relabel may let the record itself serve as that write
	return lockrec.OnlyOthersWrote(now.full(), base.full())
}

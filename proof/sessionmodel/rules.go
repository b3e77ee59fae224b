package sessionmodel

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

var states = [...]lockrec.State{free: lockrec.Free, held: lockrec.Held, broken: lockrec.Broken, open: lockrec.Held, fenced: lockrec.Revoked, closed: lockrec.Free}

// full returns nil for an absent record.
func (r *record) full() *lockrec.Record {
	if r.kind == absent {
		return nil
	}
	f := &lockrec.Record{State: states[r.kind], Token: uint64(r.tok), TTL: time.Duration(r.ttl) * unit, Grant: explore.Text(r.grant), Nonce: explore.Text(r.ver)}
	if r.mark != r.ver {
		f.HolderNonce = explore.Text(r.mark)
	}
	if r.isTaken() && isSession(r.under) {
		f.Session = explore.Text(r.under)
	}
	for l := range uint8(locks) {
		if r.attend&(1<<l) != 0 {
			f.LocksToCheck = append(f.LocksToCheck, explore.Text(l+1))
		}
	}
	return f
}

// next returns the record f, which a rule made of r and which is about to be written: by the holder
// if it has no mark.
func (r record) next(f lockrec.Record) record {
	if f.State != states[r.kind] {
		r.kind = uint8(slices.Index(states[:], f.State))
	}
	r.tok, r.ttl, r.mark, r.attend = uint8(f.Token), uint8(f.TTL/unit), explore.Number(f.HolderNonce), 0
	for _, lock := range f.LocksToCheck {
		r.attend |= 1 << (explore.Number(lock) - 1)
	}
	return r
}

// facts are what a waiter knows that has watched a record for that long.
func facts(watched time.Duration) lockrec.Facts {
	return lockrec.Facts{Factor: lockrec.Factor(1.0 / 3), Age: -1, Watched: watched}
}

// watched is for how long a waiter has seen the holder's last write unchanged: for long enough, or not.
func (w *watch) watched() time.Duration {
	if w.kind == timed && w.wait == 0 {
		return lockrec.MaxTTL
	}
	return 0
}

// patience is how long, on its own clock, a waiter must see a mark unchanged.
func (m *machine) patience(c int, r record) uint8 {
	if m.Fault == WaitOwnTTL {
		r.ttl = m.ttl[c]
	}
	return uint8((lockrec.Judge(r.full(), facts(0)).Wait + unit - 1) / unit)
}

// step is what client c does next about the session with that register.
func (w *world) step(c int, reg uint8) lockrec.SessionStep {
	step, _ := lockrec.JudgeSession(w.reg[reg].full(), facts(w.cl[c].watch[reg].watched()))
	return step
}

// own is the record of the session of client c, or of its plain lease, as it knows it.
func (w *world) own(c int) record {
	t := &w.cl[c].term
	r := record{ver: t.base, mark: t.mark, kind: open, owner: uint8(c), ttl: w.ttl[c], attend: 1<<locks - 1}
	if w.plain(c) {
		r.kind, r.under, r.grant, r.tok, r.attend = held, t.reg, uint8(c)+1, w.reg[t.reg].tok, 0
	}
	return r
}

// wrote says whether an attempt of client c wrote what it has read, or what others wrote over.
func (w *world) wrote(c int, read *record) bool {
	t, own := &w.cl[c].term, w.own(c)
	own.grant = read.grant
	return slices.ContainsFunc(t.att[:t.n], func(a attempt) bool {
		own.ver, own.mark = a.ver, a.ver
		return lockrec.Wrote(own.full(), read.full())
	})
}

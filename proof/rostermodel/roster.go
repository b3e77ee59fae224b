package rostermodel

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/lockrec"
)

// The rules of a record with several holders are those of package lockrec. A state has the record in
// a small form, which is made a record of lockrec for a rule, and small again.

var modes = [...]lockrec.Mode{reader: lockrec.ModeShared, writer: lockrec.ModeExclusive, slotted: lockrec.ModeSlot}

// sessions and grants name what an entry is under: its client, then the state of the session.
var sessions, grants = func() (sessions, grants [clients][fenced + 1]string) {
	for who := range sessions {
		for sess := range sessions[who] {
			sessions[who][sess] = string([]byte{byte(who), byte(sess)})
			grants[who][sess] = sessions[who][sess] + "."
		}
	}
	return sessions, grants
}()

func (e *entry) member() lockrec.Member {
	return lockrec.Member{Grant: grants[e.who][e.sess], Session: sessions[e.who][e.sess], Mode: modes[e.mode], Slot: int(e.slot)}
}

func small(grant string, mode lockrec.Mode, slot int) entry {
	return entry{who: grant[0], sess: grant[1], mode: uint8(slices.Index(modes[:], mode)), slot: uint8(slot)}
}

// change runs a rule on a record.
func (r *record) change(rule func(rec *lockrec.Record)) {
	rec := lockrec.Record{State: lockrec.Free, Token: uint64(r.tok), Slots: int(r.slots)}
	for i := range count(&r.holders) {
		if e := r.holders[i].member(); e.Mode == lockrec.ModeExclusive {
			rec.State, rec.Grant, rec.Session = lockrec.Held, e.Grant, e.Session
		} else {
			rec.State, rec.Holders = lockrec.Shared, append(rec.Holders, e)
		}
	}
	for i := range count(&r.queue) {
		rec.Queue = append(rec.Queue, r.queue[i].member())
	}
	rule(&rec)
	*r = record{slots: uint8(rec.Slots), tok: uint8(rec.Token)}
	for i, e := range rec.Holders {
		r.holders[i] = small(e.Grant, e.Mode, e.Slot)
	}
	if rec.State == lockrec.Held {
		r.holders[len(rec.Holders)] = small(rec.Grant, lockrec.ModeExclusive, 0)
	}
	for i, e := range rec.Queue {
		r.queue[i] = small(e.Grant, e.Mode, 0)
	}
}

// enter adds an entry, as a holder or to the queue. It returns false where the client has to try
// again later: it does not queue, or the record is full.
func (m *machine) enter(r *record, e entry, fair bool) (in bool) {
	r.change(func(rec *lockrec.Record) {
		room := m.Room
		if lockrec.Exclusive(rec) {
			room-- // lockrec counts the lists alone: here that would make the world large
		}
		at, _ := lockrec.Enter(rec, e.member(), lockrec.Queues(rec, modes[e.mode], fair), room)
		in = at != lockrec.Absent
	})
	return in
}

// leave removes the present entry of client c.
func (m *machine) leave(r *record, c int) {
	if m.Fault != LeavesTheQueueOnly || find(&r.holders, c) < 0 {
		r.change(func(rec *lockrec.Record) { lockrec.Leave(rec, grants[c][living]) })
	}
}

// drop lets client c remove the entries whose sessions are revoked.
func (m *machine) drop(r *record, c int) {
	r.change(func(rec *lockrec.Record) {
		lockrec.Drop(rec, func(session string) bool {
			return session[1] == fenced || m.Fault == DropUnrevoked && int(session[0]) != c
		})
	})
}

package picture

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lease"
)

// Tracker finds out what happened to a lock from the records that [lease.Client.Watch] yields. It sees
// only the states that Watch yields: a state that lasts a moment can be missing. The zero value is ready.
type Tracker struct {
	// HolderOf names the holder of a session, and is called once for each grant under a session whose
	// record does not name the holder. A nil HolderOf leaves the session's id in place of the name.
	HolderOf func(session string) string

	last lease.Record
	any  bool      // it has seen a record
	seen time.Time // when the last write of the holder was seen
}

// nameless begins the holder in the record of a lock that one session has handed over to another: the
// record has the session's id.
const nameless = "session "

// grant is one holder of a lock.
type grant struct {
	id, holder string
	token      uint64
	since      time.Time
}

// grants returns who holds the lock of a record.
func grants(r *lease.Record) (all []grant) {
	if r.State == lease.Held {
		return []grant{{r.Grant, r.Holder, r.Token, r.Granted}}
	}
	if r.State == lease.Shared {
		for _, m := range r.Holders {
			all = append(all, grant{m.Grant, nameless + m.Session, m.Token, m.Since})
		}
	}
	return all
}

// See returns what happened between the record that it saw before and this one, which was seen at a time.
// A record without a state is that of a lock that is absent. The grants in the first record began earlier: at the
// times that their holders wrote.
func (t *Tracker) See(r lease.Record, at time.Time) (events []Event) {
	before, after := grants(&t.last), grants(&r)
	add := func(k Kind, g grant) *Event {
		if id, found := strings.CutPrefix(g.holder, nameless); found && t.HolderOf != nil && begins(k) {
			g.holder = cmp.Or(t.HolderOf(id), g.holder)
		}
		events = append(events, Event{Time: at, Lock: r.Name, Kind: k, Grant: g.id, Token: g.token, Holder: g.holder})
		return &events[len(events)-1]
	}
	var until time.Time
	if r.State == lease.Held && r.Session == "" {
		until = at.Add(r.TTL)
	}
	for _, g := range before {
		switch {
		case holds(after, g.id):
		case r.State == lease.Broken:
			add(Broken, g)
		case r.State != lease.Held || t.last.State != lease.Held:
			add(Released, g)
		}
	}
	for _, g := range after {
		switch {
		case holds(before, g.id):
			if r.State == lease.Held && r.Renewed.After(t.last.Renewed) {
				add(Renewed, g).Until = until
				t.seen = at
			}
			continue
		case r.State == lease.Shared:
			add(Entered, g)
		case t.last.State == lease.Held && t.last.Session == "" && at.Sub(t.seen) >= t.last.TTL:
			e := add(TakenOver, g)
			e.Until, e.Reason = until, "the earlier holder did not renew for "+t.last.TTL.String()
		case t.last.State == lease.Held && !strings.HasPrefix(g.holder, nameless):
			add(Changed, g).Until = until
		default:
			add(Granted, g).Until = until
		}
		t.seen = at
	}
	if ask, old := r.YieldRequest, t.last.YieldRequest; ask != nil && (old == nil || !old.At.Equal(ask.At) || old.By != ask.By) {
		events = append(events, Event{Time: at, Lock: r.Name, Kind: Asked, By: ask.By, Reason: ask.Reason})
	}
	if !t.any {
		for i, g := range after {
			if !g.since.IsZero() && g.since.Before(at) {
				events[i].Time = g.since
			}
		}
	}
	t.last, t.any = r, true
	return events
}

func holds(all []grant, id string) bool {
	return slices.ContainsFunc(all, func(g grant) bool { return g.id == id })
}

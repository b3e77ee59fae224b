package rostermodel

import "slices"

// The rules of a record with several holders, as functions on the record.

// grantable says whether an entry could become a holder together with the present ones.
func (m *machine) grantable(r *record, e *entry) bool {
	n := count(&r.holders)
	if e.mode == slotted {
		return m.freeSlot(r) != 0
	}
	if n == 0 {
		return true
	}
	switch {
	case m.Fault == WriterBesideReader && r.holders[0].mode == reader:
		return true
	case e.mode == reader:
		return r.holders[0].mode == reader
	}
	return false
}

// freeSlot returns the lowest free slot, or 0. There is none as long as the holders are as many as
// the slots; some may have slots above a number that was made smaller.
func (m *machine) freeSlot(r *record) uint8 {
	n := uint8(count(&r.holders))
	switch {
	case n == r.slots && m.Fault == OneSlotTooMany:
		return n + 1
	case n >= r.slots:
		return 0
	case m.Fault == SlotByCount:
		return n + 1
	}
	slot := uint8(1)
	for slices.ContainsFunc(r.holders[:n], func(e entry) bool { return e.slot == slot }) {
		slot++
	}
	return slot
}

// grant makes an entry a holder. All but readers get a token of their own.
func (m *machine) grant(r *record, e entry) {
	if e.mode == slotted {
		e.slot = m.freeSlot(r)
	}
	if e.mode != reader && m.Fault != TokenKept {
		r.tok++
	}
	r.holders[count(&r.holders)] = e
}

// admit grants from the head of the queue for as long as the head can be granted.
func (m *machine) admit(r *record) {
	for n := count(&r.queue); n > 0; n-- {
		at := 0
		if m.Fault == TailFirst {
			at = n - 1
		}
		e := r.queue[at]
		if !m.grantable(r, &e) || count(&r.holders) == maxRoom {
			return
		}
		r.queue[at] = entry{}
		compact(&r.queue)
		m.grant(r, e)
	}
}

func compact(l *list) { remove(l, func(*entry) bool { return false }) }

// enter adds an entry, as a holder or to the queue. It returns false where the client has to try
// again later: it does not queue, or the record is full.
func (m *machine) enter(r *record, e entry, fair bool) bool {
	m.admit(r)
	if count(&r.holders)+count(&r.queue) >= m.Room {
		if m.Fault != FullDropsOldest {
			return false
		}
		r.queue[0] = entry{}
		if compact(&r.queue); count(&r.holders)+count(&r.queue) >= m.Room {
			return false
		}
	}
	n := count(&r.queue)
	passes := n == 0 || m.Fault == ReaderPassesWriter && e.mode == reader
	if passes && m.grantable(r, &e) {
		m.grant(r, e)
		return true
	}
	if !fair && (e.mode == slotted || e.mode == writer && count(&r.holders) > 0 && r.holders[0].mode == writer) {
		return false
	}
	r.queue[n] = e
	return true
}

// leave removes the present entry of client c.
func (m *machine) leave(r *record, c int) {
	mine := func(e *entry) bool { return int(e.who) == c && e.sess == living }
	remove(&r.queue, mine)
	if m.Fault != LeavesTheQueueOnly {
		remove(&r.holders, mine)
	}
	m.handOver(r)
}

// drop lets client c remove the entries whose sessions are revoked.
func (m *machine) drop(r *record, c int) {
	dead := func(e *entry) bool {
		return e.sess == fenced || m.Fault == DropUnrevoked && int(e.who) != c
	}
	remove(&r.queue, dead)
	remove(&r.holders, dead)
	m.handOver(r)
}

func (m *machine) handOver(r *record) {
	if m.Fault != ReleaseHandsNothingOver {
		m.admit(r)
	}
}

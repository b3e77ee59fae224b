package rostermodel

const (
	clients   = 3
	maxRoom   = 5 // entries in a record
	maxFlight = 3
	operator  = clients // who changes the number of slots, in request.by
)

// The session of an entry. The model of sessions shows that a session is revoked only when its
// deadline has passed.
const (
	living uint8 = iota + 1 // the present one of its client
	lost                    // its deadline has passed, or its client has forgotten it
	fenced
)

// What an entry wants, or has.
const (
	reader uint8 = iota + 1
	writer
	slotted
)

// entry is a holder or a waiter in a record.
type entry struct {
	who  uint8
	sess uint8
	mode uint8
	slot uint8 // of a holder: 1 and up
}

// record is the value of the register. Each write gives it a version that is never used twice. So
// all writes that are under way have the present one as predecessor, and no version has to be kept.
type record struct {
	slots   uint8 // how many there are; 0: shared and exclusive
	holders [maxRoom]entry
	queue   [maxRoom]entry
	tok     uint8 // after normalisation 0: the largest granted so far
}

// What a write is for.
const (
	toEnter uint8 = iota + 1
	toLeave
	toDrop
	toResize
)

// request is a write under way: the record that it writes, computed from the one that its
// sender read.
type request struct {
	what  uint8
	by    uint8
	blind uint8 // 1: it is not conditional (a fault)
	rec   record
}

// What a client does.
const (
	idle uint8 = iota
	entering
	waiting // it has read that it is in the queue
	holding // it has read that it is a holder
	leaving // until it is certain that the record does not name it any more
)

type client struct {
	mode uint8
	want uint8
	fair uint8
	slot uint8 // while holding: as it was read
	late uint8 // its session is over, and it continues (a fault)
}

// state is a state of the whole world.
type state struct {
	reg    record
	n      uint8
	flight [maxFlight]request
	cl     [clients]client
}

// list is a list of entries up to the first empty one.
type list = [maxRoom]entry

func count(l *list) int {
	n := 0
	for n < maxRoom && l[n].mode != 0 {
		n++
	}
	return n
}

// find returns the place of the present entry of client c, or -1.
func find(l *list, c int) int {
	for i := range l {
		if e := &l[i]; e.mode != 0 && int(e.who) == c && e.sess == living {
			return i
		}
	}
	return -1
}

// each calls do for each entry of a record.
func (r *record) each(do func(e *entry)) {
	for _, l := range []*list{&r.holders, &r.queue} {
		for i := range l {
			if l[i].mode != 0 {
				do(&l[i])
			}
		}
	}
}

func (r *record) append(b []byte) []byte {
	b = append(b, r.slots<<4|r.tok)
	for _, l := range []*list{&r.holders, &r.queue} {
		for i := range count(l) {
			e := &l[i]
			b = append(b, 0x80|e.who<<5|e.sess<<3|e.mode, e.slot)
		}
		b = append(b, 0)
	}
	return b
}

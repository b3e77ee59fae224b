package lockrec

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The rules of locks with several holders, as functions on a record. They read no clock and send
// nothing. They change the record, and never the lists of the one it was copied from. Before, the
// caller sets Renewed to the time of the change, for people.
//
//   - A writer holds the lock alone, in the record's own fields. Readers, and holders of slots, are
//     in Holders.
//   - A member that enters holds the lock at once if nothing is in the way and the queue is
//     empty. So none overtakes a waiter in the queue, and a writer in it keeps new readers out.
//   - When a holder leaves, the same write makes the queue's head a holder, and those after it as
//     long as they can share the lock.
//   - A grant of a writer and of a slot raises the token of the record. A reader has the token
//     of the last writer before it.

// Standing is the place of a grant in a record.
type Standing int

// The places.
const (
	Absent Standing = iota
	Waiting
	Holding
)

// Find returns the place of a grant, and its member.
func Find(r *Record, grant string) (Standing, Member) {
	if r == nil || grant == "" {
		return Absent, Member{}
	}
	if r.State == Held && r.Grant == grant {
		return Holding, Member{Grant: r.Grant, Session: r.Session, TTL: r.TTL, Mode: ModeExclusive, Token: r.Token, Since: r.Granted}
	}
	named := func(m Member) bool { return m.Grant == grant }
	if i := slices.IndexFunc(r.Holders, named); i >= 0 {
		return Holding, r.Holders[i]
	}
	if i := slices.IndexFunc(r.Queue, named); i >= 0 {
		return Waiting, r.Queue[i]
	}
	return Absent, Member{}
}

// Suits returns an error if the lock cannot be a semaphore with that number of slots. If slots is 0, the
// lock must not be a semaphore. The first use of a free lock decides its kind.
func Suits(r *Record, slots int) error {
	switch {
	case slots == 0 && r.Slots > 0:
		return fmt.Errorf("%w: %q is a semaphore with %d slots; give this number of slots, or use another name", ErrWrongKind, r.Name, r.Slots)
	case slots > 0 && r.Slots == 0 && (r.State != Free || len(r.Queue) > 0):
		return fmt.Errorf("%w: %q is in use as a lock without slots; use another name, or try again when the lock is free", ErrWrongKind, r.Name)
	case slots > 0 && r.Slots > 0 && slots != r.Slots:
		return &SlotCountError{Name: r.Name, Want: slots, Have: r.Slots}
	}
	return nil
}

// memberRoom is how many bytes of a record members leave free, for what its holder may write.
const memberRoom = 2048

// Enter makes m a holder if m can hold the lock now. Otherwise, if queue is true, Enter appends m to the
// queue. It returns the place of m in the record. The parameter room is the largest number of members in
// the record, at most [MaxMembers]. If the record has no room for m, the error matches [ErrFull].
func Enter(r *Record, m Member, queue bool, room int) (Standing, error) {
	m.Token, m.Slot = 0, 0
	at, err := Absent, error(nil)
	switch free := len(r.Queue) == 0 && Fits(r, m.Mode); {
	case !free && !queue:
	case Members(r) >= room && !(free && Alone(m.Mode)):
		return Absent, fmt.Errorf("lock %q: %w: the lock has %d holders and waiters", r.Name, ErrFull, Members(r))
	case free:
		if err = r.grantTo(m); err == nil {
			at = Holding
		}
	default:
		r.Queue = append(slices.Clone(r.Queue), m)
		at = Waiting
	}
	return at, err
}

// Queues reports whether a client with that mode enters the queue if it cannot hold the lock at once. A
// client outside the queue reads the record from time to time.
func Queues(r *Record, mode Mode, fair bool) bool {
	return fair || mode == ModeShared || len(r.Queue) > 0 || r.State == Shared && r.Slots == 0
}

// Leave removes a grant from the record, and reports whether the record had it.
func Leave(r *Record, grant string) bool {
	if Exclusive(r) && r.Grant == grant {
		Vacate(r)
		return true
	}
	if at, _ := Find(r, grant); at == Absent {
		return false
	}
	r.remove(func(m Member) bool { return m.Grant == grant })
	return true
}

// Drop removes from the record all grants of sessions that are over.
func Drop(r *Record, over func(session string) bool) {
	if Exclusive(r) && r.Session != "" && over(r.Session) {
		r.State = Free
	}
	r.remove(func(m Member) bool { return over(m.Session) })
}

// Resize makes the lock a semaphore with that number of slots. If there are more holders than
// slots, they keep their slots until they leave.
func Resize(r *Record, slots int) error {
	if err := CheckSlots(slots); err != nil {
		return err
	}
	if r.Slots == 0 {
		if err := Suits(r, slots); err != nil {
			return err
		}
	}
	r.Slots = slots
	r.admit()
	return nil
}

// CheckSlots returns an error if a semaphore cannot have that number of slots.
func CheckSlots(slots int) error {
	if slots < 1 || slots > MaxMembers {
		return fmt.Errorf("%w: a semaphore cannot have %d slots; the number must be from 1 to %d", store.ErrInvalid, slots, MaxMembers)
	}
	return nil
}

// Vacate ends the grants of all holders. Then the first waiters of the queue become holders.
func Vacate(r *Record) {
	r.State, r.Holders = Free, nil
	r.admit()
}

// remove takes members out, and admits waiters.
func (r *Record) remove(out func(Member) bool) {
	exclusive := Exclusive(r)
	r.Holders = slices.DeleteFunc(slices.Clone(r.Holders), out)
	r.Queue = slices.DeleteFunc(slices.Clone(r.Queue), out)
	if len(r.Holders) == 0 && !exclusive {
		r.State = Free
	}
	if len(RequestedOf(r)) == 0 {
		r.YieldRequest = nil // the request ends with the grants that it is for
	}
	r.admit()
}

// Exclusive reports whether one holder has the lock alone, or may still have it after a break.
func Exclusive(r *Record) bool {
	return r.State == Held || r.State == Broken && len(r.Holders) == 0
}

// Fits reports whether a further member with that mode can hold the lock now, together with its present
// holders. If a free lock has a NotBefore, no member fits.
func Fits(r *Record, mode Mode) bool {
	switch {
	case r.State == Held || r.State == Broken || r.State == Free && !r.NotBefore.IsZero():
		return false
	case mode == ModeSlot:
		return len(r.Holders) < r.Slots
	case mode == ModeShared:
		return true
	}
	return len(r.Holders) == 0
}

// admit makes holders of the members at the head of the queue, as long as they fit.
func (r *Record) admit() {
	if r.State == Free {
		r.Session, r.Presence, r.Immediate, r.BrokenNonce, r.HolderWriteAge = "", "", false, "", 0
		r.HolderNonce, r.YieldRequest, r.Linger = "", nil, 0
		r.Run = lastRun(r)
	}
	for len(r.Queue) > 0 && Fits(r, r.Queue[0].Mode) && r.grantTo(r.Queue[0]) == nil {
		r.Queue = r.Queue[1:]
	}
}

// grantTo makes m a holder.
func (r *Record) grantTo(m Member) error {
	if m.Mode != ModeShared {
		token, err := follow(r.Name, max(r.Token, r.above))
		if err != nil {
			return err
		}
		r.Token = token
	}
	m.Token, m.Since = r.Token, r.Renewed.UTC().Truncate(time.Second)
	if m.Mode == ModeCandidate {
		r.Data = nil // the value of another leader; the candidate writes its own
	}
	if Alone(m.Mode) {
		r.State, r.Grant, r.Session, r.TTL, r.Granted = Held, m.Grant, m.Session, m.TTL, r.Renewed
		r.Holder, r.Process, r.Presence = "session "+m.Session, "", ""
		return nil
	}
	if m.Mode == ModeSlot {
		m.Slot = r.lowestSlot()
	}
	switch of := RequestedOf(r); {
	case len(of) == 0:
		r.YieldRequest = nil
	case r.YieldRequest.isNameless():
		ask := *r.YieldRequest
		ask.Grants = grantsOf(of)
		r.YieldRequest = &ask
	}
	r.State, r.Grant = Shared, "" // the last writer's grant has no meaning any more
	r.Holder = "session " + m.Session
	r.Holders = append(slices.Clone(r.Holders), m)
	return nil
}

// lowestSlot is the lowest number of a slot that no holder has.
func (r *Record) lowestSlot() int {
	taken := make([]bool, len(r.Holders)+2)
	for _, m := range r.Holders {
		if m.Slot < len(taken) {
			taken[m.Slot] = true
		}
	}
	return 1 + slices.Index(taken[1:], false)
}

// Possession returns a text that identifies the period in which the present holders hold the lock.
func Possession(r *Record) string {
	if r.State == Shared {
		return fmt.Sprintf("shared %d", r.Token)
	}
	return r.Grant
}

// Ahead returns the members that a waiter waits for. The first waiter of the queue, and a waiter in no
// queue, wait for the holders. Every other waiter waits for the waiter directly before it.
func Ahead(r *Record, grant string) []Member {
	i := slices.IndexFunc(r.Queue, func(m Member) bool { return m.Grant == grant })
	switch {
	case i > 0:
		return r.Queue[i-1 : i]
	case i < 0 && len(r.Queue) > 0 && len(Possessors(r)) == 0:
		return r.Queue[:1]
	}
	return Possessors(r)
}

// TurnsBefore returns how many turns come before the turn of the waiter at that place of the queue.
// Readers that directly follow each other in the queue share one turn.
func TurnsBefore(r *Record, place int) (turns int) {
	for i := range place {
		if r.Queue[i].Mode != ModeShared || r.Queue[i+1].Mode != ModeShared {
			turns++
		}
	}
	return turns
}

// Before returns all members whose turn comes before the turn of a waiter: the holders, and the earlier
// waiters. For a waiter in no queue, these are the holders and all waiters.
func Before(r *Record, grant string) []Member {
	i := slices.IndexFunc(r.Queue, func(m Member) bool { return m.Grant == grant })
	if i < 0 {
		i = len(r.Queue)
	}
	return slices.Concat(Possessors(r), r.Queue[:i])
}

// Possessors returns the holders of the lock, or those that may still hold it after a break.
func Possessors(r *Record) []Member {
	if Exclusive(r) {
		return []Member{{Grant: r.Grant, Session: r.Session, TTL: r.TTL, Mode: ModeExclusive, Token: r.Token}}
	}
	return r.Holders
}

// KeepsHolder compares r with the record before it. If both have the same holder, it copies the fields
// that tell other clients whether this holder is alive. Otherwise it removes HolderNonce from r.
func KeepsHolder(r, before *Record) {
	if before != nil && Exclusive(before) && r.State == before.State && r.Grant == before.Grant {
		r.Renewed, r.Token = before.Renewed, before.Token
	} else {
		r.HolderNonce = ""
	}
}

// maxNumbers is more than a member takes in a record besides its grant.
const maxNumbers = 100

// HasRoom returns an error if the record leaves its holder too little room for further writes.
func HasRoom(r *Record) error {
	bare := *r
	bare.Holders, bare.Queue = nil, nil
	most, err := bare.maxSize()
	for _, m := range slices.Concat(r.Holders, r.Queue) {
		most += len(m.Grant) + maxNumbers
	}
	if err != nil || most <= store.MaxValue-memberRoom {
		return err
	}
	size, err := r.maxSize()
	if err == nil && size > store.MaxValue-memberRoom {
		err = fmt.Errorf("lock %q: %w: its record needs %d bytes for %d holders and waiters", r.Name, ErrFull, size, Members(r))
	}
	return err
}

// NamesSession reports whether the record names a session: the session of its holder, or of a
// member.
func NamesSession(r *Record, id string) bool { return len(GrantsOf(r, id)) > 0 }

// GrantsOf returns the grants of a session that the record names.
func GrantsOf(r *Record, session string) (all []string) {
	if Exclusive(r) && r.Session == session {
		all = append(all, r.Grant)
	}
	for _, m := range slices.Concat(r.Holders, r.Queue) {
		if m.Session == session {
			all = append(all, m.Grant)
		}
	}
	return all
}

// SessionsOf returns the sessions of the members, each session once.
func SessionsOf(members []Member) (all []string) {
	for _, m := range members {
		if m.Session != "" && !slices.Contains(all, m.Session) {
			all = append(all, m.Session)
		}
	}
	return all
}

// Names reports whether r names a grant, as a holder or as a waiter.
func Names(r *Record, grant string) bool {
	at, _ := Find(r, grant)
	return at != Absent || r != nil && Exclusive(r) && r.Grant == grant
}

package lockrec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// MaxMembers is the largest number of holders and waiters together in the record of a
// lock.
const MaxMembers = 500

// Mode is the way in which a member holds a lock or waits for it.
type Mode string

// The modes of members.
const (
	ModeShared    Mode = "shared"    // reads, together with other readers
	ModeSlot      Mode = "slot"      // has one slot of a semaphore
	ModeExclusive Mode = "exclusive" // wants the lock alone; only in the queue
	ModeCandidate Mode = "candidate" // wants to be the leader of an election; only in the queue
)

// Member is one of several holders of a lock, or a waiter in its queue. It belongs to a session, and ends
// with this session.
type Member struct {
	Grant   string        // id of the grant: id of the session, a dot, and a number in base 36
	Session string        // id of the session: the part of Grant before the dot
	TTL     time.Duration // TTL of the session
	Mode    Mode
	Slot    int       // number of the slot, from 1 on; 0 in other modes and in the queue
	Token   uint64    // token of the grant; 0 in the queue
	Since   time.Time // time of its entry, by the wall clock of its machine, in whole seconds; for people only
}

// Bounds of the ids of sessions and of the numbers of their grants.
const (
	maxSession = 40
	maxCounter = 13 // digits of base 36 that an uint64 has at most
)

// maxSince bounds Member.Since: the end of the year 9999.
const maxSince = 253402300799

// SessionOf returns the session of a grant, or an empty text if the grant has no session.
func SessionOf(grant string) string {
	session, counter, _ := strings.Cut(grant, ".")
	if len(session) > maxSession || len(counter) > maxCounter || !alphanumeric(session, true) || !alphanumeric(counter, false) {
		return ""
	}
	return session
}

// GrantID returns the id of a grant under a session.
func GrantID(session string, counter uint64) string {
	return session + "." + strconv.FormatUint(counter, 36)
}

// Counter returns the number in the id of a grant under the session; 0 if it is no such id.
func Counter(session, grant string) uint64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(grant, session+"."), 36, 64)
	if err != nil || GrantID(session, n) != grant {
		return 0
	}
	return n
}

// alphanumeric reports whether s consists of ASCII digits and letters and is not empty. Capital
// letters count only where capitals is set.
func alphanumeric(s string, capitals bool) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (!capitals || c < 'A' || c > 'Z') {
			return false
		}
	}
	return s != ""
}

// modeCodes are the modes as a record has them. They are short, so that 500 members fit into three
// quarters of a record.
var modeCodes = [...]struct {
	mode Mode
	code string
}{{ModeShared, "r"}, {ModeSlot, "s"}, {ModeExclusive, "w"}, {ModeCandidate, "c"}}

// Alone reports whether a member of that mode holds the lock alone.
func Alone(m Mode) bool { return m == ModeExclusive || m == ModeCandidate }

// decodeMembers reads the JSON array that object.members writes, without reflection: a record can have many
// members. The text must be valid JSON.
func decodeMembers(list string) (all []Member, _ error) {
	if list == "null" {
		return nil, nil
	}
	rest := strings.TrimPrefix(list, "[")
	all = slices.Grow(all, min(strings.Count(rest, "["), MaxMembers))
	for rest != "" {
		var one string
		one, rest, _ = strings.Cut(rest, "]") // no field has a bracket, or a comma
		if one = strings.TrimLeft(one, ", \t\r\n"); one == "" && rest == "" {
			break
		}
		m, err := decodeMember(one, strings.Split(one, ","))
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// decodeMember reads a member from its text without the last bracket, and the fields of that.
func decodeMember(text string, field []string) (m Member, err error) {
	var number [6]uint64
	for i := range field {
		switch {
		case len(field) < 4 || i == len(number) || text[0] != '[':
			return m, fmt.Errorf("the member %.60q is not an array of 4 to 6 fields", text)
		case i < 2: // the first one begins with the bracket
			field[i], err = strconv.Unquote(strings.TrimSpace(field[i][1-i:]))
		default:
			number[i], err = strconv.ParseUint(strings.TrimSpace(field[i]), 10, 64)
		}
		if err != nil {
			return m, fmt.Errorf("field %d of the member %.60q: %w", i+1, text, err)
		}
	}
	for _, known := range modeCodes {
		if known.code == field[1] {
			m.Mode = known.mode
		}
	}
	m.Grant, m.Session, m.Token, m.Slot = field[0], SessionOf(field[0]), number[4], int(number[5])
	m.TTL, m.Since = time.Duration(number[2])*time.Millisecond, time.Unix(int64(number[3]), 0).UTC()
	if m.Mode == "" || m.Session == "" || number[2] == 0 || number[2] > uint64(MaxTTL.Milliseconds()) || number[3] > maxSince {
		err = fmt.Errorf("the member %.60q has an unknown mode, a grant of no session, or a TTL or a time that is out of range", text)
	}
	return m, err
}

// Members returns the number of holders and waiters in the lists of the record.
func Members(r *Record) int { return len(r.Holders) + len(r.Queue) }

// Consistent returns an error if the fields about sessions and members contradict each other.
func Consistent(r *Record) error {
	if r.Kind == KindSession {
		if SessionOf(r.Name+".0") == "" {
			return fmt.Errorf("the session has the invalid id %q", r.Name)
		}
		if Members(r) > 0 || r.Slots != 0 || r.Session != "" || r.Linger != 0 {
			return errors.New("the session has fields that only a lock can have")
		}
	}
	switch {
	case r.Session != "" && SessionOf(r.Grant) != r.Session:
		return fmt.Errorf("the grant %q does not belong to the session %q that the record names", r.Grant, r.Session)
	case r.Slots < 0 || r.Slots > MaxMembers:
		return fmt.Errorf("the semaphore has %d slots, which is out of range", r.Slots)
	case r.Linger < 0 || r.Linger > MaxTTL:
		return fmt.Errorf("the linger time (how long the holder keeps the lock after its work) is %v, which is out of range", r.Linger)
	case len(r.LocksToCheck) > maxLocksToCheck || len(r.LocksToCheck) > 0 && r.Kind != KindSession:
		return fmt.Errorf("the record names %d locks to check; only a session can name locks, and at most 100", len(r.LocksToCheck))
	case slices.ContainsFunc(r.LocksToCheck, func(name string) bool { return name == "" || len(name) > store.MaxKey }):
		return errors.New("a lock to check has a name that is empty or too long")
	case Members(r) > MaxMembers:
		return fmt.Errorf("the record names %d holders and waiters, more than it can have", Members(r))
	case (len(r.Holders) > 0) != (r.State == Shared) && r.State != Broken:
		return fmt.Errorf("the record has %d holders in its list, which does not fit the state %q", len(r.Holders), r.State)
	case r.State == Held && r.Slots > 0:
		return fmt.Errorf("the record of a semaphore with %d slots has a holder, but no list of holders", r.Slots)
	}
	return r.consistentMembers()
}

// consistentMembers checks what the members say against each other.
func (r *Record) consistentMembers() error {
	grants, slots := make(map[string]bool, Members(r)), map[int]bool{}
	mode := ModeShared
	if r.Slots > 0 {
		mode = ModeSlot
	}
	if len(r.Holders) == 0 && (r.State == Held || r.State == Broken) {
		grants[r.Grant] = true
	}
	for _, m := range r.Holders {
		switch {
		case m.Mode != mode:
			return fmt.Errorf("a holder has the mode %q, which this kind of lock does not have", m.Mode)
		case m.Token == 0 || m.Token > r.Token:
			return fmt.Errorf("a holder has the token %d, but the record's last token is %d", m.Token, r.Token)
		case (m.Slot != 0) != (mode == ModeSlot) || m.Slot < 0 || m.Slot > MaxMembers || mode == ModeSlot && slots[m.Slot]:
			return fmt.Errorf("a holder has slot %d; this number is out of range, or another holder has the same slot", m.Slot)
		case grants[m.Grant]:
			return fmt.Errorf("the record names the grant %q twice", m.Grant)
		}
		grants[m.Grant] = true
		if mode == ModeSlot {
			slots[m.Slot] = true
		}
	}
	for _, m := range r.Queue {
		switch {
		case (m.Mode == ModeSlot) != (mode == ModeSlot):
			return fmt.Errorf("a waiter has the mode %q, which this kind of lock does not have", m.Mode)
		case m.Token != 0 || m.Slot != 0:
			return fmt.Errorf("a waiter has the token %d and slot %d: both must be 0", m.Token, m.Slot)
		case grants[m.Grant]:
			return fmt.Errorf("the record names the grant %q twice", m.Grant)
		}
		grants[m.Grant] = true
	}
	return nil
}

// Package lockrec has the rules for the records of locks and sessions. It defines the JSON form of a
// record, the clients that may become a holder, the record after each write, when a grant is lost, and
// whether a ticket may be used. The rules read no clock, send nothing and use no random numbers. Times, nonces and ids of grants are parameters. So package
// lease and the models of its protocols run the same code.
//
// The rules are functions because lease.Record is an alias of [Record]: users of that type should see no
// methods that change a record.
package lockrec

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// FormatVersion is the highest version of the record that this package knows. Decode refuses a
// record with a higher version. Encode writes version 2 if the record has a session, members or a
// request to yield, because programs that know only version 1 cannot read these. It writes
// version 1 for all other records.
const FormatVersion = 2

// PlainFormat is version 1 of the record, which every program can read.
const PlainFormat = 1

// State says whether a lock is taken.
type State string

const (
	// Held: the grant in the record is valid until it expires.
	Held State = "held"

	// Free: the grant was released. The next grant may begin at once.
	Free State = "free"

	// Broken: another client ended the grant; see [Client.Break].
	Broken State = "broken"

	// Shared: one or more readers, or holders of slots, hold the lock. Each of them holds it
	// until its session ends at the latest.
	Shared State = "shared"

	// Revoked: a state of sessions only. Another client has revoked the session. The session
	// never becomes valid again.
	Revoked State = "fenced"
)

// KindSession is [Record.Kind] of the record of a session.
const KindSession = "session"

// Record is the content of the register of a lock or of a session. Its JSON form is documented in
// the package comment of lease.
type Record struct {
	Name           string        // the lock's name, or the id of the session
	State          State         // for a session: Held (open), Free (closed) or Revoked
	Kind           string        // empty for the record of a lock, KindSession for the record of a session
	Token          uint64        // the fencing token of the last grant
	Holder         string        // free text for people
	Grant          string        // random id of the grant
	TTL            time.Duration // TTL of the grant; it never changes during the grant
	Nonce          string        // new in every write
	Granted        time.Time     // start of the grant, by the holder's wall clock; for people only
	Renewed        time.Time     // time of the last renewal, by the holder's wall clock; it can prevent a takeover, but never allow one
	Process        string        // random id of the holder's process
	Presence       string        // text by which the store finds out whether the holder's process is alive; empty if there is none
	Immediate      bool          // for a broken record: other clients may take the lock at once
	BrokenNonce    string        // for a broken record: nonce of the last write of the broken grant
	HolderWriteAge time.Duration // for a broken record: age of that write at the time of the break, by the store's clock
	Data           []byte        // data that Guard.SetData stored, nil if there is none

	// NotBefore is the earliest time at which the next grant may begin, by the holder's wall
	// clock. A zero NotBefore means any time. NotBefore only separates grants in time: it does not
	// prevent two holders at the same time.
	NotBefore time.Time

	// Run is the last run of a job that runs once in each period; see [Run]. It is nil if there was no
	// run.
	Run *Run

	// Session is the id of the session of the grant; empty for a plain lease.
	Session string

	// Holders are the readers, or the holders of slots. Queue has the waiters in their
	// order. Holders and Queue together have at most [MaxMembers] members.
	Holders, Queue []Member

	// Slots is the number of slots of the semaphore; 0 if the lock is not a semaphore. The
	// number does not change when all slots are free.
	Slots int

	// YieldRequest is the request to yield, nil if there is none.
	YieldRequest *YieldRequest

	// HolderNonce is the nonce of the last write by the holder of the grant. It is set only if other
	// clients have written after the holder, for example to enter the queue. If the holder made the last
	// write, HolderNonce is empty. A new HolderNonce shows that the holder is alive; a new Nonce does
	// not.
	HolderNonce string

	// OtherWrites is the number of writes by other clients after the holder's last write. It
	// is used only if HolderNonce is set.
	OtherWrites int

	// Linger is the longest time for which the holder keeps the lock after its work. The field shows
	// waiters that they can request the lock. Linger is 0 if the holder does not keep the lock.
	Linger time.Duration

	// LocksToCheck is a field of the record of a session. It names the locks for which other
	// clients have written a request to yield or a break; ["*"] means all locks of the session.
	LocksToCheck []string

	// above is the highest token that the store has seen, if it is higher than Token. It is not in the
	// register; see [GrantAbove].
	above uint64

	// history is the newest part of the history as it is in the register, nil if there is none. It
	// may be damaged, and changes nothing about the lock.
	history json.RawMessage

	// unknown keeps the fields of later versions as they came.
	unknown map[string]json.RawMessage
}

const recordKind = "lease"

// MaxTTL is the longest TTL of a lease.
const MaxTTL = 24 * time.Hour

// MaxInterval is the longest interval between two grants; see [Record.NotBefore].
const MaxInterval = 366 * 24 * time.Hour

// maxWriteAge bounds Record.HolderWriteAge: more than any waiter needs to see.
const maxWriteAge = 2 * MaxTTL

// MaxData is the largest size of the data that the holder of a lock can store, in bytes. This is half of
// a record, because the rest of the record grows with each holder.
const MaxData = store.MaxValue / 2

// readableData is the size up to which text in data is always written as text. There a control
// character takes six bytes.
const readableData = 1024

// Encode returns the value of the register for the record r. A record can be too large only if other
// programs or earlier versions have written fields into it. Then Encode removes fields from the value and
// from r until the record fits. So a client can always take and free the lock. It removes these fields,
// in this order: the entries of the history, the history, the texts for people, the presence, the data, and the unknown fields. Encode never
// removes members: if they have no room, the error matches [ErrFull] and [store.ErrTooLarge].
func Encode(r *Record) ([]byte, error) {
	value, err := r.whole()
	for _, leaveOut := range []func(){
		func() { r.history = bareHistory(r) },
		func() { r.history = nil },
		func() { r.LocksToCheck = allLocksEntry(r.LocksToCheck) },
		func() { r.Granted = time.Time{} },
		func() { r.Holder = "" },
		func() { r.Presence = "" },
		func() { r.Run = r.Run.bare() },
		func() { r.YieldRequest = r.YieldRequest.bare() },
		func() { r.Data = nil },
		func() { r.unknown = nil },
	} {
		if err != nil || len(value) <= store.MaxValue {
			break
		}
		leaveOut()
		value, err = r.whole()
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("lock record: %w", err)
	case len(value) > store.MaxValue && Members(r) > 0:
		return nil, fmt.Errorf("lock record: %w: %w: %d bytes with %d members; at most %d bytes are allowed", ErrFull, store.ErrTooLarge, len(value), Members(r), store.MaxValue)
	case len(value) > store.MaxValue:
		return nil, fmt.Errorf("lock record: %w: %d bytes without its data; at most %d bytes are allowed", store.ErrTooLarge, len(value), store.MaxValue)
	}
	return value, nil
}

// Freed returns the record that follows r when its lock becomes free at the given time. If r has waiters
// in its queue, the first of them become holders. The caller adds a nonce.
func Freed(r *Record, at time.Time) Record {
	free := *r
	free.Renewed = at
	Vacate(&free)
	return free
}

// SetData stores data in r. If the data is too large for a record, SetData returns an error.
func SetData(r *Record, data []byte) error {
	r.Data = data
	if len(data) > MaxData {
		return fmt.Errorf("lock %q: %w: %d bytes of data, at most %d are allowed", r.Name, store.ErrTooLarge, len(data), MaxData)
	}
	size, err := r.maxSize()
	if err == nil && size > store.MaxValue {
		err = fmt.Errorf("lock %q: %w: the record has no room for %d bytes of data next to its other fields", r.Name, store.ErrTooLarge, len(data))
	}
	return err
}

// Decode decodes the value of a register, which must be a record of this kind with this name; see
// [Record.Kind]. Its errors match [store.ErrCorrupt]. A lock with an unreadable record is neither free
// nor held.
func Decode(kind, name string, value []byte) (*Record, error) {
	bad := func(format string, args ...any) (*Record, error) {
		return nil, fmt.Errorf("%w: %s", store.ErrCorrupt, fmt.Sprintf(format, args...))
	}
	if len(value) > store.MaxValue {
		return bad("the value has %d bytes, more than a lock record can have", len(value))
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(value, &all); err != nil || all == nil {
		return bad("the value is not a lock record: %.60q", value)
	}
	// The version comes first: the fields of a newer format may mean something else.
	var version int
	if err := json.Unmarshal(all["holdfast"], &version); err != nil || version < 1 {
		return bad("the value is not a lock record: %.60q", value)
	}
	if version > FormatVersion {
		return nil, fmt.Errorf("%w: %w: the record has format %d, this program knows %d: use a newer holdfast", store.ErrCorrupt, ErrNewerFormat, version, FormatVersion)
	}
	f := fields{all: all, known: make([]string, 0, 32)}
	f.next("holdfast")
	written, stateName, data := f.text("kind"), f.text("state"), field[*string](&f, "data")
	ttl, age := field[int64](&f, "ttl_ms"), field[int64](&f, "stood_ms")
	r := &Record{
		Kind: kind, Name: f.text("name"), Token: field[uint64](&f, "token"), Holder: f.text("holder"),
		Grant: f.text("grant"), TTL: time.Duration(ttl) * time.Millisecond, Nonce: f.text("nonce"),
		Granted: field[time.Time](&f, "granted"), Renewed: field[time.Time](&f, "renewed"), Process: f.text("process"),
		Presence: f.text("presence"), Immediate: field[bool](&f, "now"), BrokenNonce: f.text("broke"),
		HolderWriteAge: time.Duration(age) * time.Millisecond, NotBefore: field[time.Time](&f, "not_before"),
		Session: f.text("session"), HolderNonce: f.text("mark"), OtherWrites: max(field[int](&f, "beside"), 0),
		Slots: field[int](&f, "slots"), Linger: time.Duration(field[int64](&f, "linger_ms")) * time.Millisecond,
		LocksToCheck: field[[]string](&f, "attend"), Data: field[[]byte](&f, "data_base64"), history: all["history"],
	}
	delete(all, "history")
	if data != nil {
		r.Data = []byte(*data)
	}
	f.read("holders", func(list json.RawMessage) (err error) { r.Holders, err = decodeMembers(string(list)); return err })
	f.read("queue", func(list json.RawMessage) (err error) { r.Queue, err = decodeMembers(string(list)); return err })
	f.read("run", func(run json.RawMessage) (err error) { r.Run, err = decodeRun(run); return err })
	f.read("ask", func(request json.RawMessage) (err error) {
		r.YieldRequest, err = decodeYieldRequest(request)
		return err
	})
	if f.err != nil {
		return bad("%v", f.err)
	}
	states := lockStates
	if kind == KindSession {
		states = sessionStates
	}
	state, known := states[stateName]
	r.State = state
	switch {
	case written != r.kind():
		return bad("the record has the kind %q, but must have the kind %q", written, r.kind())
	case r.Name != name:
		return bad("the record belongs to another %s, %q", map[bool]string{true: "session", false: "lock"}[kind == KindSession], r.Name)
	case !known:
		return bad("the record has the unknown state %q", stateName)
	case r.Token == 0:
		return bad("the record has no token")
	case r.Nonce == "":
		return bad("the record has no nonce")
	case state == Held && r.Grant == "":
		return bad("the record is held, but names no grant")
	case ttl < 0 || ttl > MaxTTL.Milliseconds() || ttl == 0 && (state == Held || state == Broken || state == Revoked):
		return bad("the record has a TTL of %d ms, which is out of range", ttl)
	case age < 0 || age > maxWriteAge.Milliseconds():
		return bad("the age of the holder's last write in the broken record is %d ms, which is out of range", age)
	}
	var err error
	if r.unknown, err = unknownOf(f.all, f.known); err != nil {
		return bad("%v", err)
	}
	r.Run = lastRun(r)
	run, request := cmp.Or(r.Run, &Run{}), cmp.Or(r.YieldRequest, &YieldRequest{})
	for _, at := range []time.Time{r.Granted, r.Renewed, r.NotBefore, run.Began, run.PeriodEnd, run.Ended, request.At} {
		if year := at.UTC().Year(); year < 0 || year > 9999 { // no client could write the record again
			return bad("the time %v is out of range", at)
		}
	}
	if err := Consistent(r); err != nil {
		return bad("%v", err)
	}
	return r, nil
}

// fields are the fields of an object. They are read one after the other, without reflection over all of them.
type fields struct {
	all   map[string]json.RawMessage // that were not read yet
	known []string                   // that were read
	err   error                      // the first
}

// next returns the value of a field, nil if the object does not have it.
func (f *fields) next(name string) json.RawMessage {
	value := f.all[name]
	f.known = append(f.known, name)
	delete(f.all, name)
	return value
}

// read reads a field, if the object has it.
func (f *fields) read(name string, decode func(json.RawMessage) error) {
	if value := f.next(name); value != nil {
		f.err = cmp.Or(f.err, decode(value))
	}
}

// field returns a field, or zero if the object does not have it.
func field[T any](f *fields, name string) (none T) {
	if value := f.next(name); value != nil {
		return decoded[T](f, name, value)
	}
	return none
}

func decoded[T any](f *fields, name string, value json.RawMessage) (v T) {
	if err := json.Unmarshal(value, &v); err != nil {
		f.err = cmp.Or(f.err, fmt.Errorf("the field %q: %w", name, err))
	}
	return v
}

// text is field for a text. Most texts need no package json.
func (f *fields) text(name string) string {
	value := f.next(name)
	switch {
	case value == nil:
		return ""
	case value[0] == '"' && isPlain(value[1:len(value)-1]):
		return string(value[1 : len(value)-1])
	}
	return decoded[string](f, name, value)
}

// FirstToken is the first token of a lock whose record is created at the time t. It is the Unix time in
// microseconds. No lock gets a million grants in a second. So the token is higher than all tokens of a
// removed lock with the same name.
func FirstToken(t time.Time) uint64 { return uint64(max(1, t.UnixMicro())) }

// NextToken returns the token of the grant after the grant in r.
func NextToken(r *Record) (uint64, error) {
	return follow(r.Name, r.Token)
}

// MayBeOpen reports whether the value of a register, which replaced another a moment ago, may be a record
// that lets a client take the lock. A grant that began a moment ago does not.
func MayBeOpen(value []byte) bool {
	var r struct{ State State }
	return json.Unmarshal(value, &r) != nil || r.State != Held
}

// TokenOf returns the token in the value of a register: the field "token" of the JSON object, as
// in the record of a lock. If the value has no such field, TokenOf returns 0.
func TokenOf(value []byte) uint64 {
	var record struct{ Token uint64 }
	if len(value) == 0 || value[0] != '{' || json.Unmarshal(value, &record) != nil {
		return 0
	}
	return record.Token
}

// Raise makes the token of r higher than the given token.
func Raise(r *Record, above uint64) error {
	token, err := follow(r.Name, above)
	r.Token = max(r.Token, token)
	return err
}

// GrantAbove makes the token of the next grant in r higher than the given token. The grant of a reader keeps
// the token of r.
func GrantAbove(r *Record, token uint64) {
	if r.above = 0; token > r.Token {
		r.above = token
	}
}

// follow returns a token above another.
func follow(name string, token uint64) (uint64, error) {
	if token == math.MaxUint64 {
		return 0, fmt.Errorf("%w: lock %q has the highest possible token, so no further grant is possible", store.ErrCorrupt, name)
	}
	return token + 1, nil
}

// format is the version of the format that the record needs.
func (r *Record) format() int {
	if r.Kind == "" && r.Session == "" && r.HolderNonce == "" && r.Slots == 0 && Members(r) == 0 && r.YieldRequest == nil && r.Linger == 0 {
		return PlainFormat
	}
	return FormatVersion
}

// kind is the kind of the record as it is written.
func (r *Record) kind() string { return cmp.Or(r.Kind, recordKind) }

// The states as records have them.
var (
	lockStates    = map[string]State{"held": Held, "free": Free, "broken": Broken, "shared": Shared}
	sessionStates = map[string]State{"open": Held, "closed": Free, "fenced": Revoked}
)

// stateName is the state as the record has it.
func (r *Record) stateName() State {
	if r.Kind == KindSession {
		for name, state := range sessionStates {
			if state == r.State {
				return State(name)
			}
		}
	}
	return r.State
}

// HolderNonce returns the nonce of the last write by the holder of the grant. A waiter measures
// for how long this nonce has not changed.
func HolderNonce(r *Record) string {
	if r.State == Broken {
		return cmp.Or(r.BrokenNonce, r.HolderNonce, r.Nonce)
	}
	return cmp.Or(r.HolderNonce, r.Nonce)
}

// decodeObject reads an object into f, and its further fields into unknown.
func decodeObject(value []byte, f any, unknown *map[string]json.RawMessage, known []string) error {
	var all map[string]json.RawMessage
	err := errors.Join(json.Unmarshal(value, f), json.Unmarshal(value, &all))
	if err == nil {
		*unknown, err = unknownOf(all, known)
	}
	return err
}

// unknownOf removes the known fields, and returns the others, nil if there is none. encoding/json ignores
// the case of names. Another reader does not, and would read something else: so a field whose
// name differs from a known one in case alone is an error.
func unknownOf(all map[string]json.RawMessage, known []string) (map[string]json.RawMessage, error) {
	for _, name := range known {
		delete(all, name)
	}
	for key := range all {
		for _, name := range known {
			if strings.EqualFold(name, key) {
				return nil, fmt.Errorf("the record has the field %q, which must be written %q", key, name)
			}
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

package lockrec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The history of a lock. The write that changes the lock also adds the entries, so an entry exists exactly
// if its change was applied. The record keeps the newest entries, and a second register the entries before
// them. Entries have consecutive numbers, so missing entries can be counted.

// HistoryKind says what happened to a lock.
type HistoryKind string

// The kinds of entries; package lease documents them.
const (
	HistoryBegun          HistoryKind = "begun"
	HistoryUnrecorded     HistoryKind = "unrecorded"
	HistoryGranted        HistoryKind = "granted"
	HistoryReleased       HistoryKind = "released"
	HistoryTakenOver      HistoryKind = "taken over"
	HistoryLost           HistoryKind = "lost"
	HistoryBroken         HistoryKind = "broken"
	HistoryYieldRequested HistoryKind = "yield requested"
	HistoryYieldRefused   HistoryKind = "yield refused"
	HistoryEntered        HistoryKind = "entered"
	HistoryLeft           HistoryKind = "left"
	HistoryResized        HistoryKind = "resized"
	HistoryCopied         HistoryKind = "copied"
)

// historyCodes are the kinds in a register.
var historyCodes = map[HistoryKind]string{
	HistoryBegun: "b", HistoryUnrecorded: "u", HistoryGranted: "g", HistoryReleased: "r", HistoryTakenOver: "t", HistoryLost: "l", HistoryBroken: "x",
	HistoryYieldRequested: "a", HistoryYieldRefused: "n", HistoryEntered: "i", HistoryLeft: "o", HistoryResized: "z", HistoryCopied: "c",
}

// HistoryEntry is one thing that happened to a lock; package lease documents the fields.
type HistoryEntry struct {
	Seq     uint64
	Time    time.Time
	Kind    HistoryKind
	Token   uint64
	Holder  string
	By      string
	Reason  string
	Slot    int
	Missing uint64
}

const (
	// maxPending is the size of the entries in a record, in bytes. From half of that on, a client moves
	// them. With it, the record of a plain lock usually has less than 1 KiB.
	maxPending = 512

	// maxHistory is the size of the register with the entries before, in bytes. Its parts get new entries
	// until they have maxPart.
	maxHistory = 60 << 10
	maxPart    = 64

	// The largest sizes of the texts of an entry, as JSON.
	maxHistoryName, maxHistoryReason = 64, 96

	// maxNumber bounds the numbers in a history, so that none of them overflows.
	maxNumber = 1 << 60
)

// Cause is what a write knows about its change beyond the two records.
type Cause struct {
	Kind   HistoryKind // HistoryBroken or HistoryCopied; otherwise empty
	Reason string      // why the grant before is over, if its holder does not release it in this write
}

// HistoryMark names the last entry that is in the second register.
type HistoryMark struct{ From, Last uint64 }

// HistoryNote is what the writer of a record adds to its history.
type HistoryNote struct {
	Time  time.Time   // by the clock of the writer
	By    string      // the writer
	Keep  bool        // begin a history if there is none
	Moved HistoryMark // the record needs the entries up to this one no longer
	Cause Cause
}

// history is a part of a history without gaps. It is the field of the record, and a part of the second
// register.
type history struct {
	From    uint64         `json:"from"`            // Unix time of the begin, in microseconds: it identifies the history
	Last    uint64         `json:"last"`            // number of the last entry; the first entry of a history has the number 1
	Tried   uint64         `json:"tried,omitempty"` // last entry of the last write after which a client tried to move entries
	State   uint32         `json:"at,omitempty"`    // holdersHash of the record
	Entries []HistoryEntry `json:"e,omitempty"`
}

// first is the number of the first entry.
func (h *history) first() uint64 { return h.Last - uint64(len(h.Entries)) + 1 }

func decodeHistory(value json.RawMessage) (*history, error) {
	h := &history{}
	err := json.Unmarshal(value, h)
	if err == nil && (h.From == 0 || h.From > maxNumber || h.Last > maxNumber || uint64(len(h.Entries)) > h.Last) {
		err = errors.New("a number in the history is out of range")
	}
	return h, err
}

// pending returns the history in the record r. It is nil if there is none.
func pending(r *Record) (*history, error) {
	if r == nil || r.history == nil {
		return nil, nil
	}
	h, err := decodeHistory(r.history)
	if err != nil {
		return nil, fmt.Errorf("%w: the history in the record of lock %q: %w", store.ErrCorrupt, r.Name, err)
	}
	return h, nil
}

// Chronicle sets the history of next, which will be written over the record base. It reports whether the
// writer should move entries when that write is applied. base may be nil.
//
// A move takes at most two requests. Between two moves there are at least two grants. So the history costs
// at most one request for each grant.
func Chronicle(next, base *Record, n HistoryNote) (move bool) {
	copied := next.history // by [Copied], if base has none
	next.history = cmp.Or(base, &Record{}).history
	if next.Kind == KindSession || !n.Keep && next.history == nil && copied == nil {
		return false
	}
	h, err := pending(base)
	if err != nil && !n.Keep {
		return false // another client may be able to read it
	}
	var more []HistoryEntry
	if h == nil {
		h = &history{From: uint64(max(1, n.Time.UnixMicro()))}
		begun := HistoryEntry{Kind: HistoryBegun}
		if err != nil {
			begun.Reason = "the earlier history cannot be read"
		}
		more = append(more, begun)
	} else if h.State != holdersHash(base) {
		more = append(more, HistoryEntry{Kind: HistoryUnrecorded, Token: base.Token, Reason: "a program that knows no history has changed the lock"})
	}
	changes, grants := changesOf(next, base, h, n)
	state := holdersHash(next)
	if more = append(more, changes...); len(more) == 0 && n.Moved.From != h.From && h.State == state {
		return false
	}
	for _, e := range more {
		e.Time = n.Time
		h.Entries = append(h.Entries, e.short())
	}
	h.Last += uint64(len(more))
	if n.Moved.From == h.From && n.Moved.Last >= h.first() {
		h.Entries = h.Entries[min(n.Moved.Last-h.first()+1, uint64(len(h.Entries))):]
	}
	// Other programs may have written thousands.
	h.Entries = h.Entries[max(0, len(h.Entries)-maxPending/len(`["g",0],`)):]
	size := h.size()
	for ; size > maxPending; size = h.size() {
		h.Entries = h.Entries[1:]
	}
	h.State = state
	if move = n.Keep && grants && size >= maxPending/2 && h.grantsSinceTry() >= 2; move {
		h.Tried = h.Last
	}
	next.history, _ = marshal(h) // no field can fail
	return move
}

// changesOf returns the entries for the difference between two records, and reports whether a grant begins.
func changesOf(next, base *Record, h *history, n HistoryNote) (all []HistoryEntry, grants bool) {
	base = cmp.Or(base, &Record{State: Free})
	before, after := Possessors(base), Possessors(next)
	ended, began := withoutGrants(before, after), withoutGrants(after, before)
	broken := n.Cause.Kind == HistoryBroken
	for _, m := range ended {
		e := HistoryEntry{Kind: HistoryLeft, Token: m.Token, Slot: m.Slot, Holder: n.By}
		if Exclusive(base) {
			e.Kind, e.Token, e.Holder = HistoryReleased, h.grantToken(base), base.Holder
		}
		if broken || n.Cause.Reason != "" {
			e.Kind, e.By, e.Reason = HistoryLost, n.By, n.Cause.Reason
			switch {
			case broken:
				e.Kind = HistoryBroken
			case Exclusive(base) && len(began) > 0:
				e.Kind = HistoryTakenOver
			}
			if !Exclusive(base) {
				e.Holder = sessionName(m)
			}
		}
		all = append(all, e)
	}
	switch {
	case broken && len(ended) == 0:
		all = append(all, HistoryEntry{Kind: HistoryBroken, Token: h.grantToken(base), Holder: base.Holder, By: n.By, Reason: n.Cause.Reason})
	case n.Cause.Kind == HistoryCopied:
		all = append(all, HistoryEntry{Kind: HistoryCopied, Token: next.Token, By: n.By, Reason: n.Cause.Reason})
	case base.Slots > 0 && next.Slots != base.Slots:
		all = append(all, HistoryEntry{Kind: HistoryResized, Token: next.Token, By: n.By, Slot: next.Slots})
	}
	for _, m := range began {
		e := HistoryEntry{Kind: HistoryGranted, Token: m.Token, Slot: m.Slot, Holder: next.Holder}
		if !Exclusive(next) {
			e.Kind, e.Holder = HistoryEntered, n.By
			if Names(base, m.Grant) { // it was in the queue
				e.Holder = sessionName(m)
			}
		}
		all = append(all, e)
	}
	return append(all, requestsOf(next, base)...), len(began) > 0
}

// requestsOf returns the entries for a new request to yield, and for its refusal. A waiter requests a lock
// that its holder keeps without work: this is no entry.
func requestsOf(next, base *Record) (all []HistoryEntry) {
	a, old := next.YieldRequest, cmp.Or(base.YieldRequest, &YieldRequest{})
	if a == nil || a.OnlyIfIdle {
		return nil
	}
	e := HistoryEntry{Token: next.Token, Holder: next.Holder, By: a.By}
	if a.By != old.By || !a.At.Equal(old.At) {
		e.Kind, e.Reason = HistoryYieldRequested, a.Reason
		all = append(all, e)
	}
	if a.RefusalReason != "" && old.RefusalReason == "" {
		e.Kind, e.Reason = HistoryYieldRefused, a.RefusalReason
		all = append(all, e)
	}
	return all
}

// grantToken returns the token of the grant that r has in force. A break raises the token of the record.
func (h *history) grantToken(r *Record) uint64 {
	if r.State == Broken {
		for _, e := range slices.Backward(h.Entries) {
			if e.Kind == HistoryBroken || e.Kind == HistoryGranted {
				return e.Token
			}
		}
	}
	return r.Token
}

// grantsSinceTry returns how many grants began after the last try to move entries.
func (h *history) grantsSinceTry() (n int) {
	for i, e := range h.Entries {
		if h.first()+uint64(i) > h.Tried && (e.Kind == HistoryGranted || e.Kind == HistoryEntered) {
			n++
		}
	}
	return n
}

func (h *history) size() int {
	value, _ := marshal(h.Entries)
	return len(value)
}

func sessionName(m Member) string { return "session " + m.Session }

// withoutGrants returns the members of all whose grant is not among those of others.
func withoutGrants(all, others []Member) (rest []Member) {
	grants := map[string]bool{}
	for _, m := range others {
		grants[m.Grant] = true
	}
	for _, m := range all {
		if !grants[m.Grant] {
			rest = append(rest, m)
		}
	}
	return rest
}

// holdersHash identifies the holders of a record. A program that knows no history changes the holders and
// keeps the field of the history.
func holdersHash(r *Record) uint32 {
	sum := fnv.New32a()
	fmt.Fprint(sum, r.State, r.Token)
	for _, m := range Possessors(r) {
		fmt.Fprint(sum, " ", m.Grant)
	}
	return sum.Sum32()
}

// short returns the entry with texts that are not too long.
func (e HistoryEntry) short() HistoryEntry {
	if e.Time = e.Time.UTC().Truncate(time.Millisecond); e.Time.Unix() < 0 { // a register has no such time
		e.Time = time.Unix(0, 0).UTC()
	}
	e.Holder, e.By, e.Reason = shortened(e.Holder, maxHistoryName), shortened(e.By, maxHistoryName), shortened(e.Reason, maxHistoryReason)
	return e
}

// shortened returns the beginning of a text that has at most that size as JSON.
func shortened(text string, most int) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	for {
		value, err := marshal(text)
		if over := len(value) - len(`""`) - most; over <= 0 || err != nil || text == "" {
			return text
		}
		text = strings.ToValidUTF8(text[:len(text)*3/4], "")
	}
}

// MarshalJSON writes the entry as an array: the kind, the time in milliseconds, the token, the texts, the
// slot. Values at the end that are empty are left out.
func (e HistoryEntry) MarshalJSON() ([]byte, error) {
	all := []any{cmp.Or(historyCodes[e.Kind], string(e.Kind)), e.Time.UnixMilli(), e.Token, e.Holder, e.By, e.Reason, e.Slot}
	for len(all) > 2 && (all[len(all)-1] == "" || all[len(all)-1] == 0 || all[len(all)-1] == uint64(0)) {
		all = all[:len(all)-1]
	}
	return marshal(all)
}

// UnmarshalJSON reads what MarshalJSON writes. It keeps a kind of a later version as it is.
func (e *HistoryEntry) UnmarshalJSON(value []byte) error {
	var (
		read HistoryEntry
		code string
		at   int64
	)
	all := []any{&code, &at, &read.Token, &read.Holder, &read.By, &read.Reason, &read.Slot}
	most := len(all)
	if err := json.Unmarshal(value, &all); err != nil {
		return err
	}
	if len(all) < 2 || len(all) > most || code == "" || at < 0 || at > maxSince*1000 {
		return fmt.Errorf("an entry of the history is damaged: %.60q", value)
	}
	read.Kind, read.Time = HistoryKind(code), time.UnixMilli(at).UTC()
	for kind, c := range historyCodes {
		if c == code {
			read.Kind = kind
		}
	}
	*e = read
	return nil
}

// historyRegister is the value of the second register. Its last part alone is decoded to add entries.
type historyRegister struct {
	Holdfast int               `json:"holdfast"`
	Kind     string            `json:"kind"`
	Name     string            `json:"name"`
	Parts    []json.RawMessage `json:"parts"`
}

const historyKind = "history"

func decodeHistoryRegister(name string, value []byte) (r historyRegister, err error) {
	if value == nil {
		return r, nil
	}
	err = json.Unmarshal(value, &r)
	switch {
	case err == nil && r.Kind == historyKind && r.Holdfast > PlainFormat:
		err = fmt.Errorf("%w: use a newer holdfast", ErrNewerFormat)
	case err == nil && (r.Kind != historyKind || r.Name != name || r.Holdfast != PlainFormat):
		err = fmt.Errorf("the value is not a history of this lock: %.60q", value)
	}
	if err != nil {
		return historyRegister{}, fmt.Errorf("%w: history of lock %q: %w", store.ErrCorrupt, name, err)
	}
	return r, nil
}

// merged returns parts with the entries of h that they do not have.
func merged(parts []*history, h *history) []*history {
	if h == nil || len(h.Entries) == 0 {
		return parts
	}
	parts = slices.Clone(parts)
	for i, p := range slices.Backward(parts) {
		if p.From != h.From {
			continue
		}
		if h.first() <= p.Last+1 && p.agrees(h) {
			if h.Last <= p.Last {
				return parts
			}
			more := h.Entries[p.Last+1-h.first():]
			if len(p.Entries) >= maxPart {
				return slices.Insert(parts, i+1, &history{From: p.From, Last: h.Last, Entries: more})
			}
			parts[i] = &history{From: p.From, Last: h.Last, Entries: slices.Concat(p.Entries, more)}
			return parts
		}
		// Entries between the two are missing. Or the store was restored from a backup: then entries with
		// the same numbers differ.
		return slices.Insert(parts, i+1, h)
	}
	return append(parts, h)
}

// agrees reports whether the entries that both parts have are the same.
func (h *history) agrees(other *history) bool {
	for n := max(h.first(), other.first()); n <= min(h.Last, other.Last); n++ {
		if h.Entries[n-h.first()] != other.Entries[n-other.first()] {
			return false
		}
	}
	return true
}

// MoveHistory returns the value of the second register, which had the value old, with the entries of the
// record r. It returns nil if the register has them already. The mark names the last of them. A damaged
// register is replaced, and a register of a newer format is not.
func MoveHistory(r *Record, old []byte) (value []byte, mark HistoryMark, err error) {
	h, err := pending(r)
	if err != nil || h == nil || len(h.Entries) == 0 {
		return nil, mark, err
	}
	reg, err := decodeHistoryRegister(r.Name, old)
	if errors.Is(err, ErrNewerFormat) {
		return nil, mark, err
	}
	mark, h.Tried, h.State = HistoryMark{h.From, h.Last}, 0, 0
	var last []*history
	if n := len(reg.Parts); n > 0 {
		if p, err := decodeHistory(reg.Parts[n-1]); err == nil {
			last = append(last, p)
		}
		reg.Parts = reg.Parts[:n-1]
	}
	for _, p := range merged(last, h) {
		part, _ := marshal(p)
		reg.Parts = append(reg.Parts, part)
	}
	reg.Holdfast, reg.Kind, reg.Name = PlainFormat, historyKind, r.Name
	for value, err = marshal(reg); err == nil && len(value) > maxHistory; value, err = marshal(reg) {
		for over := len(value) - maxHistory; over > 0 && len(reg.Parts) > 0; reg.Parts = reg.Parts[1:] {
			over -= len(reg.Parts[0]) + len(`,`)
		}
	}
	if bytes.Equal(value, old) {
		value = nil
	}
	return value, mark, err
}

// HistoryOf returns the history in the record r and in the value of the second register; both may be nil.
// After an error it returns what could be read. The register must be read after the record: otherwise
// entries that are moved between the two reads seem to be missing.
func HistoryOf(name string, r *Record, register []byte) (all []HistoryEntry, err error) {
	reg, err := decodeHistoryRegister(name, register)
	var parts []*history
	for _, part := range reg.Parts {
		if p, damaged := decodeHistory(part); damaged == nil {
			parts = append(parts, p)
		} else {
			err = fmt.Errorf("%w: history of lock %q: %w", store.ErrCorrupt, name, damaged)
		}
	}
	h, damaged := pending(r)
	before := HistoryMark{}
	for _, p := range merged(parts, h) {
		if p.From != before.From {
			before = HistoryMark{From: p.From}
		}
		for i, e := range p.Entries {
			number := p.first() + uint64(i)
			e.Seq = p.From + number
			if number > before.Last+1 {
				e.Missing = number - before.Last - 1
			}
			before.Last = number
			all = append(all, e)
		}
	}
	if h != nil && len(h.Entries) == 0 && (h.From != before.From || h.Last > before.Last) { // the record had no room for them
		if h.From != before.From {
			before.Last = 0
		}
		all = append(all, HistoryEntry{Seq: h.From + h.Last, Kind: HistoryUnrecorded, Missing: h.Last - before.Last, Reason: "the record had no room for entries"})
	}
	return all, errors.Join(err, damaged)
}

// HasHistory reports whether the record has a history, even a damaged one.
func HasHistory(r *Record) bool { return r != nil && r.history != nil }

// bareHistory returns the field of a history without its entries.
func bareHistory(r *Record) json.RawMessage {
	h, err := pending(r)
	if err != nil || h == nil {
		return nil
	}
	h.Entries = nil
	value, _ := marshal(h)
	return value
}

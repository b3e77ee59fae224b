package dashboard

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/lockstate"
	"github.com/holdfast-go/holdfast/store"
)

// lock is what the reader keeps of a lock: small, since there may be 100,000.
type lock struct {
	state    lease.State
	liveness store.Liveness
	token    uint64
	holder   string
	granted  int64 // Unix time in milliseconds by the holder's clock; 0 if it is not known
	renewed  int64
	ttl      int64 // milliseconds
	changed  int64 // when this reader first saw this state of the record, by its own clock
	rest     *rest // nil for most locks
}

// rest is what only few records have.
type rest struct {
	session   string
	slots     int
	holders   []lease.Member
	queue     []lease.Member
	ask       *lease.YieldRequest
	data      []byte
	run       *lease.Run
	notBefore time.Time
	linger    time.Duration
	immediate bool
}

// unreadable is the state of a lock with a damaged record.
const unreadable lease.State = "unreadable"

func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func lockOf(info lease.Info, now time.Time) lock {
	r := info.Record
	l := lock{
		state: r.State, liveness: info.Liveness, token: r.Token, holder: strings.Clone(r.Holder),
		granted: milliseconds(r.Granted), renewed: milliseconds(r.Renewed), ttl: r.TTL.Milliseconds(), changed: now.UnixMilli(),
	}
	if info.Age > 0 {
		l.changed -= info.Age.Milliseconds()
	}
	more := rest{
		session: strings.Clone(r.Session), slots: r.Slots, holders: r.Holders, queue: r.Queue, ask: r.YieldRequest, data: r.Data, run: r.Run,
		notBefore: r.NotBefore, linger: r.Linger, immediate: r.Immediate,
	}
	if more.session != "" || more.slots > 0 || len(more.holders)+len(more.queue) > 0 || more.ask != nil || more.data != nil || more.run != nil ||
		!more.notBefore.IsZero() || more.linger > 0 || more.immediate {
		l.rest = &more
	}
	return l
}

// more returns what few records have; never nil.
func (l *lock) more() *rest {
	if l.rest == nil {
		return &rest{}
	}
	return l.rest
}

// sessions returns the ids of the sessions that the record names.
func (l *lock) sessions() (ids []string) {
	m := l.more()
	if m.session != "" {
		ids = append(ids, m.session)
	}
	if id, ok := strings.CutPrefix(l.holder, lockstate.HandedOver); ok && id != "" {
		ids = append(ids, id)
	}
	for _, member := range m.holders {
		ids = append(ids, member.Session)
	}
	for _, member := range m.queue {
		ids = append(ids, member.Session)
	}
	return ids
}

// deadline estimates when a lease ends unless the holder renews it. The holder's clock may be wrong:
// then the time counts from when the reader saw the write.
func deadline(renewed, ttl, changed int64) int64 {
	return min(cmp.Or(renewed, changed), changed) + ttl
}

// view is a lock as the templates show it.
type view struct {
	ID, Name, Link string
	State          string // in a word, for the colour
	Text           string // for people
	Holder         string
	Since          time.Time
	Token          uint64
	End, TTL       int64 // of the bar, in milliseconds; 0 if there is none
	Slots          []slotView
	Holders, Queue []memberView
	Waiting        int
	Ask            *askView
	Problem        string // why the lock could not be read
	Value          string
	Run            *runView
	NotBefore      time.Time
	Linger         time.Duration
	Granted        time.Time
	Renewed        time.Time
	Session        string
	Read           time.Time
	Explained      string
	Known          bool
}

type memberView struct {
	Text, Holder, State string
	Since               time.Time
	Token               uint64
	End, TTL            int64
}

type slotView struct {
	Number int
	Holder string // empty if it is free
}

type askView struct {
	By, Reason, Refusal string
	At                  time.Time
	Read                bool
}

type runView struct {
	Result, Holder, Error string
	Began                 time.Time
}

// viewOf returns the view of an entry of the table of locks. The reader is locked.
func (p *Page) viewOf(name string, e *entry[lock], now time.Time) view {
	l := &e.value
	m := l.more()
	v := view{
		ID: identity(name), Name: visible(name), Link: linkTo(name), State: string(l.state), Holder: visible(l.holder), Token: l.token, Problem: visible(e.problem),
		Granted: timeOf(l.granted), Renewed: timeOf(l.renewed), Session: m.session, NotBefore: m.notBefore, Linger: m.linger, Waiting: len(m.queue), Known: e.read > 0, Read: timeOf(e.read),
	}
	if !v.Known {
		v.State = "unread"
		v.Text = "not read yet"
		if e.problem != "" {
			v.Text = "not read"
		}
		return v
	}
	at := p.r.knownAt(e)
	renewed, ttl, changed, liveness, known := l.renewed, l.ttl, l.changed, l.liveness, at
	ended := false
	if s := p.r.sessions[m.session]; m.session != "" {
		renewed = 0
		if s != nil {
			renewed, ttl, changed, liveness, known, ended = s.renewed, s.ttl, s.changed, s.liveness, s.read, s.endedBefore(at)
		}
	}
	if id, ok := strings.CutPrefix(l.holder, lockstate.HandedOver); ok {
		if s := p.r.sessions[id]; s != nil {
			v.Holder = visible(s.holder)
		}
	}
	holds := l.state == lease.Held || l.state == lease.Broken && !m.immediate && len(m.holders) == 0
	if holds && renewed > 0 {
		v.End, v.TTL = deadline(renewed, ttl, changed), ttl
	}
	v.Since = v.Granted
	if l.state != lease.Held {
		v.Since = v.Renewed
	}
	if len(m.holders) > 0 {
		v.Since = m.holders[0].Since
	}
	facts := lockstate.Facts{State: l.state, Slots: m.slots, Holders: len(m.holders), Liveness: liveness.String()}
	if l.state == lease.Held {
		facts.Expired = lockstate.ExpiryOf(timeOf(renewed), timeOf(known), -1, time.Duration(ttl)*time.Millisecond, p.o.MaxClockDrift, liveness)
	}
	if ended {
		facts.Liveness, facts.Expired = store.Dead.String(), lockstate.NotExpired
	}
	v.Text = facts.Words()
	switch {
	case l.state == lease.Shared:
		v.Holder = ""
	case l.state == lease.Held && facts.Liveness == store.Dead.String():
		v.State, v.Explained = "expired", "The holder is dead. The next client can take the lock."
	case facts.Expired != lockstate.NotExpired:
		v.State = "expired"
		v.Explained = "The holder has not renewed its lease in time, by the clocks of the holder and of this machine. Other clients take the lock after they have watched it for its TTL."
	case l.state == lease.Free && m.slots == 0 && m.notBefore.After(now):
		v.Text = "free, but not yet"
	case l.state == lease.Broken && m.immediate:
		v.Explained = "A user broke the lock. The next client can take it."
	case l.state == lease.Broken:
		v.Explained = "A user broke the lock. Other clients can take it when the holder has stopped, at the latest after they have watched it for its TTL."
	case l.state == unreadable:
		v.Explained = "Other locks still work. If no holder of this lock lives, a user can repair the lock."
	}
	for _, member := range m.holders {
		v.Holders = append(v.Holders, p.memberOf(member, at))
	}
	for _, member := range m.queue {
		v.Queue = append(v.Queue, p.memberOf(member, at))
	}
	if m.slots > 0 {
		v.Slots = slotsOf(m, v.Holders)
	}
	if v.Holder == "" && len(v.Holders) > 0 {
		names := make([]string, 0, 3)
		for _, member := range v.Holders[:min(3, len(v.Holders))] {
			names = append(names, member.Holder)
		}
		if n := len(v.Holders) - 3; n > 0 {
			names = append(names, fmt.Sprintf("%d more", n))
		}
		v.Holder = strings.Join(names, ", ")
	}
	if m.ask != nil && l.state != lease.Free {
		v.Ask = &askView{visible(m.ask.By), visible(m.ask.Reason), visible(m.ask.RefusalReason), m.ask.At, m.ask.Acknowledged}
	}
	if m.data != nil {
		v.Value = cmp.Or(visible(string(m.data)), "(empty)")
	}
	if m.run != nil {
		v.Run = &runView{lockstate.RunResult(m.run.Outcome), visible(m.run.Holder), visible(m.run.Error), m.run.Began}
	}
	return v
}

// endedBefore reports whether the session had ended when a lock certainly had the state that was read last. Before it
// ends, a session can release its locks: a state that was read earlier does not show that.
func (s *session) endedBefore(at int64) bool { return s.ended && s.read < at }

func (p *Page) memberOf(m lease.Member, at int64) memberView {
	v := memberView{Holder: lockstate.HandedOver + visible(m.Session), Since: m.Since, Token: m.Token, State: "held"}
	switch m.Mode {
	case lease.ModeShared:
		v.Text = "reader"
		if m.Token == 0 {
			v.Text = "wants to read"
		}
	case lease.ModeSlot:
		v.Text = fmt.Sprintf("slot %d", m.Slot)
	case lease.ModeCandidate:
		v.Text = "wants to lead"
	default:
		v.Text = "wants the lock alone"
	}
	if s := p.r.sessions[m.Session]; s != nil {
		v.Holder = visible(s.holder)
		if s.renewed > 0 {
			v.End, v.TTL = deadline(s.renewed, s.ttl, s.changed), s.ttl
		}
		if s.endedBefore(at) || s.liveness == store.Dead {
			v.State = "expired"
		}
	}
	return v
}

// mostSlots bounds the slots that the page draws.
const mostSlots = 200

func slotsOf(m *rest, holders []memberView) []slotView {
	slots := make([]slotView, min(m.slots, mostSlots))
	for i := range slots {
		slots[i].Number = i + 1
	}
	for i, member := range m.holders {
		if n := member.Slot; n >= 1 && n <= len(slots) {
			slots[n-1].Holder = holders[i].Holder
		}
	}
	return slots
}

func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

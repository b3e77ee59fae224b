package metrics

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/metrics/promtext"
)

// locks is what the events say of the locks of a client. The mutex of the Metrics guards it.
type locks struct {
	labels   map[string]*label
	held     map[grant][]hold     // several where readers of one session share a token
	pruneAt  int                  // when held has so many entries, it is pruned
	waiting  map[string]*label    // of the locks that the client waits for, by name
	sessions map[string]time.Time // their deadlines
}

// label is a value of the label lock.
type label struct {
	text string // as Labels returns it

	// The rest is of one scrape.
	held, waiting int
	least         time.Duration // until the first of the held leases ends
}

// grant identifies the leases of a client.
type grant struct {
	name, session string
	token         uint64
}

// hold is a lease that the client holds.
type hold struct {
	label    *label
	since    time.Time // zero if its beginning was not reported
	deadline time.Time // of a lease that is not under a session
}

// minPrune is the smallest number of leases that are searched for leases whose end was not reported.
const minPrune = 1024

func (l *locks) init() {
	l.labels, l.held, l.pruneAt = map[string]*label{}, map[grant][]hold{}, minPrune
	l.waiting, l.sessions = map[string]*label{}, map[string]time.Time{}
}

// The reasons of takeovers, as labels.
var takeoverReasons = []struct{ text, label string }{
	{"the earlier grant was broken", "broken"},
	{"the earlier grant was of", "own"},
	{"the process of the earlier holder is dead", "dead_process"},
	{"the earlier holder did not renew", "expired"},
	{"the earlier lease has expired", "expired"},
	{"", "other"},
}

func takeoverReason(reason string) string {
	i := slices.IndexFunc(takeoverReasons, func(r struct{ text, label string }) bool { return strings.HasPrefix(reason, r.text) })
	return takeoverReasons[i].label
}

// OnEvent counts an event of a client: set it as Options.OnEvent of package lease, or call it from
// your own handler. It takes microseconds and does no I/O. Do not pass it the events of two clients:
// the waits of one would end those of the other.
func (m *Metrics) OnEvent(e lease.Event) {
	if now := time.Now(); !e.Deadline.IsZero() {
		e.Deadline = now.Add(e.Deadline.Sub(now.Round(0))) // later changes of the wall clock do not count
	}
	value := ""
	if e.Name != "" {
		value = m.label(e.Name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Dropped > 0 {
		m.set.Add(promtext.EventsDropped, "", float64(e.Dropped))
		clear(m.waiting) // one of the events may have ended a wait
	}
	if e.Name == "" {
		m.onSession(&e)
		return
	}
	label := m.bounded(value)
	plain := label.text
	count := func(name string, more ...string) { m.set.Add(name, label.with(more...), 1) }
	id := grant{e.Name, e.Session, e.Token}
	switch e.Kind {
	case lease.EventWaiting:
		m.waiting[e.Name] = label
		count(promtext.Waits)
	case lease.EventAcquired:
		delete(m.waiting, e.Name)
		count(promtext.Acquired)
		m.set.Add(promtext.WaitSeconds, plain, max(e.Took, 0).Seconds())
		m.set.Distribution(promtext.AcquireDuration, plain).Observe(e.Took)
		m.begin(id, hold{label, e.Time, e.Deadline})
	case lease.EventFailed:
		if e.StopsWaiting {
			delete(m.waiting, e.Name)
		}
		switch {
		case errors.Is(e.Err, lease.ErrAlreadyRan):
			count(promtext.RanAlready)
			m.set.Add(promtext.WaitSeconds, plain, max(e.Took, 0).Seconds())
		case errors.Is(e.Err, lease.ErrHeld) && !errors.Is(e.Err, lease.ErrUnresponsive):
			count(promtext.Busy)
			m.set.Add(promtext.WaitSeconds, plain, max(e.Took, 0).Seconds())
		default:
			count(promtext.Failed, "reason", promtext.FailureReason(e.Err))
		}
	case lease.EventTakenOver:
		count(promtext.Takeovers, "reason", takeoverReason(e.Reason))
	case lease.EventRenewed:
		m.set.Distribution(promtext.RenewalDuration, plain).Observe(e.Took)
		m.renew(id, label, e.Deadline)
	case lease.EventAtRisk:
		count(promtext.AtRisk)
	case lease.EventYieldRequested:
		count(promtext.YieldRequests)
	case lease.EventLost:
		count(promtext.Lost, "reason", promtext.LossReason(e.Err))
		m.end(id, e.Time)
	case lease.EventReleased:
		result := "ok"
		if e.Err != nil {
			result = "unconfirmed"
		}
		count(promtext.Released, "result", result)
		m.end(id, e.Time)
	case lease.EventUnresponsive:
		m.set.Add(promtext.Unresponsive, "", 1)
	}
}

// onSession counts an event that is about a session.
func (m *Metrics) onSession(e *lease.Event) {
	switch e.Kind {
	case lease.EventOpened:
		m.sessions[e.Session] = e.Deadline
	case lease.EventRenewed:
		m.set.Distribution(promtext.RenewalDuration, "").Observe(e.Took)
		m.sessions[e.Session] = e.Deadline
	case lease.EventAtRisk:
		m.set.Add(promtext.AtRisk, "", 1)
	case lease.EventClosed, lease.EventLost:
		delete(m.sessions, e.Session)
	case lease.EventUnresponsive:
		m.set.Add(promtext.Unresponsive, "", 1)
	}
}

// bounded returns the label of a lock that the rule maps to value. A new label gets its counters,
// because Prometheus sees no increase in a counter that begins with 1.
func (m *Metrics) bounded(value string) *label {
	value = strings.ToValidUTF8(value, "\ufffd") // as the output has it
	if m.labels[value] == nil && (len(value) > maxLabel || value == "" || len(m.labels) >= m.maxLabels) {
		value = Other
	}
	if l := m.labels[value]; l != nil {
		return l
	}
	l := &label{text: promtext.Labels("lock", value)}
	m.labels[strings.Clone(value)] = l
	add := func(name string, more ...string) { m.set.Add(name, l.with(more...), 0) }
	for _, name := range []string{promtext.Acquired, promtext.Busy, promtext.RanAlready, promtext.WaitSeconds, promtext.HeldSeconds, promtext.Waits, promtext.AtRisk, promtext.YieldRequests} {
		add(name)
	}
	for _, name := range []string{promtext.Lost, promtext.Failed} {
		for _, r := range promtext.Reasons(name) {
			add(name, "reason", r)
		}
	}
	for _, r := range takeoverReasons {
		add(promtext.Takeovers, "reason", r.label)
	}
	add(promtext.Released, "result", "ok")
	add(promtext.Released, "result", "unconfirmed")
	return l
}

// with returns the label with another one, unless that is empty.
func (l *label) with(more ...string) string {
	if len(more) == 0 {
		return l.text
	}
	return l.text + "," + promtext.Labels(more...)
}

// begin notes a lease.
func (l *locks) begin(id grant, h hold) {
	if len(l.held) >= l.pruneAt {
		l.prune(time.Now())
	}
	l.held[id] = append(l.held[id], h)
	if _, known := l.sessions[id.session]; id.session != "" && !known {
		l.sessions[id.session] = h.deadline // the event of the session was dropped
	}
}

// renew notes a renewal. If the lease is not known, its beginning was dropped, or it was in a ticket.
func (l *locks) renew(id grant, label *label, deadline time.Time) {
	if len(l.held[id]) == 0 {
		l.begin(id, hold{label: label})
	}
	l.held[id][0].deadline = deadline
}

// end notes the end of a lease at that time.
func (m *Metrics) end(id grant, at time.Time) {
	all := m.held[id]
	if len(all) == 0 {
		return
	}
	if h := all[0]; !h.since.IsZero() {
		took := max(at.Sub(h.since), 0)
		m.set.Add(promtext.HeldSeconds, h.label.text, took.Seconds())
		m.set.Distribution(promtext.HoldDuration, h.label.text).Observe(took)
	}
	if len(all) == 1 {
		delete(m.held, id)
	} else {
		m.held[id] = all[1:]
	}
}

// left returns for how long the client may still trust a lease.
func (l *locks) left(id grant, h *hold, now time.Time) time.Duration {
	deadline := h.deadline
	if id.session != "" {
		deadline = l.sessions[id.session]
	}
	return deadline.Sub(now)
}

// pruneAfter is for how long a lease is remembered after its deadline. The event of its end was
// dropped, or it was detached. But if the event of a renewal was dropped, the next one follows.
const pruneAfter = time.Minute

// prune forgets the leases whose deadline was over long ago.
func (l *locks) prune(now time.Time) {
	for id, all := range l.held {
		if l.left(id, &all[0], now) < -pruneAfter {
			delete(l.held, id)
		}
	}
	for id, deadline := range l.sessions {
		if deadline.Sub(now) < -pruneAfter {
			delete(l.sessions, id)
		}
	}
	l.pruneAt = max(minPrune, 2*len(l.held))
}

// gauges adds the values of this moment to a set.
func (l *locks) gauges(into *promtext.Set, now time.Time) {
	l.prune(now)
	for _, label := range l.labels {
		label.held, label.waiting = 0, 0
	}
	for id, all := range l.held {
		for i := range all {
			left, label := l.left(id, &all[i], now), all[i].label
			if left < 0 {
				continue
			}
			if label.held == 0 || left < label.least {
				label.least = left
			}
			label.held++
		}
	}
	for _, label := range l.waiting {
		label.waiting++
	}
	for _, label := range l.labels {
		into.Put(promtext.Held, label.text, float64(label.held))
		into.Put(promtext.Waiting, label.text, float64(label.waiting))
		if label.held > 0 {
			into.Put(promtext.ShortestLease, label.text, label.least.Seconds())
		}
	}
	open := 0
	for _, deadline := range l.sessions {
		if !deadline.Before(now) {
			open++
		}
	}
	into.Put(promtext.Sessions, "", float64(open))
}

package lease_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// ledger sees each write that a store applies, in their order, and each guard that is handed
// out. It checks, from the records alone and without the code that it judges:
//
//   - Tokens rise. A writer's is above all before it, so is a slot's, and a reader's is that of
//     the last writer before it.
//   - A grant that no longer exists does not come back. A plain lease is taken only after its TTL, a
//     session is fenced only after its own, and what is under a session only when that is over.
//   - The queue keeps its order. Those at its head are made holders first, and no newcomer
//     becomes a holder before them.
//   - No more slots are granted than there are, and only holders and candidates change the data.
//   - An ask names those that held the lock when it was made, and ends with the last of them. No
//     other holder hears of it.
//   - A guard that believes is named in the record; so there is never a writer together with another
//     holder, nor one slot with two holders. It believes no longer than its trust after the
//     sending of the last renewal that was applied.
//   - A program that watches an election, and whose requests get through, hears of the end of a
//     leader soon after the TTL of its last renewal.
type ledger struct {
	s        *sim
	mu       sync.Mutex
	locks    map[string]*lockEntry
	sessions map[string]*sessionEntry
	grants   map[string]*grantEntry
	watching map[*observer]bool
	next     *time.Timer // checks the belief that has to end first
	due      time.Time   // when
}

// lockEntry is what the ledger knows of a lock.
type lockEntry struct {
	rec     lease.Record
	writer  uint64 // the token of the last writer
	raised  bool   // a break, or an unresolved claim, has raised the token since
	handed  uint64 // the highest token of a writer that was handed out
	values  map[uint64][]string
	beliefs []*belief
}

// sessionEntry is what it knows of a session, and grantEntry of a grant.
type sessionEntry struct {
	owner *life
	rec   lease.Record
	renewed
}

type grantEntry struct {
	name     string // of the lock
	owner    *life
	member   lease.Member
	holds    bool
	gone     bool
	ticketed bool
	asked    bool // an ask has named it
	renewed
}

// renewed is when the last renewal was applied, and when the last of those that were applied was
// sent.
type renewed struct{ applied, sent time.Time }

func (r *renewed) note(sent time.Time) {
	r.applied = time.Now()
	if sent.After(r.sent) {
		r.sent = sent
	}
}

// belief is a guard that was handed out.
type belief struct {
	guard *lease.Guard
	name  string
	life  *life
	under bool // a session
	mode  lease.Mode
	again bool // the grant may have been handed out before
}

// sentKey is the key of the time in a context when the client sent a request.
type sentKey struct{}

func newLedger(s *sim) *ledger {
	return &ledger{s: s, locks: map[string]*lockEntry{}, sessions: map[string]*sessionEntry{}, grants: map[string]*grantEntry{}, watching: map[*observer]bool{}}
}

// carry passes requests of a program on, and notes the writes that are applied.
func (l *ledger) carry(by *life) func(context.Context, *store.Op, store.Handler) error {
	return func(ctx context.Context, op *store.Op, next store.Handler) error {
		if !op.Kind.Write() {
			return next(ctx, op)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		sent, _ := ctx.Value(sentKey{}).(time.Time)
		if w := l.s.wrong; w != nil && w.store != nil {
			next = w.store(l.s, next)
		}
		if err := next(ctx, op); err != nil {
			return err
		}
		l.s.count(func(s *simStats) { s.WritesChecked++ })
		if id, ok := strings.CutPrefix(op.Key, "lock.session/"); ok {
			rec, err := lease.DecodeKind(lease.KindSession, id, op.Value)
			if err != nil {
				l.s.fail("%v: %s", err, op.Value)
				return nil
			}
			l.session(by, id, rec, sent)
			l.check()
			return nil
		}
		name := strings.TrimPrefix(op.Key, "lock/")
		rec, err := lease.Decode(name, op.Value)
		if err != nil {
			l.s.fail("%v: %s", err, op.Value)
			return nil
		}
		l.lock(by, l.entry(name), rec, sent)
		l.checkLock(l.entry(name))
		return nil
	}
}

func (l *ledger) entry(name string) *lockEntry {
	k := l.locks[name]
	if k == nil {
		k = &lockEntry{rec: lease.Record{Name: name, State: lease.Free}, values: map[uint64][]string{}}
		l.locks[name] = k
	}
	return k
}

// expired reports whether a waiter whose clock is as wrong as it may be can know that what was
// renewed last then has not been renewed for its TTL.
func (r *renewed) expired(ttl time.Duration) bool {
	return time.Since(r.applied) >= time.Duration(float64(ttl)/(1+simRho))
}

// session notes a write of a session's record.
func (l *ledger) session(by *life, id string, rec *lease.Record, sent time.Time) {
	e := l.sessions[id]
	if e == nil {
		e = &sessionEntry{owner: by}
		l.sessions[id] = e
	} else if e.rec.State != lease.Held {
		l.s.fail("session %s of %v was %s, and is written again", id, e.owner, e.rec.State)
	}
	switch {
	case rec.State == lease.Revoked:
		l.s.count(func(s *simStats) { s.SessionsFenced++ })
		if !e.expired(e.rec.TTL) {
			l.s.fail("session %s is fenced %v after it was renewed, and its TTL is %v", id, time.Since(e.applied), e.rec.TTL)
		}
	case rec.HolderNonce != "":
		l.wantMark(&e.rec, rec)
	case by != e.owner:
		l.s.fail("%v writes session %s of %v as %s", by, id, e.owner, rec.State)
	default:
		e.note(sent)
	}
	e.rec = *rec
}

// wantMark checks that another's write leaves the sign of life of the holder.
func (l *ledger) wantMark(before, rec *lease.Record) {
	if was := cmp.Or(before.HolderNonce, before.Nonce); rec.HolderNonce != was {
		l.s.fail("%q: another's write names the holder's write %q, and it was %q", rec.Name, rec.HolderNonce, was)
	}
}

// holder returns the grant that a record names as that of a holder that has the lock alone.
func holder(r *lease.Record) []lease.Member {
	if r.Grant == "" || r.State != lease.Held && (r.State != lease.Broken || len(r.Holders) > 0) {
		return nil
	}
	return []lease.Member{{Grant: r.Grant, Session: r.Session, TTL: r.TTL, Mode: lease.ModeExclusive, Token: r.Token}}
}

func holders(r *lease.Record) []lease.Member { return slices.Concat(holder(r), r.Holders) }

func names(members []lease.Member, grant string) bool {
	return slices.ContainsFunc(members, func(m lease.Member) bool { return m.Grant == grant })
}

// lock notes a write of a lock's record.
func (l *ledger) lock(by *life, k *lockEntry, rec *lease.Record, sent time.Time) {
	was := k.rec
	defer func() { k.rec = *rec }()
	if rec.Token < was.Token {
		l.s.fail("%q: token %d after %d", rec.Name, rec.Token, was.Token)
	}
	l.queue(&was, rec)
	now := slices.Concat(holders(rec), rec.Queue)
	writer := false
	for i, m := range now {
		e := l.grants[m.Grant]
		switch {
		case e == nil:
			e = &grantEntry{name: rec.Name, owner: by, member: m}
			l.grants[m.Grant] = e
			e.note(sent)
			if s := l.sessions[m.Session]; m.Session != "" && (s == nil || s.owner != by) {
				l.s.fail("%q: %v enters a grant of session %s, which is not its own", rec.Name, by, m.Session)
			}
		case e.gone:
			l.s.fail("%q: grant %s of %v, which had gone, stands in the record again", rec.Name, m.Grant, e.owner)
		}
		if holds := i < len(now)-len(rec.Queue); holds && !e.holds {
			e.holds, e.member = true, m
			writer = writer || m.Mode == lease.ModeExclusive
			l.granted(k, &was, rec, m)
		}
	}
	for _, m := range slices.Concat(holders(&was), was.Queue) {
		if e := l.grants[m.Grant]; e != nil && !names(now, m.Grant) {
			e.gone = true
			l.ended(by, rec.Name, e)
		}
	}
	if e := l.grants[rec.Grant]; e != nil && rec.State == lease.Held {
		switch same := was.Grant == rec.Grant && was.State == lease.Held; {
		case rec.HolderNonce == "" && same && by != e.owner && !e.ticketed:
			l.s.fail("%q: a write of %v over the grant of %v has no mark of the holder's last write", rec.Name, by, e.owner)
		case rec.HolderNonce == "":
			e.note(sent)
		case same && !e.ticketed:
			l.wantMark(&was, rec)
		}
		if value := string(rec.Data); !slices.Contains(k.values[rec.Token], value) {
			k.values[rec.Token] = append(k.values[rec.Token], value)
		}
	}
	l.data(by, &was, rec, writer)
	l.ask(&was, rec)
	switch {
	case writer:
		k.writer, k.raised = rec.Token, false
	case rec.Token > was.Token:
		k.raised = true
	}
}

// granted checks a grant that begins.
func (l *ledger) granted(k *lockEntry, was, rec *lease.Record, m lease.Member) {
	switch m.Mode {
	case lease.ModeShared:
		if m.Token < k.writer || m.Token > rec.Token || !k.raised && rec.Token == was.Token && m.Token != k.writer {
			l.s.fail("%q: a reader has token %d; the last writer had %d", rec.Name, m.Token, k.writer)
		}
	case lease.ModeSlot:
		if len(rec.Holders) > rec.Slots {
			l.s.fail("%q: one of %d slots is granted, and %d are taken", rec.Name, rec.Slots, len(rec.Holders))
		}
		fallthrough
	default:
		if m.Token <= was.Token {
			l.s.fail("%q: a grant has token %d after %d", rec.Name, m.Token, was.Token)
		}
	}
}

// ended checks that a grant may have ended.
func (l *ledger) ended(by *life, name string, e *grantEntry) {
	m := e.member
	switch {
	case by == e.owner || e.ticketed:
	case m.Session != "":
		if s := l.sessions[m.Session]; s == nil || s.rec.State == lease.Held {
			l.s.fail("%q: %v ends a grant of %v under session %s, which is open", name, by, e.owner, m.Session)
		}
	case !e.expired(m.TTL):
		l.s.fail("%q: %v takes the lock %v after %v has renewed it, and the TTL is %v", name, by, time.Since(e.applied), e.owner, m.TTL)
	}
}

// queue checks that the queue keeps its order.
func (l *ledger) queue(was, rec *lease.Record) {
	left := slices.DeleteFunc(slices.Clone(was.Queue), func(m lease.Member) bool { return !names(rec.Queue, m.Grant) })
	l.s.count(func(s *simStats) { s.Queued += len(rec.Queue) - len(left) })
	same := func(a, b lease.Member) bool { return a.Grant == b.Grant }
	if len(rec.Queue) < len(left) || !slices.EqualFunc(left, rec.Queue[:len(left)], same) {
		l.s.fail("%q: the queue changes its order from %v to %v", rec.Name, was.Queue, rec.Queue)
	}
	for _, m := range holders(rec) {
		if names(holders(was), m.Grant) {
			continue
		}
		at := slices.IndexFunc(was.Queue, func(q lease.Member) bool { return q.Grant == m.Grant })
		ahead := was.Queue
		if at >= 0 {
			ahead = was.Queue[:at]
			l.s.count(func(s *simStats) { s.HandedOver++ })
		}
		for _, q := range ahead {
			if names(rec.Queue, q.Grant) {
				l.s.fail("%q: %s overtakes %s, which stood before it in the queue", rec.Name, m.Grant, q.Grant)
			}
		}
	}
}

// yieldRequestOf returns the grants that an ask names.
func askedOf(a *lease.YieldRequest) []string {
	switch {
	case a == nil:
		return nil
	case a.Grant != "":
		return []string{a.Grant}
	}
	return a.Grants
}

// ask checks whom an ask names, and that it ends with the last of them.
func (l *ledger) ask(was, rec *lease.Record) {
	before, of := askedOf(was.YieldRequest), askedOf(rec.YieldRequest)
	now := holders(rec)
	holds := func(grant string) bool { return names(now, grant) }
	if rec.YieldRequest == nil {
		if slices.ContainsFunc(before, holds) && rec.State != lease.Broken {
			l.s.fail("%q: an ask of %v is removed, and %+v hold the lock", rec.Name, before, now)
		}
		return
	}
	if !slices.ContainsFunc(of, holds) {
		l.s.fail("%q: an ask of %v stands, and none of them holds the lock: %+v", rec.Name, of, now)
	}
	same := was.YieldRequest != nil && was.YieldRequest.By == rec.YieldRequest.By && was.YieldRequest.At.Equal(rec.YieldRequest.At)
	for _, grant := range of {
		if same && !slices.Contains(before, grant) || !same && !names(holders(was), grant) {
			l.s.fail("%q: an ask names %s, which came after it was made of %v", rec.Name, grant, before)
		}
		if e := l.grants[grant]; e != nil && !rec.YieldRequest.OnlyIfIdle {
			e.asked = true
		}
	}
	if !same && len(of) > 1 {
		l.s.count(func(s *simStats) { s.AsksOfSeveral++ })
	}
}

// heard checks that an ask has named the holder that has heard of one.
func (l *ledger) heard(b *belief) {
	l.s.count(func(s *simStats) {
		if b.mode != lease.ModeExclusive {
			s.HeardBySeveral++
		}
	})
	token := b.guard.Token()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.grants {
		if e.asked && e.name == b.name && e.member.Mode == b.mode && e.member.Token == token && (e.owner == b.life || e.ticketed) {
			return
		}
	}
	l.s.fail("%q: %v has heard of an ask with token %d (%s), and none has named it", b.name, b.life, token, b.mode)
}

// data checks who has changed the data.
func (l *ledger) data(by *life, was, rec *lease.Record, writer bool) {
	if string(rec.Data) == string(was.Data) {
		return
	}
	e := l.grants[rec.Grant]
	// A campaign that is given up is one that was won and ended at once.
	campaign := (writer || rec.State == lease.Free && rec.Grant != was.Grant) && strings.HasPrefix(string(rec.Data), "leader")
	if !campaign && (e == nil || rec.State != lease.Held || rec.Grant != was.Grant || by != e.owner && !e.ticketed) {
		l.s.fail("%q: %v changes the data from %q to %q, and does not hold the lock", rec.Name, by, was.Data, rec.Data)
	}
}

// ticketed notes that another process can continue with a grant.
func (l *ledger) ticketed(t lease.Ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.grants[t.Grant]; e != nil {
		e.ticketed = true
	}
}

// believes notes a guard that was handed out.
func (l *ledger) believes(b *belief) {
	l.s.count(func(s *simStats) {
		s.Grants++
		if l.s.calm {
			s.GrantsOnCalm++
		}
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.entry(b.name)
	if token := b.guard.Token(); b.mode == lease.ModeExclusive {
		if token < k.handed || token == k.handed && !b.again && !b.guard.WasLastHolder() {
			l.s.fail("%q: a writer is handed token %d after %d", b.name, token, k.handed)
		}
		k.handed = max(k.handed, token)
		if data := string(b.guard.Data()); !slices.Contains(k.values[token], data) {
			l.s.fail("%q: a writer with token %d is handed data %q, and there were %q", b.name, token, data, k.values[token])
		}
	}
	k.beliefs = append(k.beliefs, b)
	l.checkLock(k)
}

// look checks all beliefs now.
func (l *ledger) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.check()
}

// lookIn checks all beliefs when that time has passed, or sooner.
func (l *ledger) lookIn(d time.Duration) {
	if now := time.Now(); l.due.Before(now) || now.Add(d).Before(l.due) {
		if l.next != nil {
			l.next.Stop()
		}
		l.due, l.next = now.Add(d), time.AfterFunc(d, l.look)
	}
}

func (l *ledger) check() {
	for _, k := range l.locks {
		l.checkLock(k)
	}
	for o := range l.watching {
		o.check()
	}
}

// observer is one that watches an election.
type observer struct {
	l      *ledger
	of     *life
	leader *grantEntry // that it heard of last; nil: of none, or that it is over
	since  time.Time   // when it heard that, or of an error
}

func (l *ledger) observes(of *life) *observer {
	o := &observer{l: l, of: of}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watching[o] = true
	return o
}

func (o *observer) ends() {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	delete(o.l.watching, o)
}

// hears notes what the observer of an election hears.
func (o *observer) hears(name string, leader lease.Leader, err error) {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	o.check()
	if o.since = time.Now(); err == nil || errors.Is(err, lease.ErrNoLeader) {
		o.leader = nil
	}
	if leader.State == lease.LeaderExpired {
		o.l.s.count(func(s *simStats) { s.Expired++ })
	}
	for _, e := range o.l.grants {
		if err == nil && e.name == name && e.holds && e.member.Mode == lease.ModeExclusive && e.member.Token == leader.Token {
			o.leader = e
		}
	}
}

// check checks that the leader which the observer heard of last has not died long ago. The time
// begins again with each fault and each sleep of the observer's machine, and with each error that it
// hears of: it may have seen the last renewal only then.
func (o *observer) check() {
	e := o.leader
	if e == nil || e.gone || o.of.dead.Load() || o.of.closed.Load() {
		return
	}
	s, last := o.l.s, e.applied
	if under := o.l.sessions[e.member.Session]; under != nil {
		last = under.applied
	}
	for _, at := range []time.Time{o.since, o.of.p.well()} {
		if at.After(last) {
			last = at
		}
	}
	slack := 2 * min(o.of.client.Options().MaxPoll, e.member.TTL/3)
	if slack += time.Second * s.scale; !s.calm { // replies that take long, and calls that wait for those that hang
		slack += 4*min(10*time.Second*s.scale, 30*time.Second) + 2*time.Minute
	}
	if most := time.Duration(float64(e.member.TTL)*(1+simRho)/(1-simRho)/(1-simRho)) + slack; time.Since(last) > most {
		s.fail("%q: %v is told for %v that %v leads with token %d, which has died; at most %v are allowed", e.name, o.of, time.Since(last), e.owner, e.member.Token, most)
	}
}

// overdue returns the last write of another program that leads, if it has not renewed its lease for
// its TTL by the wall clocks of both machines; else nothing.
func (l *ledger) overdue(by *life, name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	rec := l.entry(name).rec
	e := l.grants[rec.Grant]
	if s := l.sessions[rec.Session]; s != nil {
		rec = s.rec
	}
	if e == nil || e.owner == by || rec.State != lease.Held || float64(by.p.clock.read().Wall.Sub(rec.Renewed)) < float64(rec.TTL)*(1+simRho)/(1-simRho) {
		return ""
	}
	l.s.count(func(s *simStats) { s.Overdue++ })
	return cmp.Or(rec.HolderNonce, rec.Nonce)
}

// checkLock checks the beliefs of those who hold one lock.
func (l *ledger) checkLock(k *lockEntry) {
	k.beliefs = slices.DeleteFunc(k.beliefs, func(b *belief) bool { return b.guard.Err() != nil })
	l.s.count(func(s *simStats) { s.BeliefsChecked += len(k.beliefs) })
	named := holders(&k.rec)
	for _, b := range k.beliefs {
		// Each belief takes one name, so that two cannot rest on the same.
		i := slices.IndexFunc(named, func(m lease.Member) bool {
			e := l.grants[m.Grant]
			return m.Mode == b.mode && e.member.Token == b.guard.Token() && m.Slot == b.guard.Slot() && (e.owner == b.life || e.ticketed)
		})
		if i < 0 {
			l.s.fail("%q: %v believes with token %d (%s, slot %d), and the record names %+v, %s", b.name, b.life, b.guard.Token(), b.mode, b.guard.Slot(), named, k.rec.State)
			continue
		}
		grant := named[i].Grant
		named = slices.Delete(slices.Clone(named), i, i+1)
		last := l.grants[grant].sent
		if b.under {
			last = l.sessions[l.grants[grant].member.Session].sent
		}
		o := b.life.client.Options()
		most := time.Duration(float64(o.TTL-o.Margin-o.Grace)/(1-simRho)) + time.Millisecond
		if past := time.Since(last); past > most {
			l.s.fail("%q: %v believes %v after it sent the last renewal that was applied; at most %v are allowed", b.name, b.life, past, most)
		} else {
			l.lookIn(most - past + 1)
		}
	}
}

// had reports whether a lock was held with that token and data.
func (l *ledger) had(name string, token uint64, data string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.entry(name).values[token], data)
}

// wantNoneHeld checks that no lock names a holder or a waiter of those sessions, of which a
// plain lease has an empty one.
func (l *ledger) wantNoneHeld(when string, of func(session string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, k := range l.locks {
		for _, m := range slices.Concat(holders(&k.rec), k.rec.Queue) {
			if of(m.Session) {
				l.s.fail("%q is %s, and names grant %s (%s) of %v, %s", name, k.rec.State, m.Grant, m.Mode, l.grants[m.Grant].owner, when)
			}
		}
	}
}

// fenced writes under the token of a writer to a register that refuses older ones.
func (l *ledger) fenced(b *belief) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key, errStale := "data/"+b.name, errors.New("stale")
	_, err := store.Update(context.Background(), &l.s.st, key, func(value []byte) ([]byte, error) {
		if b.guard.Token() < parseToken(value) {
			return nil, errStale
		}
		return formatToken(b.guard.Token()), nil
	})
	switch {
	case errors.Is(err, errStale):
		l.s.count(func(s *simStats) { s.StaleWrites++ })
		if b.guard.Err() == nil {
			l.s.fail("%q: the fence refuses a writer that believes, token %d", b.name, b.guard.Token())
		}
	case err != nil:
		l.s.fail("%v", err)
	}
}

package lease_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// rosterWorld does what bytes say to a record of members, and checks every rule after each step.
type rosterWorld struct {
	t       testing.TB
	rec     lease.Record
	count   int            // grants so far
	arrived map[string]int // when a grant entered the queue
	token   uint64         // the highest that was granted
	writer  uint64         // that of the last writer
	tokens  map[string]uint64
	slots   map[string]int
}

func newRosterWorld(t testing.TB, slots int) *rosterWorld {
	w := &rosterWorld{t: t, arrived: map[string]int{}, tokens: map[string]uint64{}, slots: map[string]int{}}
	w.rec = lease.Record{Name: "job", State: lease.Free, Token: 5, TTL: time.Second, Nonce: "N", Slots: slots}
	w.token, w.writer = 5, 5
	return w
}

// members returns what holds, and what waits.
func (w *rosterWorld) members() (holders, queue []lease.Member) {
	holders = slices.Clone(w.rec.Holders)
	if w.rec.State == lease.Held {
		_, m := (lease.Roster{Record: &w.rec}).Find(w.rec.Grant)
		holders = append(holders, m)
	}
	return holders, w.rec.Queue
}

// step does one thing, and returns what it was.
func (w *rosterWorld) step(op, arg byte) string {
	before := w.rec
	copied := w.rec
	copied.Holders, copied.Queue = slices.Clone(w.rec.Holders), slices.Clone(w.rec.Queue)
	_, queued := w.members()
	queued = slices.Clone(queued)
	rec := w.rec
	r := lease.Roster{Record: &rec}
	rec.Renewed = time.Unix(1e9+int64(w.count), 0)
	all := slices.Concat(rec.Holders, rec.Queue)
	if rec.State == lease.Held {
		_, m := r.Find(rec.Grant)
		all = append(all, m)
	}
	what := ""
	var left []string
	switch op % 8 {
	default: // enter
		mode := []lease.Mode{lease.ModeShared, lease.ModeShared, lease.ModeExclusive}[arg%3]
		if rec.Slots > 0 {
			mode = lease.ModeSlot
		}
		w.count++
		m := member(fmt.Sprintf("S%d.%d", arg%7, w.count), mode, 0, 0)
		at, err := r.Enter(m, op%2 == 0)
		what = fmt.Sprintf("enter %s as %s: %d, %v", m.Grant, mode, at, err)
		switch {
		case err != nil && (!errors.Is(err, lease.ErrFull) || at != lease.Absent):
			w.t.Fatalf("%s", what)
		case at == lease.Holding && len(queued) > 0:
			w.t.Fatalf("%s: it overtakes %v", what, queued)
		case at == lease.Waiting:
			w.arrived[m.Grant] = w.count
		}
		if found, _ := r.Find(m.Grant); found != at {
			w.t.Fatalf("%s, and it stands at %d", what, found)
		}
	case 4, 5: // leave
		if len(all) == 0 {
			return ""
		}
		m := all[int(arg)%len(all)]
		what, left = "leave "+m.Grant, []string{m.Grant}
		if !r.Leave(m.Grant) || r.Leave(m.Grant) {
			w.t.Fatalf("%s: it is not so that it leaves once", what)
		}
	case 6:
		session := fmt.Sprintf("S%d", arg%7)
		what = "drop " + session
		for _, m := range all {
			if m.Session == session {
				left = append(left, m.Grant)
			}
		}
		r.Drop(func(s string) bool { return s == session })
	case 7:
		n := int(arg)%5 - 1
		what = fmt.Sprintf("resize to %d", n)
		err := r.Resize(n)
		switch {
		case n < 1 && !errors.Is(err, store.ErrInvalid):
			w.t.Fatalf("%s: %v", what, err)
		case n >= 1 && rec.Slots == 0 && !errors.Is(err, lease.ErrWrongKind):
			w.t.Fatalf("%s: %v", what, err)
		}
		if err != nil {
			rec = before
		}
	}
	if !reflect.DeepEqual(before, copied) {
		w.t.Fatalf("%s: the record before it has changed", what)
	}
	w.rec = rec
	w.check(what, before, left)
	return what
}

// check checks the rules after a step that took out those who left.
func (w *rosterWorld) check(what string, before lease.Record, left []string) {
	w.t.Helper()
	r := lease.Roster{Record: &w.rec}
	if err := r.Consistent(); err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
	if w.rec.State == lease.Held && len(w.rec.Holders) > 0 {
		w.t.Fatalf("%s: a writer beside readers", what)
	}
	holders, queue := w.members()
	if len(w.rec.Holders)+len(queue) > lease.MaxMembers {
		w.t.Fatalf("%s: %d members", what, len(holders)+len(queue))
	}
	if len(queue) > 0 && r.Fits(queue[0].Mode) {
		w.t.Fatalf("%s: the head of the queue could hold the lock, and waits", what)
	}
	if w.rec.Slots > 0 && len(holders) > w.rec.Slots && len(holders) > len(before.Holders) {
		w.t.Fatalf("%s: %d holders of %d slots", what, len(holders), w.rec.Slots)
	}
	if len(holders) == 0 && w.rec.State != lease.Free {
		w.t.Fatalf("%s: no holder, and the state is %q", what, w.rec.State)
	}
	first := math.MaxInt // of those who wait
	for _, m := range queue {
		if n := w.arrived[m.Grant]; n > first {
			first = min(first, n)
		} else if first == math.MaxInt {
			first = n
		} else {
			w.t.Fatalf("%s: the queue is not in the order of arrival", what)
		}
		if slices.Contains(left, m.Grant) {
			w.t.Fatalf("%s: %s still waits", what, m.Grant)
		}
	}
	for _, m := range holders {
		if slices.Contains(left, m.Grant) {
			w.t.Fatalf("%s: %s still holds the lock", what, m.Grant)
		}
		if n, queued := w.arrived[m.Grant]; queued && n > first {
			w.t.Fatalf("%s: %s has overtaken those who came before it", what, m.Grant)
		}
		token, known := w.tokens[m.Grant]
		switch {
		case known && (token != m.Token || w.slots[m.Grant] != m.Slot):
			w.t.Fatalf("%s: %s had the token %d and slot %d, and has %d and %d", what, m.Grant, token, w.slots[m.Grant], m.Token, m.Slot)
		case known:
			continue
		case m.Mode == lease.ModeShared && m.Token != w.writer:
			w.t.Fatalf("%s: the reader %s has the token %d, and the last writer had %d", what, m.Grant, m.Token, w.writer)
		case m.Mode != lease.ModeShared && m.Token <= w.token:
			w.t.Fatalf("%s: %s has the token %d after %d", what, m.Grant, m.Token, w.token)
		case m.Mode == lease.ModeSlot:
			for slot := 1; slot < m.Slot; slot++ {
				if !slices.ContainsFunc(holders, func(m lease.Member) bool { return m.Slot == slot }) {
					w.t.Fatalf("%s: %s has slot %d while %d is free", what, m.Grant, m.Slot, slot)
				}
			}
		}
		w.tokens[m.Grant], w.slots[m.Grant] = m.Token, m.Slot
		w.token = max(w.token, m.Token)
		if m.Mode == lease.ModeExclusive {
			w.writer = m.Token
		}
	}
	value, err := lease.Encode(&w.rec)
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
	if _, err := lease.Decode("job", value); err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

// drain lets the holders go until all who wait have held the lock.
func (w *rosterWorld) drain() {
	_, queue := w.members()
	waited := slices.Clone(queue)
	for range 2 * lease.MaxMembers {
		holders, queue := w.members()
		if len(queue) == 0 {
			break
		}
		before := w.rec
		(lease.Roster{Record: &w.rec}).Leave(holders[0].Grant)
		w.check("drain", before, []string{holders[0].Grant})
	}
	for _, m := range waited {
		if w.tokens[m.Grant] == 0 {
			w.t.Fatalf("%s never held the lock", m.Grant)
		}
	}
}

// For any events in any order: no writer at the same time as readers, no slot twice, tokens rise,
// the order of arrival is kept, and all waiters get their turn.
func TestRosterRules(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newRosterWorld(t, []int{0, 1, 3}[seed%3])
		for range 100 {
			w.step(byte(random.Uint32()), byte(random.Uint32()))
		}
		w.drain()
	}
}

// When a lock has 500 members in all, no further one enters, and the refused one gets an error.
func TestRosterIsFull(t *testing.T) {
	for _, mode := range []lease.Mode{lease.ModeShared, lease.ModeExclusive, lease.ModeSlot} {
		rec := lease.Record{Name: "job", State: lease.Free, Token: 5, TTL: time.Second, Nonce: "N"}
		if mode == lease.ModeSlot {
			rec.Slots = lease.MaxMembers
		}
		r := lease.Roster{Record: &rec}
		room := lease.MaxMembers
		if mode == lease.ModeExclusive {
			room++ // the writer that holds the lock is in no list
		}
		for i := range room {
			if _, err := r.Enter(member(fmt.Sprintf("S.%d", i), mode, 0, 0), true); err != nil {
				t.Fatalf("%s %d: %v", mode, i, err)
			}
		}
		before := fmt.Sprint(rec)
		if at, err := r.Enter(member("S.zz", mode, 0, 0), true); at != lease.Absent || !errors.Is(err, lease.ErrFull) {
			t.Errorf("%s: %d, %v", mode, at, err)
		}
		if after := fmt.Sprint(rec); after != before {
			t.Errorf("%s: the record has changed", mode)
		}
		if err := r.Consistent(); err != nil {
			t.Error(err)
		}
	}
}

func FuzzRoster(f *testing.F) {
	f.Add(uint8(0), []byte{0, 0, 0, 2, 0, 0, 4, 0, 6, 1})
	f.Add(uint8(3), []byte{0, 0, 0, 1, 7, 2, 4, 0})
	f.Fuzz(func(t *testing.T, slots uint8, ops []byte) {
		w := newRosterWorld(t, int(slots)%8)
		for len(ops) >= 2 && w.count < 1000 {
			w.step(ops[0], ops[1])
			ops = ops[2:]
		}
		w.drain()
	})
}

// A semaphore is no lock, a lock in use is no semaphore, and another number of slots is an error.
func TestRosterSuits(t *testing.T) {
	free := lease.Record{Name: "job", State: lease.Free, Token: 1, Nonce: "N"}
	if err := (lease.Roster{Record: &free}).Suits(3); err != nil {
		t.Error(err)
	}
	held := free
	held.State, held.Grant, held.TTL = lease.Held, "G", time.Second
	if err := (lease.Roster{Record: &held}).Suits(3); !errors.Is(err, lease.ErrWrongKind) {
		t.Error(err)
	}
	three := free
	three.Slots = 3
	if err := (lease.Roster{Record: &three}).Suits(0); !errors.Is(err, lease.ErrWrongKind) {
		t.Error(err)
	}
	var slots *lease.SlotCountError
	if err := (lease.Roster{Record: &three}).Suits(4); !errors.As(err, &slots) || slots.Want != 4 || slots.Have != 3 || !errors.Is(err, lease.ErrSlotCount) {
		t.Error(err)
	}
	for _, n := range []int{math.MinInt, -1, 0, 501, 1_000_000} {
		if err := (lease.Roster{Record: &three}).Resize(n); !errors.Is(err, store.ErrInvalid) || three.Slots != 3 {
			t.Errorf("%d: %v, %d", n, err, three.Slots)
		}
	}
}

// The token of a lock that cannot rise any more lets no other writer in, and the queue stays.
func TestRosterAtTheLastToken(t *testing.T) {
	rec := lease.Record{Name: "job", State: lease.Held, Grant: "G", Token: math.MaxUint64, TTL: time.Second, Nonce: "N"}
	r := lease.Roster{Record: &rec}
	if at, err := r.Enter(member("S.1", lease.ModeExclusive, 0, 0), true); at != lease.Waiting || err != nil {
		t.Fatal(at, err)
	}
	r.Vacate()
	if rec.State != lease.Free || len(rec.Queue) != 1 {
		t.Errorf("%+v", rec)
	}
	rec.Queue = nil
	if at, err := r.Enter(member("S.1", lease.ModeExclusive, 0, 0), true); at != lease.Absent || !errors.Is(err, store.ErrCorrupt) {
		t.Error(at, err)
	}
}

// A waiter reads the session of the one directly ahead of it, and the first those of the holders.
// When that one is dead it reads all before it.
func TestRosterAhead(t *testing.T) {
	rec := lease.Record{Name: "job", State: lease.Free, Token: 5, TTL: time.Second, Nonce: "N"}
	r := lease.Roster{Record: &rec}
	for i, mode := range []lease.Mode{lease.ModeShared, lease.ModeShared, lease.ModeExclusive, lease.ModeShared} {
		if _, err := r.Enter(member(fmt.Sprintf("S%d.0", i), mode, 0, 0), true); err != nil {
			t.Fatal(err)
		}
	}
	for grant, want := range map[string]string{
		"S2.0":  "[S0 S1], before [S0 S1]",
		"S3.0":  "[S2], before [S0 S1 S2]",
		"other": "[S0 S1], before [S0 S1 S2 S3]",
	} {
		sessions := func(all []lease.Member) (ids []string) {
			for _, m := range all {
				ids = append(ids, m.Session)
			}
			return ids
		}
		if got := fmt.Sprintf("%v, before %v", sessions(r.Ahead(grant)), sessions(r.Before(grant))); got != want {
			t.Errorf("%s: got %s, want %s", grant, got, want)
		}
	}
	r.Leave("S0.0")
	r.Leave("S1.0")
	if ahead := r.Ahead("S3.0"); len(ahead) != 1 || ahead[0].Session != "S2" || ahead[0].Mode != lease.ModeExclusive {
		t.Errorf("%+v", ahead)
	}
	if before := r.Before("S3.0"); len(before) != 1 || before[0].Session != "S2" {
		t.Errorf("%+v", before)
	}
}

// A lock that is free and is not to be taken before a time is handed over to no waiter: the
// head of the queue takes it then.
func TestRosterHeedsNotBefore(t *testing.T) {
	rec := lease.Record{Name: "job", State: lease.Held, Grant: "G", Token: 1, TTL: time.Second, Nonce: "N", NotBefore: time.Now()}
	r := lease.Roster{Record: &rec}
	if _, err := r.Enter(member("S.1", lease.ModeExclusive, 0, 0), true); err != nil {
		t.Fatal(err)
	}
	r.Vacate()
	if at, _ := r.Find("S.1"); at != lease.Waiting || rec.State != lease.Free {
		t.Errorf("%d, %+v", at, rec)
	}
	rec.NotBefore = time.Time{}
	r.Vacate()
	if at, _ := r.Find("S.1"); at != lease.Holding {
		t.Errorf("%d, %+v", at, rec)
	}
}

// A broken record with several holders lets no waiter in until the last of them has left.
func TestRosterOfABrokenLock(t *testing.T) {
	rec := lease.Record{
		Name: "job", State: lease.Broken, Token: 7, TTL: time.Second, Nonce: "N", BrokenNonce: "M",
		Holders: []lease.Member{member("A.1", lease.ModeShared, 0, 5), member("B.1", lease.ModeShared, 0, 5)},
	}
	r := lease.Roster{Record: &rec}
	if at, err := r.Enter(member("C.1", lease.ModeShared, 0, 0), true); at != lease.Waiting || err != nil {
		t.Fatal(at, err)
	}
	r.Leave("A.1")
	if at, _ := r.Find("C.1"); at != lease.Waiting || rec.State != lease.Broken {
		t.Errorf("%d, %+v", at, rec)
	}
	r.Drop(func(session string) bool { return session == "B" })
	if at, m := r.Find("C.1"); at != lease.Holding || m.Token != 7 || rec.State != lease.Shared || rec.BrokenNonce != "" {
		t.Errorf("%d, %+v", at, rec)
	}
}

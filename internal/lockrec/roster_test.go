package lockrec_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
)

// rosterWorld does what bytes say to a record of members, and checks every rule after each step.
type rosterWorld struct {
	t       testing.TB
	rec     lockrec.Record
	count   int            // grants so far
	arrived map[string]int // when a grant entered the queue
	token   uint64         // the highest that was granted
	writer  uint64         // that of the last writer
	tokens  map[string]uint64
	slots   map[string]int
}

func newRosterWorld(t testing.TB, slots int) *rosterWorld {
	w := &rosterWorld{t: t, arrived: map[string]int{}, tokens: map[string]uint64{}, slots: map[string]int{}}
	w.rec = lockrec.Record{Name: "job", State: lockrec.Free, Token: 5, TTL: time.Second, Nonce: "N", Slots: slots}
	w.token, w.writer = 5, 5
	return w
}

// members returns what holds, and what waits.
func (w *rosterWorld) members() (holders, queue []lockrec.Member) {
	holders = slices.Clone(w.rec.Holders)
	if w.rec.State == lockrec.Held {
		_, m := lockrec.Find(&w.rec, w.rec.Grant)
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
	r := &rec
	rec.Renewed = time.Unix(1e9+int64(w.count), 0)
	all := slices.Concat(rec.Holders, rec.Queue)
	if rec.State == lockrec.Held {
		_, m := lockrec.Find(r, rec.Grant)
		all = append(all, m)
	}
	what := ""
	var left []string
	switch op % 8 {
	default: // enter
		mode := []lockrec.Mode{lockrec.ModeShared, lockrec.ModeShared, lockrec.ModeExclusive}[arg%3]
		if rec.Slots > 0 {
			mode = lockrec.ModeSlot
		}
		w.count++
		m := member(fmt.Sprintf("S%d.%d", arg%7, w.count), mode, 0, 0)
		at, err := lockrec.Enter(r, m, op%2 == 0, lockrec.MaxMembers)
		what = fmt.Sprintf("enter %s as %s: %d, %v", m.Grant, mode, at, err)
		switch {
		case err != nil && (!errors.Is(err, lockrec.ErrFull) || at != lockrec.Absent):
			w.t.Fatalf("%s", what)
		case at == lockrec.Holding && len(queued) > 0:
			w.t.Fatalf("%s: it overtakes %v", what, queued)
		case at == lockrec.Waiting:
			w.arrived[m.Grant] = w.count
		}
		if found, _ := lockrec.Find(r, m.Grant); found != at {
			w.t.Fatalf("%s, and it stands at %d", what, found)
		}
	case 4, 5: // leave
		if len(all) == 0 {
			return ""
		}
		m := all[int(arg)%len(all)]
		what, left = "leave "+m.Grant, []string{m.Grant}
		if !lockrec.Leave(r, m.Grant) || lockrec.Leave(r, m.Grant) {
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
		lockrec.Drop(r, func(s string) bool { return s == session })
	case 7:
		n := int(arg)%5 - 1
		what = fmt.Sprintf("resize to %d", n)
		err := lockrec.Resize(r, n)
		switch {
		case n < 1 && !errors.Is(err, store.ErrInvalid):
			w.t.Fatalf("%s: %v", what, err)
		case n >= 1 && rec.Slots == 0 && !errors.Is(err, lockrec.ErrWrongKind):
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
func (w *rosterWorld) check(what string, before lockrec.Record, left []string) {
	w.t.Helper()
	r := &w.rec
	if err := lockrec.Consistent(r); err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
	if w.rec.State == lockrec.Held && len(w.rec.Holders) > 0 {
		w.t.Fatalf("%s: a writer beside readers", what)
	}
	holders, queue := w.members()
	if len(w.rec.Holders)+len(queue) > lockrec.MaxMembers {
		w.t.Fatalf("%s: %d members", what, len(holders)+len(queue))
	}
	if len(queue) > 0 && lockrec.Fits(r, queue[0].Mode) {
		w.t.Fatalf("%s: the head of the queue could hold the lock, and waits", what)
	}
	if w.rec.Slots > 0 && len(holders) > w.rec.Slots && len(holders) > len(before.Holders) {
		w.t.Fatalf("%s: %d holders of %d slots", what, len(holders), w.rec.Slots)
	}
	if len(holders) == 0 && w.rec.State != lockrec.Free {
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
		case m.Mode == lockrec.ModeShared && m.Token != w.writer:
			w.t.Fatalf("%s: the reader %s has the token %d, and the last writer had %d", what, m.Grant, m.Token, w.writer)
		case m.Mode != lockrec.ModeShared && m.Token <= w.token:
			w.t.Fatalf("%s: %s has the token %d after %d", what, m.Grant, m.Token, w.token)
		case m.Mode == lockrec.ModeSlot:
			for slot := 1; slot < m.Slot; slot++ {
				if !slices.ContainsFunc(holders, func(m lockrec.Member) bool { return m.Slot == slot }) {
					w.t.Fatalf("%s: %s has slot %d while %d is free", what, m.Grant, m.Slot, slot)
				}
			}
		}
		w.tokens[m.Grant], w.slots[m.Grant] = m.Token, m.Slot
		w.token = max(w.token, m.Token)
		if m.Mode == lockrec.ModeExclusive {
			w.writer = m.Token
		}
	}
	value, err := lockrec.Encode(&w.rec)
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
	if _, err := lockrec.Decode("", "job", value); err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

// drain lets the holders go until all who wait have held the lock.
func (w *rosterWorld) drain() {
	_, queue := w.members()
	waited := slices.Clone(queue)
	for range 2 * lockrec.MaxMembers {
		holders, queue := w.members()
		if len(queue) == 0 {
			break
		}
		before := w.rec
		lockrec.Leave(&w.rec, holders[0].Grant)
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
	for _, mode := range []lockrec.Mode{lockrec.ModeShared, lockrec.ModeExclusive, lockrec.ModeSlot} {
		rec := lockrec.Record{Name: "job", State: lockrec.Free, Token: 5, TTL: time.Second, Nonce: "N"}
		if mode == lockrec.ModeSlot {
			rec.Slots = lockrec.MaxMembers
		}
		r := &rec
		room := lockrec.MaxMembers
		if mode == lockrec.ModeExclusive {
			room++ // the writer that holds the lock is in no list
		}
		for i := range room {
			if _, err := lockrec.Enter(r, member(fmt.Sprintf("S.%d", i), mode, 0, 0), true, lockrec.MaxMembers); err != nil {
				t.Fatalf("%s %d: %v", mode, i, err)
			}
		}
		before := fmt.Sprint(rec)
		if at, err := lockrec.Enter(r, member("S.zz", mode, 0, 0), true, lockrec.MaxMembers); at != lockrec.Absent || !errors.Is(err, lockrec.ErrFull) {
			t.Errorf("%s: %d, %v", mode, at, err)
		}
		if after := fmt.Sprint(rec); after != before {
			t.Errorf("%s: the record has changed", mode)
		}
		if err := lockrec.Consistent(r); err != nil {
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
	free := lockrec.Record{Name: "job", State: lockrec.Free, Token: 1, Nonce: "N"}
	if err := lockrec.Suits(&free, 3); err != nil {
		t.Error(err)
	}
	held := free
	held.State, held.Grant, held.TTL = lockrec.Held, "G", time.Second
	if err := lockrec.Suits(&held, 3); !errors.Is(err, lockrec.ErrWrongKind) {
		t.Error(err)
	}
	three := free
	three.Slots = 3
	if err := lockrec.Suits(&three, 0); !errors.Is(err, lockrec.ErrWrongKind) {
		t.Error(err)
	}
	var slots *lockrec.SlotCountError
	if err := lockrec.Suits(&three, 4); !errors.As(err, &slots) || slots.Want != 4 || slots.Have != 3 || !errors.Is(err, lockrec.ErrSlotCount) {
		t.Error(err)
	}
	for _, n := range []int{math.MinInt, -1, 0, 501, 1_000_000} {
		if err := lockrec.Resize(&three, n); !errors.Is(err, store.ErrInvalid) || three.Slots != 3 {
			t.Errorf("%d: %v, %d", n, err, three.Slots)
		}
	}
}

// The token of a lock that cannot rise any more lets no other writer in, and the queue stays.
func TestRosterAtTheLastToken(t *testing.T) {
	rec := lockrec.Record{Name: "job", State: lockrec.Held, Grant: "G", Token: math.MaxUint64, TTL: time.Second, Nonce: "N"}
	r := &rec
	if at, err := lockrec.Enter(r, member("S.1", lockrec.ModeExclusive, 0, 0), true, lockrec.MaxMembers); at != lockrec.Waiting || err != nil {
		t.Fatal(at, err)
	}
	lockrec.Vacate(r)
	if rec.State != lockrec.Free || len(rec.Queue) != 1 {
		t.Errorf("%+v", rec)
	}
	rec.Queue = nil
	if at, err := lockrec.Enter(r, member("S.1", lockrec.ModeExclusive, 0, 0), true, lockrec.MaxMembers); at != lockrec.Absent || !errors.Is(err, store.ErrCorrupt) {
		t.Error(at, err)
	}
}

// A waiter reads the session of the one directly ahead of it, and the first those of the holders.
// When that one is dead it reads all before it.
func TestRosterAhead(t *testing.T) {
	rec := lockrec.Record{Name: "job", State: lockrec.Free, Token: 5, TTL: time.Second, Nonce: "N"}
	r := &rec
	for i, mode := range []lockrec.Mode{lockrec.ModeShared, lockrec.ModeShared, lockrec.ModeExclusive, lockrec.ModeShared} {
		if _, err := lockrec.Enter(r, member(fmt.Sprintf("S%d.0", i), mode, 0, 0), true, lockrec.MaxMembers); err != nil {
			t.Fatal(err)
		}
	}
	for grant, want := range map[string]string{
		"S2.0":  "[S0 S1], before [S0 S1]",
		"S3.0":  "[S2], before [S0 S1 S2]",
		"other": "[S0 S1], before [S0 S1 S2 S3]",
	} {
		sessions := func(all []lockrec.Member) (ids []string) {
			for _, m := range all {
				ids = append(ids, m.Session)
			}
			return ids
		}
		if got := fmt.Sprintf("%v, before %v", sessions(lockrec.Ahead(r, grant)), sessions(lockrec.Before(r, grant))); got != want {
			t.Errorf("%s: got %s, want %s", grant, got, want)
		}
	}
	lockrec.Leave(r, "S0.0")
	lockrec.Leave(r, "S1.0")
	if ahead := lockrec.Ahead(r, "S3.0"); len(ahead) != 1 || ahead[0].Session != "S2" || ahead[0].Mode != lockrec.ModeExclusive {
		t.Errorf("%+v", ahead)
	}
	if before := lockrec.Before(r, "S3.0"); len(before) != 1 || before[0].Session != "S2" {
		t.Errorf("%+v", before)
	}
}

// Readers that follow each other in the queue have their turn together.
func TestTurnsBefore(t *testing.T) {
	r := &lockrec.Record{}
	for i, mode := range []lockrec.Mode{lockrec.ModeExclusive, lockrec.ModeShared, lockrec.ModeShared, lockrec.ModeExclusive} {
		r.Queue = append(r.Queue, member(fmt.Sprintf("S%d.0", i), mode, 0, 0))
	}
	for place, want := range []int{0, 1, 1, 2} {
		if got := lockrec.TurnsBefore(r, place); got != want {
			t.Errorf("%d turns come before that of waiter %d, want %d", got, place, want)
		}
	}
}

// A lock that is free and is not to be taken before a time is handed over to no waiter: the
// head of the queue takes it then.
func TestRosterHeedsNotBefore(t *testing.T) {
	rec := lockrec.Record{Name: "job", State: lockrec.Held, Grant: "G", Token: 1, TTL: time.Second, Nonce: "N", NotBefore: time.Now()}
	r := &rec
	if _, err := lockrec.Enter(r, member("S.1", lockrec.ModeExclusive, 0, 0), true, lockrec.MaxMembers); err != nil {
		t.Fatal(err)
	}
	lockrec.Vacate(r)
	if at, _ := lockrec.Find(r, "S.1"); at != lockrec.Waiting || rec.State != lockrec.Free {
		t.Errorf("%d, %+v", at, rec)
	}
	rec.NotBefore = time.Time{}
	lockrec.Vacate(r)
	if at, _ := lockrec.Find(r, "S.1"); at != lockrec.Holding {
		t.Errorf("%d, %+v", at, rec)
	}
}

// A broken record with several holders lets no waiter in until the last of them has left.
func TestRosterOfABrokenLock(t *testing.T) {
	rec := lockrec.Record{
		Name: "job", State: lockrec.Broken, Token: 7, TTL: time.Second, Nonce: "N", BrokenNonce: "M",
		Holders: []lockrec.Member{member("A.1", lockrec.ModeShared, 0, 5), member("B.1", lockrec.ModeShared, 0, 5)},
	}
	r := &rec
	if at, err := lockrec.Enter(r, member("C.1", lockrec.ModeShared, 0, 0), true, lockrec.MaxMembers); at != lockrec.Waiting || err != nil {
		t.Fatal(at, err)
	}
	lockrec.Leave(r, "A.1")
	if at, _ := lockrec.Find(r, "C.1"); at != lockrec.Waiting || rec.State != lockrec.Broken {
		t.Errorf("%d, %+v", at, rec)
	}
	lockrec.Drop(r, func(session string) bool { return session == "B" })
	if at, m := lockrec.Find(r, "C.1"); at != lockrec.Holding || m.Token != 7 || rec.State != lockrec.Shared || rec.BrokenNonce != "" {
		t.Errorf("%d, %+v", at, rec)
	}
}

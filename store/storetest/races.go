package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/registerrules"
	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store"
)

// raceCases are the rules of registers that many callers use at the same time.
func raceCases() []testCase {
	return []testCase{
		{"RaceCreate", "If several callers create one register at the same time, exactly one succeeds, and the register has its value. (In a store that checked and then renamed a file, two callers succeeded in 110 of 1,000 rounds.)", rule((*registerrules.Space).RaceCreate)},
		{"RaceSwap", "If several puts name one version at the same time, exactly one succeeds, and the register has its value.", rule((*registerrules.Space).RaceSwap)},
		{"RaceDelete", "If several deletes name one version at the same time, exactly one succeeds.", caseRaceDelete},
		{"RaceDeleteSwap", "If a delete and a put name one version at the same time, exactly one succeeds.", caseRaceDeleteSwap},
		{"RaceCreateDelete", "After a caller has created a register, no other caller can create it until the first caller deletes it.", caseRaceCreateDelete},
		{"RaceCounter", "If many callers increment a counter by a read and a conditional write, no increment is lost.", caseRaceCounter},
		{"RaceNeighbours", "Concurrent calls on keys with a common beginning do not affect each other.", caseRaceNeighbours},
		{"RaceReadYourWrite", "A read that starts after an acknowledged write returns this write or a later write, through every store with the same registers.", caseReadYourWrite},
		{"RaceMonotonicReads", "If a read starts after another read has ended, it returns the same state or a later one, for every caller.", caseMonotonicReads},
		{"RaceWholeReads", "A read returns one state: the value and the version belong together, and the value is never a mixture of two values.", caseWholeReads},
		{"RaceHistory", "Every register is linearizable: one order of all concurrent calls explains all their results.", func(e *env) { e.history(false) }},
		{"RaceHistoryUnsynced", "Unsynced puts are linearizable together with all other calls.", func(e *env) {
			need[store.UnsyncedPutter](e, e.s)
			e.history(true)
		}},
	}
}

// race runs f for n racers at once and waits for them.
func (e *env) race(n int, f func(i int, s store.Store)) {
	suitetest.Race(n, func(i int) { f(i, e.handle(i)) })
}

// breathe lets other goroutines run first: on a fast store the racers would hardly overlap
// without it. It is a pause and not a yield, so that time advances in a bubble of synctest.
func breathe() { time.Sleep(rand.N(50 * time.Microsecond)) }

// insist repeats a write while the store is too busy for it and reports that it was not
// applied.
func (e *env) insist(write func() error) error {
	for {
		err := write()
		busy := errors.Is(err, store.ErrUnavailable) && store.OutcomeOf(err) == store.NotApplied
		if !busy || e.ctx.Err() != nil {
			return err
		}
		time.Sleep(rand.N(5 * time.Millisecond))
	}
}

// oneWins runs n writes at once and returns the one that succeeded. The others must
// be conflicts.
func (e *env) oneWins(what string, n int, write func(i int, s store.Store) error) int {
	errs := make([]error, n)
	e.race(n, func(i int, s store.Store) {
		errs[i] = e.insist(func() error { return write(i, s) })
	})
	winners, winner := 0, -1
	for i, err := range errs {
		switch {
		case err == nil:
			winners, winner = winners+1, i
		case !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied:
			e.Errorf("%s: a call that lost the race returned %v (%v), want a conflict", what, err, store.OutcomeOf(err))
		}
	}
	if winners != 1 {
		e.Fatalf("%s: %d of %d calls succeeded, want exactly one", what, winners, n)
	}
	return winner
}

func caseRaceDelete(e *env) {
	for round := range e.Rounds {
		v := e.create("job", "one")
		e.oneWins(fmt.Sprintf("delete, round %d", round), e.Racers, func(_ int, s store.Store) error {
			return s.Delete(e.ctx, "job", v)
		})
		e.expectAbsent("job")
	}
}

func caseRaceDeleteSwap(e *env) {
	for round := range e.Rounds {
		key := fmt.Sprintf("job-%d", round)
		v := e.create(key, "one")
		var w store.Version
		winner := e.oneWins(fmt.Sprintf("delete against swap, round %d", round), 2, func(i int, s store.Store) (err error) {
			if (i+round)%2 == 0 {
				return s.Delete(e.ctx, key, v)
			}
			got, err := s.Put(e.ctx, key, v, []byte("two"))
			if err == nil {
				w = got
			}
			return err
		})
		if (winner+round)%2 == 0 {
			e.expectAbsent(key)
		} else {
			e.expect(key, w, "two")
		}
	}
}

// caseRaceCreateDelete uses a register as the simplest of locks.
func caseRaceCreateDelete(e *env) {
	var inside atomic.Int32
	var deleted atomic.Int64 // the time of the last delete, since the case began
	began := time.Now()
	e.race(min(e.Racers, 8), func(i int, s store.Store) {
		for round := 0; round < e.Rounds && e.ctx.Err() == nil; {
			var v store.Version
			err := e.insist(func() (err error) {
				v, err = s.Put(e.ctx, "lock", "", fmt.Appendf(nil, "racer %d", i))
				return err
			})
			if errors.Is(err, store.ErrConflict) {
				// The pause grows with the time that a store needs, so that the racers do not keep its server busy.
				last := time.Duration(deleted.Load()) // read first, since another racer can delete now
				time.Sleep(rand.N(50*time.Microsecond + (time.Since(began)-last)/4))
				continue
			}
			if !e.OK("create", err) {
				return
			}
			if n := inside.Add(1); n != 1 {
				e.Errorf("%d callers have created the register and not deleted it yet, want at most one", n)
			}
			breathe()
			inside.Add(-1)
			if !e.OK("Delete of the caller's own register", e.insist(func() error { return s.Delete(e.ctx, "lock", v) })) {
				return
			}
			deleted.Store(int64(time.Since(began)))
			round++
		}
	})
	e.inTime()
	e.expectAbsent("lock")
}

// inTime fails a case whose context has ended: the racers have stopped early, so their
// result proves nothing.
func (e *env) inTime() {
	if e.ctx.Err() != nil {
		e.Fatalf("the case did not end within %v", e.CaseTimeout)
	}
}

// add adds one to the number in a register.
func (e *env) add(s store.Store, key string) {
	next := func(value []byte) ([]byte, error) {
		breathe() // after the read and before the write
		if value == nil {
			return []byte("1"), nil
		}
		n, err := strconv.Atoi(string(value))
		return []byte(strconv.Itoa(n + 1)), err
	}
	err := e.insist(func() error {
		_, err := store.Update(e.ctx, s, key, next)
		return err
	})
	e.OK(fmt.Sprintf("an increment of the counter %q", key), err)
}

func caseRaceCounter(e *env) {
	each := max(1, e.Rounds/8)
	e.race(e.Racers, func(_ int, s store.Store) {
		for range each {
			e.add(s, "counter")
		}
	})
	e.inTime()
	if got, want := string(e.state("counter").Value), strconv.Itoa(each*e.Racers); got != want {
		e.Errorf("the counter has the value %s after %s increments", got, want)
	}
}

func caseRaceNeighbours(e *env) {
	keys := []string{"job", "job-2", "job/x", "Job", "job "}
	each := max(1, e.Rounds/2)
	e.race(max(e.Racers, 2*len(keys)), func(i int, s store.Store) {
		for n := range each {
			key := keys[i%len(keys)]
			e.add(s, key)
			if n%5 == 4 { // create and delete another key
				other := fmt.Sprintf("%s/%d", key, i)
				v, err := s.Put(e.ctx, other, "", []byte("x"))
				if err == nil {
					err = s.Delete(e.ctx, other, v)
				}
				e.OK("a call on the caller's own register", err)
			}
		}
	})
	e.inTime()
	racers := max(e.Racers, 2*len(keys))
	for i, key := range keys {
		want := (racers - i + len(keys) - 1) / len(keys) * each
		if got := string(e.state(key).Value); got != strconv.Itoa(want) {
			e.Errorf("%q has the value %s after %d increments", key, got, want)
		}
	}
}

func caseReadYourWrite(e *env) {
	e.race(min(e.Racers, 8), func(i int, s store.Store) {
		key := fmt.Sprintf("own-%d", i)
		var v store.Version
		for n := range e.Rounds {
			var err error
			value := fmt.Sprintf("%d of %d", n, i)
			if v, err = s.Put(e.ctx, key, v, []byte(value)); err != nil {
				e.Errorf("Put on the caller's own register: %v", err)
				return
			}
			for j := range 2 {
				got, w, err := e.handle(i+j).Get(e.ctx, key)
				if err != nil || w != v || string(got) != value {
					e.Errorf("a put wrote %q with version %q, but a later read returned %s with version %q and the error %v", value, v, show(got), w, err)
					return
				}
			}
		}
	})
}

// caseMonotonicReads has one writer count up; readers check every read against the
// highest number that any caller had read before its read began.
func caseMonotonicReads(e *env) {
	readers := min(e.Racers, 8)
	var reading sync.WaitGroup
	reading.Add(readers)
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	go func() { reading.Wait(); cancel() }()
	var highest atomic.Int64
	v := e.create("counter", "0")
	e.race(1+readers, func(i int, s store.Store) {
		if i == 0 {
			for n := 1; ctx.Err() == nil; n++ {
				var err error
				if v, err = s.Put(e.ctx, "counter", v, []byte(strconv.Itoa(n))); err != nil {
					e.Errorf("Put of the only writer: %v", err)
					return
				}
				breathe()
			}
			return
		}
		defer reading.Done()
		for range 2 * e.Rounds {
			before := highest.Load()
			value, _, err := s.Get(e.ctx, "counter")
			n, err2 := strconv.ParseInt(string(value), 10, 64)
			if err != nil || err2 != nil {
				e.Errorf("get: %v, %v", err, err2)
				return
			}
			if n < before {
				e.Errorf("a read returned the older value %d after another read had returned %d", n, before)
				return
			}
			for n > before && !highest.CompareAndSwap(before, n) {
				before = highest.Load()
			}
			breathe()
		}
	})
}

// caseWholeReads has writers alternate between values of very different sizes, each of
// which shows its own length and its writer's number in every place.
func caseWholeReads(e *env) {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	var known sync.Map // version to value
	note := func(v store.Version, value string) {
		if old, loaded := known.LoadOrStore(v, value); loaded && old != value {
			e.Errorf("two reads returned the version %q, one with the value %s and one with %s", v, show([]byte(old.(string))), show([]byte(value)))
		}
	}
	sizes := []int{0, 1, 100, 5000, store.MaxValue}
	e.create("job", "")
	e.race(2+min(e.Racers, 6), func(i int, s store.Store) {
		if i == 0 {
			defer cancel()
		}
		for n := 0; ctx.Err() == nil || n == 0; n++ {
			breathe()
			value, v, err := s.Get(e.ctx, "job")
			if !e.OK("get", err) {
				return
			}
			whole := string(value)
			if len(whole) > 0 {
				if whole != strings.Repeat(whole[:1], len(whole)) {
					e.Errorf("a read returned a mixture of two values: %s", show(value))
					return
				}
			}
			note(v, whole)
			if i > 1 {
				continue
			}
			if i == 0 && n >= 2*e.Rounds {
				return
			}
			next := strings.Repeat(string(rune('a'+(2*n+i)%26)), sizes[n%len(sizes)])
			w, err := s.Put(e.ctx, "job", v, []byte(next))
			if err == nil {
				note(w, next)
			} else if !errors.Is(err, store.ErrConflict) {
				e.Errorf("put: %v", err)
				return
			}
		}
	})
}

// history runs racers with every kind of call on three registers, and checks their results.
func (e *env) history(unsynced bool) {
	var h History
	seed := rand.Uint64()
	e.race(min(e.Racers, 8), func(i int, s store.Store) {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		s = h.Record(s)
		last := make(map[string]store.Version)
		for n := range 4 * e.Rounds {
			e.step(s, r, last, unsynced, fmt.Sprintf("%d by %d", n, i))
		}
	})
	e.inTime()
	e.checkHistory(&h)
}

// step does one random thing. Writes name the version that this racer saw last, which other
// racers have often replaced.
func (e *env) step(s store.Store, r *rand.Rand, last map[string]store.Version, unsynced bool, value string) {
	if r.IntN(4) == 0 {
		breathe()
	}
	key := "job-" + strconv.Itoa(r.IntN(3))
	v := last[key]
	var err error
	switch p := r.IntN(100); {
	case p < 35:
		_, v, err = s.Get(e.ctx, key)
	case p < 45:
		_, v, _, err = store.GetIfChanged(e.ctx, s, key, v)
	case p < 60 && v != "":
		if err = s.Delete(e.ctx, key, v); err == nil {
			v = ""
		}
	default:
		put := s.Put
		if unsynced && p%2 == 0 {
			put = func(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
				return store.PutUnsynced(ctx, s, key, prev, value)
			}
		}
		var w store.Version
		if w, err = put(e.ctx, key, v, []byte(value)); err == nil {
			v = w
		}
	}
	var c *store.ConflictError
	switch {
	case errors.Is(err, store.ErrNotFound):
		v = ""
	case errors.As(err, &c) && c.HasCurrent:
		v = c.Version
	case errors.Is(err, store.ErrConflict):
		_, v, _ = s.Get(e.ctx, key)
	case err != nil && e.ctx.Err() == nil && store.OutcomeOf(err) == store.Unknown:
		_, v, _ = s.Get(e.ctx, key) // the history checks the result
	}
	last[key] = v
}

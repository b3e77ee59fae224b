package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// unsyncedCases are the rules of [store.UnsyncedPutter].
func unsyncedCases() []testCase {
	return []testCase{
		{"UnsyncedPut", "PutUnsynced obeys the rules of Put. It creates and replaces a register, all readers see the new state at once, and a wrong version is a conflict.", caseUnsyncedPut},
		{"UnsyncedThenDurable", "Durable and unsynced writes may follow each other in any order, and no version is used twice.", func(e *env) {
			p := need[store.UnsyncedPutter](e, e.s)
			seen := make(versions)
			v := e.create("job", "same")
			for i := range 10 {
				seen.add(e, v, fmt.Sprintf("write %d", i))
				if i%3 == 0 {
					v = e.put("job", v, "same")
				} else {
					v = e.putUnsynced(p, "job", v, "same")
				}
				e.expect("job", v, "same")
			}
			e.delete("job", v)
			e.expectAbsent("job")
			e.putUnsynced(p, "job", "", "same")
		}},
		{"UnsyncedRace", "If unsynced and durable puts name one version at the same time, exactly one of them succeeds.", func(e *env) {
			need[store.UnsyncedPutter](e, e.s)
			v := e.create("job", "start")
			got := make([]store.Version, e.Racers)
			for round := range e.Rounds {
				winner := e.oneWins(fmt.Sprintf("mixed swap, round %d", round), e.Racers, func(i int, s store.Store) (err error) {
					put := s.Put
					if (i/2)%2 == 0 {
						p, _ := store.As[store.UnsyncedPutter](s)
						put = p.PutUnsynced
					}
					got[i], err = put(e.ctx, "job", v, fmt.Appendf(nil, "racer %d", i))
					return err
				})
				v = got[winner]
				e.expect("job", v, fmt.Sprintf("racer %d", winner))
			}
		}},
	}
}

func (e *env) putUnsynced(p store.UnsyncedPutter, key string, prev store.Version, value string) store.Version {
	v, err := p.PutUnsynced(e.ctx, key, prev, []byte(value))
	if err != nil {
		e.Fatalf("PutUnsynced of %q on its current version %q: got the error %v (%v), want success", key, prev, err, store.OutcomeOf(err))
	}
	if v == "" || v == prev {
		e.Fatalf("PutUnsynced of %q on version %q returned version %q, want a new version", key, prev, v)
	}
	return v
}

func caseUnsyncedPut(e *env) {
	p := need[store.UnsyncedPutter](e, e.s)
	v1 := e.putUnsynced(p, "job", "", "one")
	e.expect("job", v1, "one")
	v2 := e.putUnsynced(p, "job", v1, "two")
	e.expect("job", v2, "two")
	for _, prev := range []store.Version{"", v1} {
		_, err := p.PutUnsynced(e.ctx, "job", prev, []byte("late"))
		e.refused(fmt.Sprintf("an unsynced put on version %q", prev), err, entry("job", v2, "two"))
	}
	_, err := p.PutUnsynced(e.ctx, "absent", v2, []byte("wrong"))
	e.refused("an unsynced put on an absent register", err, entry("absent", "", ""))
	_, err = p.PutUnsynced(e.ctx, "job", v2, []byte(big(store.MaxValue+1)))
	e.WantRefused("PutUnsynced of a value that is too large", err, store.ErrTooLarge)
	_, err = p.PutUnsynced(e.ctx, "job/", v2, nil)
	e.wantErrKey("unsynced put", "job/", err)
	_, err = p.PutUnsynced(e.ended(), "job", v2, []byte("late"))
	e.wantNotSent("unsynced put", err)
	e.expect("job", v2, "two")
	v3 := e.putUnsynced(p, "job", v2, awkwardValue())
	e.expect("job", v3, awkwardValue())
	e.delete("job", v3)
	_, err = p.PutUnsynced(e.ctx, "job", v3, []byte("late"))
	e.refused("an unsynced put on a deleted register", err, entry("job", "", ""))
}

// readCases are the rules of the abilities that read.
func readCases() []testCase {
	return []testCase{
		{"Age", "GetAge returns the result of Get and an age. The age is a lower bound of the true age, or negative if it is not known. (Waiters use the age to take over leases.)", caseAge},
		{"GetIfChanged", "GetIfChanged returns the result of Get, but no value if the version is still the argument seen.", caseGetIfChanged},
		{"GetUncommitted", "GetUncommitted returns a state that a write may name. It does not report a failed read as ErrNotFound.", caseGetUncommitted},
		{"HighestToken", "HighestToken returns an upper bound of the tokens of all writes to the key. These are also refused writes, unsynced writes, and writes before a delete. (A fencing token that a reader has seen must not be used again.)", caseHighestToken},
		{"Traits", "Traits returns the same result in each call and on each store with the same registers. The result has no secret and no negative MinTTL. The store delays its writes (MinWriteTime) if and only if it is an UncommittedReader.", func(e *env) {
			d := need[store.Describer](e, e.s)
			e.create("job", "one")
			first, second := d.Traits(), d.Traits()
			if first != second {
				e.Errorf("two calls of Traits returned %+v and %+v, want the same", first, second)
			}
			if of, other := store.TraitsOf(e.s), store.TraitsOf(e.other); of.ID != other.ID || of.Prefix != other.Prefix {
				e.Errorf("one store has the ID %q and the prefix %q, another store with the same registers has %q and %q", of.ID, of.Prefix, other.ID, other.Prefix)
			}
			if first.MinTTL < 0 || strings.ContainsAny(first.Name, "\n\r") {
				e.Errorf("got %+v", first)
			}
			if _, ok := store.As[store.UncommittedReader](e.s); ok != first.Delayed() {
				e.Errorf("MinWriteTime is %v, but is the store an UncommittedReader: %v", first.MinWriteTime, ok)
			}
		}},
	}
}

func caseAge(e *env) {
	a := need[store.AgeReader](e, e.other)
	_, _, _, err := a.GetAge(e.ctx, "absent")
	e.WantErr("GetAge of an absent register", err, store.ErrNotFound)
	var v store.Version
	for i := range 4 {
		sent := time.Now()
		value := fmt.Sprint("write ", i)
		v = e.put("job", v, value)
		for _, wait := range []time.Duration{0, aMoment, 10 * aMoment} {
			time.Sleep(wait)
			got, w, age, err := a.GetAge(e.ctx, "job")
			truth := time.Since(sent)
			if err != nil || w != v || string(got) != value {
				e.Fatalf("GetAge: got %s version %q, error %v, want %q version %q", show(got), w, err, value, v)
			}
			if age > truth {
				e.Errorf("GetAge returned the age %v for a value that was sent %v ago; want at most the true age", age, truth)
			}
		}
	}
	_, _, _, err = a.GetAge(e.ended(), "job")
	e.WantErr("a call with a context that has ended", err, context.Canceled)
}

func caseGetIfChanged(e *env) {
	want := func(what string, seen store.Version, wantValue string, wantV store.Version, wantChanged bool) {
		value, v, changed, err := store.GetIfChanged(e.ctx, e.other, "job", seen)
		if err != nil || changed != wantChanged || v != wantV || changed && string(value) != wantValue {
			e.Errorf("GetIfChanged, %s: got %s version %q, changed %v, error %v; want %q version %q, changed %v", what, show(value), v, changed, err, wantValue, wantV, wantChanged)
		}
	}
	wantAbsent := func(what string, seen store.Version) {
		_, v, _, err := store.GetIfChanged(e.ctx, e.other, "job", seen)
		if !errors.Is(err, store.ErrNotFound) || v != "" {
			e.Errorf("GetIfChanged, %s: got version %q and the error %v, want ErrNotFound", what, v, err)
		}
	}
	need[store.ConditionalGetter](e, e.other)
	wantAbsent("absent", "")
	v1 := e.create("job", "same")
	want("nothing seen", "", "same", v1, true)
	want("seen is the current version", v1, "", v1, false)
	v2 := e.put("job", v1, "same")
	want("seen is an old version with the same value", v1, "same", v2, true)
	want("seen is the current version", v2, "", v2, false)
	e.delete("job", v2)
	wantAbsent("seen is a deleted version", v2)
	v3 := e.create("job", "same")
	want("seen is a version of the deleted register", v2, "same", v3, true)
	_, _, _, err := store.GetIfChanged(e.ended(), e.other, "job", v3)
	e.WantErr("a call with a context that has ended", err, context.Canceled)
}

func caseGetUncommitted(e *env) {
	p := need[store.UncommittedReader](e, e.other)
	if _, v, err := p.GetUncommitted(e.ctx, "job"); !errors.Is(err, store.ErrNotFound) || v != "" {
		e.Errorf("GetUncommitted of an absent register: got version %q and the error %v, want ErrNotFound", v, err)
	}
	v := e.create("job", "one")
	e.state("job") // a committed read: from now on no write is in doubt
	value, w, err := p.GetUncommitted(e.ctx, "job")
	if err != nil || w != v || string(value) != "one" {
		e.Fatalf("GetUncommitted: got %s version %q, error %v, want \"one\" version %q", show(value), w, err, v)
	}
	v = e.put("job", w, "two")
	e.expect("job", v, "two")
	if _, _, err := p.GetUncommitted(e.ended(), "job"); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrNotFound) {
		e.Errorf("a call with a context that has ended: got %v, want the error of the context", err)
	}
}

func caseHighestToken(e *env) {
	m := need[store.UncommittedReader](e, e.other)
	atLeast := func(want uint64, what string) {
		if got, err := m.HighestToken(e.ctx, "job"); err != nil || got < want {
			e.Errorf("HighestToken %s: got %d and the error %v, want at least %d", what, got, err, want)
		}
	}
	put := func(prev store.Version, value string, mark uint64) (store.Version, error) {
		return e.s.Put(store.WithToken(e.ctx, mark), "job", prev, []byte(value))
	}
	if got, err := m.HighestToken(e.ctx, "job"); err != nil || got != 0 {
		e.Errorf("HighestToken of an absent register: got %d and the error %v, want 0", got, err)
	}
	v1, err := put("", "one", 41)
	e.Must("create", err)
	atLeast(41, "after a write")
	v2, err := put(v1, "two", 57)
	e.Must("put", err)
	atLeast(57, "after a second write")
	_, err = put(v1, "wrong", 43)
	e.refused("a put with a superseded version", err, entry("job", v2, "two"))
	atLeast(57, "after a refused write")
	v3 := e.put("job", v2, "three")
	atLeast(57, "after a write without a token")
	if p, ok := store.As[store.UnsyncedPutter](e.s); ok {
		v, err := p.PutUnsynced(store.WithToken(e.ctx, 63), "job", v3, []byte("four"))
		e.Must("PutUnsynced", err)
		v3 = v
		atLeast(63, "after an unsynced write")
	}
	e.delete("job", v3)
	atLeast(57, "after a delete")
}

// presenceCases are the rules of [store.Presence], as far as one process can check them.
// Tests that start processes check a dead one.
func presenceCases() []testCase {
	return []testCase{
		{"PresenceAlive", "Liveness never reports an announced process as dead while it runs. Announce always returns the same text.", func(e *env) {
			p := need[store.Presence](e, e.s)
			first, err := p.Announce(e.ctx)
			if err != nil || first == "" {
				e.Fatalf("Announce: got %q and the error %v, want a text and nil", first, err)
			}
			if second, err := p.Announce(e.ctx); err != nil || second != first {
				e.Errorf("second Announce: got %q and the error %v, want %q", second, err, first)
			}
			for _, presence := range []store.Presence{p, need[store.Presence](e, e.other)} {
				if got := presence.Liveness(e.ctx, first); got == store.Dead {
					e.Errorf("Liveness reported this running process as dead")
				}
			}
		}},
		{"PresenceUnknown", "Liveness returns Dead only if the process has certainly ended. For a text that is not an announcement of this store, it returns LivenessUnknown. (A store reported a living holder in another container as dead.)", func(e *env) {
			p := need[store.Presence](e, e.s)
			own, err := p.Announce(e.ctx)
			e.Must("announce", err)
			for _, bad := range []string{"", " ", "x", "{}", "null", own + "x", "x" + own, own[:len(own)/2], "../" + own, "\x00", strings.Repeat("x", 10000), "1", "0"} {
				if got := p.Liveness(e.ctx, bad); got != store.LivenessUnknown {
					e.Errorf("Liveness of the announcement %.60q: got %v, want LivenessUnknown", bad, got)
				}
			}
			if got := p.Liveness(e.ended(), own); got == store.Dead {
				e.Errorf("Liveness with a context that has ended returned Dead, want LivenessUnknown")
			}
		}},
		{"PresenceAwait", "When the context ends, WaitLiveness returns the context's error. It may return nil earlier: then the caller calls Liveness again.", func(e *env) {
			p := need[store.Presence](e, e.s)
			own, err := p.Announce(e.ctx)
			e.Must("announce", err)
			ctx, cancel := context.WithTimeout(e.ctx, 5*aMoment)
			defer cancel()
			for err == nil {
				err = p.WaitLiveness(ctx, own)
				if err == nil && p.Liveness(e.ctx, own) == store.Dead {
					e.Fatalf("Liveness reported this running process as dead")
				}
			}
			e.WantErr("WaitLiveness", err, context.DeadlineExceeded)
		}},
	}
}

// wakeCases are the rules of [store.Waker].
func wakeCases() []testCase {
	return []testCase{
		{"Wake", "Wake calls the function of the process that expects it, and no function that is not expected any more. It never fails.", func(e *env) {
			w, other := need[store.Waker](e, e.s), need[store.Waker](e, e.other)
			for range 2 {
				a, b := make(chan bool, 8), make(chan bool, 8)
				other.Wake(e.ctx, "A1.0")
				endA, errA := w.ExpectWake(e.ctx, "A1.0", func() { a <- true })
				endB, errB := w.ExpectWake(e.ctx, "B1.0", func() { b <- true })
				if err := errors.Join(errA, errB); err != nil {
					if errors.Is(err, errors.ErrUnsupported) {
						e.Absent("the store cannot wake single waiters here")
					}
					e.Fatalf("ExpectWake: %v", err)
				}
				other.Wake(e.ctx, "A1.0")
				select {
				case <-a:
				case <-e.ctx.Done():
					e.Fatalf("Wake did not call the function")
				}
				endA()
				for len(a) > 0 {
					<-a
				}
				other.Wake(e.ctx, "A1.0")
				other.Wake(e.ctx, "B1.0")
				<-b
				endB()
				if len(a) > 0 {
					e.Errorf("Wake called a function after its end")
				}
			}
			for _, bad := range []string{"", ".", "..", ".a", "a/b", "../a", "a\x00", "a b", strings.Repeat("a", 65)} {
				if end, err := w.ExpectWake(e.ctx, bad, func() {}); err == nil {
					end()
					e.Errorf("ExpectWake accepted the name %q", bad)
				}
				other.Wake(e.ctx, bad)
			}
		}},
	}
}

package object_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/dirbucket"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

func newLog(t *testing.T, b object.Bucket) *object.Log {
	t.Helper()
	l, err := object.OpenLog(newClient(t, b, nil), "log", nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// fill appends entries with the bodies "1", "2", ... up to a number.
func fill(t *testing.T, l *object.Log, last uint64) {
	t.Helper()
	for n := range last {
		if _, err := l.Append(t.Context(), n, fmt.Append(nil, n+1)); err != nil {
			t.Fatal(err)
		}
	}
}

// readLog reads a log, and returns its bodies.
func readLog(t *testing.T, l *object.Log, from uint64) (bodies []string, err error) {
	t.Helper()
	for e, err := range l.Read(t.Context(), from) {
		if err != nil {
			return bodies, err
		}
		bodies = append(bodies, string(e.Body))
	}
	return bodies, nil
}

func logOn(t *testing.T, test func(t *testing.T, b object.Bucket)) {
	t.Run("memory", func(t *testing.T) { test(t, membucket.New()) })
	t.Run("directory", func(t *testing.T) {
		b, err := dirbucket.Open(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		test(t, b)
	})
}

// TestLog: what was appended is read, by every handle, and of two appends after one entry
// one is refused.
func TestLog(t *testing.T) {
	logOn(t, func(t *testing.T, b object.Bucket) {
		one, two := newLog(t, b), newLog(t, b)
		if e, err := one.Latest(t.Context()); err != nil || e.Number != 0 {
			t.Errorf("the last entry of no log: %+v, %v", e, err)
		}
		if got, err := readLog(t, one, 0); err != nil || got != nil {
			t.Errorf("read of no log: %q, %v", got, err)
		}
		fill(t, one, 3)
		_, err := two.Append(t.Context(), 2, []byte("late"))
		if !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("an append after an entry that another follows: %v", err)
		}
		e, err := two.Append(t.Context(), 3, nil)
		if err != nil || e.Number != 4 || e.ID == "" {
			t.Errorf("got %+v, %v", e, err)
		}
		for _, l := range []*object.Log{one, two, newLog(t, b)} {
			for from, want := range map[uint64]string{0: "1 2 3 ", 1: "1 2 3 ", 3: "3 ", 4: "", 5: "[]", 99: "[]"} {
				got, err := readLog(t, l, from)
				if err != nil || strings.Join(got, " ") != strings.Trim(want, "[]") {
					t.Errorf("from %d: %q, %v", from, got, err)
				}
			}
			if last, err := l.Latest(t.Context()); err != nil || last.Number != 4 || last.ID != e.ID {
				t.Errorf("the last entry: %+v, %v", last, err)
			}
		}
	})
}

// TestLogClean: a removed entry is reported, with where the log begins, and is not appended
// again.
func TestLogClean(t *testing.T) {
	logOn(t, func(t *testing.T, b object.Bucket) {
		l, slow := newLog(t, b), newLog(t, b)
		fill(t, l, 20)
		if _, err := readLog(t, slow, 19); err != nil {
			t.Fatal(err)
		}
		if err := l.Trim(t.Context(), 15); err != nil {
			t.Fatal(err)
		}
		if err := l.Trim(t.Context(), 7); err != nil {
			t.Errorf("a clean-up of what is gone: %v", err)
		}
		for name, err := range map[string]error{
			"read":   second(readLog(t, newLog(t, b), 14)),
			"append": second(newLog(t, b).Append(t.Context(), 13, nil)),
			"first":  second(newLog(t, b).Append(t.Context(), 0, nil)),
		} {
			var cleaned *object.TrimmedError
			if !errors.As(err, &cleaned) || cleaned.First != 15 || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got, err := readLog(t, slow, 0); err != nil || strings.Join(got, " ") != "15 16 17 18 19 20" {
			t.Errorf("got %q, %v", got, err)
		}
		if e, err := newLog(t, b).Latest(t.Context()); err != nil || e.Number != 20 {
			t.Errorf("got %+v, %v", e, err)
		}
		if _, err := slow.Append(t.Context(), 20, nil); err != nil {
			t.Error(err)
		}

		// What a stopped writer leaves goes with a sweep, and nothing else.
		if _, err := b.Put(t.Context(), fmt.Sprintf("log/%020d", 3), body("late"), nil); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"log/3", "log/note", "log2"} {
			if _, err := b.Put(t.Context(), key, body("not ours"), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		objects := 0
		for _, err := range b.List(t.Context(), "", nil) {
			if objects++; err != nil {
				t.Fatal(err)
			}
		}
		if want := 7 + 1 + 3; objects != want {
			t.Errorf("%d objects are left, want the entries 15 to 21, the floor and three others", objects)
		}
	})
}

// TestLogRequests: how many requests each call costs.
func TestLogRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := objecttest.NewFaulty(membucket.New(), nil)
		count := func(what string, want int, call func() error) {
			t.Helper()
			before := len(b.Calls())
			if err := call(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			calls := b.Calls()[before:]
			if len(calls) != want {
				t.Errorf("%s: %d requests, want %d: %v", what, len(calls), want, calls)
			}
		}
		appendTo := func(l *object.Log, after uint64) func() error {
			return func() error { return second(l.Append(t.Context(), after, []byte("x"))) }
		}
		latest := func(l *object.Log, want uint64) func() error {
			return func() error {
				e, err := l.Latest(t.Context())
				if err == nil && e.Number != want {
					err = fmt.Errorf("the last entry is %d, want %d", e.Number, want)
				}
				return err
			}
		}
		l := newLog(t, b)
		count("the first append", 6, appendTo(l, 0)) // floor, listing, floor made, floor, entry, floor
		count("an append", 2, appendTo(l, 1))
		time.Sleep(time.Minute)
		count("an append after a pause", 3, appendTo(l, 2))
		count("an append of another handle", 4, appendTo(newLog(t, b), 3))
		count("a refused append", 3, func() error {
			if err := appendTo(l, 3)(); !errors.Is(err, store.ErrConflict) {
				return fmt.Errorf("got %w", err)
			}
			return nil
		})
		count("nothing new", 2, func() error { return second(readLog(t, l, 5)) })
		count("a read of 4 entries", 6, func() error { return second(readLog(t, l, 1)) })
		count("an append after a read", 2, appendTo(l, 4))
		count("the last entry, again", 2, latest(l, 5))
		for n := range uint64(995) {
			if err := appendTo(l, n+5)(); err != nil {
				t.Fatal(err)
			}
		}
		count("the last of 1,000 entries", 21, latest(newLog(t, b), 1000))
		count("a read of 1,000 entries", 1001+16, func() error { return second(readLog(t, newLog(t, b), 1)) })
		count("a clean-up of 99", 99+4, func() error { return l.Trim(t.Context(), 100) })
		count("one of nothing", 1, func() error { return l.Trim(t.Context(), 100) })
	})
}

// TestLogRefuses: arguments that cannot be right. Nothing is written.
func TestLogRefuses(t *testing.T) {
	b := membucket.New()
	c := newClient(t, b, nil)
	for _, prefix := range []string{"", "log/", "\xff", strings.Repeat("x", object.MaxKey-20)} {
		if _, err := object.OpenLog(c, prefix, nil); !errors.Is(err, store.ErrKey) {
			t.Errorf("prefix %.10q: %v", prefix, err)
		}
	}
	if _, err := object.OpenLog(nil, "log", nil); !errors.Is(err, object.ErrInvalid) {
		t.Errorf("no client: %v", err)
	}
	l := newLog(t, b)
	for what, err := range map[string]error{
		"too large":            second(l.Append(t.Context(), 0, make([]byte, object.MaxEntry+1))),
		"after what is not":    second(l.Append(t.Context(), 7, nil)),
		"after the last":       second(l.Append(t.Context(), math.MaxUint64, nil)),
		"clean what is not":    l.Trim(t.Context(), 1),
		"clean far what isn't": l.Trim(t.Context(), math.MaxUint64),
	} {
		if !errors.Is(err, store.ErrInvalid) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: %v", what, err)
		}
	}
	for info := range b.List(t.Context(), "", nil) {
		t.Errorf("%q was written", info.Key)
	}
	fill(t, l, 2)
	for what, err := range map[string]error{
		"after what is not": second(l.Append(t.Context(), 3, nil)),
		"clean what is not": l.Trim(t.Context(), 3),
	} {
		if !errors.Is(err, store.ErrInvalid) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := b.Put(t.Context(), fmt.Sprintf("log/%020d", 3), strings.NewReader(strings.Repeat("x", object.MaxEntry+1)), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := readLog(t, l, 1); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("a read of a larger entry: %v", err)
	}
	if err := l.Trim(t.Context(), 0); err != nil {
		t.Errorf("clean nothing: %v", err)
	}
}

// TestLogDamaged: what other programs have done to the objects is found, and nothing is
// written over it.
func TestLogDamaged(t *testing.T) {
	const anew = "the log was removed and made anew"
	entry := func(n int) string { return fmt.Sprintf("log/%020d", n) }
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, b *membucket.Bucket)
		from   uint64 // where a reader notices
	}{
		{"an entry is another program's", func(t *testing.T, b *membucket.Bucket) {
			put(t, b, entry(2), "theirs", nil)
		}, 1},
		{"an entry was exchanged", func(t *testing.T, b *membucket.Bucket) {
			if _, err := b.Copy(t.Context(), entry(3), entry(2), nil); err != nil {
				t.Fatal(err)
			}
		}, 1},
		{"the floor is torn", func(t *testing.T, b *membucket.Bucket) { put(t, b, "log/floor", `{"holdfast":1,"kind":"log",`, nil) }, 1},
		{"the floor is empty", func(t *testing.T, b *membucket.Bucket) { put(t, b, "log/floor", "", nil) }, 1},
		{"the floor is of a newer version", func(t *testing.T, b *membucket.Bucket) {
			put(t, b, "log/floor", `{"holdfast":2,"kind":"log","log":"`+strings.Repeat("A", 26)+`","floor":1,"removed":1}`, nil)
		}, 1},
		{"the floor is huge", func(t *testing.T, b *membucket.Bucket) { put(t, b, "log/floor", strings.Repeat(" ", 1<<20), nil) }, 1},
		{"the floor is gone", func(t *testing.T, b *membucket.Bucket) { remove(t, b, "log/floor") }, 1},
		{"the floor was raised above the log", func(t *testing.T, b *membucket.Bucket) {
			l := newLog(t, b)
			if err := l.Trim(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
			remove(t, b, entry(3))
		}, 3},
		{anew, func(t *testing.T, b *membucket.Bucket) {
			for n := range 3 {
				remove(t, b, entry(n+1))
			}
			remove(t, b, "log/floor")
			fill(t, newLog(t, b), 3)
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := membucket.New()
			old := newLog(t, b)
			fill(t, old, 3)
			c.damage(t, b)
			logs := []*object.Log{newLog(t, b), old}
			switch {
			case c.name == anew:
				logs = logs[1:] // to a new handle it is a log like any other
			case c.from > 1:
				logs = logs[:1] // the old one knows what was there
			}
			before := len(keys(t, b))
			for i, l := range logs {
				if _, err := readLog(t, l, c.from); !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrTooLarge) {
					t.Errorf("handle %d, read: %v", i, err)
				}
				if _, err := l.Append(t.Context(), 0, nil); store.OutcomeOf(err) == store.Applied {
					t.Errorf("handle %d has appended to a damaged log", i)
				}
			}
			if after := len(keys(t, b)); after != before {
				t.Errorf("%d objects, before an append to a damaged log %d", after, before)
			}
		})
	}
}

// TestLogWithoutFloor: no call changes a log whose floor another program has removed. A Trim would remove entries,
// and an append would acknowledge an entry that no reader gets.
func TestLogWithoutFloor(t *testing.T) {
	b := membucket.New()
	fill(t, newLog(t, b), 3)
	remove(t, b, "log/floor")
	before := keys(t, b)
	for what, err := range map[string]error{
		"append after the last":   second(newLog(t, b).Append(t.Context(), 3, nil)),
		"append after the second": second(newLog(t, b).Append(t.Context(), 2, nil)),
		"append to an empty log":  second(newLog(t, b).Append(t.Context(), 0, nil)),
		"trim":                    newLog(t, b).Trim(t.Context(), 3),
	} {
		if !errors.Is(err, store.ErrCorrupt) || store.OutcomeOf(err) == store.Applied {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after := keys(t, b); !slices.Equal(after, before) {
		t.Errorf("the objects were %q, and are %q", before, after)
	}
}

func put(t *testing.T, b object.Bucket, key, text string, opts *object.PutOptions) {
	t.Helper()
	if _, err := b.Put(t.Context(), key, body(text), opts); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, b object.Bucket, key string) {
	t.Helper()
	if err := b.Delete(t.Context(), key, nil); err != nil {
		t.Fatal(err)
	}
}

func keys(t *testing.T, b object.Bucket) (all []string) {
	t.Helper()
	for info, err := range b.List(t.Context(), "", nil) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, info.Key)
	}
	return all
}

// TestLogRepeatedAndRemoved: a proxy repeats the write of an entry, the second answer is a
// conflict, and before the writer looks the entry is superseded and removed. It was part
// of the log all the same.
func TestLogRepeatedAndRemoved(t *testing.T) {
	m := membucket.New()
	l, other := newLog(t, m), newLog(t, m)
	fill(t, l, 1)
	if _, err := readLog(t, other, 0); err != nil {
		t.Fatal(err)
	}
	b := objecttest.NewFaulty(m, func(c object.Bucket) func(objecttest.Call) objecttest.Fault {
		return func(c objecttest.Call) objecttest.Fault {
			switch {
			case c.Op == "put":
				return objecttest.Repeat
			case c.Op == "stat" && strings.HasSuffix(c.Key, "2"):
				if _, err := readLog(t, other, 2); err != nil {
					t.Error(err)
				}
				if _, err := other.Append(t.Context(), 2, nil); err != nil {
					t.Error(err)
				}
				if err := other.Trim(t.Context(), 3); err != nil {
					t.Error(err)
				}
			}
			return objecttest.Pass
		}
	}(m))
	slow := newLog(t, b)
	if _, err := readLog(t, slow, 1); err != nil {
		t.Fatal(err)
	}
	e, err := slow.Append(t.Context(), 1, []byte("x"))
	if err != nil || e.Number != 2 {
		t.Errorf("got %+v, %v", e, err)
	}
}

// delivering is a reserver that lets late writes arrive before the second reservation.
type delivering struct {
	b     *objecttest.Faulty
	calls int
}

func (d *delivering) Do(ctx context.Context, _ string, _ object.Version, check, operate func(context.Context) error) error {
	if d.calls++; d.calls == 2 {
		d.b.Deliver()
	}
	if err := check(ctx); err != nil {
		return store.MarkNotApplied(err)
	}
	return operate(ctx)
}

// TestLogLateUnderReservation: an entry arrives late, before it is sent again. The
// reservation finds an object, which is the writer's own.
func TestLogLateUnderReservation(t *testing.T) {
	m := membucket.New()
	fill(t, newLog(t, m), 1)
	b := objecttest.NewFaulty(m, func() func(objecttest.Call) objecttest.Fault {
		put := false
		return func(c objecttest.Call) objecttest.Fault {
			if c.Op == "put" && !put {
				put = true
				return objecttest.Late
			}
			return objecttest.Pass
		}
	}())
	l, err := object.OpenLog(newClient(t, b, &object.Options{Reserver: &delivering{b: b}}), "log", nil)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := l.Append(t.Context(), 1, []byte("x")); err != nil || e.Number != 2 {
		t.Errorf("got %+v, %v", e, err)
	}
	if got, err := readLog(t, newLog(t, m), 0); err != nil || len(got) != 2 {
		t.Errorf("the log is %q, %v", got, err)
	}
}

// TestLogEntryComesBack: the write of an entry is applied once more, after a clean-up has
// removed the entry. A writer that has slept appends after it, and finds it there under the
// right id. Its own entry is not part of the log all the same.
func TestLogEntryComesBack(t *testing.T) {
	m := membucket.New()
	l, slow := newLog(t, m), newLog(t, m)
	fill(t, l, 2)
	if _, err := readLog(t, slow, 0); err != nil {
		t.Fatal(err)
	}
	key := fmt.Sprintf("log/%020d", 2)
	text, info, err := object.ReadAll(t.Context(), m, key, 100, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(2); n < 5; n++ {
		if _, err := l.Append(t.Context(), n, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Trim(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	put(t, m, key, string(text), &object.PutOptions{IfAbsent: true, Metadata: info.Metadata})
	_, err = slow.Append(t.Context(), 2, []byte("x"))
	var cleaned *object.TrimmedError
	if !errors.As(err, &cleaned) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("got %v", err)
	}
	if got, err := readLog(t, newLog(t, m), 0); err != nil || len(got) != 1 {
		t.Errorf("the log is %q, %v", got, err)
	}
}

// TestLogTrimCutOff: a clean-up may end at any request, with or without effect; the next
// one completes it.
func TestLogTrimCutOff(t *testing.T) { synctest.Test(t, cleanCutOff) }

func cleanCutOff(t *testing.T) {
	for _, fault := range []objecttest.Fault{objecttest.Cut, objecttest.Fail, objecttest.Lose} {
		for n := 1; ; n++ {
			m := membucket.New()
			l := newLog(t, m)
			fill(t, l, 5)
			b := objecttest.NewFaulty(m, objecttest.Nth(n, fault))
			err := newLog(t, b).Trim(t.Context(), 4)
			if err == nil && len(b.Calls()) < n {
				break
			}
			if got, err := readLog(t, newLog(t, m), 4); err != nil || strings.Join(got, " ") != "4 5" {
				t.Errorf("fault %d at request %d: the log is %q, %v", fault, n, got, err)
			}
			if err := newLog(t, m).Trim(t.Context(), 2); err != nil && !errors.Is(err, object.ErrInvalid) {
				t.Errorf("fault %d at request %d: %v", fault, n, err)
			}
			if err := newLog(t, m).Trim(t.Context(), 4); err != nil {
				t.Errorf("fault %d at request %d: %v", fault, n, err)
			}
			if all := keys(t, m); len(all) != 3 {
				t.Errorf("fault %d at request %d: %q are left", fault, n, all)
			}
		}
	}
}

// TestLogAppendCutOff: an append may end at any request, with or without effect. What it
// reports is so, and the log continues.
func TestLogAppendCutOff(t *testing.T) { synctest.Test(t, appendCutOff) }

func appendCutOff(t *testing.T) {
	for _, first := range []uint64{0, 2} {
		for _, fault := range []objecttest.Fault{objecttest.Cut, objecttest.Fail, objecttest.Lose, objecttest.Repeat, objecttest.Late} {
			for n := 1; ; n++ {
				m := membucket.New()
				fill(t, newLog(t, m), first)
				b := objecttest.NewFaulty(m, objecttest.Nth(n, fault))
				_, err := newLog(t, b).Append(t.Context(), first, []byte("x"))
				b.Deliver()
				got, readErr := readLog(t, newLog(t, m), 0)
				appended := len(got) > int(first)
				switch {
				case readErr != nil || len(got) > int(first)+1:
					t.Errorf("fault %d at request %d: the log is %q, %v", fault, n, got, readErr)
				case err == nil && !appended, store.OutcomeOf(err) == store.NotApplied && appended:
					t.Errorf("fault %d at request %d: the log is %q, and the append: %v", fault, n, got, err)
				case fault != objecttest.Cut && err != nil && store.OutcomeOf(err) == store.Unknown:
					t.Errorf("fault %d at request %d: one lost reply left an outcome unknown: %v", fault, n, err)
				}
				if _, err := newLog(t, m).Append(t.Context(), uint64(len(got)), nil); err != nil {
					t.Errorf("fault %d at request %d: the log does not go on: %v", fault, n, err)
				}
				if len(b.Calls()) < n {
					break
				}
			}
		}
	}
}

// TestLogOutage: while the store does not answer, an append ends with an unknown outcome,
// and the context ends it earlier.
func TestLogOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := false
		m := membucket.New()
		b := objecttest.NewFaulty(m, func(c objecttest.Call) objecttest.Fault {
			down = down || c.Op == "put" && strings.HasSuffix(c.Key, "2")
			if down {
				return objecttest.Lose
			}
			return objecttest.Pass
		})
		l := newLog(t, b)
		fill(t, l, 1)
		_, err := l.Append(t.Context(), 1, nil)
		if store.OutcomeOf(err) != store.Unknown || !errors.Is(err, objecttest.ErrFault) || store.AttemptedVersion(err) == "" {
			t.Errorf("got %v", err)
		}
		down = false
		if e, err := l.Latest(t.Context()); err != nil || e.Number != 2 || e.ID != string(store.AttemptedVersion(err)) && e.ID == "" {
			t.Errorf("got %+v, %v", e, err)
		}
	})
}

// TestLogManyWriters: writers that insist all get their place, once each.
func TestLogManyWriters(t *testing.T) {
	logOn(t, func(t *testing.T, b object.Bucket) {
		const writers, each = 6, 10
		done := make(chan error, writers)
		for w := range writers {
			go func() {
				done <- func() error {
					l := newLog(t, b)
					after := uint64(0)
					for i := 0; i < each; {
						_, err := l.Append(t.Context(), after, fmt.Appendf(nil, "%d.%d", w, i))
						switch {
						case err == nil:
							i++
							after++
						case !errors.Is(err, store.ErrConflict):
							return err
						}
						for e, err := range l.Read(t.Context(), after+1) {
							if err != nil {
								return err
							}
							after = e.Number
						}
					}
					return nil
				}()
			}()
		}
		for range writers {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		seen := map[string]bool{}
		got, err := readLog(t, newLog(t, b), 1)
		for _, entry := range got {
			seen[entry] = true
		}
		if err != nil || len(got) != writers*each || len(seen) != len(got) {
			t.Errorf("%d entries, %d different, want %d; %v", len(got), len(seen), writers*each, err)
		}
	})
}

// TestLogBodies: a body is the caller's before and after.
func TestLogBodies(t *testing.T) {
	l := newLog(t, membucket.New())
	text := []byte("abc")
	e, err := l.Append(t.Context(), 0, text)
	if err != nil {
		t.Fatal(err)
	}
	text[0] = 'x'
	if !bytes.Equal(e.Body, []byte("abc")) {
		t.Errorf("got %q", e.Body)
	}
}

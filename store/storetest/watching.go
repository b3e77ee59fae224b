package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store"
)

// watchCases are the rules of [store.Watcher]: it may return without a change, but never
// misses one.
func watchCases() []testCase {
	return []testCase{
		{"WatchDiffers", "If the version already differs from the argument seen, Watch returns at once.", func(e *env) {
			w := need[store.Watcher](e, e.other)
			v1 := e.create("job", "one")
			v2 := e.put("job", v1, "two")
			e.watchEnds(w, "job", "", "the register exists, and seen is zero")
			e.watchEnds(w, "job", v1, "seen is a superseded version")
			e.delete("job", v2)
			e.watchEnds(w, "job", v2, "seen is a deleted version")
			e.create("job", "two")
			e.watchEnds(w, "job", v2, "seen is a version from before a delete")
			e.watchEnds(w, "job", "", "the register exists again, and seen is zero")
		}},
		{"WatchPut", "Watch returns when a put writes the register, also with the same value.", func(e *env) {
			w := need[store.Watcher](e, e.other)
			v := e.create("job", "same")
			e.watchWoken(w, "job", v, "a put", func() { v = e.put("job", v, "same") })
			e.watchWoken(w, "job", v, "a second put", func() { v = e.put("job", v, "other") })
		}},
		{"WatchDelete", "Watch returns when the register is deleted.", func(e *env) {
			w := need[store.Watcher](e, e.other)
			v := e.create("job", "one")
			e.watchWoken(w, "job", v, "a delete", func() { e.delete("job", v) })
		}},
		{"WatchCreate", "Watch of an absent register returns when it is created, for the first time and after a delete.", func(e *env) {
			w := need[store.Watcher](e, e.other)
			var v store.Version
			e.watchWoken(w, "job", "", "its creation", func() { v = e.create("job", "one") })
			e.delete("job", v)
			e.watchWoken(w, "job", "", "its creation after a delete", func() { e.create("job", "two") })
			e.watchWoken(w, "deep/er/job", "", "its creation, many segments down", func() { e.create("deep/er/job", "three") })
		}},
		{"WatchUnsynced", "Watch returns when an unsynced put writes the register.", func(e *env) {
			w := need[store.Watcher](e, e.other)
			p := need[store.UnsyncedPutter](e, e.s)
			v := e.create("job", "one")
			e.watchWoken(w, "job", v, "an unsynced put", func() {
				e.Must("unsynced put", suitetest.ErrOf(p.PutUnsynced(e.ctx, "job", v, []byte("two"))))
			})
		}},
		{"WatchCancel", "If the context ends before or during the wait, Watch returns the context's error.", caseWatchCancel},
		{"WatchMany", "A change wakes all waiters of its key, with any number of waiters on this key and on other keys.", caseWatchMany},
		{"WatchNoGap", "Watch reports a change between the read of a version and the call of Watch.", caseWatchNoGap},
		{"WatchFollow", "A caller repeatedly reads a register and watches the version that it has read. In the end it sees the last state, even if the register changes fast.", caseWatchFollow},
	}
}

// watchEnds checks that Watch returns nil without a further change.
func (e *env) watchEnds(w store.Watcher, key string, seen store.Version, why string) {
	if err := w.Watch(e.ctx, key, seen); err != nil {
		e.Fatalf("Watch of %q should return nil at once, because %s; got %v", key, why, err)
	}
}

// aMoment is long enough for a call of Watch to have begun to wait. If it was not,
// the case checks less, and passes.
const aMoment = 2 * time.Millisecond

// watchWoken checks that Watch returns after the change. Watch may also return before it,
// so it is called until the state has changed.
func (e *env) watchWoken(w store.Watcher, key string, seen store.Version, what string, change func()) {
	woken := make(chan error, 1)
	go func() { woken <- e.watchUntilChanged(w, key, seen) }()
	time.Sleep(aMoment)
	change()
	e.Must(fmt.Sprintf("Watch of %q did not return after %s", key, what), <-woken)
}

// watchUntilChanged watches until the version read differs from seen.
func (e *env) watchUntilChanged(w store.Watcher, key string, seen store.Version) error {
	for {
		if err := w.Watch(e.ctx, key, seen); err != nil {
			return err
		}
		_, v, err := e.other.Get(e.ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if v != seen {
			return nil
		}
	}
}

func caseWatchCancel(e *env) {
	w := need[store.Watcher](e, e.other)
	v := e.create("job", "one")
	for key, seen := range map[string]store.Version{"job": v, "absent": ""} {
		// Without a change only the context ends it. A return without a change is allowed;
		// then watch again.
		watch := func(ctx context.Context) (err error) {
			for err == nil {
				err = w.Watch(ctx, key, seen)
			}
			return err
		}
		e.WantErr(fmt.Sprintf("Watch of %q with a context that has ended", key), watch(e.ended()), context.Canceled)
		ctx, cancel := context.WithCancel(e.ctx)
		time.AfterFunc(aMoment, cancel)
		e.WantErr(fmt.Sprintf("Watch of %q whose context is cancelled during the wait", key), watch(ctx), context.Canceled)
		ctx, cancel = context.WithTimeout(e.ctx, aMoment)
		e.WantErr(fmt.Sprintf("Watch of %q after its deadline", key), watch(ctx), context.DeadlineExceeded)
		cancel()
	}
	e.expect("job", v, "one")
	e.watchWoken(w, "job", v, "a put after the end of other watches", func() { e.put("job", v, "two") })
}

func caseWatchMany(e *env) {
	w := need[store.Watcher](e, e.other)
	n := 4 * e.Racers
	errs := make(chan error, 2*n)
	v := e.create("job", "one")
	for i := range n {
		go func() { errs <- e.watchUntilChanged(w, "job", v) }()
		go func() { errs <- e.watchUntilChanged(w, fmt.Sprintf("job-%d", i), "") }()
	}
	time.Sleep(aMoment)
	e.put("job", v, "two")
	for i := range n {
		e.create(fmt.Sprintf("job-%d", i), "x")
	}
	for range 2 * n {
		e.Must(fmt.Sprintf("a change did not wake one of %d watches", 2*n), <-errs)
	}
}

func caseWatchNoGap(e *env) {
	w := need[store.Watcher](e, e.other)
	var v store.Version
	for round := range 4 * e.Rounds {
		seen := e.state("job").Version
		written := make(chan error, 1)
		go func() {
			var err error
			if round%5 == 4 {
				v, err = "", e.s.Delete(e.ctx, "job", v)
			} else {
				v, err = e.s.Put(e.ctx, "job", v, []byte("x"))
			}
			written <- err
		}()
		if round%3 == 0 {
			time.Sleep(50 * time.Microsecond)
		}
		err := e.watchUntilChanged(w, "job", seen)
		if werr := <-written; werr != nil {
			e.Fatalf("write: %v", werr)
		}
		e.Must(fmt.Sprintf("round %d: Watch missed a change between Get and Watch", round), err)
	}
}

// caseWatchFollow has several series of changes, since only the last change of a series can
// be missed for ever.
func caseWatchFollow(e *env) {
	w := need[store.Watcher](e, e.other)
	v := e.create("job", "0")
	for series := range 5 {
		last := strconv.Itoa((series + 1) * e.Rounds)
		var followed atomic.Int32
		e.race(1+min(e.Racers, 8), func(i int, _ store.Store) {
			if i > 0 {
				e.follow(w, last, &followed)
				return
			}
			for n := range e.Rounds {
				breathe()
				var err error
				if v, err = e.s.Put(e.ctx, "job", v, []byte(strconv.Itoa(series*e.Rounds+n+1))); err != nil {
					e.Errorf("Put of the only writer: %v", err)
					return
				}
			}
		})
		if got, want := int(followed.Load()), min(e.Racers, 8); got != want {
			e.Fatalf("%d of %d callers saw the last state, want all", got, want)
		}
	}
}

// follow reads and watches until it has seen the last value.
func (e *env) follow(w store.Watcher, last string, followed *atomic.Int32) {
	for e.ctx.Err() == nil {
		value, seen, err := e.other.Get(e.ctx, "job")
		if !e.OK("get", err) {
			return
		}
		if string(value) == last {
			followed.Add(1)
			return
		}
		time.Sleep(rand.N(200 * time.Microsecond)) // often longer than the writer's
		if err := w.Watch(e.ctx, "job", seen); err != nil {
			e.Errorf("a caller was not woken after %s of %s changes: %v", value, last, err)
			return
		}
	}
}

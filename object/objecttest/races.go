package objecttest

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

func raceCases() []testCase {
	return []testCase{
		{"RaceCreate", "Of many that create the same object exactly one succeeds, and its body is there.", caseRaceCreate},
		{"RaceSwap", "Of many that replace the same state exactly one succeeds, and its body is there.", caseRaceSwap},
		{"RaceCount", "A counter that many raise by conditional puts loses nothing.", caseRaceCount},
		{"RaceDelete", "Of a conditional delete and a conditional put on the same state exactly one succeeds.", caseRaceDelete},
		{"RaceRead", "A reader sees whole bodies only, whatever is written meanwhile.", caseRaceRead},
	}
}

// oneWinner runs a race in which exactly one try succeeds, and returns it. Busy
// stores may ask to try again.
func (e *env) oneWinner(what string, try func(i int) error) int {
	var winner atomic.Int64
	winner.Store(-1)
	e.race(func(i int) {
		err := try(i)
		for errors.Is(err, object.ErrBusy) {
			err = try(i)
		}
		switch {
		case err == nil:
			if before := winner.Swap(int64(i)); before >= 0 {
				e.Errorf("%s: %d and %d both succeeded", what, before, i)
			}
		case !errors.Is(err, store.ErrConflict):
			e.Errorf("%s: %v", what, err)
		}
	})
	if winner.Load() < 0 {
		e.Fatalf("%s: no call succeeded", what)
	}
	return int(winner.Load())
}

func caseRaceCreate(e *env) {
	e.needs(object.PutIfAbsent)
	for round := range e.Rounds {
		key := fmt.Sprintf("k%d", round)
		winner := e.oneWinner("create", func(i int) error {
			_, err := e.handle(i).Put(e.ctx, key, strings.NewReader(strconv.Itoa(i)), &object.PutOptions{IfAbsent: true})
			return err
		})
		if got, _ := e.read(key, nil); got != strconv.Itoa(winner) {
			e.Errorf("%d succeeded, the body is that of %s", winner, got)
		}
	}
}

func caseRaceSwap(e *env) {
	e.needs(object.PutIfMatch)
	v := e.put("a", "start", nil)
	for range e.Rounds {
		winner := e.oneWinner("swap", func(i int) error {
			body := fmt.Sprintf("%d after %s", i, v)
			_, err := e.handle(i).Put(e.ctx, "a", strings.NewReader(body), &object.PutOptions{IfMatch: v})
			return err
		})
		got, info := e.read("a", nil)
		if want := fmt.Sprintf("%d after %s", winner, v); got != want {
			e.Errorf("%d succeeded, the body is %q", winner, got)
		}
		v = info.Version
	}
}

func caseRaceCount(e *env) {
	e.needs(object.PutIfMatch)
	e.put("a", "0 start", nil)
	each := max(e.Rounds/4, 2)
	e.race(func(i int) {
		for n := 0; n < each; {
			r, err := e.handle(i).Get(e.ctx, "a", nil)
			if !e.OK("get", err) {
				return
			}
			body, err := io.ReadAll(r)
			r.Close()
			if !e.OK("read", err) {
				return
			}
			count, _, _ := strings.Cut(string(body), " ")
			c, err := strconv.Atoi(count)
			if err != nil {
				e.Errorf("the body is %q", body)
				return
			}
			next := fmt.Sprintf("%d by %d, his %d", c+1, i, n)
			_, err = e.handle(i).Put(e.ctx, "a", strings.NewReader(next), &object.PutOptions{IfMatch: r.Info.Version})
			switch {
			case err == nil:
				n++
			case !errors.Is(err, store.ErrConflict) && !errors.Is(err, object.ErrBusy):
				e.Errorf("put: %v", err)
				return
			}
		}
	})
	want := strconv.Itoa(e.Racers * each)
	if got, _ := e.read("a", nil); !strings.HasPrefix(got, want+" ") {
		e.Errorf("%s increments were acknowledged, the counter is %q", want, got)
	}
}

func caseRaceDelete(e *env) {
	e.needs(object.PutIfMatch, object.DeleteIfMatch)
	for round := range e.Rounds {
		key := fmt.Sprintf("k%d", round)
		v := e.put(key, "start", nil)
		winner := e.oneWinner("delete or put", func(i int) error {
			if i%3 == 0 {
				return e.handle(i).Delete(e.ctx, key, &object.DeleteOptions{IfMatch: v})
			}
			_, err := e.handle(i).Put(e.ctx, key, strings.NewReader(strconv.Itoa(i)), &object.PutOptions{IfMatch: v})
			return err
		})
		if winner%3 == 0 {
			e.expectAbsent(key)
		} else if got, _ := e.read(key, nil); got != strconv.Itoa(winner) {
			e.Errorf("%d succeeded, the body is %q", winner, got)
		}
	}
}

func caseRaceRead(e *env) {
	size := 64 << 10
	bodyOf := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), size+i) }
	e.put("a", bodyOf(0), nil)
	e.race(func(i int) {
		for range max(e.Rounds/5, 2) {
			if i%4 == 0 {
				if _, err := e.handle(i).Put(e.ctx, "a", strings.NewReader(bodyOf(i)), nil); err != nil && !errors.Is(err, object.ErrBusy) {
					e.Errorf("put: %v", err)
				}
				continue
			}
			r, err := e.handle(i).Get(e.ctx, "a", nil)
			if !e.OK("get", err) {
				return
			}
			body, err := io.ReadAll(r)
			r.Close()
			if err != nil {
				continue // the object was replaced meanwhile, and the reader got an error
			}
			if got := string(body); got != bodyOf(len(got)-size) || r.Info.Size != int64(len(got)) {
				e.Errorf("a body of %d bytes, said to be %d, beginning with %.3q, is none that was put", len(got), r.Info.Size, got)
			}
		}
	})
}

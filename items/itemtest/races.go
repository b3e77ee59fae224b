package itemtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

func raceCases() []testCase {
	return []testCase{
		{"RaceCreate", "Of many that create the same item exactly one succeeds, and its item is there.", caseRaceCreate},
		{"RaceCount", "A counter that many raise by conditional updates loses nothing.", caseRaceCount},
		{"RaceUpdates", "Updates of different attributes of one item at the same time are all kept.", caseRaceUpdates},
		{"RaceDelete", "An update on the condition that the item exists never brings it back from a delete.", caseRaceDelete},
		{"RaceRead", "A reader sees an item before or after a write, never half of it.", caseRaceRead},
	}
}

// try writes until the outcome is no passing trouble: a busy database may ask to try
// again. A refusal and success are returned.
func (e *env) try(write func() error) error {
	for {
		err := write()
		if err == nil || errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied || store.Permanent(err) || e.ctx.Err() != nil {
			return err
		}
	}
}

func caseRaceCreate(e *env) {
	for round := range e.Rounds {
		var winner atomic.Int64
		winner.Store(-1)
		e.race(func(i int) {
			err := e.try(func() error {
				item := attributes{"winner": largeitem.Number(strconv.Itoa(i))}
				if i%4 < 2 {
					_, err := e.handle(i).Put(e.ctx, e.key(round), item, &condition{Absent: true})
					return err
				}
				_, err := e.handle(i).Update(e.ctx, e.key(round), change{Set: item}, &condition{Absent: true})
				return err
			})
			if err != nil {
				e.WantRefused("create", err, store.ErrConflict)
			} else if before := winner.Swap(int64(i)); before >= 0 {
				e.Errorf("%d and %d both created the item", before, i)
			}
		})
		if winner.Load() < 0 {
			e.Fatalf("nothing was created")
		}
		e.expect(e.key(round), attributes{"winner": largeitem.Number(strconv.FormatInt(winner.Load(), 10))})
	}
}

func caseRaceCount(e *env) {
	e.put(e.key(0), attributes{"n": largeitem.Number("0"), "keep": "x"})
	e.race(func(i int) {
		for done := 0; done < e.Rounds && e.ctx.Err() == nil; {
			item, err := e.handle(i).Get(e.ctx, e.key(0), nil)
			if !e.OK("get", err) {
				return
			}
			was, _ := item["n"].(largeitem.Number)
			n, _ := strconv.Atoi(string(was))
			err = e.try(func() error {
				_, err := e.handle(i).Update(e.ctx, e.key(0), change{Set: attributes{"n": largeitem.Number(strconv.Itoa(n + 1))}}, &condition{Equal: attributes{"n": was}})
				return err
			})
			if err == nil {
				done++
			} else if e.WantRefused("update", err, store.ErrConflict); !errors.Is(err, store.ErrConflict) {
				return
			}
		}
	})
	e.expect(e.key(0), attributes{"n": largeitem.Number(strconv.Itoa(e.Racers * e.Rounds)), "keep": "x"})
}

func caseRaceUpdates(e *env) {
	want := attributes{"keep": "x"}
	e.put(e.key(0), want)
	for i := range e.Racers {
		want[fmt.Sprintf("a%d", i)] = largeitem.Number(strconv.Itoa(e.Rounds - 1))
	}
	e.race(func(i int) {
		for round := range e.Rounds {
			err := e.try(func() error {
				_, err := e.handle(i).Update(e.ctx, e.key(0), change{Set: attributes{fmt.Sprintf("a%d", i): largeitem.Number(strconv.Itoa(round))}}, nil)
				return err
			})
			if !e.OK("update", err) {
				return
			}
		}
	})
	e.expect(e.key(0), want)
}

func caseRaceDelete(e *env) {
	for round := range e.Rounds {
		key := e.key(round)
		e.put(key, attributes{"a": "x"})
		var deletes atomic.Int64
		e.race(func(i int) {
			err := e.try(func() (err error) {
				switch i {
				case 0, 1:
					var old attributes
					if old, err = e.handle(i).Delete(e.ctx, key, nil); old != nil {
						deletes.Add(1)
					}
				default:
					_, err = e.handle(i).Update(e.ctx, key, change{Set: attributes{"b": "y"}}, &condition{Exists: true})
				}
				return err
			})
			if err != nil {
				e.WantRefused("write", err, store.ErrConflict)
			}
		})
		e.expectAbsent(key)
		if n := deletes.Load(); n != 1 {
			e.Errorf("%d deletes returned the item", n)
		}
	}
}

func caseRaceRead(e *env) {
	key := e.key(0)
	item := func(n int) attributes {
		return attributes{"a": largeitem.Number(strconv.Itoa(n)), "b": largeitem.Number(strconv.Itoa(n))}
	}
	e.put(key, item(0))
	ctx, stop := context.WithCancel(e.ctx)
	defer stop()
	e.race(func(i int) {
		if i > 0 {
			for ctx.Err() == nil {
				got, err := e.handle(i).Get(e.ctx, key, nil)
				if err != nil || !largeitem.Equal(got["a"], got["b"]) || len(got) != 2 {
					e.Errorf("got %s, %v", show(got), err)
					return
				}
			}
			return
		}
		defer stop()
		for n := range 2 * e.Rounds {
			err := e.try(func() (err error) {
				if n%2 == 0 {
					_, err = e.t.Put(e.ctx, key, item(n), nil)
				} else {
					_, err = e.t.Update(e.ctx, key, change{Set: item(n)}, nil)
				}
				return err
			})
			if !e.OK("write", err) {
				return
			}
		}
	})
}

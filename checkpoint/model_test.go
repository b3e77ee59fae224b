package checkpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// stored is what the history keeps of a record.
type stored struct {
	At       int // tick
	Epoch    uint64
	Sequence *uint64
	EventID  string `json:"event_id"`
	Token    uint64
	N        uint64
	History  json.RawMessage
}

// history sees every write that takes effect, in order, below all faults.
type history struct {
	st store.Store

	mu     sync.Mutex
	ticks  int
	states map[string][]stored // by register
}

func (h *history) tick() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ticks++
	return h.ticks
}

func (h *history) store() store.Store {
	return onPut(h.st, func(ctx context.Context, op *store.Op, next store.Handler) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		err := next(ctx, op)
		if err == nil {
			h.ticks++
			s := stored{}
			if err := json.Unmarshal(op.Value, &s); err != nil {
				panic(err)
			}
			s.At = h.ticks
			h.states[op.Key] = append(h.states[op.Key], s)
		}
		return err
	})
}

// during returns the states that were current at some time between two ticks.
func (h *history) during(register string, from, to int) []stored {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := []stored{{Epoch: 1}}
	for _, s := range h.states[register] {
		switch {
		case s.At < from:
			found = []stored{s}
		case s.At <= to:
			found = append(found, s)
		}
	}
	return found
}

// TestModel lets keepers, several goroutines in each, do everything at once on a
// store with every kind of fault, and then holds each answer against what really
// happened. HOLDFAST_SEED replays one seed (the schedule of the goroutines is not
// part of it).
func TestModel(t *testing.T) {
	first, runs := rand.Uint64(), 40
	if s := os.Getenv("HOLDFAST_SEED"); s != "" {
		var err error
		if first, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
		runs = 1
	} else if os.Getenv("HOLDFAST_TORTURE") != "" {
		runs = 5_000
	}
	total := map[string]int{}
	for i := range uint64(runs) {
		synctest.Test(t, func(t *testing.T) { model(t, first+i, total) })
		if t.Failed() {
			t.Fatalf("HOLDFAST_SEED=%d", first+i)
		}
	}
	t.Logf("%v", total)
	for _, s := range []string{"advanced", "behind", "fenced", "rolled back", "reset", "delete", "outcome unknown", "not applied", "history"} {
		if total[s] == 0 {
			t.Errorf("no call came to %q: the test tests nothing", s)
		}
	}
}

func model(t *testing.T, seed uint64, total map[string]int) {
	h := &history{st: memstore.New(), states: map[string][]stored{}}
	var work sync.WaitGroup
	var mu sync.Mutex
	var calls []modelCall
	var stores []*faultstore.Store
	for i := range uint64(3) {
		st := faultstore.New(h.store(), faultstore.Random(seed+i))
		stores = append(stores, st)
		var s store.Store = st
		if i == 0 { // without Resolver: it cannot resolve a write that other writes have followed
			s = struct{ store.Store }{st}
		}
		opts := checkpoint.ResolvingIn(time.Second)
		opts.History = i > 0
		k := open(t, s, opts)
		for j := range uint64(3) {
			r := rand.New(rand.NewPCG(seed+1, i<<8|j))
			work.Go(func() {
				for n := range 25 {
					c := randomCall(t, h, k, r, fmt.Sprintf("%d-%d-%d", i, j, n))
					mu.Lock()
					calls = append(calls, c)
					mu.Unlock()
				}
			})
		}
	}
	work.Wait()
	for _, st := range stores {
		if err := st.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for register, states := range h.states {
		checkStates(t, register, states)
		total["history"] += checkHistories(t, register, states)
	}
	for _, c := range calls {
		total[c.check(t, h)]++
	}
	if t.Failed() {
		for i, st := range stores {
			t.Logf("keeper %d: %v", i, st.Injected())
		}
	}
}

// modelCall is a call and its answer.
type modelCall struct {
	verb     string
	key      string
	pos      checkpoint.Position
	token    uint64
	epoch    uint64
	from, to int // ticks
	result   checkpoint.Result
	err      error
}

func randomCall(t *testing.T, h *history, k *checkpoint.RegisterStore, r *rand.Rand, id string) modelCall {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(20_000))*time.Millisecond)
	defer cancel()
	c := modelCall{key: fmt.Sprintf("k%d", r.IntN(2)), token: uint64(r.IntN(20) / 18)}
	c.from = h.tick()
	now, err := k.Get(ctx, c.key, &checkpoint.GetOptions{Cached: r.IntN(2) == 0})
	if r.IntN(2) == 0 && (err == nil || errors.Is(err, store.ErrNotFound)) {
		c.epoch = now.Epoch
	}
	c.token += now.Token
	if now.Token > 0 && r.IntN(10) == 0 {
		c.token = now.Token - 1
	}
	c.pos = checkpoint.Position{Sequence: max(now.Sequence+uint64(r.IntN(8)), 3) - 3, EventID: id}
	c.from = h.tick()
	switch p := r.IntN(100); {
	case p < 8:
		c.verb = "reset"
		c.result.Current, c.err = k.Reset(ctx, c.key, c.pos, &checkpoint.ChangeOptions{Token: c.token})
	case p < 13:
		c.verb = "delete"
		c.result.Current, c.err = k.Delete(ctx, c.key, &checkpoint.ChangeOptions{Token: c.token})
	case p < 15:
		c.verb, c.token = "fence", c.token+1
		c.result.Current, c.err = k.Fence(ctx, c.key, c.token)
	default:
		c.verb = "advance"
		c.result, c.err = k.Advance(ctx, c.key, c.pos, &checkpoint.AdvanceOptions{Token: c.token, Epoch: c.epoch, Force: c.token == 0})
	}
	c.to = h.tick()
	return c
}

// checkStates holds what was written against the rules.
func checkStates(t *testing.T, register string, states []stored) {
	last := stored{Epoch: 1}
	for _, s := range states {
		switch {
		case s.N != last.N+1:
			t.Errorf("%s: write %d after %d", register, s.N, last.N)
		case s.Token < last.Token:
			t.Errorf("%s: token %d after %d", register, s.Token, last.Token)
		case s.Epoch < last.Epoch || s.Epoch > last.Epoch+1:
			t.Errorf("%s: epoch %d after %d", register, s.Epoch, last.Epoch)
		case s.Epoch == last.Epoch && last.Sequence != nil && (s.Sequence == nil || *s.Sequence < *last.Sequence):
			t.Errorf("%s: went back within epoch %d: %+v after %+v", register, s.Epoch, s, last)
		case s.Epoch == last.Epoch && last.Sequence != nil && *s.Sequence == *last.Sequence && s.EventID != last.EventID:
			t.Errorf("%s: another event at the same sequence: %+v after %+v", register, s, last)
		}
		last = s
	}
}

// check compares the answer of a call with the states that were current while it ran, and
// returns the kind of answer.
func (c *modelCall) check(t *testing.T, h *history) string {
	register := "checkpoint/" + c.key
	some := func(what string, f func(s stored) bool) string {
		for _, s := range h.during(register, c.from, c.to) {
			if f(s) {
				return what
			}
		}
		t.Errorf("%s at %d of %+v, but none of %+v bears that out", what, c.from, c, h.during(register, c.from, c.to))
		return what
	}
	wrote := func(s stored) bool { return s.At >= c.from && s.EventID == c.pos.EventID }
	if c.err != nil && c.result.Status == 0 {
		return c.checkError(t, h, some)
	}
	if want := c.result.Status.Err(); c.result.Status != 0 && !errors.Is(c.err, want) {
		t.Errorf("%v with the error %v, want %v", c.result.Status, c.err, want)
	}
	switch c.verb {
	case "reset":
		return some("reset", wrote)
	case "delete":
		return some("delete", func(s stored) bool { return s.At >= c.from && s.Sequence == nil && s.Epoch == c.result.Current.Epoch })
	case "fence":
		return some("fence", func(s stored) bool { return s.Token >= c.token })
	}
	switch status := c.result.Status; status {
	case checkpoint.Advanced:
		// Its own write, or one that it shared with a higher sequence.
		return some("advanced", func(s stored) bool {
			return wrote(s) || s.At >= c.from && s.Sequence != nil && *s.Sequence > c.pos.Sequence
		})
	case checkpoint.Behind:
		return some("behind", func(s stored) bool { return s.Sequence != nil && *s.Sequence > c.pos.Sequence })
	case checkpoint.Mismatch:
		return some("mismatch", func(s stored) bool { return s.Sequence != nil && *s.Sequence == c.pos.Sequence })
	case checkpoint.Fenced:
		return some("fenced", func(s stored) bool { return s.Token > c.token })
	case checkpoint.RolledBack:
		return some("rolled back", func(s stored) bool { return c.epoch == 0 && s.Epoch > 1 || c.epoch != 0 && s.Epoch > c.epoch })
	default:
		t.Errorf("%+v: no call in this test can be %v", c, status)
		return status.String()
	}
}

func (c *modelCall) checkError(t *testing.T, h *history, some func(string, func(stored) bool) string) string {
	switch {
	case errors.Is(c.err, checkpoint.ErrFenced):
		some("fenced", func(s stored) bool { return s.Token > c.token })
	case errors.Is(c.err, store.ErrNotFound):
		return some("not found", func(s stored) bool { return s.Sequence == nil })
	}
	outcome := store.OutcomeOf(c.err)
	if outcome == store.NotApplied {
		for _, s := range h.states["checkpoint/"+c.key] {
			if s.EventID == c.pos.EventID {
				t.Errorf("%v, but it was written: %+v", c.err, s)
			}
		}
	}
	return outcome.String()
}

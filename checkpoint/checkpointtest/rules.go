package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/internal/positiontest"
	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store"
)

// What the tests of package checkpoint share with this suite.
var (
	at       = positiontest.At
	advance  = positiontest.Advance
	expectAt = positiontest.ExpectAt
	refused  = positiontest.Refused
	numbers  = positiontest.Numbers
)

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ruleForward(t *testing.T, key string, open func() checkpoint.Store) {
	a, b := open(), open()
	advance(t, a, key, at(0), nil, checkpoint.Advanced)
	advance(t, b, key, checkpoint.Position{Sequence: 7, EventID: "e7"}, nil, checkpoint.Advanced)
	advance(t, a, key, at(6), nil, checkpoint.Behind)
	advance(t, a, key, checkpoint.Position{Sequence: 7, EventID: "e7"}, nil, checkpoint.Unchanged)
	advance(t, a, key, at(1<<64-1), nil, checkpoint.Advanced)
	c := expectAt(t, b, key, 1<<64-1)
	if c.Key != key || c.EventID != "" {
		t.Errorf("got %+v", c)
	}
}

func ruleMismatch(t *testing.T, key string, open func() checkpoint.Store) {
	k := open()
	advance(t, k, key, checkpoint.Position{Sequence: 7, EventID: "a"}, nil, checkpoint.Advanced)
	if c := advance(t, k, key, checkpoint.Position{Sequence: 7, EventID: "b"}, nil, checkpoint.Mismatch); c.EventID != "a" {
		t.Errorf("got %+v", c)
	}
}

func ruleStale(t *testing.T, key string, open func() checkpoint.Store) {
	h1, h2, other := open(), open(), newKey()
	advance(t, h1, key, at(100), nil, checkpoint.Advanced)
	epoch := expectAt(t, h1, key, 100).Epoch
	must(t, suitetest.ErrOf(h2.Reset(t.Context(), key, at(10), nil)))
	advance(t, h1, other, at(1), nil, checkpoint.Advanced)
	expectAt(t, h2, key, 10)
	advance(t, h1, key, at(101), nil, checkpoint.RolledBack)
	advance(t, h1, key, at(101), &checkpoint.AdvanceOptions{Epoch: epoch}, checkpoint.RolledBack)
	expectAt(t, h1, key, 10)
	advance(t, h1, key, at(11), nil, checkpoint.Advanced)
	expectAt(t, h2, key, 11) // in the state file a delete is refused if the checkpoint has advanced since
	must(t, suitetest.ErrOf(h2.Delete(t.Context(), key, nil)))
	advance(t, h1, key, at(12), nil, checkpoint.RolledBack)
	must(t, suitetest.ErrOf(h2.Delete(t.Context(), other, nil)))
}

func ruleDelete(t *testing.T, key string, open func() checkpoint.Store) {
	h1, h2 := open(), open()
	advance(t, h1, key, at(5), nil, checkpoint.Advanced)
	must(t, suitetest.ErrOf(h2.Delete(t.Context(), key, nil)))
	if c, err := h1.Get(t.Context(), key, nil); !errors.Is(err, store.ErrNotFound) || c.Exists {
		t.Fatalf("got %+v, %v", c, err)
	}
	_, err := h2.Delete(t.Context(), key, nil)
	refused(t, err, store.ErrNotFound)
}

func ruleFence(t *testing.T, key string, open func() checkpoint.Store) {
	k, late := open(), open()
	c, err := k.Fence(t.Context(), key, 5)
	if err != nil || c.Exists || c.Token != 5 {
		t.Fatalf("got %+v, %v", c, err)
	}
	advance(t, late, key, at(1), &checkpoint.AdvanceOptions{Token: 4}, checkpoint.Fenced)
	advance(t, late, key, at(1), nil, checkpoint.Fenced)
	advance(t, k, key, at(1), &checkpoint.AdvanceOptions{Token: 6}, checkpoint.Advanced)
	advance(t, late, key, at(2), &checkpoint.AdvanceOptions{Token: 5}, checkpoint.Fenced)
	advance(t, late, key, at(2), &checkpoint.AdvanceOptions{Force: true}, checkpoint.Advanced)
	c, err = late.Fence(t.Context(), key, 5)
	refused(t, err, checkpoint.ErrFenced)
	if c.Token != 6 || c.Sequence != 2 {
		t.Errorf("the refusal shows %+v", c)
	}
	_, err = late.Reset(t.Context(), key, at(0), &checkpoint.ChangeOptions{Token: 5})
	refused(t, err, checkpoint.ErrFenced)
	must(t, suitetest.ErrOf(late.Delete(t.Context(), key, &checkpoint.ChangeOptions{Token: 6})))
	expectNowhere(t, late, key)
	advance(t, late, key, at(9), &checkpoint.AdvanceOptions{Token: 5}, checkpoint.Fenced)
}

func expectNowhere(t *testing.T, k checkpoint.Store, key string) {
	t.Helper()
	if c, err := k.Get(t.Context(), key, nil); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("got %+v, %v", c, err)
	}
}

func ruleExpect(t *testing.T, key string, open func() checkpoint.Store) {
	k := open()
	expect := func(n uint64) *checkpoint.ChangeOptions { return &checkpoint.ChangeOptions{ExpectedSequence: &n} }
	_, err := k.Reset(t.Context(), key, at(1), expect(0))
	refused(t, err, store.ErrNotFound)
	advance(t, k, key, at(10), nil, checkpoint.Advanced)
	c, err := k.Delete(t.Context(), key, expect(9))
	refused(t, err, checkpoint.ErrUnexpectedSequence)
	if c.Sequence != 10 {
		t.Errorf("the refusal shows %+v", c)
	}
	if c, err = k.Reset(t.Context(), key, at(1), expect(10)); err != nil || c.Sequence != 1 {
		t.Fatalf("got %+v, %v", c, err)
	}
}

func ruleList(t *testing.T, key string, open func() checkpoint.Store) {
	k := open()
	advance(t, k, key, at(4), nil, checkpoint.Advanced)
	found := 0
	for c, err := range k.List(t.Context(), "") {
		must(t, err)
		if c.Key == key && c.Sequence == 4 && c.Exists {
			found++
		}
	}
	if found != 1 {
		t.Errorf("it is listed %d times", found)
	}
}

func ruleWatch(t *testing.T, key string, open func() checkpoint.Store) {
	k, other := open(), open()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []string
	for c, err := range k.Watch(ctx, key) {
		if ctx.Err() != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("at the end: %v", err)
			}
			break
		}
		must(t, err)
		seen = append(seen, fmt.Sprintf("%v %d", c.Exists, c.Sequence))
		switch len(seen) {
		case 1:
			advance(t, other, key, at(3), nil, checkpoint.Advanced)
		case 2:
			must(t, suitetest.ErrOf(other.Delete(t.Context(), key, nil)))
		default:
			cancel()
		}
	}
	if got := strings.Join(seen, ", "); got != "false 0, true 3, false 0" {
		t.Errorf("saw %s", got)
	}
}

// ruleMany: several handles advance one checkpoint from many goroutines at once.
// Acknowledged positions are never lost, and no reader sees the checkpoint move back.
func ruleMany(t *testing.T, key string, open func() checkpoint.Store) {
	const handles, callers, steps = 3, 4, 3
	var wg sync.WaitGroup
	for h := range handles {
		k := open()
		for c := range callers {
			wg.Go(func() {
				last := uint64(0)
				for s := range steps {
					want := uint64((s*callers+c)*handles + h + 1)
					r, err := k.Advance(t.Context(), key, at(want), nil)
					if err != nil {
						t.Errorf("advance to %d: %v", want, err)
						return
					}
					if now := r.Current.Sequence; now < want || now < last {
						t.Errorf("at %d after an advance to %d, and after %d was seen", now, want, last)
					}
					last = max(last, r.Current.Sequence)
				}
			})
		}
	}
	wg.Wait()
	expectAt(t, open(), key, handles*callers*steps)
}

func ruleRun(t *testing.T, key string, open func() checkpoint.Store) {
	var c positiontest.Tally
	for _, n := range []uint64{40, 90} {
		must(t, checkpoint.Run(t.Context(), open(), key, numbers(n, true), c.Handle, &checkpoint.RunOptions{SaveEvery: 20}))
	}
	expectAt(t, open(), key, 90)
	if len(c.Order) != 90 {
		t.Errorf("%d events were handled", len(c.Order))
	}
	// A reset moves a running worker back.
	operator := open()
	reset := false
	err := checkpoint.Run(t.Context(), open(), key, numbers(130, true), func(ctx context.Context, e checkpoint.Event[string]) error {
		if e.Sequence == 105 && !reset {
			reset = true
			if _, err := operator.Reset(ctx, key, at(70), nil); err != nil {
				t.Error(err)
			}
		}
		return c.Handle(ctx, e)
	}, &checkpoint.RunOptions{SaveEvery: 10})
	must(t, err)
	expectAt(t, operator, key, 130)
	if c.Count[70] != 1 || c.Count[71] != 2 || c.Count[105] != 2 || c.Count[130] != 1 {
		t.Errorf("handled %v", c.Count)
	}
}

func ruleContext(t *testing.T, key string, open func() checkpoint.Store) {
	k := open()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := k.Advance(ctx, key, at(1), nil)
	refused(t, err, context.Canceled)
	_, err = k.Reset(ctx, key, at(1), nil)
	refused(t, err, context.Canceled)
	expectNowhere(t, k, key)
}

func ruleClosed(t *testing.T, key string, open func() checkpoint.Store) {
	k := open()
	for range 2 {
		must(t, k.Close(t.Context()))
	}
	_, err := k.Advance(t.Context(), key, at(1), nil)
	refused(t, err, checkpoint.ErrClosed)
}

package faultstore_test

import (
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestSuiteWithoutFaults(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		s, _ := open(t, "")
		return s
	}, &storetest.Options{Rounds: 10})
}

func TestSuitePrefixed(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		s, _ := open(t, "get never-used fail")
		p, err := store.Prefix(s, "p")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}, &storetest.Options{Rounds: 10, MaxKey: store.MaxKey - 2})
}

func TestSuiteOnPrefix(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		p, err := store.Prefix(memstore.New(), "p/q")
		if err != nil {
			t.Fatal(err)
		}
		s := faultstore.New(faultstore.New(p, faultstore.Schedule{}), faultstore.Schedule{Seed: 1})
		t.Cleanup(func() { _ = s.Close() })
		return s
	}, &storetest.Options{Rounds: 10, MaxKey: store.MaxKey - 4, Parallel: true})
}

// TestSuiteWithDelays runs the whole suite on a slow store: delays keep every rule.
func TestSuiteWithDelays(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		s, _ := open(t, "* * %0.5 delay 0s~20ms; * * %0.5 delay-reply 1ms~20ms; seed 5")
		return s
	}, &storetest.Options{Rounds: 4, Keys: 100, Bubble: true})
}

// TestSuiteCatchesFaults is the control: the suite fails on a store with an outage or lost
// replies.
func TestSuiteCatchesFaults(t *testing.T) {
	for _, schedule := range []string{"put * #2- %0.2 lose", "get * %0.3 drop", "put * %0.3 fail"} {
		synctest.Test(t, func(t *testing.T) {
			failures := storetest.Check(t, func(t *testing.T) store.Store {
				s, _ := open(t, schedule)
				return s
			}, &storetest.Options{Rounds: 4, Racers: 4, Keys: 100})
			if len(failures) < 10 {
				t.Errorf("%s: only %d cases fail", schedule, len(failures))
			}
		})
	}
}

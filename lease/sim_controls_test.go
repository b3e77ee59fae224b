package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// wrongRule is a fault that the simulation must notice.
type wrongRule struct {
	clocks   float64                                 // how wrong the rates of the clocks are
	store    func(*sim, store.Handler) store.Handler // what carries out the writes
	forgets  bool                                    // each short try is one of a client that knows nothing
	timeless bool                                    // no time passes for those who watch elections
	crowds   bool                                    // it shows in TestSimulationOfCrowds
	want     []string                                // one of these is what the simulation says
}

// The simulation notices what breaks the rules: a control without which its silence would tell
// little.
func TestSimulationNotices(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for name, wrong := range map[string]*wrongRule{
		"clocks are more wrong than is assumed": {
			clocks: 0.5,
			want:   []string{"is fenced", "takes the lock", "after it sent the last renewal"},
		},
		"the store ignores conditions": {
			store: func(s *sim, next store.Handler) store.Handler {
				return func(ctx context.Context, op *store.Op) error {
					err := next(ctx, op)
					if errors.Is(err, store.ErrConflict) {
						_, op.Prev, _ = s.st.Get(ctx, op.Key)
						err = next(ctx, op)
					}
					return err
				}
			},
			want: []string{"believes", "had gone", "token", "is written again", "writes session"},
		},
		"the last one in the queue is the next holder": {
			store: rewriting(func(rec map[string]json.RawMessage) {
				var queue []json.RawMessage
				if json.Unmarshal(rec["queue"], &queue) == nil && len(queue) > 1 {
					slices.Reverse(queue)
					rec["queue"], _ = json.Marshal(queue)
				}
			}),
			want: []string{"the queue changes its order", "overtakes"},
		},
		"another's write is a sign of life": {
			store: rewriting(func(rec map[string]json.RawMessage) { delete(rec, "mark") }),
			want:  []string{"writes session", "has no mark"},
		},
		"no short try knows of those before it": {
			forgets: true,
			want:    []string{"meets the same write of a dead holder"},
		},
		"no time passes for those who watch elections": {
			timeless: true,
			want:     []string{"which has died"},
		},
		"those who ask and wait write as often as they like": {
			crowds: true,
			store:  rewriting(func(rec map[string]json.RawMessage) { delete(rec, "beside") }),
			want:   []string{"a crowd has ended a lease"},
		},
		"an ask of several holders is one of those that come later": {
			store: rewriting(func(rec map[string]json.RawMessage) {
				var ask map[string]json.RawMessage
				var holders [][]any // the first element of each is its grant
				if json.Unmarshal(rec["ask"], &ask) != nil || json.Unmarshal(rec["holders"], &holders) != nil {
					return
				}
				var all []any
				for _, m := range holders {
					all = append(all, m[0])
				}
				ask["grants"], _ = json.Marshal(all)
				rec["ask"], _ = json.Marshal(ask)
			}),
			want: []string{"came after it was made"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 100; seed++ {
				s := newSim(seed)
				s.calm, s.wrong = false, wrong
				run := s.run
				if wrong.crowds {
					run = s.runCrowd
				}
				for _, what := range run(t) {
					for _, want := range wrong.want {
						if strings.Contains(what, want) {
							t.Logf("noticed: %.300s", what)
							return
						}
					}
					t.Logf("seed %d: %s", seed, what)
				}
			}
			t.Errorf("not noticed in 100 simulations; want one of %q", wrong.want)
		})
	}
}

// rewriting changes each record of the locks before it is written.
func rewriting(change func(rec map[string]json.RawMessage)) func(*sim, store.Handler) store.Handler {
	return func(_ *sim, next store.Handler) store.Handler {
		return func(ctx context.Context, op *store.Op) error {
			var rec map[string]json.RawMessage
			if json.Unmarshal(op.Value, &rec) == nil {
				change(rec)
				op.Value, _ = json.Marshal(rec)
			}
			return next(ctx, op)
		}
	}
}

package versionmodel_test

import (
	"os"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/proof/versionmodel"
)

// torture: all states of the large systems are looked at, and else so many.
var torture = os.Getenv("HOLDFAST_TORTURE") != ""

const someStates = 40_000

// system is one machine of which every state is looked at.
type system struct {
	name string
	versionmodel.Config
	long   bool     // without HOLDFAST_TORTURE only some states are looked at
	limit  int      // at most that many states; 0 is all
	events []string // what must happen, so that the search is not for nothing
}

// holding are systems in which the assumption holds: a register with all it
// promises.
var holding = []system{
	{
		name:   "two writers, lost replies",
		Config: versionmodel.Config{Writes: n(1, 1), Founded: true, Lose: true, Clean: true},
		events: []string{"acknowledged", "conflict", "lost reply", "slow PUT", "slow confirmation", "older than the snapshot", "visible out of order", "cleaned up"},
	}, {
		name:   "two writers of nothing yet",
		Config: versionmodel.Config{Writes: n(1, 1), Lose: true, Clean: true},
		events: []string{"acknowledged", "conflict", "lost reply"},
	}, {
		name:   "two writes and one, clean-up in any order",
		Config: versionmodel.Config{Writes: n(2, 1), Founded: true, Lose: true, Clean: true, Reuse: true},
		events: []string{"acknowledged", "conflict", "cleaned up", "own entry not listed", "older than the snapshot"},
	}, {
		name:   "two writers and two reads",
		Config: versionmodel.Config{Writes: n(1, 1), Reads: n(0, 0, 2), Founded: true, Lose: true, Clean: true},
		events: []string{"Get", "Get waits", "visible out of order", "cleaned up"},
	}, {
		name:   "listings in pages",
		Config: versionmodel.Config{Writes: n(2, 1), Founded: true, Clean: true, Page: 1},
		events: []string{"listing torn", "listing too slow", "cleaned up", "acknowledged"},
	}, {
		name:   "reads in pages",
		Config: versionmodel.Config{Writes: n(1, 1), Reads: n(0, 0, 1), Founded: true, Clean: true, Page: 2},
		events: []string{"Get", "Get waits", "listing too slow"},
	}, {
		name:   "a lock",
		Config: versionmodel.Config{Writes: n(2, 1), Founded: true, Lose: true, Clean: true, Lease: true},
		events: []string{"acquired", "renewed", "expired", "acknowledged too late", "conflict", "lost reply", "cleaned up"},
	}, {
		name:   "a PUT that is applied twice",
		Config: versionmodel.Config{Writes: n(1, 1), Founded: true, Lose: true, Clean: true, Twice: 1},
		events: []string{"applied twice", "accepted by another duplicate only", "acknowledged", "conflict", "cleaned up"},
	}, {
		name:   "a PUT that is applied twice, in pages",
		Config: versionmodel.Config{Writes: n(1, 1), Founded: true, Clean: true, Page: 1, Twice: 1},
		events: []string{"applied twice", "listing too slow"},
	}, {
		name:   "three writes, one of them applied twice",
		Config: versionmodel.Config{Writes: n(2, 1), Founded: true, Clean: true, Twice: 1},
		events: []string{"applied twice", "lower than the snapshot", "cleaned up"},
	}, {
		name:   "two writes that are applied twice",
		Config: versionmodel.Config{Writes: n(1, 1), Founded: true, Clean: true, Twice: 2},
		events: []string{"applied twice", "accepted by another duplicate only"}, long: true,
	}, {
		name:   "a write that is applied twice, and a read",
		Config: versionmodel.Config{Writes: n(1, 1), Reads: n(0, 0, 1), Founded: true, Clean: true, Twice: 1},
		events: []string{"applied twice", "Get waits"}, long: true,
	}, {
		name:   "a lock, with a PUT that is applied twice",
		Config: versionmodel.Config{Writes: n(2, 1), Founded: true, Lose: true, Clean: true, Lease: true, Twice: 1},
		events: []string{"applied twice", "acquired", "expired"}, long: true, limit: 4e6,
	}, {
		name:   "three writers",
		Config: versionmodel.Config{Writes: n(1, 1, 1), Founded: true, Lose: true, Clean: true},
		events: []string{"acknowledged", "conflict", "cleaned up", "lost reply"}, long: true,
	}, {
		name:   "two writers twice",
		Config: versionmodel.Config{Writes: n(2, 2), Founded: true, Clean: true},
		events: []string{"acknowledged", "conflict", "cleaned up"}, long: true,
	}, {
		name:   "two writers twice, in pages",
		Config: versionmodel.Config{Writes: n(2, 2), Founded: true, Clean: true, Page: 1},
		events: []string{"listing torn", "listing too slow"}, long: true, limit: 8e6,
	}, {
		name:   "three writes and reads, in pages",
		Config: versionmodel.Config{Writes: n(2, 1), Reads: n(0, 0, 1), Founded: true, Clean: true, Page: 2},
		events: []string{"listing torn", "Get waits"}, long: true, limit: 8e6,
	}, {
		name:   "a lock, two clients twice",
		Config: versionmodel.Config{Writes: n(3, 2), Founded: true, Clean: true, Lease: true, Reuse: true},
		events: []string{"acquired", "renewed", "expired"}, long: true, limit: 8e6,
	},
}

// broken are systems in which a PUT may take effect at any time: no acknowledged
// write is lost, leases exclude, tokens rise. What a Get returns and what was
// reported as not applied is not looked at.
var broken = []system{
	{
		name:   "two writers and a late PUT",
		Config: versionmodel.Config{Writes: n(1, 1), Founded: true, Ghosts: 1, Broken: true, Lose: true, Clean: true},
		events: []string{"acknowledged", "slow PUT", "slow confirmation", "evaluations disagree", "visible out of order", "cleaned up"},
	}, {
		name:   "a lock and a late release",
		Config: versionmodel.Config{Writes: n(1, 1), Founded: true, Ghosts: 1, Broken: true, Lose: true, Lease: true, TTL: n(1, 2)},
		events: []string{"acquired", "visible out of order", "slow PUT"},
	}, {
		name:   "a writer of two chains",
		Config: versionmodel.Config{Writes: n(2), Forked: true, Broken: true, Clean: true},
		events: []string{"acknowledged", "cleaned up"},
	}, {
		name:   "a PUT that is applied twice, at any time",
		Config: versionmodel.Config{Writes: n(1, 1), Founded: true, Broken: true, Clean: true, Twice: 1},
		events: []string{"applied twice", "accepted by another duplicate only", "acknowledged"},
	}, {
		name:   "a lock, with a PUT that is applied twice, at any time",
		Config: versionmodel.Config{Writes: n(1, 1), Founded: true, Broken: true, Clean: true, Lease: true, TTL: n(1, 2), Twice: 1},
		events: []string{"applied twice", "accepted by another duplicate only", "acquired", "expired"},
	}, {
		name:   "a lock and a late release, clean-up and pages",
		Config: versionmodel.Config{Writes: n(1, 1), Founded: true, Ghosts: 1, Broken: true, Clean: true, Page: 1, Lease: true, TTL: n(1, 2)},
		events: []string{"acquired", "cleaned up", "listing too slow"},
	}, {
		name:   "a lock that is renewed, clean-up and pages",
		Config: versionmodel.Config{Writes: n(2, 1), Founded: true, Broken: true, Clean: true, Page: 1, Lease: true, TTL: n(1, 2)},
		events: []string{"acquired", "renewed", "cleaned up", "listing torn"},
	}, {
		name:   "a writer of two chains, in pages",
		Config: versionmodel.Config{Writes: n(2), Forked: true, Broken: true, Clean: true, Page: 1},
		events: []string{"acknowledged", "cleaned up"},
	}, {
		name:   "two writers of two chains and a reader, in pages",
		Config: versionmodel.Config{Writes: n(1, 1), Reads: n(0, 0, 1), Forked: true, Broken: true, Clean: true, Page: 2},
		events: []string{"Get", "listing torn"}, long: true, limit: 4e6,
	}, {
		name:   "a writer of two chains, with a PUT that is applied twice",
		Config: versionmodel.Config{Writes: n(2), Forked: true, Broken: true, Clean: true, Twice: 1},
		events: []string{"applied twice", "cleaned up"}, long: true, limit: 4e6,
	}, {
		name:   "a late PUT, and one that is applied twice",
		Config: versionmodel.Config{Writes: n(1, 1), Founded: true, Ghosts: 1, Broken: true, Clean: true, Twice: 1},
		events: []string{"applied twice", "accepted by another duplicate only", "lower than the snapshot"}, long: true,
	}, {
		name:   "a lock, a late release, and a PUT that is applied twice",
		Config: versionmodel.Config{Writes: n(1, 1), Founded: true, Ghosts: 1, Broken: true, Lease: true, TTL: n(1, 2), Twice: 1},
		events: []string{"applied twice", "accepted by another duplicate only", "expired"}, long: true,
	}, {
		name:   "two PUTs that are applied twice, at any time",
		Config: versionmodel.Config{Writes: n(1, 1), Founded: true, Broken: true, Clean: true, Twice: 2},
		events: []string{"applied twice", "accepted by another duplicate only"}, long: true, limit: 4e6,
	}, {
		name:   "two writers of two chains",
		Config: versionmodel.Config{Writes: n(1, 1), Forked: true, Broken: true, Clean: true},
		events: []string{"acknowledged", "conflict", "cleaned up"}, long: true,
	}, {
		name:   "a lock of two clients",
		Config: versionmodel.Config{Writes: n(2, 2), Founded: true, Broken: true, Lease: true, TTL: n(1, 2)},
		events: []string{"acquired", "renewed", "expired", "slow PUT"}, long: true,
	}, {
		name:   "three writers",
		Config: versionmodel.Config{Writes: n(1, 1, 1), Founded: true, Broken: true, Clean: true},
		events: []string{"acknowledged", "evaluations disagree"}, long: true,
	}, {
		name:   "two writers and two late PUTs",
		Config: versionmodel.Config{Writes: n(1, 1), Founded: true, Ghosts: 2, Broken: true, Lose: true, Clean: true},
		events: []string{"acknowledged", "evaluations disagree"}, long: true,
	}, {
		name:   "three writes and a late PUT",
		Config: versionmodel.Config{Writes: n(1, 2), Founded: true, Ghosts: 1, Broken: true, Lose: true, Clean: true},
		events: []string{"acknowledged", "evaluations disagree"}, long: true,
	}, {
		name:   "a lock of two clients and a late release",
		Config: versionmodel.Config{Writes: n(2, 2), Founded: true, Ghosts: 1, Broken: true, Lease: true, TTL: n(1, 2)},
		events: []string{"acquired", "renewed", "expired"}, long: true, limit: 20e6,
	}, {
		name:   "a lock of three clients and a late release",
		Config: versionmodel.Config{Writes: n(1, 1, 1), Founded: true, Ghosts: 1, Broken: true, Lease: true, TTL: n(1, 2, 3)},
		events: []string{"acquired", "expired"}, long: true, limit: 20e6,
	},
}

func n(counts ...uint8) (all [3]uint8) {
	copy(all[:], counts)
	return all
}

func TestHolding(t *testing.T) { searchAll(t, holding) }

func TestBroken(t *testing.T) { searchAll(t, broken) }

func searchAll(t *testing.T, systems []system) {
	for _, s := range systems {
		t.Run(s.name, func(t *testing.T) {
			limit, part := s.limit, s.long && !torture
			if part { // in which not all events happen
				limit, s.events = someStates, nil
			}
			r := versionmodel.Search(&s.Config, limit)
			t.Log(r)
			if r.Broke != "" {
				t.Errorf("%s:", r.Broke)
				for _, line := range r.Trace {
					t.Log(line)
				}
			}
			if !r.Whole && limit == 0 {
				t.Error("not all states were seen")
			}
			for _, event := range s.events {
				if r.Events[event] == 0 {
					t.Errorf("it never happened: %s", event)
				}
			}
		})
	}
}

// TestControls takes one rule of the protocol away at a time: each time the search
// must find what goes wrong, or it would find nothing at all.
func TestControls(t *testing.T) {
	const (
		lost    = "what was certain is lost"
		undone  = "a write took effect that was reported as not applied"
		owners  = "two clients believe that they hold the lock"
		beside  = "two writes were acknowledged on one state"
		doubled = "two successes from one state"
		gone    = "what others build on is missing"
		never   = "a Get returned what never was"
		less    = "a Get returned less than what was shown before it began"
	)
	for _, c := range []struct {
		name string
		versionmodel.Config
		broke []string // any of these
		deep  bool     // search deep first, which needs less memory
	}{
		{name: "settle shorter than L", broke: []string{lost, doubled, undone},
			Config: versionmodel.Config{Writes: n(1, 1), Founded: true, ShortSettle: true}},
		{name: "a slow writer deletes its own entry", broke: []string{lost, undone, gone},
			Config: versionmodel.Config{Writes: n(1, 1), Founded: true, DeleteOwn: true}},
		{name: "clean-up without starts", broke: []string{lost},
			Config: versionmodel.Config{Writes: n(2, 1), Founded: true, Clean: true, NoSnapshots: true}},
		{name: "read-back that adopts", broke: []string{lost},
			Config: versionmodel.Config{Writes: n(1, 1), Founded: true, Adopt: true, Lose: true}},
		{name: "a start that is not settled", broke: []string{lost, beside, doubled, undone},
			Config: versionmodel.Config{Writes: n(1, 1, 1), Founded: true, EagerSnapshot: true}},
		{name: "clean-up behind a start that was just seen, in pages", broke: []string{never}, deep: true,
			Config: versionmodel.Config{Writes: n(1, 2), Reads: n(0, 0, 1), Founded: true, Clean: true, Page: 1, HastyClean: true}},
		{name: "a late PUT and no confirmation", broke: []string{lost, beside},
			Config: versionmodel.Config{Writes: n(1, 1), Founded: true, Ghosts: 1, Broken: true, NoConfirm: true}},
		{name: "a late release and no confirmation", broke: []string{owners},
			Config: versionmodel.Config{Writes: n(1, 1), Founded: true, Ghosts: 1, Broken: true, Lease: true, NoConfirm: true}},
		{name: "a late confirmation that counts", broke: []string{lost, beside, doubled},
			Config: versionmodel.Config{Writes: n(1, 2), Founded: true, Broken: true, LateConfirm: true}},
		{name: "a late confirmation that is tried again at once", broke: []string{lost, beside}, deep: true,
			Config: versionmodel.Config{Writes: n(1, 2), Founded: true, Ghosts: 1, Broken: true, Again: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			find := versionmodel.Shortest
			if c.deep {
				find = versionmodel.Search
			}
			r := find(&c.Config, 0)
			t.Log(r)
			if !slices.Contains(c.broke, r.Broke) {
				t.Fatalf("found %q, want one of %q", r.Broke, c.broke)
			}
			t.Logf("%s after %d steps:", r.Broke, len(r.Trace))
			for _, line := range r.Trace {
				t.Log(line)
			}
		})
	}
}

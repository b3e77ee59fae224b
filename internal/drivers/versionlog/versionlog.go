// Package versionlog evaluates the log of a register in a bucket with versioning. The file
// compat/s3verstore/PROOF.md defines the terms: log, entry, snapshot, accepted, duplicate, recent,
// final and confirmation.
//
// Package s3verstore runs these rules. The model of its protocol, proof/versionmodel, runs them too.
// They need no clock, no context and no store.
package versionlog

import (
	"github.com/holdfast-go/holdfast/internal/fold"
	"slices"
)

// Entry is one entry of a log.
type Entry struct {
	ID       string // of the version
	Nonce    string // duplicates have the same nonce
	Number   uint64 // one more than that of Prev; a confirmation has the number of its snapshot
	Prev     string // nonce of the entry that the write replaces; empty if there is none
	Write    bool   // false: a confirmation
	Old      bool   // not recent
	Snapshot Snapshot
}

// Snapshot names a final entry, at which evaluations of the log can begin. It has the id of the
// version: if the server applies a PUT twice, only one of the two versions is the snapshot. The zero
// value names no entry.
type Snapshot struct {
	ID     string
	Number uint64
}

// Named are snapshots that entries name.
type Named []Snapshot

// Add adds a snapshot. It ignores the zero value.
func (n *Named) Add(s Snapshot) {
	if s.ID != "" && !n.Has(s.ID) {
		*n = append(*n, s)
	}
}

// Has reports whether an entry names the version with this id.
func (n Named) Has(id string) bool {
	return slices.ContainsFunc(n, func(s Snapshot) bool { return s.ID == id })
}

// View is an evaluation of a log. It begins at the newest snapshot that an entry names, and ignores
// entries that are earlier in the log. Indexes are those of Entries; -1 means that there is no such
// entry.
type View struct {
	Entries  []Entry  // in the order of the log; all entries from the snapshot on
	Older    []string // ids of the listed versions that are earlier in the log
	Snapshot int      // at which the evaluation begins
	Chain    []int    // the accepted entries, with the snapshot
	Most     uint64   // highest number of the snapshots that are named and listed
	Torn     bool     // the listing is torn: an entry that another entry needs is not listed

	// Evaluation 2, which ignores snapshots that only recent entries name. The outcome of a write
	// depends on both evaluations.
	OldSnapshot int
	OldChain    []int

	// Sure is the newest snapshot that is listed and that an entry names which is not recent. Entries
	// earlier in the log may be removed. It is -1 before EvaluateOld.
	Sure int
}

// Evaluate evaluates a log once. Evaluation 2 is then the same as evaluation 1.
func Evaluate(entries []Entry, older []string) View {
	v := View{Entries: entries, Older: older, Sure: -1}
	var all Named
	for i := range entries {
		all.Add(entries[i].Snapshot)
	}
	v.Snapshot = v.newestSnapshot(all)
	v.Chain = v.evaluateFrom(v.Snapshot, nil)
	v.Most, v.Torn = v.torn(all)
	v.OldSnapshot, v.OldChain = v.Snapshot, v.Chain
	return v
}

// EvaluateOld makes evaluation 2. old has the snapshots that the entries name which are not recent.
func (v *View) EvaluateOld(old Named) {
	v.Sure = v.newestSnapshot(old)
	// If such a snapshot no longer exists, a client removed it. That client had known a later
	// snapshot for at least D. So evaluation 1 is old enough.
	if _, gone := v.highest(old); !gone && (v.Sure >= 0 || v.founded()) && v.Sure != v.Snapshot {
		v.OldSnapshot, v.OldChain = v.Sure, v.evaluateFrom(v.Sure, nil)
	}
}

// newestSnapshot returns the named snapshot that is latest in the log.
func (v *View) newestSnapshot(n Named) int {
	for i := len(v.Entries) - 1; i >= 0; i-- {
		if v.Entries[i].Write && n.Has(v.Entries[i].ID) {
			return i
		}
	}
	return -1
}

// highest returns the highest number of the snapshots that are named and listed. The second
// result reports whether a named snapshot with a higher number is not listed.
func (v *View) highest(n Named) (most uint64, gone bool) {
	for _, s := range n {
		if s.Number > most && v.listed(s.ID) {
			most = s.Number
		}
	}
	for _, s := range n {
		gone = gone || s.Number > most
	}
	return most, gone
}

func hasID(id string) func(Entry) bool { return func(e Entry) bool { return e.ID == id } }

func (v *View) listed(id string) bool {
	return slices.ContainsFunc(v.Entries, hasID(id)) || slices.Contains(v.Older, id)
}

// torn reports whether the listing is torn: an entry is missing that was not superseded.
// Clients never remove an entry with a higher number than all remaining snapshots. So an
// entry is missing under three conditions: the entry is not listed, it has a higher number
// than all listed snapshots, and a listed entry names it as prev or as a snapshot.
func (v *View) torn(n Named) (most uint64, torn bool) {
	most, torn = v.highest(n)
	for i := range v.Entries {
		if e := &v.Entries[i]; e.Write && e.Prev != "" && e.Number-1 > most && v.Last(e.Prev) < 0 {
			torn = true
		}
	}
	return most, torn || v.Snapshot < 0 && !v.founded()
}

// founded reports whether an entry without prev was read, or the log is empty.
func (v *View) founded() bool {
	return len(v.Entries) == 0 || slices.ContainsFunc(v.Entries, func(e Entry) bool { return e.Write && e.Prev == "" })
}

// evaluateFrom returns the accepted entries, from a snapshot on, without those to skip.
func (v *View) evaluateFrom(snapshot int, skip []bool) (chain []int) {
	var base Entry
	if snapshot >= 0 {
		base = v.Entries[snapshot]
		chain = append(chain, snapshot)
	}
	var st fold.State
	st.Apply(fold.Entry{Kind: fold.Base, Number: base.Number, Nonce: base.Nonce})
	for i := snapshot + 1; i < len(v.Entries); i++ {
		e := &v.Entries[i]
		if e.Write && (skip == nil || !skip[i]) && st.Apply(fold.Entry{Kind: fold.Value, Number: e.Number, Nonce: e.Nonce, Prev: e.Prev}) {
			chain = append(chain, i)
		}
	}
	return chain
}

// Tip returns the last accepted entry, final or not.
func (v *View) Tip() int {
	if len(v.Chain) == 0 {
		return -1
	}
	return v.Chain[len(v.Chain)-1]
}

// Final returns the last accepted entry that is final. If an entry is not recent, all entries
// earlier in the log are visible by now, or never will be. So the accepted entries up to that entry
// are final. A snapshot is final too.
func (v *View) Final() int {
	last := len(v.Entries) - 1
	for last >= 0 && !v.Entries[last].Old {
		last--
	}
	for i := len(v.Chain) - 1; i >= 0; i-- {
		if at := v.Chain[i]; at <= last || at == v.Snapshot {
			return at
		}
	}
	return -1
}

// Settled returns the last accepted entry that is not recent, or is the snapshot. A writer names
// this entry as its snapshot. The entry must be a correct snapshot even if PUTs take effect later
// than L. So a later entry that is not recent is not enough.
func (v *View) Settled() int {
	for i := len(v.Chain) - 1; i >= 0; i-- {
		if at := v.Chain[i]; v.Entries[at].Old || at == v.Snapshot {
			return at
		}
	}
	return -1
}

// Last returns the entry with this nonce that is latest in the log.
func (v *View) Last(nonce string) int {
	for i := len(v.Entries) - 1; i >= 0; i-- {
		if v.Entries[i].Nonce == nonce {
			return i
		}
	}
	return -1
}

// Accepted returns the accepted entry with this nonce.
func (v *View) Accepted(nonce string) int { return v.in(v.Chain, nonce) }

func (v *View) in(chain []int, nonce string) int {
	for _, i := range chain {
		if v.Entries[i].Nonce == nonce {
			return i
		}
	}
	return -1
}

// Outcome is what a log shows about a write.
type Outcome int

const (
	// Applied: both evaluations accept the entry.
	Applied Outcome = iota

	// Rejected: the entry can never be accepted.
	Rejected

	// With all other outcomes, the client cannot know whether the write was applied.

	// Duplicated: the evaluations accept the entry, perhaps only because of a recent duplicate.
	Duplicated

	// Disputed: only one evaluation accepts the entry.
	Disputed

	// NotListed: no listed entry has the nonce, or none of those that were read.
	NotListed

	// BeforeSnapshot: the entry is earlier in the log than the snapshot.
	BeforeSnapshot

	// BelowSnapshot: the entry has a lower number than the snapshot. It may be a rejected duplicate:
	// the other duplicate may have been accepted earlier in the log, and then removed.
	BelowSnapshot
)

// Outcome returns the outcome of the write with this nonce. The writer calls it at least D after
// the answer to its PUT.
func (v *View) Outcome(nonce string) Outcome {
	at, now, old := v.Last(nonce), v.in(v.Chain, nonce) >= 0, v.in(v.OldChain, nonce) >= 0
	switch {
	case now && old && v.acceptedWithoutRecent(nonce):
		return Applied
	case now && old:
		return Duplicated
	case at < 0:
		return NotListed
	case at < v.Snapshot:
		return BeforeSnapshot
	case now || old:
		return Disputed
	case v.Snapshot >= 0 && v.Entries[at].Number < v.Entries[v.Snapshot].Number:
		return BelowSnapshot
	}
	return Rejected
}

// acceptedWithoutRecent reports whether both evaluations accept an entry without recent
// duplicates. A recent duplicate may have become visible so late that other clients have
// continued from another state.
func (v *View) acceptedWithoutRecent(nonce string) bool {
	var young []bool
	for i := range v.Entries {
		for j := range v.Entries {
			if i != j && !v.Entries[i].Old && v.Entries[i].Nonce == v.Entries[j].Nonce {
				if young == nil {
					young = make([]bool, len(v.Entries))
				}
				young[i] = true
			}
		}
	}
	return young == nil || v.acceptedWithout(v.Snapshot, nonce, young) && v.acceptedWithout(v.OldSnapshot, nonce, young)
}

// acceptedWithout evaluates the log from a snapshot, then repeats the evaluation without
// the young entries that were accepted. It reports whether the repetition accepts the
// entry with this nonce. If the repetition accepts another young entry, the answer is no.
func (v *View) acceptedWithout(snapshot int, nonce string, young []bool) bool {
	skip := make([]bool, len(v.Entries))
	for _, i := range v.evaluateFrom(snapshot, nil) {
		skip[i] = young[i]
	}
	counts := false
	for _, i := range v.evaluateFrom(snapshot, skip) {
		if young[i] && i != snapshot {
			return false
		}
		counts = counts || !young[i] && v.Entries[i].Nonce == nonce
	}
	return counts
}

// Removable reports whether a superseded entry with this number may be removed. If PUTs
// take effect later than L, an entry that is earlier in the log than the snapshot can have
// a higher number. Such an entry stays until a snapshot has its number or a higher number.
// The reason: a listed entry may name the entry as prev, and a client that does not find
// the entry must see that it was superseded.
func (v *View) Removable(number uint64) bool {
	return v.Sure >= 0 && number <= v.Entries[v.Sure].Number
}

// Garbage returns the ids of the entries that may be removed: entries earlier in the log
// than the snapshot, and confirmations of such entries. An entry that is not recent must
// name the snapshot. So a client that is reading the pages of a listing either knows the
// snapshot too, or its listing has taken too long.
func (v *View) Garbage() (ids []string) {
	for i := range v.Entries {
		if e := &v.Entries[i]; v.Removable(e.Number) && (i < v.Sure || !e.Write && v.beforeSure(e.Snapshot.ID)) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// beforeSure reports whether a snapshot is earlier in the log than Sure. That is also true if it
// was not read, or was removed.
func (v *View) beforeSure(id string) bool {
	return !slices.ContainsFunc(v.Entries[v.Sure:], hasID(id))
}

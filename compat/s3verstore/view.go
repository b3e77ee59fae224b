package s3verstore

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/fold"
)

// orderedEntry is an entry with its version in the log.
type orderedEntry struct {
	*entry
	version
	first time.Time // when this store first saw the entry
	old   bool      // not recent: first is at least D before the listing began
}

// view is an evaluation of the log. PROOF.md defines the terms log, snapshot, accepted,
// recent, duplicate and D.
//
// The evaluation begins at the newest snapshot that an entry names, and ignores entries
// that are earlier in the log. All versions from the snapshot on were read.
type view struct {
	entries  []orderedEntry
	older    []version // versions earlier in the log, which were not read
	snapshot int       // index in entries at which the evaluation begins; -1: no snapshot
	chain    []int     // indexes of the accepted entries, with the snapshot
	most     uint64    // highest number of the snapshots that are named and listed
	lost     bool      // the listing is torn: an entry that another entry needs is not listed
	missing  bool      // an entry that was seen before is not listed, and no snapshot supersedes it
	known    uint64    // highest number of the snapshots that were named before

	// Evaluation 2, which ignores snapshots that only recent entries name. The outcome of
	// a write depends on both evaluations.
	oldSnapshot int
	oldChain    []int

	// The newest snapshot that is listed and that an old entry names; -1 if there is none,
	// or if evaluation 2 was not needed. Versions earlier in the log may be removed.
	sure int
}

// tip returns the last accepted entry, final or not; nil if there is none.
func (v *view) tip() *orderedEntry {
	if len(v.chain) == 0 {
		return nil
	}
	return &v.entries[v.chain[len(v.chain)-1]]
}

// certain returns the last accepted entry that is final; nil if there is none. If a
// version is not recent, all entries earlier in the log are visible by now, or never will
// be. So the accepted entries up to that version are final. A snapshot is final too.
func (v *view) certain() *orderedEntry {
	final := v.final()
	for i := len(v.chain) - 1; i >= 0; i-- {
		if at := v.chain[i]; at <= final || at == v.snapshot {
			return &v.entries[at]
		}
	}
	return nil
}

// settled returns the last accepted entry that is not recent, or is the snapshot; nil if
// there is none. A writer names this entry as its snapshot. The entry must be a correct
// snapshot even if PUTs take effect later than L. So a later version that is not recent
// is not enough.
func (v *view) settled() *orderedEntry {
	for i := len(v.chain) - 1; i >= 0; i-- {
		if p := &v.entries[v.chain[i]]; p.old || v.chain[i] == v.snapshot {
			return p
		}
	}
	return nil
}

// final returns the index of the last entry that is not recent, accepted or rejected; -1
// if there is none.
func (v *view) final() int {
	for i := len(v.entries) - 1; i >= 0; i-- {
		if v.entries[i].old {
			return i
		}
	}
	return -1
}

// find returns the first index of a nonce; -1 if no entry that was read has the nonce.
func (v *view) find(nonce string) int {
	for i := range v.entries {
		if v.entries[i].nonce == nonce {
			return i
		}
	}
	return -1
}

// in returns the entry of a chain that has this nonce; nil if there is none.
func (v *view) in(chain []int, nonce string) *orderedEntry {
	for _, i := range chain {
		if v.entries[i].nonce == nonce {
			return &v.entries[i]
		}
	}
	return nil
}

// highestToken returns a number that no token of the entries exceeds.
func (v *view) highestToken() (most uint64) {
	for i := range v.entries {
		most = max(most, v.entries[i].highest)
	}
	return most
}

// asSnapshot returns the snapshot that names this entry.
func (p *orderedEntry) asSnapshot() snapshot { return snapshot{p.id, p.number} }

// named are snapshots that entries name, with their numbers, by version id.
type named map[string]uint64

// add adds the snapshot that an entry names.
func (n named) add(e *entry) {
	if e.snapshot.id != "" {
		n[e.snapshot.id] = e.snapshot.number
	}
}

// evaluateAll evaluates the log. old has the snapshots that old entries name. If old is
// nil, evaluateAll makes no second evaluation.
func (v *view) evaluateAll(old named) {
	all := named{}
	for i := range v.entries {
		all.add(v.entries[i].entry)
	}
	v.snapshot = v.newestSnapshot(all)
	v.chain = v.evaluateFrom(v.snapshot, nil)
	v.most, v.lost = v.torn(all)
	v.oldSnapshot, v.oldChain, v.sure = v.snapshot, v.chain, -1
	if old == nil {
		return
	}
	// If such a snapshot no longer exists, a client removed it. That client had known a
	// later snapshot for at least D. So evaluation 1 is old enough.
	snapshot := v.newestSnapshot(old)
	v.sure = snapshot
	if _, gone := v.highest(old); !gone && (snapshot >= 0 || v.founded()) && snapshot != v.snapshot {
		v.oldSnapshot, v.oldChain = snapshot, v.evaluateFrom(snapshot, nil)
	}
}

// newestSnapshot returns the index of the named snapshot that is latest in the log; -1 if
// none of them was read.
func (v *view) newestSnapshot(n named) int {
	for i := len(v.entries) - 1; i >= 0; i-- {
		if _, ok := n[v.entries[i].id]; ok && v.entries[i].write {
			return i
		}
	}
	return -1
}

// highest returns the highest number of the snapshots that are named and listed. The second
// result reports whether a named snapshot with a higher number is not listed.
func (v *view) highest(n named) (most uint64, gone bool) {
	listed := map[string]bool{}
	for _, w := range v.older {
		listed[w.id] = true
	}
	for i := range v.entries {
		listed[v.entries[i].id] = true
	}
	for id, number := range n {
		if listed[id] {
			most = max(most, number)
		}
	}
	for _, number := range n {
		gone = gone || number > most
	}
	return most, gone
}

// torn reports whether the listing is torn: an entry is missing that was not superseded.
// Clients never remove an entry with a higher number than all remaining snapshots. So an
// entry is missing under three conditions: the entry is not listed, it has a higher number
// than all listed snapshots, and a listed entry names it as prev or as a snapshot.
func (v *view) torn(n named) (most uint64, torn bool) {
	most, torn = v.highest(n)
	there := map[string]bool{"": true}
	for i := range v.entries {
		there[v.entries[i].nonce] = true
	}
	for i := range v.entries {
		if e := v.entries[i].entry; e.write && e.number-1 > most && !there[e.prev] {
			torn = true
		}
	}
	return most, torn || v.snapshot < 0 && !v.founded()
}

// founded reports whether an entry without prev was read, or the log is empty.
func (v *view) founded() bool {
	for i := range v.entries {
		if v.entries[i].write && v.entries[i].prev == "" {
			return true
		}
	}
	return len(v.entries) == 0
}

// acceptedWithoutRecent reports whether both evaluations accept an entry without recent
// duplicates. A recent duplicate may have become visible so late that other clients have
// continued from another state.
func (v *view) acceptedWithoutRecent(nonce string) bool {
	copies := map[string]int{}
	for i := range v.entries {
		copies[v.entries[i].nonce]++
	}
	young := map[int]bool{}
	for i := range v.entries {
		if p := &v.entries[i]; !p.old && copies[p.nonce] > 1 {
			young[i] = true
		}
	}
	if len(young) == 0 {
		return true
	}
	return v.acceptedWithout(v.snapshot, nonce, young) && v.acceptedWithout(v.oldSnapshot, nonce, young)
}

// acceptedWithout evaluates the log from a snapshot, then repeats the evaluation without
// the young entries that were accepted. It reports whether the repetition accepts the
// entry with this nonce. If the repetition accepts another young entry, the answer is no.
func (v *view) acceptedWithout(snapshot int, nonce string, young map[int]bool) bool {
	skip := map[int]bool{}
	for _, i := range v.evaluateFrom(snapshot, nil) {
		skip[i] = young[i]
	}
	counts := false
	for _, i := range v.evaluateFrom(snapshot, skip) {
		if young[i] && i != snapshot {
			return false
		}
		counts = counts || !young[i] && v.entries[i].nonce == nonce
	}
	return counts
}

// evaluateFrom returns the accepted entries, from a snapshot on, without those to skip.
func (v *view) evaluateFrom(snapshot int, skip map[int]bool) (chain []int) {
	base := fold.Entry{Kind: fold.Base, Deleted: true}
	if snapshot >= 0 {
		base = v.entries[snapshot].folded()
		base.Kind = fold.Base
		chain = append(chain, snapshot)
	}
	var st fold.State
	st.Apply(base)
	for i := snapshot + 1; i < len(v.entries); i++ {
		if e := v.entries[i].entry; e.write && !skip[i] && st.Apply(e.folded()) {
			chain = append(chain, i)
		}
	}
	return chain
}

// removable reports whether a superseded entry with this number may be removed. If PUTs
// take effect later than L, an entry that is earlier in the log than the snapshot can have
// a higher number. Such an entry stays until a snapshot has its number or a higher number.
// The reason: a listed entry may name the entry as prev, and a client that does not find
// the entry must see that it was superseded.
func (v *view) removable(number uint64) bool {
	return v.sure >= 0 && number <= v.entries[v.sure].number
}

// garbage returns the ids of the entries that may be removed: entries earlier in the log
// than the snapshot, and confirmations of such entries. An entry that is not recent must
// name the snapshot. So a client that is reading the pages of a listing either knows the
// snapshot too, or its listing has taken too long.
func (v *view) garbage() (ids []string) {
	at := map[string]int{}
	for i := range v.entries {
		at[v.entries[i].id] = i + 1 // 0: earlier in the log than the entries that were read, or removed
	}
	for i := range v.entries {
		p := &v.entries[i]
		if (i < v.sure || !p.write && at[p.entry.snapshot.id] <= v.sure) && v.removable(p.number) {
			ids = append(ids, p.id)
		}
	}
	return ids
}

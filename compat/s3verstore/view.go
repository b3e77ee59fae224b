package s3verstore

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/fold"
)

// orderedEntry is an entry at its place in the order of the versions.
type orderedEntry struct {
	*entry
	version
	first time.Time // when this store first saw it
	old   bool      // that was a pause before the listing began
}

// view is what a listing says: the fold of the entries that were read, oldest first.
//
// The fold begins at the newest start that an entry names and passes over what is
// older; all versions from there on were read.
type view struct {
	entries []orderedEntry
	older   []version // the versions before them, which were not read
	start   int       // where in entries the fold begins; -1: before the first
	chain   []int     // what counts of entries, the start among it
	most    uint64    // the highest number of a start that is named and listed
	lost    bool      // what others build on is not listed
	missing bool      // so is what was seen before, and nothing supersedes it
	known   uint64    // the highest number of a start that was named before

	// The same with only those starts that an entry names which this store has known
	// for a pause. Judgements ask for both.
	oldStart int
	oldChain []int

	// The newest start that is listed and that an old entry names; -1 if there is none,
	// or none was asked for. What is older may be removed.
	sure int
}

// tip returns the newest entry that counts, settled or not; nil if there is none.
func (v *view) tip() *orderedEntry {
	if len(v.chain) == 0 {
		return nil
	}
	return &v.entries[v.chain[len(v.chain)-1]]
}

// certain returns the newest entry that counts and can't go any more; nil says that
// there is none. What was given its place before a version that was seen a pause ago
// is visible by now, so that the chain up to that version is final, and so is a start.
func (v *view) certain() *orderedEntry {
	final := v.final()
	for i := len(v.chain) - 1; i >= 0; i-- {
		if at := v.chain[i]; at <= final || at == v.start {
			return &v.entries[at]
		}
	}
	return nil
}

// settled returns the newest entry that counts and that was itself seen a pause ago, or
// is a start; nil if there is none. It is what a writer names as a start: that has to
// be good even where PUTs take effect later than they may.
func (v *view) settled() *orderedEntry {
	for i := len(v.chain) - 1; i >= 0; i-- {
		if p := &v.entries[v.chain[i]]; p.old || v.chain[i] == v.start {
			return p
		}
	}
	return nil
}

// final returns the place of the newest version that was seen a pause before the
// listing began, whether it counts or not; -1 if there is none.
func (v *view) final() int {
	for i := len(v.entries) - 1; i >= 0; i-- {
		if v.entries[i].old {
			return i
		}
	}
	return -1
}

// find returns the first place of a nonce; -1 if it was not read.
func (v *view) find(nonce string) int {
	for i := range v.entries {
		if v.entries[i].nonce == nonce {
			return i
		}
	}
	return -1
}

// in returns the entry of a chain with this nonce; nil if it is not in there.
func (v *view) in(chain []int, nonce string) *orderedEntry {
	for _, i := range chain {
		if v.entries[i].nonce == nonce {
			return &v.entries[i]
		}
	}
	return nil
}

// highestToken returns a number that no mark of the entries exceeds.
func (v *view) highestToken() (most uint64) {
	for i := range v.entries {
		most = max(most, v.entries[i].highest)
	}
	return most
}

// asStart names an entry as a start.
func (p *orderedEntry) asStart() start { return start{p.id, p.number} }

// named are starts that entries name, with their numbers, by version id.
type named map[string]uint64

// add adds the start that an entry names.
func (n named) add(e *entry) {
	if e.start.id != "" {
		n[e.start.id] = e.start.number
	}
}

// foldAll folds the entries. old are the starts that old entries name; nil leaves out
// the second fold.
func (v *view) foldAll(old named) {
	all := named{}
	for i := range v.entries {
		all.add(v.entries[i].entry)
	}
	v.start = v.newestStart(all)
	v.chain = v.foldFrom(v.start, nil)
	v.most, v.lost = v.torn(all)
	v.oldStart, v.oldChain, v.sure = v.start, v.chain, -1
	if old == nil {
		return
	}
	// A start that no longer exists was removed by a client that had known a later one for a
	// pause; so the later one is old enough.
	start := v.newestStart(old)
	v.sure = start
	if _, gone := v.highest(old); !gone && (start >= 0 || v.founded()) && start != v.start {
		v.oldStart, v.oldChain = start, v.foldFrom(start, nil)
	}
}

// newestStart returns the place of the newest start of those that are named; -1 if
// none of them is there.
func (v *view) newestStart(n named) int {
	for i := len(v.entries) - 1; i >= 0; i-- {
		if _, ok := n[v.entries[i].id]; ok && v.entries[i].write {
			return i
		}
	}
	return -1
}

// highest returns the highest number of the starts that are named and listed, and
// whether one that is not listed has a higher one.
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

// torn reports whether something is missing that was not superseded. What is removed
// has no higher number than a start that stays. So an entry that is not listed is
// missing if it has a higher number than all starts that are, and another one follows
// it or names it.
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
	return most, torn || v.start < 0 && !v.founded()
}

// founded reports whether the first entry of a chain is there, or none at all.
func (v *view) founded() bool {
	for i := range v.entries {
		if v.entries[i].write && v.entries[i].prev == "" {
			return true
		}
	}
	return len(v.entries) == 0
}

// inBoth reports whether an entry of both folds would be in them without the copies of
// entries that were applied twice and that were not known for a pause: one may have
// shown up so late that others have continued from another state by then.
func (v *view) stands(nonce string) bool {
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
	return v.countsWithout(v.start, nonce, young) && v.countsWithout(v.oldStart, nonce, young)
}

// countsWithout reports whether an entry is in the fold from start on without the young
// ones that are in it. Those that come into it only then stay in the way.
func (v *view) countsWithout(start int, nonce string, young map[int]bool) bool {
	skip := map[int]bool{}
	for _, i := range v.foldFrom(start, nil) {
		skip[i] = young[i]
	}
	counts := false
	for _, i := range v.foldFrom(start, skip) {
		if young[i] && i != start {
			return false
		}
		counts = counts || !young[i] && v.entries[i].nonce == nonce
	}
	return counts
}

// foldFrom returns what counts from start on, if those to skip are not there.
func (v *view) foldFrom(start int, skip map[int]bool) (chain []int) {
	base := fold.Entry{Kind: fold.Base, Deleted: true}
	if start >= 0 {
		base = v.entries[start].folded()
		base.Kind = fold.Base
		chain = append(chain, start)
	}
	var st fold.State
	st.Apply(base)
	for i := start + 1; i < len(v.entries); i++ {
		if e := v.entries[i].entry; e.write && !skip[i] && st.Apply(e.folded()) {
			chain = append(chain, i)
		}
	}
	return chain
}

// removable reports whether an entry with this number may go, if it is superseded.
// Entries that were not settled in one order have numbers that are not in the order of
// their places; that takes PUTs which broke the assumption. Of those, what has a higher
// number than the start stays until there is a start with a higher one: an entry may
// still name it, and a client that then misses it must find that it was superseded.
func (v *view) removable(number uint64) bool {
	return v.sure >= 0 && number <= v.entries[v.sure].number
}

// garbage returns the ids of the entries that may be removed: what is older than the
// start, and confirmations of older starts. The start must be one that this store has
// known for a pause to be named: a client that reads the pages of a listing meanwhile
// either knows it too or has taken too long.
func (v *view) garbage() (ids []string) {
	at := map[string]int{}
	for i := range v.entries {
		at[v.entries[i].id] = i + 1 // 0: it is older than what was read, or removed
	}
	for i := range v.entries {
		p := &v.entries[i]
		if (i < v.sure || !p.write && at[p.entry.start.id] <= v.sure) && v.removable(p.number) {
			ids = append(ids, p.id)
		}
	}
	return ids
}

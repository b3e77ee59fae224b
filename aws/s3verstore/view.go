package s3verstore

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/fold"
)

// placed is an entry at its place in the order of the versions.
type placed struct {
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
	entries []placed
	older   []string // ids of the versions before them, which were not read
	start   int      // where in entries the fold begins; -1: before the first
	chain   []int    // what counts of entries, the start among it
	lost    bool     // what others build on is not listed

	// The same with only those starts that an entry names which this store has known
	// for a pause. Judgements ask for both.
	oldStart int
	oldChain []int
}

// tip returns the newest entry that counts, settled or not; nil if there is none.
func (v *view) tip() *placed {
	if len(v.chain) == 0 {
		return nil
	}
	return &v.entries[v.chain[len(v.chain)-1]]
}

// certain returns the newest entry that counts and can't go any more; nil says that
// there is none. What was given its place before a version that was seen a pause ago
// is visible by now, so that the chain up to that version is final, and so is a start.
func (v *view) certain() *placed {
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
func (v *view) settled() *placed {
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

// in reports whether the entry with this nonce is in a chain.
func (v *view) in(chain []int, nonce string) bool {
	for _, i := range chain {
		if v.entries[i].nonce == nonce {
			return true
		}
	}
	return false
}

// floor returns a number that no token in the entries exceeds.
func (v *view) floor() (most uint64) {
	for i := range v.entries {
		most = max(most, v.entries[i].token)
	}
	return most
}

// foldAll folds the entries. oldNamed are the starts that old entries name; nil
// leaves out the second fold.
func (v *view) foldAll(oldNamed map[string]uint64) {
	named := map[string]uint64{}
	for i := range v.entries {
		name(named, v.entries[i].entry)
	}
	v.start, v.lost = v.newestStart(named)
	v.chain = v.foldFrom(v.start)
	v.oldStart, v.oldChain = v.start, v.chain
	if oldNamed == nil {
		return
	}
	// A start that is gone was removed by somebody who had known a later one for a
	// pause; so the later one is old enough.
	if start, lost := v.newestStart(oldNamed); !lost && start != v.start {
		v.oldStart, v.oldChain = start, v.foldFrom(start)
	}
}

// name adds the start that an entry names.
func name(named map[string]uint64, e *entry) {
	if e.start.nonce != "" {
		named[e.start.nonce] = e.start.number
	}
}

// newestStart returns the place of the newest start of those that are named. It is
// lost if one with a higher number is not there, or if none is named and the first
// entry of the chain is gone.
func (v *view) newestStart(named map[string]uint64) (start int, lost bool) {
	start = -1
	var number uint64
	for i := len(v.entries) - 1; i >= 0; i-- {
		if _, ok := named[v.entries[i].nonce]; ok && v.entries[i].write {
			start, number = v.find(v.entries[i].nonce), v.entries[i].number
			break
		}
	}
	for _, n := range named {
		lost = lost || n > number
	}
	if start < 0 && len(v.entries) > 0 {
		first := false
		for i := range v.entries {
			first = first || v.entries[i].write && v.entries[i].prev == ""
		}
		lost = lost || !first
	}
	return start, lost
}

// foldFrom returns what counts from start on.
func (v *view) foldFrom(start int) (chain []int) {
	base := fold.Entry{Kind: fold.Base, Deleted: true}
	if start >= 0 {
		base = v.entries[start].folded()
		base.Kind = fold.Base
		chain = append(chain, start)
	}
	var st fold.State
	st.Apply(base)
	for i := start + 1; i < len(v.entries); i++ {
		if e := v.entries[i].entry; e.write && st.Apply(e.folded()) {
			chain = append(chain, i)
		}
	}
	return chain
}

// garbage returns the ids of the versions that may be removed: what is older than
// the start, and confirmations of older starts. The start must be one that this
// store has known for a pause to be named: whoever reads the pages of a listing
// meanwhile either knows it too or has taken too long.
func (v *view) garbage() []string {
	if v.oldStart < 0 {
		return nil
	}
	ids := append([]string(nil), v.older...)
	for i := range v.entries {
		p := &v.entries[i]
		if i < v.oldStart || !p.write && p.start.number < v.entries[v.oldStart].number {
			ids = append(ids, p.id)
		}
	}
	return ids
}

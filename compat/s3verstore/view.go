package s3verstore

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/drivers/versionlog"
)

// orderedEntry is an entry with its version in the log.
type orderedEntry struct {
	*entry
	version
	first time.Time // when this store first saw the entry
}

// view is an evaluation of the log; see [versionlog.View]. PROOF.md defines the terms.
type view struct {
	versionlog.View
	entries []orderedEntry // with the indexes of View.Entries
	older   []version      // versions earlier in the log, which were not read
	missing bool           // an entry that was seen before is not listed, and no snapshot supersedes it
	known   uint64         // highest number of the snapshots that were named before
}

// at returns the entry with an index of the View; nil for -1.
func (v *view) at(i int) *orderedEntry {
	if i < 0 {
		return nil
	}
	return &v.entries[i]
}

func (v *view) tip() *orderedEntry     { return v.at(v.Tip()) }
func (v *view) certain() *orderedEntry { return v.at(v.Final()) }
func (v *view) settled() *orderedEntry { return v.at(v.Settled()) }

// highestToken returns a number that no token of the entries exceeds.
func (v *view) highestToken() (most uint64) {
	for i := range v.entries {
		most = max(most, v.entries[i].highest)
	}
	return most
}

// asSnapshot returns the snapshot that names this entry.
func (p *orderedEntry) asSnapshot() versionlog.Snapshot {
	return versionlog.Snapshot{ID: p.id, Number: p.number}
}

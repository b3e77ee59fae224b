package lease

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/lockrec"
)

// HistoryEntry is one thing that happened to a lock. The fields are:
//
//   - Seq: the number of the entry. The next entry has the number Seq+1, unless a new history begins.
//   - Time: when the client that wrote the entry sent it, by the clock of this client; for people only.
//   - Kind: what happened.
//   - Token: the token of the grant that the entry is about. For a reader, the token of the last holder
//     that held the lock alone. For a copy or a resize, the token of the record.
//   - Holder: the holder of that grant. "session" and the id of a session names a member of a session, or
//     a waiter that became the holder when another holder released the lock.
//   - By: the client that ended the grant of another client, requested the yield, copied or resized.
//   - Reason: why; for a takeover, why the old grant was over.
//   - Slot: the slot of a semaphore; for a resize, the new number of slots.
//   - Missing: how many entries are missing just before this entry.
//
// Holder and By have at most 64 bytes, and Reason at most 96. Longer texts are cut.
type HistoryEntry = lockrec.HistoryEntry

// HistoryKind says what happened to a lock.
type HistoryKind = lockrec.HistoryKind

// The kinds of entries.
const (
	// HistoryBegun: the history begins. There was no record, or its lock had no history.
	HistoryBegun = lockrec.HistoryBegun

	// HistoryUnrecorded: entries are missing before the next entry, and their number is not known: a
	// program that knows no history has changed the lock. If Missing is set, this is their number.
	HistoryUnrecorded = lockrec.HistoryUnrecorded

	// HistoryGranted and HistoryReleased: a client took the lock, and released it.
	HistoryGranted  = lockrec.HistoryGranted
	HistoryReleased = lockrec.HistoryReleased

	// HistoryTakenOver: the grant ended because another client took the lock. HistoryLost: another
	// client removed the grant, whose holder did not renew it.
	HistoryTakenOver = lockrec.HistoryTakenOver
	HistoryLost      = lockrec.HistoryLost

	// HistoryBroken: [Client.Break] ended the grant. A later entry says when the holder released the
	// lock, or which client took it over.
	HistoryBroken = lockrec.HistoryBroken

	// HistoryYieldRequested and HistoryYieldRefused: see [Client.RequestYield].
	HistoryYieldRequested = lockrec.HistoryYieldRequested
	HistoryYieldRefused   = lockrec.HistoryYieldRefused

	// HistoryEntered and HistoryLeft: a reader, or the holder of a slot, took the lock, and released
	// it.
	HistoryEntered = lockrec.HistoryEntered
	HistoryLeft    = lockrec.HistoryLeft

	// HistoryResized: see [Client.Resize]. HistoryCopied: see [Client.CopyLock].
	HistoryResized = lockrec.HistoryResized
	HistoryCopied  = lockrec.HistoryCopied
)

// History returns what happened to a lock, the oldest entry first. Clients keep a history if
// Options.History is set for them, or if the lock has a history already. History reads at most twice.
//
// The write that changes the lock also adds the entries to the record. So an entry exists exactly if its
// change was applied, and the order of the entries is the order of the changes. The record has room for a
// few entries. Clients with Options.History move them to a register of the history, in the background. This register keeps the newest 60 KiB, more than 500 grants. If the moves fail, or if only
// clients without Options.History use the lock, the oldest entries of the record are dropped.
// HistoryEntry.Missing counts them. If the record has no room left, its entries are dropped first.
//
// Damaged parts of a history do not affect the lock. Then History returns the entries that it can read, and
// an error that matches [store.ErrCorrupt]. If there is neither a lock nor a history, the error matches
// [store.ErrNotFound]. A lock without a history has no entries.
func (c *Client) History(ctx context.Context, name string) ([]HistoryEntry, error) {
	of, err := c.space.Lock(name)
	if err != nil {
		return nil, err
	}
	return of.History(ctx)
}

package checkpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The history of a checkpoint is a field of its record. The write that changes the checkpoint also writes
// the entry, so an entry exists exactly if its change was applied.

// HistoryKind says what happened to a checkpoint.
type HistoryKind string

// The kinds of entries.
const (
	// HistoryBegun: the history begins, with the state at this time. HistoryUnrecorded: a program without
	// histories changed the checkpoint; the entry has the last state that it wrote.
	HistoryBegun      HistoryKind = "begun"
	HistoryUnrecorded HistoryKind = "unrecorded"

	// HistoryCreated and HistoryAdvanced: a first position was saved, or a later one.
	HistoryCreated  HistoryKind = "created"
	HistoryAdvanced HistoryKind = "advanced"

	// HistoryNewToken: the fencing token has risen, so a new worker has begun. The same write may have
	// saved a position.
	HistoryNewToken HistoryKind = "new token"

	// HistoryReset, HistoryDeleted and HistoryCopied: see the methods of [RegisterStore].
	HistoryReset   HistoryKind = "reset"
	HistoryDeleted HistoryKind = "deleted"
	HistoryCopied  HistoryKind = "copied"
)

// HistoryEntry is one thing that happened to a checkpoint, with the state after it.
type HistoryEntry struct {
	Kind     HistoryKind // a later version can add kinds
	Time     time.Time   // by the clock of the writer, for people only
	Write    uint64      // number of the write, from 1; it orders the entries
	Token    uint64      // the highest fencing token; 0 means none
	Exists   bool        // false if no position is saved
	Sequence uint64
}

// historyKinds are the kinds by their index in a record. The last one also stands for kinds of a later version.
var historyKinds = []HistoryKind{HistoryAdvanced, HistoryNewToken, HistoryCreated, HistoryReset, HistoryDeleted, HistoryCopied, HistoryBegun, HistoryUnrecorded}

const (
	historyField = "history"
	maxHistory   = 640     // size of the field in bytes; a field that is much larger is damaged
	maxMilli     = 1 << 43 // Unix time in milliseconds; the year 2248
)

// History returns the history of a checkpoint, also of a deleted one, with one read. The oldest entry is
// the first. The result is empty if no keeper with Options.History has changed the checkpoint.
//
// The history has about 640 bytes. When it is full, the entries of the far past become fewer: the time between
// two entries grows with their age. The first and the last entry always stay. Entries other than
// [HistoryAdvanced] stay longer.
func (k *RegisterStore) History(ctx context.Context, key string) ([]HistoryEntry, error) {
	var s state
	l, err := k.queue(key)
	if err == nil {
		s, err = l.read(ctx)
	}
	if err == nil && s.rec.n == 0 {
		err = store.ErrNotFound
	}
	h, damaged := decodeHistory(s.rec.unknown[historyField])
	if len(h) > 0 {
		h = upTo(h, &s.rec)
	}
	return h, wrap("history", key, cmp.Or(err, damaged))
}

// entry returns the state in the record as an entry.
func (r *record) entry(kind HistoryKind) HistoryEntry {
	return HistoryEntry{Kind: kind, Time: time.UnixMilli(min(max(r.written.UnixMilli(), 0), maxMilli)).UTC(), Write: r.n, Token: r.token, Exists: r.exists, Sequence: r.pos.Sequence}
}

// upTo returns the history with an entry for the state in r, if it has none.
func upTo(h []HistoryEntry, r *record) []HistoryEntry {
	if len(h) == 0 && r.n > 0 {
		return append(h, r.entry(HistoryBegun))
	}
	if len(h) > 0 && h[len(h)-1].Write != r.n {
		return append(h, r.entry(HistoryUnrecorded))
	}
	return h
}

// chronicle sets the history of r, which will be written over the record base. It begins a history only if
// keep is true.
func (r *record) chronicle(base *record, verb Verb, keep bool) {
	raw, kept := base.unknown[historyField]
	h, err := decodeHistory(raw)
	if !keep && (!kept || err != nil) {
		return // another program may be able to read it
	}
	h = upTo(h, base)
	if kind := r.changeOf(base, verb); kind != "" {
		h = append(h, r.entry(kind))
	} else if len(h) > 0 {
		h[len(h)-1].Write = r.n // the same state again
	}
	r.unknown = maps.Collect(maps.All(r.unknown)) // base keeps its own
	r.unknown[historyField] = thinned(h)
}

// changeOf returns what a write of r over base does; empty if the state stays the same.
func (r *record) changeOf(base *record, verb Verb) HistoryKind {
	switch {
	case r.exists == base.exists && r.pos.Sequence == base.pos.Sequence && r.token == base.token && r.epoch == base.epoch:
		return ""
	case verb == VerbCopy:
		return HistoryCopied
	case r.epoch != base.epoch && r.exists:
		return HistoryReset
	case r.epoch != base.epoch:
		return HistoryDeleted
	case r.exists && !base.exists:
		return HistoryCreated
	case r.token != base.token:
		return HistoryNewToken
	}
	return HistoryAdvanced
}

// thinned returns the field for a history, without the entries for which it has no room. It drops the entry
// whose neighbours are closest to each other, in proportion to its age.
func thinned(h []HistoryEntry) json.RawMessage {
	raw := encodeHistory(h)
	for len(raw) > maxHistory && len(h) > 2 {
		drop, least := 1, math.Inf(1)
		for i := 1; i < len(h)-1; i++ {
			gap, age := h[i+1].Time.Sub(h[i-1].Time), h[len(h)-1].Time.Sub(h[i].Time)
			worth := max(gap, 1).Seconds() / (max(age, 0) + time.Minute).Seconds()
			if h[i].Kind != HistoryAdvanced {
				worth *= 4
			}
			if worth < least {
				drop, least = i, worth
			}
		}
		h = slices.Delete(h, drop, drop+1)
		raw = encodeHistory(h)
	}
	return raw
}

// encodeHistory returns the field: an array for each entry, with the index of the kind and the differences
// from the entry before: of the time (in milliseconds), of the write, of the token, and of the sequence if a
// position is saved. The sums wrap around.
func encodeHistory(h []HistoryEntry) json.RawMessage {
	rows, last := make([][]int64, len(h)), HistoryEntry{Time: time.UnixMilli(0)}
	for i, e := range h {
		rows[i] = []int64{int64(slices.Index(historyKinds, e.Kind)), e.Time.Sub(last.Time).Milliseconds(), int64(e.Write - last.Write), int64(e.Token - last.Token), int64(e.Sequence - last.Sequence)}
		if !e.Exists {
			rows[i] = rows[i][:4]
		}
		last = e
	}
	raw, _ := marshal(rows) // no value can fail
	return raw
}

// decodeHistory reads what encodeHistory writes. Its errors match [store.ErrCorrupt].
func decodeHistory(raw json.RawMessage) (h []HistoryEntry, err error) {
	var rows [][]int64
	if raw != nil {
		err = json.Unmarshal(raw, &rows)
	}
	e := HistoryEntry{Time: time.UnixMilli(0)}
	for _, row := range rows {
		if len(row) < 4 || len(row) > 5 || uint64(e.Time.UnixMilli()+row[1]) > maxMilli || len(raw) > 8*maxHistory {
			err = fmt.Errorf("it is damaged: %.60q", raw)
			break
		}
		exists := len(row) == 5
		row = append(row, -int64(e.Sequence)) // without a position, the sequence is 0
		e = HistoryEntry{
			Kind: historyKinds[min(uint64(row[0]), uint64(len(historyKinds)-1))], Time: time.UnixMilli(e.Time.UnixMilli() + row[1]).UTC(),
			Write: e.Write + uint64(row[2]), Token: e.Token + uint64(row[3]), Exists: exists, Sequence: e.Sequence + uint64(row[4]),
		}
		h = append(h, e)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the history of the checkpoint cannot be read: %w", store.ErrCorrupt, err)
	}
	return h, nil
}

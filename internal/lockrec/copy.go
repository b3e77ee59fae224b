package lockrec

import (
	"bytes"
	"cmp"
	"math"
	"time"
)

// CopyLead is the difference between the token of a copied lock and the token in the other store, at
// least. During a move, clients take a lock in both stores, one after the other. Each client that dies
// between the two may raise only the token in the old store. So the copy needs a lead.
const CopyLead = 1000

// Copied returns the record to which a copy of a lock sets the record in the other store. The parameter
// from is the record of the lock; it is free. The parameter to is the record of the same lock in the
// other store: free, or nil if there is none. If to is already as a copy would make it, changed is
// false. The caller adds a nonce.
//
//   - The token never decreases. It is at least [CopyLead] above the token of from.
//   - The record that its holder wrote last decides about all fields that no rule below names.
//   - The later run of a job stays, and the later NotBefore. So a copy never allows a run, or a grant,
//     that one of the two records forbids.
//
// No grant, queue or session is copied: their ids mean nothing in the other store. The other store has
// its own history of the lock.
func Copied(from, to *Record, now time.Time) (next Record, changed bool, err error) {
	base, other := from, to
	if to != nil && !from.Renewed.After(to.Renewed) {
		base, other = to, from
	}
	next = *base
	if base == from {
		next.Grant, next.Process, next.Queue = "", "", nil
		Vacate(&next)
	}
	if other != nil {
		if other.NotBefore.After(next.NotBefore) { // Granted bounds the wait for it; see Interval
			next.NotBefore, next.Granted = other.NotBefore, other.Granted
		}
		if run := lastRun(other); run != nil && (next.Run == nil || run.Began.After(next.Run.Began)) {
			next.Run = run
		}
		next.Slots = cmp.Or(next.Slots, other.Slots)
	}
	next.Token = FirstToken(now)
	if to != nil {
		next.Token = to.Token
	}
	if from.Token > math.MaxUint64-CopyLead {
		return next, false, Raise(&next, math.MaxUint64)
	}
	next.Token = max(next.Token, from.Token+CopyLead)
	if to == nil {
		return next, true, nil
	}
	same := *to
	next.Nonce, next.history = to.Nonce, to.history
	before, err := Encode(&same)
	if err != nil {
		return next, false, err
	}
	after, err := Encode(&next)
	return next, !bytes.Equal(before, after), err
}

package lockrec

import (
	"fmt"
	"math"
	"time"
)

// Other clients write into the record of a grant, too: they request to yield, or enter the queue.
// Such a write names the version that was read, and keeps all fields from which others evaluate
// whether the holder lives. So one rule serves all such writes. Waiters time the last write of the
// holder, which [Record.HolderNonce] names, and never that of another client. When the holder's
// next write conflicts with such a write, the holder writes over it.

// ByOther returns the held record r as a client other than the holder writes it. The argument age
// is for how long r has not changed, by the store's clock. A negative age means that this is not
// known.
func ByOther(r *Record, age time.Duration) Record {
	next := *r
	if r.HolderNonce == "" {
		next.OtherWrites = 0
	}
	next.HolderNonce, next.HolderWriteAge = HolderNonce(r), holderWriteAge(r, age)
	next.OtherWrites = min(next.OtherWrites+1, math.MaxInt32)
	return next
}

// A request may take at most the TTL divided by LatencyPerTTL.
const LatencyPerTTL = 10

// maxOtherWrites bounds how often others write between two writes of a holder.
const maxOtherWrites = 1000

// IsRenewed reports whether the holder renews this record, and not the record of a session.
func IsRenewed(r *Record) bool { return r != nil && r.State == Held && r.Session == "" }

// IsContended reports whether other clients have written too often after the holder's last write.
// The argument took is the time of one request. A renewal can conflict with each of these writes,
// one after the other, and then come too late. If the record is contended, the other clients wait
// for the holder's next write. So a holder can always renew. A record that its holder does not
// renew is never contended.
func IsContended(r *Record, took time.Duration) bool {
	if !IsRenewed(r) || r.HolderNonce == "" {
		return false
	}
	most := r.TTL / LatencyPerTTL / max(2*took, time.Millisecond)
	return r.OtherWrites >= int(min(max(most, 1), maxOtherWrites))
}

// OnlyOthersWrote reports whether only other clients have written after the holder wrote the
// record before. Then r has the same grant as before, and no later write of the holder.
func OnlyOthersWrote(r *Record, before *Record) bool {
	return r != nil && before != nil && r.State == Held && before.State == Held &&
		r.Grant == before.Grant && r.HolderNonce != "" && r.HolderNonce == HolderNonce(before)
}

// Renewed returns r as the holder of its grant writes it at the time now.
func Renewed(r *Record, now time.Time) Record {
	next := *r
	next.HolderNonce, next.HolderWriteAge, next.LocksToCheck, next.Renewed = "", 0, nil, now
	if next.YieldRequest != nil && !next.YieldRequest.Acknowledged {
		heard := *next.YieldRequest
		heard.Acknowledged = true
		next.YieldRequest = &heard
	}
	return next
}

// holderWriteAge returns how long ago, certainly, the last write of the grant's holder was, by the
// store's clock, if r has been unchanged for age.
func holderWriteAge(r *Record, age time.Duration) time.Duration {
	stood := max(age, 0)
	if r.State == Broken || r.HolderNonce != "" {
		stood += r.HolderWriteAge
	}
	return min(stood, maxWriteAge)
}

// Succeed makes the new grant rec the successor of the record base: rec gets the next token, and
// the fields that a lock keeps from grant to grant.
func Succeed(rec, base *Record) (err error) {
	rec.Token, err = NextToken(base)
	rec.Data, rec.unknown, rec.Queue, rec.Run = base.Data, base.unknown, base.Queue, lastRun(base)
	return err
}

// Revoke returns the record r of a session as a waiter writes it to end the session.
func Revoke(r *Record) Record {
	next := *r
	next.State, next.Presence, next.LocksToCheck = Revoked, "", nil
	return next
}

// NewStandIn returns an open record in the place of the absent record of a session. No process
// renews the new record, and the session can no longer renew its own. So every waiter first
// watches the new record for the TTL, and then revokes the session. With a Revoked record
// instead, a second waiter could take the locks at once.
func NewStandIn(id, grant string, ttl time.Duration, now time.Time) Record {
	return Record{Kind: KindSession, Name: id, State: Held, Token: 1, Grant: grant, TTL: ttl, Granted: now, Renewed: now}
}

// Break returns the record that ends the grant of r. The grant must have the token. With now,
// other clients may take the lock at once. The record keeps all fields that tell other clients
// whether the holder may still trust its lease. See [ByOther] for age.
func Break(r *Record, token uint64, now bool, age time.Duration) (*Record, error) {
	switch {
	case r.Token != token:
		return nil, fmt.Errorf("lock %q: %w: the record has token %d, and the caller gave %d", r.Name, ErrTokenMismatch, r.Token, token)
	case r.State == Free && r.NotBefore.IsZero() && (r.Run == nil || r.Run.RerunAllowed):
		return nil, fmt.Errorf("lock %q: %w: the lock is free (token %d)", r.Name, ErrNotHeld, r.Token)
	case r.State == Broken && (r.Immediate || !now):
		return nil, fmt.Errorf("lock %q: %w: the lock is already broken (token %d)", r.Name, ErrNotHeld, r.Token)
	}
	raised, err := NextToken(r)
	if err != nil {
		return nil, err
	}
	next := *r
	next.State, next.Token, next.NotBefore = Broken, raised, time.Time{}
	if r.State == Shared || len(r.Holders) > 0 {
		for _, m := range r.Holders {
			next.TTL = max(next.TTL, m.TTL)
		}
		if now {
			Vacate(&next)
		}
		return &next, nil
	}
	next.Immediate, next.Run = now, AllowRerun(r)
	if r.State == Free { // no holder exists: NotBefore delayed the next grant
		next.State, next.Immediate = Free, false
	}
	if r.State == Held {
		next.BrokenNonce = HolderNonce(r)
	}
	next.HolderNonce, next.YieldRequest, next.Linger = "", nil, 0
	next.HolderWriteAge = holderWriteAge(r, age)
	return &next, nil
}

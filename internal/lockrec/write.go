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

// ByOther returns the record that a client other than the holder writes over the held record r. The
// parameter age is the time since the last change of r, by the store's clock. A negative age means that
// this time is not known.
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

// IsRenewed reports whether the holder renews this record. With a session, the holder renews the record
// of the session instead.
func IsRenewed(r *Record) bool { return r != nil && r.State == Held && r.Session == "" }

// IsContended reports whether other clients have written too often after the holder's last write. The
// parameter took is the duration of one request. A renewal can conflict with each of these writes, one
// after the other, and then come too late. If the record is contended, the other clients wait for the
// holder's next write. So a holder can always renew. A record that its holder does not renew is never
// contended.
func IsContended(r *Record, took time.Duration) bool {
	if !IsRenewed(r) || r.HolderNonce == "" {
		return false
	}
	most := r.TTL / LatencyPerTTL / max(2*took, time.Millisecond)
	return r.OtherWrites >= int(min(max(most, 1), maxOtherWrites))
}

// OnlyOthersWrote compares r with an earlier record, which the holder wrote. It reports whether only
// other clients have written since then. Then r has the same grant as the earlier record, and no later
// write of the holder.
func OnlyOthersWrote(r *Record, before *Record) bool {
	return r != nil && before != nil && r.State == Held && before.State == Held &&
		r.Grant == before.Grant && r.HolderNonce != "" && r.HolderNonce == HolderNonce(before)
}

// Renewed returns the record with which the holder renews the grant in r at the time now.
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

// Succeed prepares rec, the record of a new grant, to follow the record base. It sets the next token in
// rec, and copies the fields that a lock keeps from grant to grant.
func Succeed(rec, base *Record) (err error) {
	rec.Token, err = NextToken(base)
	rec.Data, rec.unknown, rec.Queue, rec.Run = base.Data, base.unknown, base.Queue, lastRun(base)
	return err
}

// Revoke returns the record with which a waiter ends a session, whose record is r.
func Revoke(r *Record) Record {
	next := *r
	next.State, next.Presence, next.LocksToCheck = Revoked, "", nil
	return next
}

// NewStandIn returns an open record for a session whose record is absent. No process renews the new
// record, and the session can no longer renew its own record. So every waiter first watches the new
// record for the TTL, and then revokes the session. A Revoked record would be wrong here: a second waiter
// could take the locks at once, while the session may still be valid.
func NewStandIn(id, grant string, ttl time.Duration, now time.Time) Record {
	return Record{Kind: KindSession, Name: id, State: Held, Token: 1, Grant: grant, TTL: ttl, Granted: now, Renewed: now}
}

// Break returns the record that ends the grant of r. If r has another token than the parameter token,
// Break returns an error. If now is true, other clients may take the lock at once. The record keeps all
// fields that tell other clients whether the holder may still trust its lease. [ByOther] describes the
// parameter age.
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

// Unused reports whether a sweep may remove the record r of a lock at the time now. The holder has freed
// the lock at least age ago. The record of a broken lock stays, because its holder may still trust the
// lease. The next interval may have to pass, or the job may have run in the present period: then the
// record stays, too, because it is the only place that says so.
//
// A client that finds no record begins with [FirstToken]. So the record also stays if its token is not
// below FirstToken now: otherwise a later grant could get a lower token. Then the error matches
// [ErrTokenInFuture].
func Unused(r *Record, now time.Time, age time.Duration) (bool, error) {
	switch {
	case r == nil, r.State != Free, now.Sub(r.Renewed) < age, r.NotBefore.After(now), r.Run != nil && r.Run.PeriodEnd.After(now):
		return false, nil
	case r.Token >= FirstToken(now):
		return false, fmt.Errorf("lock %q: %w: Sweep keeps the record with token %d", r.Name, ErrTokenInFuture, r.Token)
	}
	return true, nil
}

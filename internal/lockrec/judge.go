package lockrec

import (
	"math"
	"time"
)

// Facts are what a client knows about the holder in addition to the record. All times are by the
// clocks of the client.
type Facts struct {
	Watched   time.Duration // for how long the client has seen no change of the holder's last write
	Age       time.Duration // for how long the record has not changed, by the store's clock; negative if not known
	Renewed   time.Duration // time since Record.Renewed, by the client's wall clock
	Factor    float64       // see [Factor]
	Dead      bool          // the holder's process is dead for certain
	OwnEnded  bool          // the grant is the client's own, and has ended
	OwnLeft   time.Duration // for the client's own grant: how long its work may still last
	Reclaimed bool          // the grant is of an earlier process of the client, which may take that
}

// Verdict says whether a record may be taken.
type Verdict struct {
	Open   bool
	Reason string        // why a grant that was not released is over
	Wait   time.Duration // when not Open: how long until it may be taken, if nothing changes

	// BySession means that the record of the grant's session decides; see [JudgeSession].
	BySession bool
}

// Factor returns the factor by which a waiter waits longer than the TTL. Each clock may be wrong
// by the part drift of a time: the holder's clock may be slow while the waiter's clock is fast.
func Factor(drift float64) float64 { return (1 + drift) / (1 - drift) }

// Expiry is how long a waiter must see a record unchanged before it may take it over.
func Expiry(ttl time.Duration, factor float64) time.Duration {
	return time.Duration(math.Ceil(float64(ttl) * factor))
}

// Judge decides whether a client may take the lock: r has no grant, or its grant is over. For a
// lock with several holders, the sessions of its members decide; see [JudgeSession].
func Judge(r *Record, f Facts) Verdict {
	switch {
	case r == nil, r.State == Free:
		return Verdict{Open: true}
	case r.State == Broken && r.Immediate:
		return Verdict{Open: true, Reason: "the earlier grant was broken with immediate effect"}
	case f.OwnEnded:
		return Verdict{Open: true, Reason: "the earlier grant was of this handle"}
	case f.OwnLeft > 0:
		return Verdict{Wait: f.OwnLeft}
	case r.Session != "":
		return Verdict{BySession: true}
	case f.Reclaimed:
		return Verdict{Open: true, Reason: "the earlier grant was of an earlier process of this holder"}
	case f.Dead:
		return Verdict{Open: true, Reason: "the process of the earlier holder is dead"}
	}
	expiry := Expiry(r.TTL, f.Factor)
	switch {
	case f.Watched >= expiry:
		return Verdict{Open: true, Reason: "the earlier holder did not renew while a waiter watched for " + r.TTL.String()}
	case f.Age >= 0 && holderWriteAge(r, f.Age) >= expiry && f.Renewed >= expiry:
		// A broken record has the age of what it broke, too.
		return Verdict{Open: true, Reason: "the earlier lease has expired by the store's clock"}
	}
	return Verdict{Wait: expiry - f.Watched}
}

// SessionStep is the next step of a waiter that found a lock under a session.
type SessionStep int

// The steps.
const (
	AwaitSession  SessionStep = iota // it may live
	RevokeSession                    // it was not renewed for long enough, or its process is dead
	StandIn                          // its record is absent, which does not mean that it is dead
	SessionOver                      // it was closed or revoked: its grants are over
)

// JudgeSession decides what a waiter does next about a session. The argument r is the record of
// the session, or nil if the record is absent. With AwaitSession and RevokeSession, JudgeSession
// also returns the verdict.
func JudgeSession(r *Record, f Facts) (SessionStep, Verdict) {
	switch {
	case r == nil:
		return StandIn, Verdict{}
	case r.State != Held:
		return SessionOver, Verdict{}
	}
	v := Judge(r, f)
	if v.Open {
		return RevokeSession, v
	}
	return AwaitSession, v
}

// Interval returns how long the next grant must still wait after the end of the last grant; see
// [Record.NotBefore]. A client waits at most for the interval that the holder has chosen, counted
// from its first read of the record. Otherwise a holder whose clock is ahead could block the lock
// for any time.
func Interval(r *Record, now time.Time, watched time.Duration) time.Duration {
	if r == nil || r.NotBefore.IsZero() || r.State == Broken {
		return 0
	}
	most := min(r.NotBefore.Sub(r.Granted), MaxInterval) - watched
	return min(r.NotBefore.Sub(now), most)
}

// HolderWrite names the last write of the grant's own holder that a record shows.
type HolderWrite struct{ Grant, Nonce string }

// LastWrite returns the last write of the holder that r shows. While a waiter sees the same
// write, its watch continues.
func LastWrite(r *Record) HolderWrite { return HolderWrite{r.Grant, HolderNonce(r)} }

// Wrote reports whether the record read shows that the write of r was applied. This is so if read
// is r, or if other clients have written over r and have kept its grant.
func Wrote(r *Record, read *Record) bool {
	return (read.Nonce == r.Nonce || read.HolderNonce == r.Nonce) && read.Grant == r.Grant && read.State == r.State
}

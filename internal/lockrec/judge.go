package lockrec

import (
	"math"
	"time"
)

// Facts are what a client knows about the holder in addition to the record. All times are by the
// clocks of the client.
type Facts struct {
	Watched   time.Duration // time for which the client has seen the same last write of the holder
	Age       time.Duration // time since the last change of the record, by the store's clock; negative if not known
	Renewed   time.Duration // time since Record.Renewed, by the client's wall clock
	Factor    float64       // see [Factor]
	Dead      bool          // the process of the holder is certainly dead
	OwnEnded  bool          // the grant was this client's own, and has ended
	OwnLeft   time.Duration // for this client's own grant: how long its work may still last
	Reclaimed bool          // the grant belongs to an earlier process of this client, so the client may take it
}

// Verdict says whether a client may take the lock of a record.
type Verdict struct {
	Open   bool
	Reason string        // why the last grant is over, if its holder did not release it
	Wait   time.Duration // if not Open: time until a client may take the lock, if the record does not change

	// BySession means that the record of the grant's session decides; see [JudgeSession].
	BySession bool
}

// Factor returns the factor by which a waiter waits longer than the TTL. The parameter drift is the
// largest rate error of a clock, as a fraction. The holder's clock may be slow while the waiter's clock
// is fast.
func Factor(drift float64) float64 { return (1 + drift) / (1 - drift) }

// Expiry returns how long a waiter must see a record unchanged before it may take the lock.
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

// SessionStep is the next step of a waiter, if the grant of the lock belongs to a session.
type SessionStep int

// The steps.
const (
	AwaitSession  SessionStep = iota // the session may be valid: the waiter waits
	RevokeSession                    // the session was not renewed for long enough, or its process is dead: the waiter revokes it
	StandIn                          // the record of the session is absent, but the session may be valid: the waiter writes [NewStandIn]
	SessionOver                      // the session was closed or revoked, so its grants are over
)

// JudgeSession decides what a waiter does next about a session. The parameter r is the record of the
// session, or nil if the record is absent. With AwaitSession and RevokeSession, JudgeSession also returns
// the verdict.
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

// Interval returns the time that must still pass before the next grant may begin; see [Record.NotBefore].
// A client waits at most for the interval that the holder has chosen, counted from the client's first
// read of the record. Without this limit, a holder whose clock is ahead could block the lock for any
// time.
func Interval(r *Record, now time.Time, watched time.Duration) time.Duration {
	if r == nil || r.NotBefore.IsZero() || r.State == Broken {
		return 0
	}
	most := min(r.NotBefore.Sub(r.Granted), MaxInterval) - watched
	return min(r.NotBefore.Sub(now), most)
}

// HolderWrite identifies the last write by the holder of a grant.
type HolderWrite struct{ Grant, Nonce string }

// LastWrite returns the last write by the holder that r shows. While a waiter reads the same LastWrite,
// the TTL that it waits for does not begin again.
func LastWrite(r *Record) HolderWrite { return HolderWrite{r.Grant, HolderNonce(r)} }

// Wrote compares r with a later record, which was read from the store. It reports whether the later
// record shows that the write of r was applied. This is so if the later record is r, or if other clients
// have written over r and have kept its grant.
func Wrote(r *Record, read *Record) bool {
	return (read.Nonce == r.Nonce || read.HolderNonce == r.Nonce) && read.Grant == r.Grant && read.State == r.State
}

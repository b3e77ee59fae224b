package sessionmodel_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
	"github.com/holdfast-go/holdfast/proof/sessionmodel"
)

// TestNear visits the nearest states of the worlds in which faults are looked for. They show each
// mutant of the rules of a record.
func TestNear(t *testing.T) {
	for name, c := range map[string]sessionmodel.Config{
		"sessions": oneLock, "unequal": unequal, "removal": oddRemoval, "notification": askWorld, "break": breakWorld,
		"leases": {Locks: 1, Flight: 1, Lease: true},
	} {
		t.Run(name, func(t *testing.T) { lab.Visit(t, c, sessionmodel.Options{Probe: 64, MaxStates: 30_000}, 0) })
	}
}

// TestMutants puts faults into the rules that this model and package lease run.
func TestMutants(t *testing.T) {
	const judge, write, record, request = "../../internal/lockrec/judge.go", "../../internal/lockrec/write.go", "../../internal/lockrec/record.go", "../../internal/lockrec/request.go"
	mutanttest.Run(t, []mutanttest.Mutant{
		{"a session is revoked without waiting", judge,
			"expiry := Expiry(r.TTL, f.Factor)",
			"expiry := time.Duration(0)",
			"TestNear/sessions"},
		{"the waiter waits for the TTL and forgets that clocks differ", judge,
			"expiry := Expiry(r.TTL, f.Factor)",
			"expiry := r.TTL",
			"TestNear/sessions"},
		{"a lock under a session is judged by its own record", judge,
			"	case r.Session != \"\":\n",
			"	case r.Session != \"\" && f.Dead:\n",
			"TestNear/sessions"},
		{"a broken lock is taken at once, although its session lives", judge,
			"	case r == nil, r.State == Free:\n",
			"	case r == nil, r.State == Free, r.State == Broken:\n",
			"TestNear/break"},
		{"an open session is over", judge,
			"	case r.State != Held:\n		return SessionOver",
			"	case r.State != Revoked:\n		return SessionOver",
			"TestNear/sessions"},
		{"a closed session is never over", judge,
			"	case r.State != Held:\n		return SessionOver",
			"	case r.State == Revoked:\n		return SessionOver",
			"TestNear/sessions"},
		{"an absent session is over", judge,
			"		return StandIn, Verdict{}\n",
			"		return SessionOver, Verdict{}\n",
			"TestNear/removal"},
		{"a session is not revoked when it is not renewed", judge,
			"	if v.Open {\n		return RevokeSession, v\n",
			"	if v.Open && r.TTL == 0 {\n		return RevokeSession, v\n",
			"TestNear/sessions"},
		{"a stand-in has a shorter TTL than the lock's record says", write,
			"Token: 1, Grant: grant, TTL: ttl,",
			"Token: 1, Grant: grant, TTL: ttl / 2,",
			"TestNear/removal"},
		{"a stand-in is revoked", write,
			"return Record{Kind: KindSession, Name: id, State: Held,",
			"return Record{Kind: KindSession, Name: id, State: Revoked,",
			"TestNear/removal"},
		{"a revocation leaves the session open", write,
			"next.State, next.Presence, next.LocksToCheck = Revoked,",
			"next.State, next.Presence, next.LocksToCheck = r.State,",
			"TestNear/sessions"},
		{"a claim does not raise the token", write,
			"	rec.Token, err = NextToken(base)\n",
			"	rec.Token, err = base.Token, error(nil)\n",
			"TestNear/sessions"},
		{"a renewal writes a shorter TTL", write,
			"\"\", 0, nil, now\n",
			"\"\", 0, nil, now\n	next.TTL /= 2\n",
			"TestNear/sessions"},
		{"a waiter times the version of a session's record, and not the mark", record,
			"	return cmp.Or(r.HolderNonce, r.Nonce)\n",
			"	return r.Nonce\n",
			"TestNear/notification"},
		{"a notification does not copy the mark of the holder's last write", write,
			" = HolderNonce(r), holderWriteAge(r, age)\n	next.OtherWrites",
			" = \"\", holderWriteAge(r, age)\n	next.OtherWrites",
			"TestNear/notification"},
		{"a notification revives a session", request,
			"	next := ByOther(r, age)\n	if next.LocksToCheck",
			"	next := ByOther(r, age)\n	next.HolderNonce, next.TTL = \"\", r.TTL\n	if next.LocksToCheck",
			"TestNear/notification"},
		{"a holder takes a notification over its own write for a loss", write,
			"r.HolderNonce != \"\" && r.HolderNonce == HolderNonce(before)",
			"r.HolderNonce == \"\" && r.HolderNonce == HolderNonce(before)",
			"TestNear/notification"},
		{"a notification over a renewal in doubt is not recognised", judge,
			"(read.Nonce == r.Nonce || read.HolderNonce == r.Nonce)",
			"(read.Nonce == r.Nonce)",
			"TestNear/notification"},
		{"a break frees the lock", write,
			"	next.Immediate, next.Run = now, AllowRerun(r)\n",
			"	next.Immediate, next.Run, next.State = now, AllowRerun(r), Free\n",
			"TestNear/break"},
	})
}

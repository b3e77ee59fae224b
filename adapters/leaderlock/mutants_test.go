package leaderlock_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

// Each mutant is a fault that a test has to find.
func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"outcomes are not resolved", "leaderlock.go",
			"	found, err := store.PutAndResolve(bounded, l.st, l.key, seen.version, value)\n",
			"	v, err := l.st.Put(bounded, l.key, seen.version, value)\n	found := store.ResolveResult{Resolution: store.ResolutionApplied, Current: store.Entry{Version: v}}\n",
			"TestLostReplies"},
		{"a late success counts", "leaderlock.go", "case took > limit:", "case took < 0:", "TestLateSuccess"},
		{"a call takes as long as its caller allows", "leaderlock.go", "return context.WithTimeout(ctx, limit)", "return context.WithCancel(ctx)", "TestContexts"},
		{"a leader frees the record after its term", "leaderlock.go", "l.term != 0 && limit > left {", "l.key == \"\" {", "TestElection"},
		{"the trust counts from the reply", "leaderlock.go", "sent+9*limit", "l.clock.SinceStart()+9*limit", "TestTrust"},
		{"a token is valid after the trust", "leaderlock.go", " || l.clock.SinceStart() > l.trusted {", " {", "TestTrust"},
		{"the raw record is the record", "leaderlock.go", "[]byte(version.WithoutHint())", "[]byte(ler.RenewTime.String())", "TestRawRecord"},
		{"the tokens begin at one", "leaderlock.go", "uint64(max(1, time.Now().UnixMicro()))", "1", "TestTokens"},
		{"a new leader keeps the token", "leaderlock.go", "		next.Token++\n", "", "TestTokens"},
		{"a new term has the old token", "leaderlock.go", "if event == stoppedLeading {", "if event == \"\" {", "TestTokens"},
		{"the work of an ended term gets a token", "leaderlock.go", "	if ctx.Err() != nil {\n", "	if l.key == \"\" {\n", "TestTokens"},
		{"a replaced leader has a token", "leaderlock.go", "	if !l.owns(l.seen) ||", "	if l.term == 0 ||", "TestTokens"},
		{"a replaced leader leads on", "leaderlock.go", "	case !l.owns(seen):\n", "	case l.key == \"\":\n", "TestLeadsAgain"},
		{"a replaced leader frees the record", "leaderlock.go", "if seen.HolderIdentity != l.identity || l.failed {", "if l.failed {", "TestFreesOnlyItsOwn"},
		{"a leader frees the record before its work ends", "leaderlock.go", "seen.HolderIdentity != l.identity || l.failed {", "seen.HolderIdentity != l.identity {", "TestFreesAfterItsWork"},
		{"an error of the store looks like the end of the work", "leaderlock.go", "errors.Is(ctx.Err(), context.Canceled)", "errors.Is(err, context.Canceled)", "TestFreesAfterItsWork"},
		{"a restarted candidate is the same one", "leaderlock.go", "rand.Text()[:16]", "rand.Text()[:0]", "TestNames"},
		{"a lease of no time", "leaderlock.go", "ler.LeaseDurationSeconds < 1", "ler.LeaseDurationSeconds < 0", "TestShortLease"},
		{"unknown fields are lost", "record.go", "maps.Clone(s.fields)", "maps.Clone(map[string]json.RawMessage(nil))", "TestFutureFields"},
		{"the record of another election is good", "record.go", " || s.Name != name ||", " ||", "TestForeignRecords"},
	})
}

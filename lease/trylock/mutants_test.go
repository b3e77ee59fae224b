package trylock_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

// Each mutant is a fault that a test has to find.
func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		// The time of trust.
		{"the trust counts from the reply", "handle.go", "h.begin(ctx, r.generation, sent)", "h.begin(ctx, r.generation, h.clock.SinceStart())", "TestTrustCountsFromTheSending"},
		{"a renewal counts from its reply", "guard.go", "failures, g.sent, g.problem = 0, sent, nil", "failures, g.sent, g.problem = 0, g.h.clock.SinceStart(), nil", "TestTrustCountsFromTheSending"},
		{"a late reply gives a guard", "handle.go", "generation == h.last+1, sent)\n", "generation == h.last+1, h.clock.SinceStart())\n", "TestReplyAfterTheEndOfTheTrust"},
		{"a renewal counts after the end", "guard.go", "		case g.checkLocked() > 0: //", "		case g.ended == nil: //", "TestRenewalDuringASleep"},
		{"the timer reads the clocks once", "guard.go", "		g.timer.Reset(", "		_ = (", "TestTimerReadsTheClocks"},
		{"the trust has no margin", "options.go", "return o.TTL - o.Margin", "return o.TTL", "TestTrustCountsFromTheSending"},

		// Calls that are late or hang.
		{"a handle has one holder id for all grants", "handle.go", "	h.renewID()\n	h.grant, h.last =", "	h.grant, h.last =", "TestLateReleaseEndsNoLaterGrant"},
		{"the id of a call that hangs is used again", "handle.go", "		h.renewID() // the goroutine of the call frees the lock\n", "", "TestGrantAfterAnAttemptThatHangs"},
		{"renewals overtake each other", "guard.go", "g.h.call(inTime, ctx, g.id", "g.h.call(inTime, inTime, g.id", "TestRenewalThatHangs"},
		{"a late success stays held", "handle.go", "!state.CompareAndSwap(0, returned) && d > 0 &&", "!state.CompareAndSwap(0, returned) && d < 0 &&", "TestAttemptThatHangs"},
		{"a release does not wait for the renewal", "guard.go", "	<-g.renewed\n", "", "TestReleaseAwaitsTheRenewal"},
		{"a renewal that hangs is not reported", "guard.go", "	case err == nil && g.hangs:\n", "	case err == nil && g.hangs && g.id == \"\":\n", "TestReleaseDuringARenewalThatHangs"},
		{"a call that ends its goroutine is left", "handle.go", "		taken := true //", "		taken := false //", "TestGoexit"},
		{"an attempt in doubt is left", "handle.go", "	if h.inDoubt {\n", "	if h.inDoubt && h.id == \"\" {\n", "TestLostReplyOfAnAcquire"},
		{"a wait that ends in doubt is left", "handle.go", "		if inDoubt {\n", "		if inDoubt && h.id == \"\" {\n", "TestCancelledWaiter"},
		{"a cause is taken for an answer", "handle.go", "h.backend.TryLock(uncaused{ctx}, ", "h.backend.TryLock(ctx, ", "TestCauseIsNoAnswer"},
		{"an error is taken for another holder", "handle.go", "		case isHeld:\n", "		case isHeld || errors.Is(err, lease.ErrHeld):\n", "TestCauseIsNoAnswer"},

		// Other holders.
		{"a renewal that is refused is repeated", "guard.go", "			g.loseLocked(lease.ErrTakenOver, nil)\n", "			failures++\n", "TestTakenOver"},
		{"the generation of a renewal is not checked", "guard.go", "isOurs := r.obtained && r.generation == g.generation", "isOurs := r.obtained", "TestTakenOverAndLeft"},
		{"a lock taken by accident stays held", "guard.go", "		if r.obtained && !isOurs {", "		if r.obtained && isOurs && g.id == \"\" {", "TestTakenOverAndLeft"},
		{"a release ignores another holder", "guard.go", "(!r.obtained || r.generation != 0 &&", "(r.generation != 0 &&", "TestReleaseFindsAnotherHolder"},
		{"a release ignores an earlier holder", "guard.go", "(!r.obtained || r.generation != 0 && r.generation != g.generation)", "!r.obtained", "TestReleaseFindsAnotherHolder"},
		{"a repeated release that finds another holder is a loss", "handle.go", "		if err == nil && repeated {\n", "		if err == nil && repeated && id == \"\" {\n", "TestRepeatedReleaseAfterALostReply"},
		{"a release is sent after the end of the trust", "handle.go", "		if h.clock.SinceStart() >= deadline {\n", "		if h.clock.SinceStart() < 0 {\n", "TestReleaseDuringASleep"},
		{"a generation returns", "handle.go", "generation != 0 && generation <= h.last", "generation != 0 && generation < h.last", "TestGenerationThatReturns"},
		{"any later generation is one's own", "handle.go", "generation == h.last+1", "generation > h.last", "TestWasLastHolder"},

		// Guards, renewals, waiting.
		{"the first of two guards frees the lock", "guard.go", "g.last = len(gr.guards) == 0", "g.last = len(gr.guards) >= 0", "TestGuardsAreCounted"},
		{"an expired grant gives further guards", "guard.go", "	if g.releasing || g.checkLocked() <= 0 {\n", "	if g.releasing {\n", "TestLossIsReported"},
		{"one error ends the renewals", "guard.go", "			failures++\n			g.problem, g.hangs = err, r.hangs\n", "			g.loseLocked(lease.ErrTakenOver, err)\n", "TestRenewalSurvivesErrors"},
		{"a loss has no cause", "guard.go", "			g.problem, g.hangs = err, r.hangs\n", "			g.hangs = r.hangs\n", "TestExpiredHolderReleasesNothing"},
		{"the end of a caller's context ends the release", "handle.go", "context.WithTimeout(context.WithoutCancel(ctx), min(", "context.WithTimeout(ctx, min(", "TestReleaseWithCancelledContext"},
		{"a released grant gives further guards", "guard.go", "	if g.releasing || g.checkLocked() <= 0 {\n		return nil\n	}\n	guard := &Guard{grant: g}\n", "	guard := &Guard{grant: g}\n", "TestAcquireDuringTheRelease"},
		{"a wait begins with long pauses", "handle.go", "	for try, inDoubt := 1, false; ; try++ {\n", "	for try, inDoubt := 8, false; ; try++ {\n", "TestBackOffStartsAgain"},
		{"each waiter sends calls", "handle.go", "poll: make(chan struct{}, 1)", "poll: make(chan struct{}, 1000)", "TestWaitersOfAHandleShareCalls"},
		{"a waiter that pauses keeps others from trying", "handle.go", "	guard, _, err := h.attempt(ctx, true)\n", "	h.poll <- struct{}{}\n	defer func() { <-h.poll }()\n	guard, _, err := h.attempt(ctx, true)\n", "TestBackOffStartsAgain"},
	})
}

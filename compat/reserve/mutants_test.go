package reserve_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		// The rules of the protocol, which the simulation misses.
		{"an operation of unknown outcome releases its row", "reserve.go",
			"if outcome == store.NotApplied || outcome", "if outcome != store.Applied || outcome",
			"TestSimulation"},
		{"a Reserver does not wait for its own row of unknown outcome", "reserve.go",
			"if first && outcome != store.Unknown {", "if first {",
			"TestSimulation"},
		{"a waiter does not wait for the rate", "wait.go",
			"	return seen.Timeout * rate\n", "	return seen.Timeout\n",
			"TestSimulation"},
		{"a waiter counts for a new row from the row before", "reserve.go",
			"row{met, time.Now(), a.r.polls(a.r.waitOf(met))}", "row{met, a.entry.seen.since, a.r.polls(a.r.waitOf(met))}",
			"TestSimulation"},
		{"a waiter takes every row for its own", "wait.go",
			"if seen.Nonce != \"\" && seen.Nonce == a.entry.spent {", "if seen.Nonce != \"\" {",
			"TestSimulation"},
		{"the object is not checked after a take-over", "reserve.go",
			"			again, turn = true, 0\n", "			turn = 0\n",
			"TestObjectIsCheckedAfterATakeOver"},
		{"an old check is good for ever", "reserve.go",
			"		if again || a.checked.Until(a.r.read()) > a.r.o.Timeout {\n", "		if again {\n",
			"TestWriterThatSleptAfterItsCheck"},
		{"a row for another state is replaced without a check", "reserve.go",
			"			if err := a.check(ctx); err != nil {\n				return nil, err\n			}\n			over, again = &met.Row, false\n", "			over, again = &met.Row, true\n",
			"TestSimulation/one_row_for_each_key"},
		{"the object is not checked when a row stands there", "wait.go",
			"		if err := a.check(ctx); err != nil {\n			return nil, err\n		}\n", "",
			"TestWaitEndsWhenTheObjectChanges"},
		{"the time of an operation counts from the answer", "reserve.go",
			"			held.Row = mine\n", "			held.Row, held.sent, held.clock = mine, time.Now(), a.r.read()\n",
			"TestLostReplyOfARow/applied"},
		{"a writer does not know its own row", "reserve.go",
			"met.Row.Nonce == a.nonce && met.Row.Generation == mine.Generation", "met.Row.Nonce == a.nonce+a.key",
			"TestLostReplyOfARow/applied"},
		{"an operation starts with what time is left", "reserve.go",
			"a.r.left(held) > a.r.o.Timeout/2 &&", "a.r.left(held) != 0 &&",
			"TestSlowTableRenewsTheRow"},
		{"generations begin at 0", "reserve.go",
			"	return firstGeneration + ", "	return 0 * ",
			"TestOperationCostsOneCheckAndOneRow"},
		{"a row is kept by the writer's clock alone", "reserve.go",
			"	if !placed.Now.IsZero() {\n", "	if placed.Now.IsZero() {\n",
			"TestSlowClock"},
		{"a machine that slept does not end an operation", "reserve.go",
			"				if r.left(held) <= 0 {\n", "				if held.end().Before(time.Now()) {\n",
			"TestMachineThatSlept"},
		{"an operation that ignores its context stops the line", "reserve.go",
			"context.AfterFunc(ctx, leave)", "context.AfterFunc(ctx, func() {})",
			"TestOperationThatIgnoresItsContext"},
		{"a waiter does not look at the row", "wait.go",
			"			seen.readAfter *= 2\n			return nil, nil\n", "			seen.readAfter *= 2\n",
			"TestWaiterNoticesARelease"},
		{"a goroutine in line gets the result of an older check", "waitqueue.go",
			"p.staleAt > joined", "p.staleAt > joined-9",
			"TestQueueSharesNoOldCheck"},
	})
}

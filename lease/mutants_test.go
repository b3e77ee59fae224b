package lease_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"monotonic clock alone", "clock.go",
			"passed = max(passed, r.wall.Sub(c.last.wall))",
			"passed = max(0, r.mono.Sub(c.last.mono))",
			"TestA14SuspendedMachine"},
		{"takeover without waiting", "judge.go",
			"expiry := h.c.set.expiry(s.rec.TTL)",
			"expiry := time.Duration(0)",
			"TestA16TheTTLInTheRecordCounts"},
		{"own TTL", "judge.go",
			"expiry := h.c.set.expiry(s.rec.TTL)",
			"expiry := h.c.set.expiry(h.c.set.TTL)",
			"TestA16TheTTLInTheRecordCounts"},
		{"deadline from the reply", "renew.go",
			"return g.renewed(version, &rec, at, firm)",
			"return g.renewed(version, &rec, g.c.clock.look(), firm)",
			"TestA17DeadlineCountsFromTheSending"},
		{"conflict is lost", "renew.go",
			"	now, seeErr := g.see(ctx, err)\n",
			"	if errors.Is(err, store.ErrConflict) {\n		g.lose(ErrStolen, \"\", nil)\n		return g.cause()\n	}\n	now, seeErr := g.see(ctx, err)\n",
			"TestA9LostReplyOfARenewal"},
		{"unreadable is lost", "renew.go",
			"		return errors.Join(err, seeErr)\n",
			"		g.lose(ErrStolen, \"\", nil)\n		return g.cause()\n",
			"TestA20TransientErrorsAreNoLoss"},
		{"release before belief ends", "renew.go",
			"	g.halt(reason)\n	g.drain(ctx)\n",
			"	_ = g.free(ctx)\n	time.Sleep(time.Second)\n	g.halt(reason)\n	g.drain(ctx)\n",
			"TestHandleIsReentrant"},
		{"give up without a free record", "claim.go",
			"	if c.set.traits.NoReadBack {\n		return ErrUnresolved\n",
			"	if c != nil {\n		return ErrUnresolved\n",
			"TestA8GivenUpAcquireCannotLandLater"},
		{"own holder adopted", "claim.go",
			"now.rec.Grant == rec.Grant {\n				at, ours = sent[now.rec.Nonce]\n",
			"now.rec.Holder == rec.Holder {\n				at, ours = sent[now.rec.Nonce], true\n",
			"TestHandleReclaimOwn"},
		{"token stays", "claim.go",
			"token, err := base.rec.nextToken()",
			"token, err := base.rec.Token, error(nil)",
			"TestA24TokensRise"},
	})
}

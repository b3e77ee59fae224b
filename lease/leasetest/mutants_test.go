package leasetest_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

// TestMutants puts faults into package lease, and checks that the suite notices those
// that show on a store without clocks of its own.
func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"takeover without waiting", "../../internal/lockrec/judge.go",
			"expiry := Expiry(r.TTL, f.Factor)",
			"expiry := time.Duration(0)",
			"TestMemory/AcquireByAnother"},
		{"own TTL", "../internal/holding/judge.go",
			"	v := membership.Verdict{Verdict: lockrec.Judge(s.Rec, h.Cell.Facts(ctx, s, own))}\n",
			"	rec := lockrec.Record{}\n	if s.Rec != nil {\n		rec = *s.Rec\n	}\n	rec.TTL = h.c.Space.Set.TTL\n	v := membership.Verdict{Verdict: lockrec.Judge(&rec, h.Cell.Facts(ctx, s, own))}\n",
			"TestMemory/RecordTTL"},
		{"conflict is lost", "../internal/belief/renew.go",
			"	r.problem = a.err\n	g.mu.Lock()\n",
			"	r.problem = a.err\n	if errors.Is(a.err, store.ErrConflict) {\n		g.lose(&LostError{Reason: ErrTakenOver})\n		return true, g.Cause()\n	}\n	g.mu.Lock()\n",
			"TestMemory/RenewReplyLost"},
		{"give up without a free record", "../internal/holding/claim.go",
			"	h.abandon(rec.Grant)\n	ctx, cancel := h.c.Space.Ending(ctx)\n",
			"	h.abandon(rec.Grant)\n	if h != nil {\n		return cell.ErrUnresolved\n	}\n	ctx, cancel := h.c.Space.Ending(ctx)\n",
			"TestBare/AcquireGivenUp"},
		{"own holder adopted", "../../internal/lockrec/judge.go",
			"return (read.Nonce == r.Nonce || read.HolderNonce == r.Nonce) && read.Grant == r.Grant",
			"return read.Holder == r.Holder",
			"TestMemory/Takeover"},
		{"token stays", "../../internal/lockrec/write.go",
			"rec.Token, err = NextToken(base)",
			"rec.Token = base.Token",
			"TestMemory/TokensRise"},
		{"release before belief ends", "../internal/belief/release.go",
			"	g.Halt(reason)\n	ctx, cancel := g.cell.Space.Ending(ctx)\n",
			"	_ = g.free(ctx)\n	time.Sleep(time.Second)\n	g.Halt(reason)\n	ctx, cancel := g.cell.Space.Ending(ctx)\n",
			"TestMemory/Reentrant"},
		{"dead readers stay", "../internal/holding/entry.go",
			"	if len(over) > 0 {\n",
			"	if false {\n",
			"TestMemory/DeadReader"},
	})
}

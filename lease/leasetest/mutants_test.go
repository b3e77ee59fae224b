package leasetest_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

// TestMutants puts faults into package lease, and checks that the suite notices those
// that show on a store without clocks of its own.
func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"takeover without waiting", "../judge.go",
			"expiry := h.c.set.expiry(s.rec.TTL)",
			"expiry := time.Duration(0)",
			"TestMemory/AcquireByAnother"},
		{"own TTL", "../judge.go",
			"expiry := h.c.set.expiry(s.rec.TTL)",
			"expiry := h.c.set.expiry(h.c.set.TTL)",
			"TestMemory/RecordTTL"},
		{"conflict is lost", "../renew.go",
			"			default:\n				// Even a conflict",
			"			case errors.Is(r.err, store.ErrConflict):\n				g.lose(&LostError{Reason: ErrStolen})\n				return g.cause()\n			default:\n				// Even a conflict",
			"TestMemory/RenewReplyLost"},
		{"give up without a free record", "../claim.go",
			"	if c.set.traits.NoReadBack {\n		return ErrUnresolved\n",
			"	if c != nil {\n		return ErrUnresolved\n",
			"TestBare/AcquireGivenUp"},
		{"own holder adopted", "../claim.go",
			"now.rec.Grant == rec.Grant {\n				at, ours = sent[now.rec.Nonce]\n",
			"now.rec.Holder == rec.Holder {\n				at, ours = sent[now.rec.Nonce], true\n",
			"TestMemory/Takeover"},
		{"token stays", "../claim.go",
			"token, err := base.rec.nextToken()",
			"token, err := base.rec.Token, error(nil)",
			"TestMemory/TokensRise"},
	})
}

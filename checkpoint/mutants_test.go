package checkpoint_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"an unknown outcome is a loss", "carry.go",
			"return l.settle(ctx, p, store.MarkUnknown(err))", "return state{}, store.ErrConflict", "TestReplyLost"},
		{"a foreign state proves a loss", "carry.go",
			"		case known:\n", "		case known || s.known:\n", "TestReplyLostAndSuperseded"},
		{"only the current nonce counts", "record.go",
			"if r.nonce == nonce || slices.Contains(r.recent, nonce) {", "if r.nonce == nonce {", "TestReplyLostAndSuperseded"},
		{"epochs are not compared", "change.go",
			"case c.Epoch != 0 && c.Epoch != now.Epoch:", "case false:", "TestStaleHandleBringsNothingBack"},
		{"the epoch is taken anew in each try", "carry.go",
			"		if c.Epoch == 0 && base.certain {", "		if l.epoch == 0 {", "TestResetBetweenReadAndWrite"},
		{"the epoch is that of a peek", "carry.go",
			"		if c.Epoch == 0 && base.certain {", "		if c.Epoch == 0 {", "TestPeek"},
		{"a delete keeps the epoch", "change.go",
			"	next.Epoch++", "	if c.Verb == VerbReset {\n		next.Epoch++\n	}", "TestStaleHandleBringsNothingBack"},
		{"an unknown outcome is said to be a definite one", "carry.go",
			"if unknown && c.Sent {", "if unknown && !c.Sent {", "TestReplyLostAndSuperseded"},
		{"a caller that leaves learns that nothing was written", "internal/group/group.go",
			"	if t.Sent {", "	if t.Sent && !t.Gone {", "TestCancelInFlightAndInQueue"},
		{"memory stays certain after an unknown outcome", "carry.go",
			"		l.last.certain = false\n", "", "TestStoreDownThenUp"},
		{"behind and fenced are answered from memory", "carry.go",
			"		if !p.write && !fresh {", "		if !p.write && !fresh && l == nil {", "TestPeek"},
		{"calls are written whose callers have left", "carry.go",
			"		if c.Gone {\n", "		if c.Gone && l == nil {\n", "TestLeaveDuringRead"},
		{"a conflict still counts as sent", "carry.go",
			"		l.unsend(batch)\n", "", "TestLeaveDuringRead"},
		{"a lower token passes", "change.go",
			"c.Token != 0 && c.Token < now.Token ||", "", "TestFence"},
		{"a token is not kept", "change.go",
			"next.Token = max(now.Token, c.Token)", "next.Token = c.Token", "TestFence"},
		{"another event at the same sequence is dropped", "change.go",
			"now.Position.Agrees(c.Position)", "true", "TestSameSequenceOtherEvent"},
		{"a store that went back is not noticed", "carry.go",
			"		if base.wentBack && c.Verb == VerbAdvance {", "		if base.wentBack && c.Verb == VerbFence {", "TestStoreWentBack"},
		{"what was peeked at is certain", "carry.go",
			"			return s, false, err\n", "			return s, true, err\n", "TestPeek"},
		{"what is read back is durable", "carry.go",
			"		case yes && s.durable:\n", "		case yes:\n			_ = s.durable\n			return s, nil\n		case yes && s.certain:\n", "TestSeenIsNotDurable"},
		{"what others wrote is durable", "carry.go",
			"	if !p.write && !base.durable && p.relies(batch) {", "	if !p.write && !base.known && p.relies(batch) {", "TestWhatOthersWroteIsConfirmed"},
		{"unknown fields are dropped", "record.go",
			"		r.unknown = all\n", "		r.unknown = nil\n", "TestUnknownFieldsKept"},
		{"the holder of the lease is not asked", "carry.go",
			"	if held && h.Token != c.Token {", "	if held && c == nil {", "TestHeldByAnother"},
		{"the holder is asked after the write was planned against an old state", "carry.go",
			"	s, err = l.reread(ctx)\n	return s, true, err", "	if before.certain {\n		return before, true, nil\n	}\n	s, err = l.reread(ctx)\n	return s, true, err", "TestModel"},
		{"the writing ends with its first caller", "line.go",
			"go l.writeAll(context.WithoutCancel(ctx))", "go l.writeAll(ctx)", "TestOneOfTwoLeaves"},
		{"the writing goes on when no caller waits", "line.go",
			"		f.cancel()\n", "", "TestAllLeave"},
		{"each caller writes alone", "line.go",
			"return first.shared() && c.shared() })", "return false })", "TestGroupCommit"},
	})
}

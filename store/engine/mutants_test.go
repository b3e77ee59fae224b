package engine_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"a refusal is always another's", "write.go",
			"	case current.Nonce == write.Nonce:\n		return store.ResolutionApplied\n", "", "TestOneEventOneOutcome"},
		{"only the current nonce counts", "write.go",
			"slices.Contains(current.Predecessors, write.Nonce)", "len(current.Predecessors) > maxPredecessors", "TestOneEventOneOutcome"},
		{"another's state proves that a write was not applied", "write.go",
			"!created && slices.Contains(current.Predecessors, write.Predecessors[0])", "!created", "TestOneEventOneOutcome"},
		{"a complete past proves it of any write", "write.go",
			"created && len(current.Predecessors) < maxPredecessors,", "len(current.Predecessors) < maxPredecessors,", "TestRemovedByHand"},
		{"a register that was removed was not written", "write.go",
			"	case current.Absent():\n		return store.ResolutionUnknown // removed by hand\n", "	case current.Absent():\n		return store.ResolutionNotApplied\n", "TestRemovedByHand"},
		{"a definite error is definite also after a lost reply", "write.go",
			"	case w.lost == nil:\n		return err\n", "	case w.lost == nil || store.OutcomeOf(err) == store.NotApplied:\n		return err\n", "TestOneEventOneOutcome"},
		{"another nonce in each try", "write.go",
			"		tag, err := w.s.driver.Write(", "		w.e.Nonce = newNonce()\n		tag, err := w.s.driver.Write(", "TestOneEventOneOutcome"},
		{"a create does not follow the tombstone", "write.go",
			"	w.against(current)\n	return Stored{}, errSendAgain\n", "	w.base = current\n	return Stored{}, errSendAgain\n", "TestFollowsTombstone"},
		{"another's tag is as good", "write.go",
			"(current.Tag == w.base.Tag || w.base.Tag == \"\" || w.s.o.TagChanges != nil && w.s.o.TagChanges(w.base.Tag, current.Tag))", "true", "TestTagChanges"},
		{"a tag that another program changed is a wrong refusal", "write.go",
			"!errors.Is(cause, store.ErrConflict) || current.Tag != w.base.Tag", "!errors.Is(cause, store.ErrConflict)", "TestTagChanges"},
		{"a write without a nonce to look for was not applied", "write.go",
			"		resolution := store.ResolutionUnknown\n", "		resolution := store.ResolutionNotApplied\n", "TestStore"},
		{"a probe begins again when it fails", "probe.go",
			"			return err\n		}\n		if p.step == step {", "			p.step = 0\n			return err\n		}\n		if p.step == step {", "TestProbeGoesOn"},
		{"a probe takes a lost reply for a refusal", "probe.go",
			"		tag, err = s.driver.Write(ctx, key(), on, *e)\n		return err\n",
			"		tag, err = s.driver.Write(ctx, key(), on, *e)\n		if store.OutcomeOf(err) == store.Unknown {\n			err = store.ErrConflict\n		}\n		return err\n", "TestProbeUnderOneFault"},
		{"a probe does not write on the right version", "probe.go",
			"	case err == nil:\n		s.swapped(p, tag)\n	case", "	case p.step > 0:\n		p.step = stepSwapOfNothing\n		_ = tag\n	case", "TestProbeFinds"},
		{"a probe accuses the server of its own late write", "probe.go",
			"p.step < stepSwapOfNothing && !p.arrived(current) {\n		p.found", "p.step < stepSwapOfNothing {\n		p.found", "TestProbeMeetsItsOwnLateWrite"},
		{"a probe leaves what it made", "probe.go",
			"	s.clean(ctx, p)\n", "", "TestProbeRequests"},
		{"a context that has ended reads", "engine.go",
			"	if err := store.CheckContext(ctx); err != nil {\n		return Stored{}, err\n	}\n", "", "TestStore"},
		{"the driver gets the caller's slice", "engine.go",
			"Envelope{Value: append([]byte{}, value...)}", "Envelope{Value: value}", "TestStore"},
	})
}

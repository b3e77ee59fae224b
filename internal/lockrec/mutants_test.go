package lockrec_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

// TestMutants puts faults into the rules that the tests of this package notice. The models of
// leases, of sessions and of rosters have mutants of this package, too.
func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"members are left out like data", "record.go",
			"		func() { r.Data = nil },\n",
			"		func() { r.Data, r.Holders = nil, nil },\n",
			"TestEncodeNeverDropsMembers"},
		{"every record is of the newest format", "record.go",
			"		return PlainFormat\n",
			"		return FormatVersion\n",
			"TestRecordFormat"},
		{"two may hold one slot", "member.go",
			" || mode == ModeSlot && slots[m.Slot]:\n",
			":\n",
			"TestRecordOfMembersBadInput"},
		{"a newcomer overtakes the queue", "roster.go",
			"free := len(r.Queue) == 0 && Fits(r, m.Mode)",
			"free := Fits(r, m.Mode)",
			"TestRosterRules"},
		{"a writer enters while readers hold the lock", "roster.go",
			"	return len(r.Holders) == 0\n}\n\n// admit",
			"	return true\n}\n\n// admit",
			"TestRosterRules"},
		{"who leaves admits none", "roster.go",
			"		r.YieldRequest = nil // the request ends with the grants that it is for\n	}\n	r.admit()\n",
			"		r.YieldRequest = nil // the request ends with the grants that it is for\n	}\n",
			"TestRosterRules"},
		{"slots are counted and not looked for", "roster.go",
			"	return 1 + slices.Index(taken[1:], false)\n",
			"	return len(taken) - 1\n",
			"TestRosterRules"},
		{"a slot's token is that of the last one", "roster.go",
			"	if m.Mode != ModeShared {\n",
			"	if m.Mode == ModeExclusive {\n",
			"TestRosterRules"},
		{"a writer that releases does not hand over", "roster.go",
			"	r.State, r.Holders = Free, nil\n	r.admit()\n",
			"	r.State, r.Holders = Free, nil\n",
			"TestRosterRules"},
		{"more slots are not given to waiters", "roster.go",
			"	r.Slots = slots\n	r.admit()\n",
			"	r.Slots = slots\n",
			"TestRosterRules"},
		{"a newcomer goes to the head of the queue", "roster.go",
			"		r.Queue = append(slices.Clone(r.Queue), m)\n",
			"		r.Queue = append([]Member{m}, r.Queue...)\n",
			"TestRosterRules"},
		{"a ticket is good only for its first pending write", "ticket.go",
			"HolderNonce(r)); write < 0 {\n",
			"HolderNonce(r)); write != 0 {\n",
			"TestUseTicket"},
		{"a ticket is void after a request to yield", "ticket.go",
			"	case named, r.HolderNonce == t.Nonce:",
			"	case named:",
			"TestUseTicket"},
		{"a process frees a break of a write that its ticket does not know", "ticket.go",
			" && (r.BrokenNonce == t.Nonce || pending(r.BrokenNonce) >= 0):\n",
			":\n",
			"TestUseTicket"},
		{"a stand-in revives the session in whose place it is", "ticket.go",
			"	case r.Kind == KindSession && r.Grant != grant:\n		return ErrRemoved",
			"	case r.Kind == KindSession && r.Grant != grant:\n		return nil",
			"TestLoss"},
	})
}

package rostermodel_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

// TestMutants puts faults into the rules that this model and package lease run. A visit of all states
// finds each.
func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"a new reader is admitted although a writer waits", "../../internal/lockrec/roster.go",
			"free := len(r.Queue) == 0 && Fits(r, m.Mode)",
			"free := (len(r.Queue) == 0 || m.Mode == ModeShared) && Fits(r, m.Mode)",
			"TestProtocol/shared"},
		{"a writer is admitted while readers hold the lock", "../../internal/lockrec/roster.go",
			"	return len(r.Holders) == 0\n}\n\n// admit",
			"	return true\n}\n\n// admit",
			"TestProtocol/shared"},
		{"a reader is admitted while a writer holds the lock", "../../internal/lockrec/roster.go",
			"r.State == Held || r.State == Broken || r.State == Free && !r.NotBefore.IsZero()",
			"r.State == Broken || r.State == Free && !r.NotBefore.IsZero()",
			"TestProtocol/shared"},
		{"a release hands over to the last of the queue", "../../internal/lockrec/roster.go",
			"r.grantTo(r.Queue[0]) == nil {\n		r.Queue = r.Queue[1:]",
			"r.grantTo(r.Queue[len(r.Queue)-1]) == nil {\n		r.Queue = r.Queue[:len(r.Queue)-1]",
			"TestProtocol/shared"},
		{"a release does not hand over, and no waiter checks whether it could be granted", "../../internal/lockrec/roster.go",
			"for len(r.Queue) > 0 && Fits(",
			"for len(r.Queue) > MaxMembers && Fits(",
			"TestProtocol/shared"},
		{"the last reader that leaves does not free the lock", "../../internal/lockrec/roster.go",
			"	if len(r.Holders) == 0 && !exclusive {\n",
			"	if len(r.Holders) == 0 && exclusive {\n",
			"TestProtocol/shared"},
		{"a waiter that leaves stays in the queue", "../../internal/lockrec/roster.go",
			"	r.Queue = slices.DeleteFunc(slices.Clone(r.Queue), out)\n",
			"",
			"TestProtocol/shared"},
		{"a writer whose session is revoked is not taken out", "../../internal/lockrec/roster.go",
			"r.Session != \"\" && over(r.Session)",
			"r.Session == \"\" && over(r.Session)",
			"TestProtocol/shared"},
		{"a newcomer that waits takes the place of another", "../../internal/lockrec/roster.go",
			"		r.Queue = append(slices.Clone(r.Queue), m)\n",
			"		r.Queue = append(r.Queue[:max(len(r.Queue)-1, 0):0], m)\n",
			"TestProtocol/shared"},
		{"a slot is numbered by how many are taken", "../../internal/lockrec/roster.go",
			"	return 1 + slices.Index(taken[1:], false)\n",
			"	return len(taken) - 1\n",
			"TestProtocol/slots_that_change"},
		{"one slot too many is granted", "../../internal/lockrec/roster.go",
			"		return len(r.Holders) < r.Slots\n",
			"		return len(r.Holders) <= r.Slots\n",
			"TestProtocol/one_slot"},
		{"a record that is full drops its oldest waiter for a new entry", "../../internal/lockrec/roster.go",
			"	case Members(r) >= room && ",
			"	case Members(r) >= room && len(r.Queue) > 0:\n		r.Queue, at = append(slices.Clone(r.Queue[1:]), m), Waiting\n	case Members(r) >= room && ",
			"TestProtocol/three_clients"},
		{"a grant does not raise the token", "../../internal/lockrec/roster.go",
			"		r.Token = token\n",
			"		_ = token\n",
			"TestProtocol/shared"},
		{"the grant of a slot does not raise the token", "../../internal/lockrec/roster.go",
			"	if m.Mode != ModeShared {\n",
			"	if m.Mode == ModeExclusive {\n",
			"TestProtocol/one_slot"},
	})
}
